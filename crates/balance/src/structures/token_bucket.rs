//! Token buckets, which limit how often something happens: a bucket per client, endpoint or worker, under a [`Rate`]
//! that many buckets share.
//!
//! A bucket is a single number, the time at which it will be full again (the generic cell rate algorithm, ITU-T I.371).
//! Taking a token postpones that time by the interval between two tokens. So a bucket takes eight bytes, costs nothing
//! while it is not used, and its rate may change at any time.

use crate::structures::time::{Instant, SECOND_NS};

/// Rate at which tokens arrive, and the capacity of a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Nanoseconds between two tokens; at least 1.
    interval_ns: u64,
    /// Nanoseconds from an empty bucket to a full bucket: at least `interval_ns`, or 0 if a bucket never holds a token.
    capacity_ns: u64,
}

impl Rate {
    /// Returns the rate of `per_second` tokens (0 or above) into buckets that hold `burst` tokens (at least 1). At 0
    /// per second there is never a token, not even a first token.
    ///
    /// The interval is rounded up to whole nanoseconds, so the rate is never exceeded. Up to a million tokens per
    /// second it is at most 0.1 % too low.
    pub fn new(per_second: f64, burst: u32) -> Rate {
        if per_second.is_nan() || per_second <= 0.0 {
            return Rate { interval_ns: u64::MAX, capacity_ns: 0 };
        }
        // The cast saturates.
        let interval_ns = ((SECOND_NS as f64 / per_second).ceil() as u64).max(1);
        Rate { interval_ns, capacity_ns: interval_ns.saturating_mul(u64::from(burst.max(1))) }
    }

    /// Returns the rate of `tokens` tokens (at least 1) in `span_ns` nanoseconds, into buckets that hold `burst` tokens
    /// (at least 1). Rounded like [`new`](Self::new).
    pub fn per(tokens: u32, span_ns: u64, burst: u32) -> Rate {
        let interval_ns = span_ns.div_ceil(u64::from(tokens.max(1))).max(1);
        Rate { interval_ns, capacity_ns: interval_ns.saturating_mul(u64::from(burst.max(1))) }
    }

    /// Returns this rate with buckets that hold at least the tokens of `span_ns` nanoseconds.
    #[must_use]
    pub fn saving(self, span_ns: u64) -> Rate {
        // 0 stays 0: a rate without tokens saves none.
        let least_ns = if self.capacity_ns == 0 { 0 } else { span_ns };
        Rate { capacity_ns: self.capacity_ns.max(least_ns), ..self }
    }

    /// Returns the nanoseconds between two tokens.
    pub fn interval_ns(self) -> u64 {
        self.interval_ns
    }
}

/// A token bucket, full when it is created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TokenBucket {
    full_at: Instant,
}

impl TokenBucket {
    /// Takes a token.
    ///
    /// # Errors
    /// If there is none: the nanoseconds until there is a token, unless something else takes it. `u64::MAX` means
    /// never.
    #[inline]
    pub fn take(&mut self, rate: Rate, now: Instant) -> Result<(), u64> {
        self.take_for(rate.interval_ns, rate, now)
    }

    /// Takes the tokens of `cost_ns` nanoseconds, which may be several tokens or a fraction of a token.
    ///
    /// # Errors
    /// If the bucket holds fewer, none is taken, and the error is the same as of [`take`](Self::take).
    #[inline]
    pub fn take_for(&mut self, cost_ns: u64, rate: Rate, now: Instant) -> Result<(), u64> {
        let Some(spare_ns) = rate.capacity_ns.checked_sub(cost_ns) else { return Err(u64::MAX) };
        // The clocks of two workers differ a little. The later time counts, so that no span of time fills a bucket
        // twice.
        let full_at = self.full_at.max(now);
        let missing_ns = full_at.since(now);
        if missing_ns > spare_ns {
            return Err(missing_ns - spare_ns);
        }
        self.full_at = full_at.after(cost_ns);
        Ok(())
    }

    /// Creates a bucket that is full again at `full_at`.
    #[inline]
    pub fn full_from(full_at: Instant) -> TokenBucket {
        TokenBucket { full_at }
    }

    /// Returns the time at which the bucket is full again if nothing is taken until then. A full bucket is as good as a
    /// new bucket, so a table without room drops the bucket that is full first.
    #[inline]
    pub fn full_at(&self) -> Instant {
        self.full_at
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::structures::rng::Rng;
    use crate::structures::time::MILLISECOND_NS;

    const fn ms(n: u64) -> Instant {
        Instant(n * MILLISECOND_NS)
    }

    #[test]
    fn a_burst_passes_and_then_the_rate_counts() {
        let (mut bucket, rate) = (TokenBucket::default(), Rate::new(10.0, 3));
        let mut at = |n| bucket.take(rate, ms(n));
        assert_eq!([at(5), at(5), at(5)], [Ok(()); 3]);
        assert_eq!(at(5), Err(100 * MILLISECOND_NS), "the next in a tenth of a second");
        assert_eq!(at(55), Err(50 * MILLISECOND_NS), "a refused one costs nothing");
        assert_eq!([at(105), at(205)], [Ok(()); 2]);
        assert_eq!([at(9_000), at(9_000), at(9_000)], [Ok(()); 3], "never more than the burst");
        assert!(at(9_000).is_err());
    }

    #[test]
    fn a_clock_that_lags_fills_no_bucket_twice() {
        let (mut bucket, rate) = (TokenBucket::default(), Rate::new(1.0, 1));
        assert_eq!(bucket.take(rate, ms(5_000)), Ok(()));
        assert_eq!(bucket.take(rate, ms(4_000)), Err(2 * SECOND_NS));
        assert_eq!(bucket.take(rate, ms(6_000)), Ok(()));
    }

    #[test]
    fn no_rate_gives_no_token_and_the_slowest_gives_one() {
        for none in [0.0, -1.0, f64::NAN] {
            let rate = Rate::new(none, 5).saving(SECOND_NS);
            assert_eq!(TokenBucket::default().take(rate, ms(1)), Err(u64::MAX), "{none}");
        }
        let (mut bucket, rate) = (TokenBucket::default(), Rate::new(1e-300, 1).saving(SECOND_NS));
        assert_eq!(bucket.take(rate, ms(1)), Ok(()));
        assert!(bucket.take(rate, Instant(u64::MAX - 1)).is_err());
    }

    #[test]
    fn a_bucket_saves_by_number_or_by_time_whichever_is_more() {
        let tokens = |rate: Rate| {
            let mut bucket = TokenBucket::default();
            (0..1_000).filter(|_| bucket.take(rate, ms(1)).is_ok()).count()
        };
        assert_eq!(tokens(Rate::new(10_000.0, 16).saving(10 * MILLISECOND_NS)), 100);
        assert_eq!(tokens(Rate::new(100.0, 16).saving(10 * MILLISECOND_NS)), 16);
        assert_eq!(tokens(Rate::new(0.1, 0)), 1, "a bucket holds a whole token");
    }

    #[test]
    fn what_costs_parts_of_tokens_is_taken_exactly() {
        // A token is a nanosecond here, as for a client's patience, which waiting uses up.
        let (mut bucket, rate) = (TokenBucket::default(), Rate::new(1e9, 100));
        assert_eq!(bucket.take_for(60, rate, ms(0)), Ok(()));
        assert_eq!(bucket.take_for(60, rate, ms(0)), Err(20));
        assert_eq!(bucket.take_for(60, rate, Instant(20)), Ok(()));
        assert_eq!(bucket.take_for(101, rate, ms(9)), Err(u64::MAX));
    }

    #[test]
    fn no_history_gets_more_than_its_rate() {
        for seed in 0..200 {
            let mut rng = Rng::new(seed);
            let (per_second, burst) = (0.1 + 1_000.0 * rng.unit(), 1 + rng.below(50));
            let (mut bucket, rate) = (TokenBucket::default(), Rate::new(per_second, burst));
            let (mut now, mut passed) = (0, Vec::new());
            for _ in 0..200 {
                now += rng.next_u64() % 200_000_000;
                if bucket.take(rate, Instant(now)).is_ok() {
                    passed.push(now);
                }
            }
            for (first, from) in passed.iter().enumerate() {
                for (last, to) in passed.iter().enumerate().skip(first) {
                    let allowed = f64::from(burst) + (to - from) as f64 * per_second / 1e9;
                    assert!(
                        (last - first) as f64 <= allowed + 1e-6,
                        "seed {seed}: {} in {} ns",
                        last - first,
                        to - from
                    );
                }
            }
        }
    }
}
