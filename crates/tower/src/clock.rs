//! Clock of a balancer: the system's monotonic clock, unless another is given.

use evenkeel_balance::{Clock, Instant};

/// System's monotonic clock, counted from its creation. Reads the processor's cycle counter directly where that is
/// reliable, at half the cost. The first clock of a process then takes up to 200 ms to calibrate the counter.
#[derive(Clone, Debug)]
pub struct SystemClock {
    clock: quanta::Clock,
    start: u64,
}

impl SystemClock {
    /// Creates a clock that shows 0 now.
    pub fn new() -> SystemClock {
        let clock = quanta::Clock::new();
        SystemClock { start: clock.raw(), clock }
    }
}

impl Default for SystemClock {
    fn default() -> SystemClock {
        SystemClock::new()
    }
}

/// Clock that times requests.
pub(crate) enum Timing {
    /// No clock: every moment is 0.
    Untimed,
    /// The default clock, read without dynamic dispatch.
    System(SystemClock),
    /// Clock given to the [`Builder`](crate::Builder).
    Given(Box<dyn Clock + Send + Sync>),
}

impl Timing {
    #[inline]
    pub(crate) fn now(&self) -> Instant {
        match self {
            Timing::Untimed => Instant(0),
            Timing::System(clock) => clock.now(),
            Timing::Given(clock) => clock.now(),
        }
    }
}

impl Clock for SystemClock {
    #[inline]
    fn now(&self) -> Instant {
        // Saturates at 0 if the counter of another core is a cycle behind.
        Instant(self.clock.delta_as_nanos(self.start, self.clock.raw()))
    }
}
