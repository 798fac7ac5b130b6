//! Clock shared by all processes of an experiment, so that times of endpoints and clients can be compared.

use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// Nanoseconds on the machine's monotonic clock: the same in every process, not comparable across reboots.
pub fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    // It starts near zero at boot, so neither part is negative.
    now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs()
}

/// Duration in nanoseconds; saturates at 584 years.
pub fn ns(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
