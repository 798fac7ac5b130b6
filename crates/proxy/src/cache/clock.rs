//! Clock of stored responses. Ages are by the clock of the machine, which cannot be set and which all processes have in
//! common. Only the dates of responses are compared with the wall clock.

use evenkeel_balance::Instant;
use evenkeel_cache::moment::{Date, Moment};
use evenkeel_net::clock::{CachedClock, boot_ms};
use evenkeel_view::words::unix_ms;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime};

/// File with the number of this run of the machine.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// Clock of stored responses, kept across plans.
#[derive(Debug, Default)]
pub struct CacheClock {
    /// Milliseconds that tests have skipped.
    skipped: AtomicI64,
    /// Milliseconds by which tests have set the wall clock.
    stepped: AtomicI64,
}

impl CacheClock {
    pub fn now(&self) -> Moment {
        self.moment(boot_ms())
    }

    /// The present time by the wall clock.
    pub fn wall(&self) -> Date {
        self.date(unix_ms(SystemTime::now()))
    }

    /// Moment at a time of a worker, without a syscall.
    pub fn moment_at(&self, clock: &CachedClock, at: Instant) -> Moment {
        self.moment(clock.boot_ms(at))
    }

    /// Wall clock at a time of a worker, without a syscall.
    pub fn wall_at(&self, clock: &CachedClock, at: Instant) -> Date {
        self.date(clock.unix_ms(at))
    }

    fn moment(&self, boot_ms: u64) -> Moment {
        Moment::since_boot(boot_ms).shifted(self.skipped.load(Ordering::Relaxed))
    }

    fn date(&self, unix_ms: u64) -> Date {
        let ahead = self.skipped.load(Ordering::Relaxed) + self.stepped.load(Ordering::Relaxed);
        Date(unix_ms.saturating_add_signed(ahead))
    }

    /// Lets time pass, as tests do that cannot wait.
    pub fn skip(&self, time: Duration) {
        self.skipped.fetch_add(time.as_millis() as i64, Ordering::Relaxed);
    }

    /// Sets the wall clock forward, or back, as tests do.
    pub fn step_wall(&self, ms: i64) {
        self.stepped.fetch_add(ms, Ordering::Relaxed);
    }

    /// Clocks of this process for the file on disk.
    pub fn of_disk(self: &Arc<CacheClock>) -> evenkeel_disk::Clock {
        let (moments, dates) = (self.clone(), self.clone());
        evenkeel_disk::Clock {
            now: Box::new(move || moments.now()),
            wall: Box::new(move || dates.wall()),
            boot: boot(),
        }
    }
}

/// Number of this run of the machine. Where it cannot be read, every process counts as a new run.
fn boot() -> [u8; 16] {
    let hex: Option<String> = fs::read_to_string(BOOT_ID).ok().map(|id| id.trim().replace('-', ""));
    match hex.and_then(|hex| u128::from_str_radix(&hex, 16).ok()) {
        Some(id) => id.to_le_bytes(),
        None => (u128::from(std::process::id()) << 64 | u128::from(unix_ms(SystemTime::now()))).to_le_bytes(),
    }
}
