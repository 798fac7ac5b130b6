//! What time is it in a tower stack? The system's monotonic clock, unless another is given.

use evenkeel_balance::time::SECOND_NS;
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
        let elapsed = self.start.elapsed();
        // In 64 bits, which last for 584 years: cheaper than the 128 of `as_nanos`, at each request.
        Instant(elapsed.as_secs() * SECOND_NS + u64::from(elapsed.subsec_nanos()))
    }
}
