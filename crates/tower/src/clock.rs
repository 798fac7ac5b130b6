//! Clock of a tower stack: the system's monotonic clock, unless another is given.

use evenkeel_balance::{Clock, Instant};

/// The system's monotonic clock, from the moment this was made. Where the processor's cycle counter is reliable, it is
/// read directly, at half the cost; the first clock of a process then takes some milliseconds, at most 200, to learn
/// its rate.
#[derive(Clone, Debug)]
pub struct SystemClock {
    clock: quanta::Clock,
    start: u64,
}

impl SystemClock {
    /// Starts at 0 now.
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

/// The clock that times requests.
pub(crate) enum Timing {
    /// Nothing: every moment is 0.
    Untimed,
    /// The usual clock, read without a call through a table.
    System(SystemClock),
    /// A clock that the user gave.
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
        // Not below 0 where another core's counter is a cycle behind.
        Instant(self.clock.delta_as_nanos(self.start, self.clock.raw()))
    }
}
