//! Durations counted by the buckets that metrics have: coarser than [`Latencies`](crate::latencies::Latencies), and
//! kept for every route.

use std::sync::Arc;

/// Numbers of durations by bucket, and their sum.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Durations {
    /// Ends of the buckets, ascending, in nanoseconds. Another bucket has no end.
    pub ends_ns: Arc<[u64]>,
    /// Number of durations in each bucket.
    pub counts: Vec<u64>,
    /// Sum of all durations, nanoseconds.
    pub sum_ns: u64,
}

impl Durations {
    /// Adds the durations of a counter that has the same buckets.
    pub fn add(&mut self, ends_ns: &Arc<[u64]>, counts: impl ExactSizeIterator<Item = u64>, sum_ns: u64) {
        if self.counts.len() < counts.len() {
            self.counts.resize(counts.len(), 0);
            self.ends_ns = ends_ns.clone();
        }
        self.counts.iter_mut().zip(counts).for_each(|(sum, more)| *sum += more);
        self.sum_ns = self.sum_ns.wrapping_add(sum_ns);
    }

    /// Returns the durations since an earlier moment; all of them if the buckets are others now.
    pub fn since(&self, before: &Durations) -> Durations {
        if self.ends_ns != before.ends_ns || self.counts.len() != before.counts.len() {
            return self.clone();
        }
        let counts = self.counts.iter().zip(&before.counts).map(|(now, before)| now.saturating_sub(*before)).collect();
        Durations { ends_ns: self.ends_ns.clone(), counts, sum_ns: self.sum_ns.wrapping_sub(before.sum_ns) }
    }

    /// Returns the average in milliseconds; `None` of none.
    pub fn mean_ms(&self) -> Option<f64> {
        let count: u64 = self.counts.iter().sum();
        (count > 0).then(|| self.sum_ns as f64 / count as f64 / 1e6)
    }

    /// Returns the end of the bucket that has the duration which this part of them, 0 to 1, does not exceed, in
    /// milliseconds. `None` of none, or if that bucket has no end.
    pub fn within_ms(&self, part: f64) -> Option<f64> {
        let count: u64 = self.counts.iter().sum();
        let rank = (count as f64 * part).ceil().max(1.0) as u64;
        let mut below = 0;
        let at = self.counts.iter().position(|n| {
            below += n;
            below >= rank
        })?;
        Some(*self.ends_ns.get(at)? as f64 / 1e6)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_ends_of_buckets() {
        let ends: Arc<[u64]> = Arc::from([1_000_000, 10_000_000]);
        let mut before = Durations::default();
        assert_eq!((before.mean_ms(), before.within_ms(0.5)), (None, None));
        before.add(&ends, [5, 0, 0].into_iter(), 1_000_000);
        let mut now = before.clone();
        now.add(&ends, [90, 9, 1].into_iter(), 400_000_000);
        let late = now.since(&before);
        assert_eq!((late.mean_ms(), late.within_ms(0.9), late.within_ms(0.99)), (Some(4.0), Some(1.0), Some(10.0)));
        assert_eq!(late.within_ms(1.0), None, "above the last end nothing is known");
        assert_eq!(now.since(&Durations::default()), now);
    }
}
