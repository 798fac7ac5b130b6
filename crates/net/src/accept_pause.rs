//! What happens when the process has no descriptor for a new connection? Accepting pauses, as it would fail again at once: the
//! clients wait in the kernel's backlog. The log says so at most once a minute, with a count.

use crate::event_loop::alarm;
use rustix::io::Errno;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// How long a pause is: with the next connection that ends there is a descriptor again.
const PAUSE: Duration = Duration::from_millis(50);

/// Milliseconds between two log lines of the process.
const QUIET_MS: u64 = 60_000;

static PAUSES: Pauses = Pauses { all: AtomicU64::new(0), logged: AtomicU64::new(0), next_ms: AtomicU64::new(0) };

/// Pauses after this error of `accept`.
pub async fn pause(error: Errno) {
    static FIRST: OnceLock<Instant> = OnceLock::new();
    let now_ms = FIRST.get_or_init(Instant::now).elapsed().as_millis() as u64;
    if let Some(pauses) = PAUSES.add(now_ms) {
        tracing::warn!(%error, pauses, "cannot accept a connection; pausing");
    }
    alarm::sleep(PAUSE).await;
}

/// Pauses of this process so far.
pub fn count() -> u64 {
    PAUSES.all.load(Relaxed)
}

/// Relaxed, as these numbers stand for themselves.
struct Pauses {
    all: AtomicU64,
    /// Those that log lines have told of.
    logged: AtomicU64,
    /// When the next line may be written.
    next_ms: AtomicU64,
}

impl Pauses {
    /// Counts a pause. The number of pauses that the log has not told of, if a line is due.
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
