//! Pause of accepting while the process is out of file descriptors. Retrying at once would fail again, and
//! clients wait in the kernel's backlog meanwhile. Logged at most once a minute, with a count.

use crate::event_loop::alarm;
use rustix::io::Errno;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Length of a pause. The next connection that ends frees a descriptor.
const PAUSE: Duration = Duration::from_millis(50);

/// Least time between two log lines of the process, in milliseconds.
const QUIET_MS: u64 = 60_000;

static PAUSES: Pauses = Pauses { all: AtomicU64::new(0), logged: AtomicU64::new(0), next_ms: AtomicU64::new(0) };

/// Pauses after `accept` has failed with this error.
pub async fn pause(error: Errno) {
    static FIRST: OnceLock<Instant> = OnceLock::new();
    let now_ms = FIRST.get_or_init(Instant::now).elapsed().as_millis() as u64;
    if let Some(pauses) = PAUSES.add(now_ms) {
        tracing::warn!(%error, pauses, "cannot accept a connection; pausing");
    }
    alarm::sleep(PAUSE).await;
}

/// Number of pauses of this process.
pub fn count() -> u64 {
    PAUSES.all.load(Relaxed)
}

/// Counters of pauses. Relaxed, because no other data depends on them.
struct Pauses {
    all: AtomicU64,
    /// Pauses reported by log lines so far.
    logged: AtomicU64,
    /// Time of the next log line, at the earliest.
    next_ms: AtomicU64,
}

impl Pauses {
    /// Counts a pause. Returns the number of pauses not yet logged if a line is due.
    fn add(&self, now_ms: u64) -> Option<u64> {
        let all = self.all.fetch_add(1, Relaxed) + 1;
        let next = self.next_ms.load(Relaxed);
        let is_due = now_ms >= next && self.next_ms.compare_exchange(next, now_ms + QUIET_MS, Relaxed, Relaxed).is_ok();
        is_due.then(|| all - self.logged.swap(all, Relaxed).min(all))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_minute_has_one_line_which_counts_the_pauses_since_the_last() {
        let pauses = Pauses { all: 0.into(), logged: 0.into(), next_ms: 0.into() };
        let lines = [0, 50, 100, 59_999, 60_000, 60_050, 200_000].map(|ms| pauses.add(ms));
        assert_eq!(lines, [Some(1), None, None, None, Some(4), None, Some(2)]);
    }
}
