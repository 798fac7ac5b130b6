//! Hedging: a slow request is also sent to a second endpoint, after a percentile of the latencies and within a budget.
//!
//! Source: Dean and Barroso, "The Tail at Scale", CACM 2013.

use crate::machines::budget::Budget;
use crate::structures::percentile::Percentile;
use crate::structures::time::Instant;

/// Delay and budget of second copies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// Percentile of the pool's latencies to wait for; above 0 and below 1.
    pub percentile: f64,
    /// Second copies as a share of requests, 0 to 1.
    pub budget: f64,
    /// Latencies to record before the percentile is used.
    pub min_requests: u64,
}

impl Default for Settings {
    /// The values of "The Tail at Scale": after the 95th percentile, for about 5 % more load.
    fn default() -> Settings {
        Settings { percentile: 0.95, budget: 0.05, min_requests: 100 }
    }
}

/// The hedging of a worker in a pool. For each request, call [`begin`](Self::begin), and set a timer if it returns
/// a delay. If the timer fires before the first byte of a response, call [`send`](Self::send). Call
/// [`record`](Self::record) at the end.
#[derive(Clone, Debug)]
pub struct Hedge {
    latencies: Percentile,
    budget: Budget,
}

impl Hedge {
    /// Returns a hedge that has seen no latency and earned no budget.
    pub fn new(settings: &Settings, now: Instant) -> Hedge {
        let latencies = Percentile::new(settings.percentile, settings.min_requests, now);
        Hedge { latencies, budget: Budget::new(settings.budget, 0.0, 1, now) }
    }

    /// Counts a request, and returns the delay in nanoseconds after which, without the first byte of a response, a
    /// second copy may be sent; `None` if none may. `repeatable`: the method is idempotent and the whole request is
    /// still buffered. `left_ns`: nanoseconds to its deadline, before which the copy has to leave.
    #[inline]
    pub fn begin(&mut self, repeatable: bool, left_ns: Option<u64>, now: Instant) -> Option<u64> {
        self.budget.earn(now);
        self.delay_ns().filter(|&delay| repeatable && left_ns.is_none_or(|left| delay < left))
    }

    /// Percentile of the latencies, nanoseconds; `None` until enough were recorded.
    #[inline]
    pub fn delay_ns(&self) -> Option<u64> {
        self.latencies.value_ns()
    }

    /// Pays for a second copy from the budget. False if the budget is spent. If true, the caller picks the other
    /// endpoint, or calls [`cancel`](Self::cancel) if there is none.
    pub fn send(&mut self, now: Instant) -> bool {
        self.budget.spend(now)
    }

    /// Refunds a second copy that was not sent.
    pub fn cancel(&mut self) {
        self.budget.refund();
    }

    /// Records the latency of a first copy. If a second copy overtook it, that is the time it had taken when it was
    /// given up: without these, the percentile would creep towards the latencies of fast requests.
    #[inline]
    pub fn record(&mut self, latency_ns: u64, now: Instant) {
        self.latencies.record(latency_ns, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::structures::rng::Rng;
    use crate::structures::time::MILLISECOND_NS;

    #[test]
    fn no_history_sends_more_copies_than_the_share_of_requests() {
        for seed in 0..200 {
            let mut rng = Rng::new(seed);
            let settings = Settings { budget: [0.0, 0.05, 0.5, 1.0][rng.below(4) as usize], ..Settings::default() };
            let mut now = Instant(rng.next_u64() >> 24);
            let mut hedge = Hedge::new(&settings, now);
            let (mut requests, mut copies) = (0.0, 0.0);
            for _ in 0..3000 {
                now = now.after(rng.next_u64() >> (32 + rng.below(32)));
                match rng.below(3) {
                    0 => {
                        hedge.begin(rng.coin(), None, now);
                        requests += 1.0;
                    }
                    1 => hedge.record(rng.next_u64() >> (20 + rng.below(44)), now),
                    _ if rng.below(4) == 0 => {
                        if hedge.send(now) {
                            hedge.cancel();
                        }
                    }
                    _ => copies += f64::from(u8::from(hedge.send(now))),
                }
                assert!(copies <= settings.budget * requests + 1e-6, "seed {seed}: {copies} of {requests}");
            }
        }
    }

    #[test]
    fn about_one_request_in_twenty_is_slow_enough_by_default() {
        let mut hedge = Hedge::new(&Settings::default(), Instant(0));
        let mut rng = Rng::new(5);
        let (mut late, mut copies) = (0u32, 0);
        for i in 0..100_000u64 {
            let (now, latency_ns) = (Instant(i * MILLISECOND_NS), u64::from(rng.below(20_000_000)));
            if hedge.begin(true, None, now).is_some_and(|delay| delay < latency_ns) {
                late += 1;
                copies += u32::from(hedge.send(now));
            }
            hedge.record(latency_ns, now);
        }
        // 5 % of 100,000; 5 standard deviations of a binomial are 345, and fading buckets add some noise to the delay.
        assert!(late.abs_diff(5000) < 600, "{late}");
        assert!(copies > late * 9 / 10 && copies <= late, "{copies} of {late}");
    }

    #[test]
    fn a_request_that_cannot_be_repeated_or_would_be_late_anyway_has_no_second_copy() {
        let mut hedge = Hedge::new(&Settings { min_requests: 1, ..Settings::default() }, Instant(0));
        assert_eq!(hedge.begin(true, None, Instant(0)), None, "nothing was seen");
        hedge.record(5 * MILLISECOND_NS, Instant(0));
        let delay = hedge.delay_ns().expect("one is enough");
        assert_eq!(hedge.begin(true, None, Instant(0)), Some(delay));
        assert_eq!(hedge.begin(true, Some(delay + 1), Instant(0)), Some(delay));
        assert_eq!(hedge.begin(true, Some(delay), Instant(0)), None);
        assert_eq!(hedge.begin(false, None, Instant(0)), None);
    }
}
