//! Should a slow request be sent to a second endpoint too? After a percentile of the latencies, under a budget.
//!
//! Source: Dean and Barroso, "The Tail at Scale", CACM 2013.

use crate::machines::budget::Budget;
use crate::structures::percentile::Percentile;
use crate::structures::time::Instant;

/// When a second copy is sent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// The percentile of the pool's latencies to wait for, above 0 and below 1.
    pub percentile: f64,
    /// Second copies as a share of requests, 0 to 1.
    pub budget: f64,
    /// Latencies that must have been seen before the percentile means anything.
    pub min_requests: u64,
}

impl Default for Settings {
    /// "The Tail at Scale": after the 95th percentile, about 5 % more load.
    fn default() -> Settings {
        Settings { percentile: 0.95, budget: 0.05, min_requests: 100 }
    }
}

/// One worker's hedging of one pool. For each request: [`begin`](Self::begin); a timer if there is a delay; when the
/// timer fires before the first byte of a response, [`send`](Self::send); [`record`](Self::record) when it is over.
#[derive(Clone, Debug)]
pub struct Hedge {
    latencies: Percentile,
    budget: Budget,
}

impl Hedge {
    /// Nothing seen yet, nothing earned yet.
    pub fn new(settings: &Settings, now: Instant) -> Hedge {
        let latencies = Percentile::new(settings.percentile, settings.min_requests, now);
        Hedge { latencies, budget: Budget::new(settings.budget, 0.0, 1, now) }
    }

    /// Counts a request, and returns after how many nanoseconds without the first byte of a response a second copy may
    /// go out; `None` for never. `repeatable`: its method is idempotent and all of it is still here. `left_ns`:
    /// nanoseconds to its deadline, before which the copy has to leave.
    #[inline]
    pub fn begin(&mut self, repeatable: bool, left_ns: Option<u64>, now: Instant) -> Option<u64> {
        self.budget.earn(now);
        self.delay_ns().filter(|&delay| repeatable && left_ns.is_none_or(|left| delay < left))
    }

    /// The percentile of the latencies, nanoseconds; `None` until enough were seen.
    #[inline]
    pub fn delay_ns(&self) -> Option<u64> {
        self.latencies.value_ns()
    }

    /// Whether a second copy may go out now. If so, the budget has paid for it, and the caller picks the other endpoint;
    /// without one, it calls [`cancel`](Self::cancel).
    pub fn send(&mut self, now: Instant) -> bool {
        self.budget.spend(now)
    }

    /// Takes back what a second copy has cost that did not go out.
    pub fn cancel(&mut self) {
        self.budget.refund();
    }

    /// Takes the latency of a first copy. One that a second copy overtook counts too, with the time it had taken when
    /// it was given up: without those the percentile would creep towards the latencies of fast requests.
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
