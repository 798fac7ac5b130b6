//! What time is it in a tower stack? The system's monotonic clock, unless another is given.

use evenkeel_balance::{Clock, Instant};

/// The system's monotonic clock, from the moment this was made.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock {
    start: std::time::Instant,
}

#[expect(clippy::disallowed_methods, reason = "this is the clock")]
impl SystemClock {
    /// Starts at 0 now.
    pub fn new() -> SystemClock {
        SystemClock { start: std::time::Instant::now() }
    }
}

impl Default for SystemClock {
    fn default() -> SystemClock {
        SystemClock::new()
    }
}

impl Clock for SystemClock {
    #[inline]
    fn now(&self) -> Instant {
        Instant(u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }
}
