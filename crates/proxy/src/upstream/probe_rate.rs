//! How many probes may a pool send, from one worker?

use evenkeel_balance::Instant;
use std::cell::Cell;

/// Probes that may be sent at once after a pause, as a part of what a second allows.
const BURST: f64 = 0.01;

/// How many probes a pool may send, from one worker.
#[derive(Debug, Default)]
pub struct ProbeRate {
    left: Cell<f64>,
    at: Cell<Instant>,
}

impl ProbeRate {
    /// Whether one more may be sent now, at `rate` a second.
    pub fn take(&self, rate: u32, now: Instant) -> bool {
        let rate = f64::from(rate);
        let passed = now.since(self.at.get()) as f64 / 1e9;
        self.at.set(now);
        let left = (self.left.get() + passed * rate).min((rate * BURST).max(1.0));
        self.left.set(if left >= 1.0 { left - 1.0 } else { left });
        left >= 1.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_allows_no_more_than_a_burst() {
        let rate = ProbeRate::default();
        let count = |now: u64| (0..1000).filter(|_| rate.take(10_000, Instant(now))).count();
        assert_eq!(count(60_000_000_000), 100);
        assert_eq!(count(60_001_000_000), 10, "a millisecond later");
        let slow = ProbeRate::default();
        assert!(slow.take(1, Instant(1_000_000_000)) && !slow.take(1, Instant(1_900_000_000)));
        assert!(slow.take(1, Instant(2_100_000_000)));
    }
}
