//! What time is it to a worker? One clock read serves a batch of work after each wakeup.

use evenkeel_balance::{Clock, Instant};
use std::cell::Cell;
use std::time::SystemTime;

/// Answers given from one reading: bounds how old a time may be under constant load, where the worker never sleeps.
const ANSWERS_MAX: u32 = 16;

thread_local! {
    /// Answers that this thread may still give from its last reading.
    static ANSWERS: Cell<u32> = const { Cell::new(0) };
}

/// The next question on this thread reads the clock. To be called when its event loop wakes.
pub fn expire() {
    ANSWERS.set(0);
}

/// A worker's clock.
#[derive(Debug)]
pub struct CachedClock {
    base: std::time::Instant,
    /// Milliseconds since 1970 at `base`.
    base_unix_ms: u64,
    now: Cell<u64>,
}

impl CachedClock {
    /// A clock that counts from `base`, which all workers share.
    pub fn new(base: std::time::Instant) -> CachedClock {
        let unix = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let base_unix_ms = (unix.as_millis() as u64).saturating_sub(base.elapsed().as_millis() as u64);
        CachedClock { base, base_unix_ms, now: Cell::new(0) }
    }

    /// The time right now, for where a difference of microseconds matters.
    #[inline]
    pub fn read(&self) -> Instant {
        self.now.set(self.base.elapsed().as_nanos() as u64);
        ANSWERS.set(ANSWERS_MAX);
        Instant(self.now.get())
    }

    /// Milliseconds since 1970, for logs.
    pub fn unix_ms(&self, at: Instant) -> u64 {
        self.base_unix_ms + at.0 / 1_000_000
    }
}

impl Clock for CachedClock {
    #[inline]
    fn now(&self) -> Instant {
        match ANSWERS.get() {
            0 => self.read(),
            n => {
                ANSWERS.set(n - 1);
                Instant(self.now.get())
            }
        }
    }
}
