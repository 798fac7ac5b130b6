//! What does answering need of its thread? The clock, the timers and the count of open connections, whatever the plan says.

use crate::answer::Moment;
use evenkeel_balance::Instant;
use evenkeel_net::clock::{Base, CachedClock};
use evenkeel_net::deadline::Wheel;
use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, SystemTime};
use tokio::sync::Notify;

/// What a worker keeps whatever the plan says.
pub struct Core {
    clock: CachedClock,
    pub wheel: Rc<Wheel>,
    /// Connections.
    open: Cell<usize>,
    /// Notified when the last connection has ended.
    pub closed: Notify,
}

impl Core {
    /// One whose clock counts from `base`.
    pub fn new(base: Base) -> Rc<Core> {
        let clock = CachedClock::new(base);
        Rc::new(Core { clock, wheel: Wheel::new(), open: Cell::new(0), closed: Notify::new() })
    }

    /// The time right now.
    pub fn moment(&self) -> Moment {
        let unix = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
        Moment { now: self.clock.read(), unix: unix as u32 }
    }

    /// Moves the timers on to a time, in the worker's own. Returns the time right now.
    pub fn advance(&self, at: Duration) -> Instant {
        self.wheel.advance(at);
        self.clock.read()
    }

    /// Open connections.
    pub fn open(&self) -> usize {
        self.open.get()
    }

    /// A connection begins.
    pub fn connection_opened(&self) {
        self.open.set(self.open.get() + 1);
    }

    /// A connection has ended.
    pub fn connection_closed(&self) {
        self.open.set(self.open.get() - 1);
        if self.open.get() == 0 {
            self.closed.notify_one();
        }
    }
}
