//! Counters that a thread writes and others read, with a plain load and store on memory that no other
//! thread writes.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A counter with a single writer.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds `n`. Only the owning thread may call it. Relaxed, because no other data depends on the number.
    #[inline]
    pub fn add(&self, n: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_add(n), Relaxed);
    }

    /// Subtracts `n`, for numbers that go up and down. Only the owning thread may call it.
    #[inline]
    pub fn sub(&self, n: u64) {
        self.add(n.wrapping_neg());
    }

    /// Replaces the number, for gauges. Only the owning thread may call it.
    pub fn set(&self, n: u64) {
        self.0.store(n, Relaxed);
    }

    /// Current value, from any thread.
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}
