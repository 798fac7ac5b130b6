//! Durations, counted by steps of a quarter of an octave: enough for percentiles and pictures, in few bytes. The steps
//! match native histograms of Prometheus with schema 2: each ends at a power of the fourth root of 2, in seconds, which
//! belongs to it.

use std::array;

const STEPS: i32 = 4;

/// The schema of native histograms that has as many.
pub const SCHEMA: i32 = 2;

/// The first step ends at this power of 2: at 15 microseconds.
pub const FIRST: i32 = -16;

/// Steps in all; the last has everything above a minute and a half.
pub const BUCKETS: usize = 92;

/// Beginnings of the steps of an octave but the first: the bits of the mantissa behind its leading bit.
const PARTS: [u64; 3] = [0x3_06fe_0a31_b715, 0x6_a09e_667f_3bcd, 0xa_e89f_995a_d3ad];

/// Counts by step, of a moment or of the time between two.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Latencies {
    /// Number of durations in each step.
    pub steps: Box<[u64; BUCKETS]>,
    /// Sum of all durations, nanoseconds.
    pub sum_ns: u64,
}

impl Default for Latencies {
    fn default() -> Latencies {
        Latencies { steps: Box::new([0; BUCKETS]), sum_ns: 0 }
    }
}

/// Returns the step of a duration.
#[inline]
pub fn bucket(ns: u64) -> usize {
    // The number just below: the end of a step belongs to it.
    let bits = (ns.max(1) as f64 * 1e-9).to_bits() - 1;
    let octave = (bits >> 52) as i32 - 1023;
    let mantissa = bits & ((1 << 52) - 1);
    let step: i32 = PARTS.iter().map(|part| i32::from(mantissa >= *part)).sum();
    ((octave - FIRST) * STEPS + step + 1).clamp(0, BUCKETS as i32 - 1) as usize
}

/// Returns the end of a step, nanoseconds; the end of the last step is where others of its kind would end.
pub fn upper_ns(bucket: usize) -> u64 {
    let power = f64::from(FIRST) + bucket as f64 / f64::from(STEPS);
    (power.exp2() * 1e9) as u64
}

/// Returns the beginning of a step, nanoseconds; the first begins at a quarter of its end, which suits a picture of
/// durations by factors.
pub fn lower_ns(bucket: usize) -> u64 {
    bucket.checked_sub(1).map_or(upper_ns(0) / 4, upper_ns)
}

impl Latencies {
    /// Returns the durations that were counted since an earlier moment.
    pub fn since(&self, before: &Latencies) -> Latencies {
        let steps = array::from_fn(|i| self.steps[i].wrapping_sub(before.steps[i]));
        Latencies { steps: Box::new(steps), sum_ns: self.sum_ns.wrapping_sub(before.sum_ns) }
    }

    pub fn add(&mut self, more: &Latencies) {
        self.steps.iter_mut().zip(more.steps.iter()).for_each(|(sum, more)| *sum = sum.wrapping_add(*more));
        self.sum_ns = self.sum_ns.wrapping_add(more.sum_ns);
    }

    /// Returns the number of durations.
    pub fn count(&self) -> u64 {
        self.steps.iter().fold(0, |sum, n| sum.wrapping_add(*n))
    }

    /// The duration that this part of them, 0 to 1, does not exceed, to a step: nanoseconds. `None` of none.
    pub fn percentile_ns(&self, part: f64) -> Option<u64> {
        let rank = (self.count() as f64 * part).ceil().max(1.0) as u64;
        let mut seen = 0u64;
        let at = self.steps.iter().position(|&n| {
            seen = seen.wrapping_add(n);
            seen >= rank
        })?;
        Some(upper_ns(at))
    }

    /// [`percentile_ns`](Self::percentile_ns) in milliseconds.
    pub fn percentile_ms(&self, part: f64) -> Option<f64> {
        self.percentile_ns(part).map(|ns| ns as f64 / 1e6)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_duration_is_in_the_step_that_ends_above_it() {
        for ns in (0..200_000).step_by(7).chain((0..60).map(|bit| 1u64 << bit)).chain([u64::MAX]) {
            let at = bucket(ns);
            assert!(at == BUCKETS - 1 || ns <= upper_ns(at), "{ns} is in {at}, which ends at {}", upper_ns(at));
            assert!(at == 0 || ns > upper_ns(at - 1), "{ns} is in {at}, after one that ends at {}", upper_ns(at - 1));
        }
        // An end that is a whole number belongs to its step.
        assert_eq!([1_000_000_000, 1_000_000_001, 2_000_000_000, 500_000_000].map(bucket), [64, 65, 68, 60]);
        assert!(upper_ns(BUCKETS - 1) > 100_000_000_000);
    }

    #[test]
    fn percentiles_are_within_a_quarter_of_an_octave() {
        let mut now = Latencies::default();
        now.steps[bucket(1)] += 1;
        let before = now.clone();
        (1..=1000).for_each(|n| now.steps[bucket(n * 1_000_000)] += 1);
        let since = now.since(&before);
        assert_eq!((since.count(), Latencies::default().percentile_ns(0.5)), (1000, None));
        for (part, ms) in [(0.5, 500.0), (0.99, 990.0), (0.001, 1.0), (1.0, 1000.0)] {
            let ns = since.percentile_ns(part).expect("there are some") as f64 / 1e6;
            assert!((1.0..1.19).contains(&(ns / ms)), "{part}: {ns} ms");
        }
    }
}
