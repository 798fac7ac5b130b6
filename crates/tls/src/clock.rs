//! Wall-clock time, for the validity of certificates, OCSP responses and tickets.

use std::time::{SystemTime, UNIX_EPOCH};

/// Current time in seconds since 1970.
pub fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() as i64)
}
