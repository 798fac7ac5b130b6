//! Wake-ups of endpoints. Each endpoint is polled with a separate waker, so that a single endpoint of a thousand that
//! becomes ready costs a single poll.
//!
//! A waker sets its endpoint's bit, and wakes the task that polls the balancer if that waits. A balancer that is ready
//! takes no lock.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Wake, Waker};

const WORD: usize = u64::BITS as usize;

/// Wake-up bits of all slots.
#[derive(Default)]
pub(crate) struct Wakes {
    /// Words of 64 bits, each shared with its wakers, so that slots can be added at any time.
    words: Vec<Arc<AtomicU64>>,
    task: Arc<Task>,
}

/// Task that polls the balancer.
#[derive(Default)]
struct Task {
    /// True if a bit was set since they were last taken.
    any: AtomicBool,
    /// Waker of the task while it waits.
    waiting: Mutex<Option<Waker>>,
}

struct Bit {
    word: Arc<AtomicU64>,
    mask: u64,
    task: Arc<Task>,
}

impl Wake for Bit {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // Release, twice: a task that sees the flag also sees the bit, and a task that sees the bit also sees all
        // stores before the wake-up.
        self.word.fetch_or(self.mask, Ordering::Release);
        self.task.any.store(true, Ordering::Release);
        // The lock orders this with `wait`: either the waker is here already, or `wait` sees the flag.
        let waiting = self.task.waiting.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(waker) = waiting {
            waker.wake();
        }
    }
}

impl Wakes {
    /// Creates a waker that sets this slot's bit.
    pub(crate) fn waker(&mut self, slot: usize) -> Waker {
        while self.words.len() <= slot / WORD {
            self.words.push(Arc::default());
        }
        let (word, task) = (self.words[slot / WORD].clone(), self.task.clone());
        Waker::from(Arc::new(Bit { word, mask: 1 << (slot % WORD), task }))
    }

    /// Calls `woken` with each slot whose bit was set since the last call, and clears the bits.
    #[inline]
    pub(crate) fn take(&self, woken: impl FnMut(usize)) {
        if self.task.any.load(Ordering::Relaxed) {
            self.take_bits(woken);
        }
    }

    #[cold]
    fn take_bits(&self, mut woken: impl FnMut(usize)) {
        // Clear the flag first: a bit that is set during the scan sets it again.
        self.task.any.swap(false, Ordering::Acquire);
        for (i, word) in self.words.iter().enumerate() {
            let mut bits = word.swap(0, Ordering::Acquire);
            while bits != 0 {
                woken(i * WORD + bits.trailing_zeros() as usize);
                bits &= bits - 1;
            }
        }
    }

    /// Registers `waker` to be woken by the next bit. Returns `false` if a bit is already set.
    pub(crate) fn wait(&self, waker: &Waker) -> bool {
        let mut waiting = self.task.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if !waiting.as_ref().is_some_and(|old| old.will_wake(waker)) {
            *waiting = Some(waker.clone());
        }
        drop(waiting);
        !self.task.any.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU32;

    #[derive(Default)]
    struct Count(AtomicU32);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn taken(wakes: &Wakes) -> Vec<usize> {
        let mut slots = Vec::new();
        wakes.take(|slot| slots.push(slot));
        slots
    }

    #[test]
    fn each_slot_is_told_once_however_often_it_woke() {
        let mut wakes = Wakes::default();
        let wakers = [200, 0, 63, 64].map(|slot| wakes.waker(slot));
        wakers.iter().chain(&wakers).for_each(Waker::wake_by_ref);
        assert_eq!(taken(&wakes), [0, 63, 64, 200]);
        assert_eq!(taken(&wakes), []);
    }

    #[test]
    fn the_task_is_woken_only_while_it_waits() {
        let (mut wakes, count) = (Wakes::default(), Arc::new(Count::default()));
        let (waker, task) = (wakes.waker(0), Waker::from(count.clone()));
        waker.wake_by_ref();
        assert!(!wakes.wait(&task), "there is news already");
        assert_eq!(taken(&wakes), [0]);
        assert!(wakes.wait(&task));
        assert_eq!(count.0.load(Ordering::Relaxed), 0);
        waker.wake_by_ref();
        waker.wake_by_ref();
        assert_eq!(count.0.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn no_wake_is_lost_between_threads() {
        let mut wakes = Wakes::default();
        let wakers = [0, 1, 70].map(|slot| wakes.waker(slot));
        struct Unpark(std::thread::Thread);
        impl Wake for Unpark {
            fn wake(self: Arc<Self>) {
                self.0.unpark();
            }
        }
        let task = Waker::from(Arc::new(Unpark(std::thread::current())));
        let woken = &AtomicU32::new(0);
        std::thread::scope(|scope| {
            for waker in wakers {
                scope.spawn(move || {
                    for _ in 0..1000 {
                        woken.fetch_add(1, Ordering::Relaxed);
                        waker.wake_by_ref();
                    }
                });
            }
            // Parks only while wakes are still to come; a lost wake would leave it parked forever.
            while woken.load(Ordering::Relaxed) < 3000 {
                wakes.take(|_| ());
                if woken.load(Ordering::Relaxed) < 3000 && wakes.wait(&task) {
                    std::thread::park();
                }
            }
        });
        wakes.take(|_| ());
        assert!(wakes.wait(&task), "all was taken");
    }
}
