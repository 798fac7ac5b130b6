//! State that a worker keeps across plans: the clock, the timers and the count of open connections.

use crate::answer::Moment;
use evenkeel_balance::Instant;
use evenkeel_net::clock::{Base, CachedClock};
use evenkeel_net::deadline::Wheel;
use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, SystemTime};
use tokio::sync::Notify;

/// Clock, timers and connections of a worker, independent of the plan.
pub struct Core {
    clock: CachedClock,
    pub wheel: Rc<Wheel>,
    /// Number of open connections.
    open: Cell<usize>,
    /// Notified when the last connection ends.
    pub closed: Notify,
}

impl Core {
    /// A core whose clock counts from `base`.
    pub fn new(base: Base) -> Rc<Core> {
        let clock = CachedClock::new(base);
        Rc::new(Core { clock, wheel: Wheel::new(), open: Cell::new(0), closed: Notify::new() })
    }

    /// Current time on both clocks.
    pub fn moment(&self) -> Moment {
        let unix = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
        Moment { now: self.clock.read(), unix: unix as u32 }
    }

    /// Advances the timers to a time since the worker's start. Returns the current time.
    pub fn advance(&self, at: Duration) -> Instant {
        self.wheel.advance(at);
        self.clock.read()
    }

    /// Number of open connections.
    pub fn open(&self) -> usize {
        self.open.get()
    }

    /// Counts an opened connection.
    pub fn connection_opened(&self) {
        self.open.set(self.open.get() + 1);
    }

    /// Counts a closed connection.
    pub fn connection_closed(&self) {
        self.open.set(self.open.get() - 1);
        if self.open.get() == 0 {
            self.closed.notify_one();
        }
    }
}
