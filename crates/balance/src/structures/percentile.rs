//! A percentile of recent latencies, read from a histogram whose buckets widen with the latency and whose counts fade.
//!
//! Takes fixed memory, and a count per request. The layout of the buckets is HdrHistogram's.

use crate::structures::time::{Instant, SECOND_NS};

/// Latencies are counted in units of 2^10 ns, about a microsecond. Smaller differences change no decision.
const UNIT_BITS: u32 = 10;

/// Buckets per doubling: 2^4, so that the width of a bucket is at most 1/16 of the value where it begins.
const PART_BITS: u32 = 4;
const PARTS: usize = 1 << PART_BITS;

/// Doublings above the first [`PARTS`] units: up to 2^27 units, 137 s. Longer latencies count as 137 s.
const DOUBLINGS: usize = 23;
const BUCKETS: usize = (DOUBLINGS + 1) * PARTS;

/// Half-life of the counts: a latency from a minute ago weighs 1/64.
const FADE_NS: u64 = 10 * SECOND_NS;

/// Latencies between two readings of the histogram: 64 counts pay for a walk over the buckets.
const REFRESH: u32 = 64;

/// A single percentile of the latencies that a worker sees.
#[derive(Clone, Debug)]
pub struct Percentile {
    /// Share of latencies below the percentile: above 0 and below 1.
    share: f64,
    /// Latencies needed before there is a value. Fading never leaves fewer.
    seen_min: u64,
    counts: Box<[u32; BUCKETS]>,
    seen: u64,
    unread: u32,
    faded: Instant,
    value_ns: Option<u64>,
}

impl Percentile {
    /// Returns the percentile below which `share` (above 0 and below 1) of the latencies are, known once `seen_min`
    /// were recorded.
    pub fn new(share: f64, seen_min: u64, now: Instant) -> Percentile {
        let counts = Box::new([0; BUCKETS]);
        Percentile { share, seen_min, counts, seen: 0, unread: 0, faded: now, value_ns: None }
    }

    /// Value in nanoseconds, as of at most 64 latencies ago; `None` until enough were recorded. Off by at most 1/16 or
    /// a microsecond, for values up to 137 s.
    #[inline]
    pub fn value_ns(&self) -> Option<u64> {
        self.value_ns
    }

    /// Counts a latency, and reads the percentile again after every 64.
    #[inline]
    pub fn record(&mut self, latency_ns: u64, now: Instant) {
        let count = &mut self.counts[bucket(latency_ns)];
        *count = count.saturating_add(1);
        self.seen += 1;
        self.unread += 1;
        if self.unread >= REFRESH || self.seen == self.seen_min {
            self.refresh(now);
        }
    }

    #[cold]
    fn refresh(&mut self, now: Instant) {
        if now.since(self.faded) >= FADE_NS {
            self.faded = now;
            // A pool with few requests remembers longer, or it would never have enough.
            let half: u64 = self.counts.iter().map(|&n| u64::from(n / 2)).sum();
            if half >= self.seen_min {
                self.counts.iter_mut().for_each(|n| *n /= 2);
                self.seen = half;
            }
        }
        self.unread = 0;
        self.value_ns = (self.seen >= self.seen_min).then(|| self.read()).flatten();
    }

    fn read(&self) -> Option<u64> {
        let rank = (self.share * self.seen as f64).ceil().max(1.0) as u64;
        let mut below = 0;
        for (bucket, &count) in self.counts.iter().enumerate() {
            let count = u64::from(count);
            if below + count >= rank {
                // Interpolated, as if the latencies in the bucket were spread evenly: its end alone would lie above all
                // of a narrow distribution.
                let (begin, end) = (begin_ns(bucket), begin_ns(bucket + 1));
                return Some(begin + ((end - begin) as f64 * (rank - below) as f64 / count as f64) as u64);
            }
            below += count;
        }
        None
    }
}

fn bucket(latency_ns: u64) -> usize {
    let units = (latency_ns >> UNIT_BITS).min((1 << (PART_BITS as usize + DOUBLINGS)) - 1);
    let doubling = (units >> PART_BITS).checked_ilog2().map_or(0, |log| log + 1);
    // Below PARTS units: a bucket each. Above: PARTS buckets per doubling, the first beginning at PARTS << (doubling
    // - 1).
    let part = units >> doubling.saturating_sub(1);
    (doubling.saturating_sub(1) as usize) * PARTS + part as usize
}

/// Lower bound of a bucket, and upper bound of the bucket before it.
fn begin_ns(bucket: usize) -> u64 {
    let doubling = (bucket / PARTS).saturating_sub(1);
    ((bucket - doubling * PARTS) as u64) << doubling << UNIT_BITS
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::structures::rng::Rng;

    const NOW: Instant = Instant(0);

    #[test]
    fn buckets_follow_each_other_without_gap() {
        for b in 0..BUCKETS {
            assert_eq!(bucket(begin_ns(b)), b, "the first of it");
            assert_eq!(bucket(begin_ns(b + 1) - 1), b, "the last of it");
        }
        assert_eq!((bucket(0), bucket(u64::MAX)), (0, BUCKETS - 1));
    }

    #[test]
    fn is_within_a_bucket_of_the_sorted_latencies() {
        for seed in 0..300 {
            let mut rng = Rng::new(seed);
            let share = [0.01, 0.5, 0.9, 0.95, 0.99, 0.999][rng.below(6) as usize];
            // Clusters, spread over nine decades.
            let (scale, n) = (rng.below(30), 1 + rng.below(2000) as usize);
            let mut percentile = Percentile::new(share, n as u64, NOW);
            let mut all: Vec<u64> = (0..n).map(|_| rng.next_u64() >> (28 + (scale + rng.below(9)) % 36)).collect();
            all.iter().for_each(|&ns| percentile.record(ns, NOW));
            all.sort_unstable();
            let exact = all[((share * n as f64).ceil() as usize).max(1) - 1];
            let got = percentile.value_ns().expect("enough were seen");
            let (begin, end) = (begin_ns(bucket(exact)), begin_ns(bucket(exact) + 1));
            assert!((begin..=end).contains(&got), "seed {seed}: {got} for {exact}");
            assert!(end - begin <= (begin / 16).max(1 << UNIT_BITS), "seed {seed}: {begin} to {end}");
        }
    }

    #[test]
    fn says_nothing_before_it_has_seen_enough() {
        let mut percentile = Percentile::new(0.95, 100, NOW);
        for i in 0..100 {
            assert_eq!(percentile.value_ns(), None, "after {i}");
            percentile.record(5_000_000, NOW);
        }
        assert!(percentile.value_ns().is_some());
    }

    #[test]
    fn follows_a_change_within_a_minute_of_busy_and_keeps_what_it_knows_in_quiet() {
        let mut percentile = Percentile::new(0.95, 100, NOW);
        let at = |i: u64| Instant(i * 10_000_000);
        (0..10_000).for_each(|i| percentile.record(100_000_000, at(i)));
        (10_000..16_000).for_each(|i| percentile.record(1_000_000, at(i)));
        assert!(percentile.value_ns().unwrap() < 1_200_000, "{:?}", percentile.value_ns());
        let mut quiet = Percentile::new(0.95, 100, NOW);
        (0..1000).for_each(|i| quiet.record(1_000_000, Instant(i * 60 * SECOND_NS)));
        assert!(quiet.value_ns().is_some() && quiet.seen >= 100);
    }
}
