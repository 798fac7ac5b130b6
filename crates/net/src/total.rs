//! How many are there over all workers, exactly? What more than one thread counts takes a locked instruction each time; a
//! worker that is alone, as beside a service, needs none.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// A number that the workers add to and take from. Relaxed, as it stands for itself.
#[derive(Debug)]
pub struct Total {
    n: AtomicUsize,
    is_shared: bool,
}

impl Total {
    /// Of so many workers, which alone change it.
    pub fn new(workers: usize) -> Total {
        Total { n: AtomicUsize::new(0), is_shared: workers > 1 }
    }

    /// Adds one: how many there were before.
    #[inline]
    pub fn add(&self) -> usize {
        self.change(1)
    }

    /// Takes one away.
    #[inline]
    pub fn sub(&self) {
        self.change(usize::MAX);
    }

    /// The number.
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
