//! Rate limit of a pool's load probes, on a worker.

use evenkeel_balance::Instant;
use evenkeel_balance::time::MILLISECOND_NS;
use evenkeel_balance::token_bucket::{Rate, TokenBucket};
use std::cell::Cell;

/// Time for which unused tokens are saved, in nanoseconds: the burst after a pause is the number of probes of that
/// time.
const BURST_NS: u64 = 10 * MILLISECOND_NS;

/// Token bucket for the load probes of a pool on a worker.
#[derive(Debug, Default)]
pub struct ProbeRate(Cell<TokenBucket>);

impl ProbeRate {
    /// Takes a token at a rate of `per_second`. Returns true if a probe may be sent now.
    pub fn take(&self, per_second: u32, now: Instant) -> bool {
        let mut tokens = self.0.get();
        let taken = tokens.take(Rate::new(f64::from(per_second), 1).saving(BURST_NS), now).is_ok();
        self.0.set(tokens);
        taken
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
