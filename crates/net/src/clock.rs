//! Cached clock of a worker: a clock reading serves a batch of work after each wakeup.

use evenkeel_balance::time::{MILLISECOND_NS, SECOND_NS};
use evenkeel_balance::{Clock, Instant};
use std::cell::Cell;
use std::time::SystemTime;

/// Most answers from a reading. Bounds their age under constant load, when the worker never sleeps.
const ANSWERS_MAX: u32 = 16;

thread_local! {
    /// Answers that this thread may still give from its last reading.
    static ANSWERS: Cell<u32> = const { Cell::new(0) };
}

/// Makes the next query on this thread read the clock. Call it when the event loop wakes.
pub fn expire() {
    ANSWERS.set(0);
}

/// Common origin of all clocks of a server.
///
/// Nanoseconds of the kernel's monotonic clock. The standard library's `Instant` holds seconds and a
/// remainder, and a difference of two takes 80 instructions.
#[derive(Clone, Copy, Debug)]
pub struct Base(u64);

impl Base {
    /// The current time as origin.
    pub fn now() -> Base {
        Base(monotonic_ns())
    }

    #[inline]
    pub fn elapsed(self) -> Instant {
        Instant(monotonic_ns().saturating_sub(self.0))
    }
}

fn monotonic_ns() -> u64 {
    clock_ns(libc::CLOCK_MONOTONIC)
}

/// Milliseconds since the machine started, suspended time included. This clock cannot be set, and all processes
/// of the machine have the same.
pub fn boot_ms() -> u64 {
    clock_ns(libc::CLOCK_BOOTTIME) / MILLISECOND_NS
}

fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // libc instead of rustix, whose lookup of the vDSO aborts the process under valgrind, with which
    // instructions are counted. SAFETY: the kernel writes a timespec, which is valid. Both clocks
    // always exist, so the call cannot fail.
    unsafe { libc::clock_gettime(clock, &raw mut now) };
    now.tv_sec as u64 * SECOND_NS + now.tv_nsec as u64
}

/// Year, month and day of a day since 1970 (Hinnant's `civil_from_days`).
pub fn civil(day: u64) -> (u64, u64, u64) {
    let z = day + 719_468;
    let (era, doe) = (z / 146_097, z % 146_097);
    let yoe = (doe - doe / 1460 + doe / 36_524 - doe / 146_096) / 365;
    let doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    let mp = (5 * doy + 2) / 153;
    let month = if mp < 10 { mp + 3 } else { mp - 9 };
    (yoe + era * 400 + u64::from(month <= 2), month, doy - (153 * mp + 2) / 5 + 1)
}

/// Milliseconds since 1970 by the wall clock.
type Wall = fn() -> i64;

fn wall() -> i64 {
    let unix = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    unix.as_millis() as i64
}

/// Longest time that the wall clock is extrapolated from the monotonic clock. It may be set, and it advances
/// while the machine is suspended.
const WALL_AGE_MAX: u64 = SECOND_NS;

/// Clock of a worker, read once per batch of work.
#[derive(Debug)]
pub struct CachedClock {
    base: Base,
    wall: Wall,
    /// Milliseconds since 1970 at `base`, by the last reading of the wall clock. Negative if that was set far
    /// back.
    base_unix_ms: Cell<i64>,
    /// Nanoseconds from the start of the machine to `base`. Grows while the machine is suspended.
    base_boot_ns: Cell<u64>,
    /// Time of the next reading of the wall clock.
    look_at: Cell<Instant>,
    now: Cell<Instant>,
}

impl CachedClock {
    /// A clock that counts from `base`, which all workers share.
    pub fn new(base: Base) -> CachedClock {
        CachedClock::with_wall(base, wall)
    }

    fn with_wall(base: Base, wall: Wall) -> CachedClock {
        let clock = CachedClock {
            base,
            wall,
            base_unix_ms: Cell::default(),
            base_boot_ns: Cell::default(),
            look_at: Cell::default(),
            now: Cell::default(),
        };
        clock.look(base.elapsed());
        clock
    }

    /// Reads the clock, for uses where a difference of microseconds matters.
    #[inline(never)]
    pub fn read(&self) -> Instant {
        let now = self.base.elapsed();
        self.now.set(now);
        ANSWERS.set(ANSWERS_MAX);
        if now >= self.look_at.get() {
            self.look(now);
        }
        now
    }

    #[cold]
    fn look(&self, now: Instant) {
        self.base_unix_ms.set((self.wall)() - (now.0 / MILLISECOND_NS) as i64);
        // Both are read one after the other, which must not look as if time ran backwards.
        let boot_ns = clock_ns(libc::CLOCK_BOOTTIME).saturating_sub(now.0);
        self.base_boot_ns.set(self.base_boot_ns.get().max(boot_ns));
        self.look_at.set(now.after(WALL_AGE_MAX));
    }

    /// Milliseconds since the machine started, as [`boot_ms`]. Follows a suspension within a second.
    pub fn boot_ms(&self, at: Instant) -> u64 {
        self.base_boot_ns.get().saturating_add(at.0) / MILLISECOND_NS
    }

    /// Milliseconds since 1970, for logs and for values that clients return. Follows the wall clock within a
    /// second.
    pub fn unix_ms(&self, at: Instant) -> u64 {
        (self.base_unix_ms.get() + (at.0 / MILLISECOND_NS) as i64).max(0) as u64
    }
}

impl Clock for CachedClock {
    // Not inlined: a request queries it ten times.
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

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE_MS: i64 = 60_000;

    thread_local! {
        static WALL: Cell<i64> = const { Cell::new(0) };
    }

    #[test]
    fn a_step_of_the_wall_clock_is_followed_within_a_second() {
        let set = |unix_ms| WALL.set(unix_ms);
        set(100 * MINUTE_MS);
        let mut clock = CachedClock::with_wall(Base::now(), || WALL.get());
        // Moving the base back makes two seconds pass.
        let wait = |clock: &mut CachedClock| clock.base.0 -= 2 * SECOND_NS;
        let shown = |clock: &CachedClock| clock.unix_ms(clock.read());
        for (wall, what) in [
            (101, "as time goes"),
            (500, "a machine that slept"),
            (200, "set back"),
            (0, "a machine whose clock was never set"),
        ] {
            set(wall * MINUTE_MS);
            wait(&mut clock);
            let (shown, wall) = (shown(&clock) as i64, wall * MINUTE_MS);
            // The test itself takes some time too.
            assert!((wall..wall + MINUTE_MS).contains(&shown), "{what}: {shown} for {wall}");
        }
        set(900 * MINUTE_MS);
        let looked_at = clock.look_at.get();
        let now = clock.read();
        let unix_ms = clock.unix_ms(now) as i64;
        assert_eq!(unix_ms >= 900 * MINUTE_MS, now >= looked_at, "not asked for at every look at the time");
    }
}
