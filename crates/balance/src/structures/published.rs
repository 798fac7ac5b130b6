//! A value that control code replaces as a whole, such as the endpoint set. Each worker has a [`Reader`], which notices
//! a new value with an atomic load.
//!
//! The lock is taken once per publication and reader, never per request.

#[expect(clippy::disallowed_types, reason = "taken per publication, never per request")]
use crate::structures::atomics::Mutex;
use crate::structures::atomics::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, Weak};

/// A value shared between threads, which is replaced as a whole.
#[derive(Debug)]
pub struct Published<T>(Arc<Cell<T>>);

#[derive(Debug)]
struct Cell<T> {
    generation: AtomicU64,
    #[expect(clippy::disallowed_types, reason = "as above")]
    state: Mutex<State<T>>,
}

#[derive(Debug)]
struct State<T> {
    value: Arc<T>,
    readers: Vec<Weak<AtomicU64>>,
}

/// The view that a thread has of a [`Published`] value. Keeps the value it last took until the next
/// [`refresh`](Self::refresh).
#[derive(Debug)]
pub struct Reader<T> {
    cell: Arc<Cell<T>>,
    value: Arc<T>,
    seen: Arc<AtomicU64>,
}

impl<T> Published<T> {
    /// Publishes the first value, as generation 0.
    #[expect(clippy::disallowed_types, reason = "as above")]
    pub fn new(value: T) -> Published<T> {
        let state = State { value: Arc::new(value), readers: Vec::new() };
        Published(Arc::new(Cell { generation: AtomicU64::new(0), state: Mutex::new(state) }))
    }

    /// Replaces the value and returns its generation, the last plus 1.
    pub fn publish(&self, value: T) -> u64 {
        let mut state = self.0.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.value = Arc::new(value);
        // Release: a thread that sees the new number and then locks finds the new value.
        self.0.generation.fetch_add(1, Ordering::Release) + 1
    }

    /// Returns the newest value. Takes the lock: a worker uses a [`Reader`].
    pub fn current(&self) -> Arc<T> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner).value.clone()
    }

    /// Returns a view for a thread, which begins with the newest value.
    pub fn reader(&self) -> Reader<T> {
        let mut state = self.0.state.lock().unwrap_or_else(PoisonError::into_inner);
        let seen = Arc::new(AtomicU64::new(self.0.generation.load(Ordering::Relaxed)));
        state.readers.retain(|r| r.strong_count() > 0);
        state.readers.push(Arc::downgrade(&seen));
        Reader { cell: self.0.clone(), value: state.value.clone(), seen }
    }

    /// Oldest generation that a living reader may still use: resources that only older generations refer to can be
    /// reused. The newest generation if there are no readers.
    pub fn oldest_seen(&self) -> u64 {
        let state = self.0.state.lock().unwrap_or_else(PoisonError::into_inner);
        let newest = self.0.generation.load(Ordering::Relaxed);
        // Acquire: everything a reader did before it moved on (its counts) is visible after this.
        let seen = state.readers.iter().filter_map(Weak::upgrade).map(|s| s.load(Ordering::Acquire));
        seen.min().unwrap_or(newest)
    }
}

impl<T> Reader<T> {
    /// Value as of the last refresh.
    #[inline]
    pub fn get(&self) -> &T {
        &self.value
    }

    /// Takes the newest value. Returns true if it changed; if not, this costs an atomic load.
    #[inline]
    pub fn refresh(&mut self) -> bool {
        let stale = self.is_stale();
        if stale {
            self.take();
        }
        stale
    }

    /// True if a value newer than this reader's was published.
    #[inline]
    pub fn is_stale(&self) -> bool {
        // Only this reader writes `seen`, so its own load needs no order.
        self.cell.generation.load(Ordering::Acquire) != self.seen.load(Ordering::Relaxed)
    }

    #[cold]
    fn take(&mut self) {
        let state = self.cell.state.lock().unwrap_or_else(PoisonError::into_inner);
        self.value = state.value.clone();
        self.seen.store(self.cell.generation.load(Ordering::Relaxed), Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_sees_only_what_it_refreshed_to() {
        let published = Published::new(1);
        let (mut a, b) = (published.reader(), published.reader());
        assert_eq!(published.publish(2), 1);
        assert_eq!((*a.get(), published.oldest_seen()), (1, 0));
        assert!(a.refresh() && !a.refresh());
        assert_eq!((*a.get(), *b.get(), published.oldest_seen()), (2, 1, 0));
        drop(b);
        assert_eq!(published.oldest_seen(), 1);
    }
}
