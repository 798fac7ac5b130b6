//! Exact totals over all workers. Several writers need a locked instruction each time; a single worker, as in
//! a sidecar, needs none.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// A number that workers add to and subtract from. Relaxed, because no other data depends on it.
#[derive(Debug)]
pub struct Total {
    n: AtomicUsize,
    is_shared: bool,
}

impl Total {
    /// A total that only this many workers change.
    pub fn new(workers: usize) -> Total {
        Total { n: AtomicUsize::new(0), is_shared: workers > 1 }
    }

    /// Adds 1, and returns the number before.
    #[inline]
    pub fn add(&self) -> usize {
        self.change(1)
    }

    /// Subtracts 1 for a worker.
    #[inline]
    pub fn sub(&self) {
        self.change(usize::MAX);
    }

    /// Current number, from any thread.
    pub fn get(&self) -> usize {
        self.n.load(Relaxed)
    }

    #[inline]
    fn change(&self, by: usize) -> usize {
        if self.is_shared {
            return self.n.fetch_add(by, Relaxed);
        }
        let n = self.n.load(Relaxed);
        self.n.store(n.wrapping_add(by), Relaxed);
        n
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_exact_whichever_thread_counts() {
        for workers in [1, 4] {
            let total = Total::new(workers);
            std::thread::scope(|scope| {
                for _ in 0..workers {
                    scope.spawn(|| {
                        for _ in 0..10_000 {
                            total.add();
                            total.add();
                            total.sub();
                        }
                    });
                }
            });
            assert_eq!(total.get(), workers * 10_000);
        }
    }
}
