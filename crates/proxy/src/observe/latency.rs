//! How long do requests take at an endpoint? Counts by steps of a quarter of an octave, which any thread may read: enough for
//! percentiles and pictures, in few bytes.

use std::array;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Steps of an octave.
const STEPS: u32 = 4;

/// The first step ends here: 16 microseconds.
const FIRST_NS: u64 = 1 << 14;

/// Steps in all; the last has everything from about two minutes on.
pub const BUCKETS: usize = 92;

/// Durations by step. One worker writes; made when the first is recorded. Counts wrap: readers take differences.
#[derive(Debug, Default)]
pub struct Latency(OnceLock<Box<[AtomicU32; BUCKETS]>>);

/// Counts by step, of one moment or of the time between two.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Latencies(pub Box<[u32; BUCKETS]>);

impl Default for Latencies {
    fn default() -> Latencies {
        Latencies(Box::new([0; BUCKETS]))
    }
}

/// The step of a duration.
#[inline]
fn bucket(ns: u64) -> usize {
    let scaled = ns / (FIRST_NS / u64::from(STEPS));
    if scaled < u64::from(STEPS) {
        return 0;
    }
    // The two bits behind the leading one are the step of the octave.
    let octave = scaled.ilog2();
    let step = (scaled >> (octave - 2)) & 3;
    (1 + (octave - 2) as usize * STEPS as usize + step as usize).min(BUCKETS - 1)
}

/// Where a step ends, nanoseconds; the last one's end is where it begins.
pub fn upper_ns(bucket: usize) -> u64 {
    let unit = FIRST_NS / u64::from(STEPS);
    let Some(above) = bucket.min(BUCKETS - 2).checked_sub(1) else { return FIRST_NS };
    let (octave, step) = (above as u32 / STEPS, above as u64 % u64::from(STEPS));
    ((u64::from(STEPS) + step + 1) << octave) * unit
}

/// Where a step begins, nanoseconds; the first begins at a quarter of its end, which suits a picture of durations by factors.
pub fn lower_ns(bucket: usize) -> u64 {
    bucket.checked_sub(1).map_or(FIRST_NS / u64::from(STEPS), upper_ns)
}

impl Latency {
    /// Counts one duration. Only the worker that it belongs to calls this.
    #[inline]
    pub fn record(&self, ns: u64) {
        let counts = self.0.get_or_init(|| Box::new(array::from_fn(|_| AtomicU32::new(0))));
        let count = &counts[bucket(ns)];
        count.store(count.load(Relaxed).wrapping_add(1), Relaxed);
    }

    /// Adds what was counted so far to `sum`.
    pub fn add_to(&self, sum: &mut Latencies) {
        let Some(counts) = self.0.get() else { return };
        sum.0.iter_mut().zip(counts.iter()).for_each(|(sum, count)| *sum = sum.wrapping_add(count.load(Relaxed)));
    }
}

impl Latencies {
    /// What was counted since an earlier moment.
    pub fn since(&self, before: &Latencies) -> Latencies {
        Latencies(Box::new(array::from_fn(|i| self.0[i].wrapping_sub(before.0[i]))))
    }

    /// Durations in all.
    pub fn count(&self) -> u64 {
        self.0.iter().map(|&n| u64::from(n)).sum()
    }

    /// The duration that this part of them, 0 to 1, does not exceed, to a step: nanoseconds. `None` of none.
    pub fn percentile_ns(&self, part: f64) -> Option<u64> {
        let rank = (self.count() as f64 * part).ceil().max(1.0) as u64;
        let mut seen = 0;
        let at = self.0.iter().position(|&n| {
            seen += u64::from(n);
            seen >= rank
        })?;
        Some(upper_ns(at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_duration_is_in_the_step_that_ends_above_it() {
        for ns in (0..200_000).step_by(7).chain((0..60).map(|bit| 1u64 << bit)).chain([u64::MAX]) {
            let at = bucket(ns);
            assert!(at == BUCKETS - 1 || ns < upper_ns(at), "{ns} is in {at}, which ends at {}", upper_ns(at));
            assert!(at == 0 || ns >= upper_ns(at - 1), "{ns} is in {at}, after one that ends at {}", upper_ns(at - 1));
        }
        assert!(upper_ns(BUCKETS - 1) > 100_000_000_000);
    }

    #[test]
    fn percentiles_are_within_a_quarter_of_an_octave() {
        let (latency, mut before, mut now) = (Latency::default(), Latencies::default(), Latencies::default());
        latency.record(1);
        latency.add_to(&mut before);
        (1..=1000).for_each(|n| latency.record(n * 1_000_000));
        latency.add_to(&mut now);
        let since = now.since(&before);
        assert_eq!((since.count(), Latencies::default().percentile_ns(0.5)), (1000, None));
        for (part, ms) in [(0.5, 500.0), (0.99, 990.0), (0.001, 1.0), (1.0, 1000.0)] {
            let ns = since.percentile_ns(part).expect("there are some") as f64 / 1e6;
            assert!((1.0..1.26).contains(&(ns / ms)), "{part}: {ns} ms");
        }
    }
}
