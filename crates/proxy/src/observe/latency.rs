//! Times to the first byte at an endpoint. A single worker records them; any thread may read.

use evenkeel_view::latencies::{BUCKETS, Latencies, bucket};
use std::array;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Durations by bucket. Allocated when the first duration is recorded.
#[derive(Debug, Default)]
pub struct Latency(OnceLock<Box<Counts>>);

#[derive(Debug)]
struct Counts {
    steps: [AtomicU64; BUCKETS],
    sum_ns: AtomicU64,
}

impl Latency {
    /// Counts a duration. Only the owning worker may call this: a concurrent call could lose a count.
    #[inline]
    pub fn record(&self, ns: u64) {
        let zero = || AtomicU64::new(0);
        let counts = self.0.get_or_init(|| Box::new(Counts { steps: array::from_fn(|_| zero()), sum_ns: zero() }));
        let add = |count: &AtomicU64, n: u64| count.store(count.load(Relaxed).wrapping_add(n), Relaxed);
        add(&counts.steps[bucket(ns)], 1);
        add(&counts.sum_ns, ns);
    }

    /// Adds the counts so far to `sum`.
    pub fn add_to(&self, sum: &mut Latencies) {
        let Some(counts) = self.0.get() else { return };
        sum.steps.iter_mut().zip(&counts.steps).for_each(|(sum, count)| *sum += count.load(Relaxed));
        sum.sum_ns = sum.sum_ns.wrapping_add(counts.sum_ns.load(Relaxed));
    }
}
