//! What time is it to a worker? One clock read serves a batch of work after each wakeup.

use evenkeel_balance::time::{MILLISECOND_NS, SECOND_NS};
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

/// When all clocks of a server begin.
///
/// By the kernel's monotonic clock, in nanoseconds: an instant of std's is seconds and a rest, whose difference to
/// another takes 80 instructions.
#[derive(Clone, Copy, Debug)]
pub struct Base(u64);

impl Base {
    /// Now.
    pub fn now() -> Base {
        Base(monotonic_ns())
    }

    /// The time since then.
    #[inline]
    pub fn elapsed(self) -> Instant {
        Instant(monotonic_ns().saturating_sub(self.0))
    }
}

fn monotonic_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // Not by rustix, which looks for the kernel's own code for it in a way that ends the process under valgrind, and
    // with that is counted what a request takes.
    // SAFETY: one timespec is written, and it is there. There is such a clock, so it cannot fail.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    now.tv_sec as u64 * SECOND_NS + now.tv_nsec as u64
}

/// A worker's clock.
#[derive(Debug)]
pub struct CachedClock {
    base: Base,
    /// Milliseconds since 1970 at `base`.
    base_unix_ms: u64,
    now: Cell<Instant>,
}

impl CachedClock {
    /// A clock that counts from `base`, which all workers share.
    pub fn new(base: Base) -> CachedClock {
        let unix = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let base_unix_ms = (unix.as_millis() as u64).saturating_sub(base.elapsed().0 / MILLISECOND_NS);
        CachedClock { base, base_unix_ms, now: Cell::default() }
    }

    /// The time right now, for where a difference of microseconds matters.
    #[inline(never)]
    pub fn read(&self) -> Instant {
        let now = self.base.elapsed();
        self.now.set(now);
        ANSWERS.set(ANSWERS_MAX);
        now
    }

    /// Milliseconds since 1970, for logs.
    pub fn unix_ms(&self, at: Instant) -> u64 {
        self.base_unix_ms + at.0 / MILLISECOND_NS
    }
}

impl Clock for CachedClock {
    // One copy for all who ask: a request does so ten times.
    #[inline(never)]
    fn now(&self) -> Instant {
        match ANSWERS.get() {
            0 => self.read(),
            n => {
                ANSWERS.set(n - 1);
                self.now.get()
            }
        }
    }
}
