//! How is something counted that one thread does and others look at? By a plain load and store each, on memory that no other
//! thread writes.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A number that one thread adds to.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds. Only the thread that owns the counter may call it; Relaxed, as the number stands for itself.
    #[inline]
    pub fn add(&self, n: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_add(n), Relaxed);
    }

    /// Takes away, for numbers that go up and down.
    #[inline]
    pub fn sub(&self, n: u64) {
        self.add(n.wrapping_neg());
    }

    /// Puts another number in its place, for what was seen last.
    pub fn set(&self, n: u64) {
        self.0.store(n, Relaxed);
    }

    /// The number.
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}
