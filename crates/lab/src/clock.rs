//! Clock shared by all processes of an experiment, so that what an endpoint saw can be
//! compared with what a client saw.

use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// Nanoseconds on the machine's monotonic clock: the same in every process, of no meaning across a restart.
pub fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    // It starts near zero at boot, so neither part is ever negative.
    now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs()
}

/// A duration as nanoseconds; 584 years are enough.
pub fn ns(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
