//! Wakes from other threads: they add a task's key to a list and write to a descriptor that the event loop
//! watches.
//!
//! The list has a lock, because such wakes are rare (a reload, an answer of the control thread, room in a
//! full pool), and the event loop takes it only when it was notified.
#![expect(clippy::disallowed_types, reason = "held for a push or a take, never while a task is woken")]

use super::kernel::Signal;
use evenkeel_balance::slab::Key;
use std::cell::Cell;
use std::io;
use std::ptr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

thread_local! {
    /// The event loop that this thread runs. Only compared, never dereferenced.
    static HERE: Cell<*const RemoteWaker> = const { Cell::new(ptr::null()) };
}

/// Handle of an event loop for all threads.
#[derive(Debug)]
pub struct RemoteWaker {
    /// Descriptor that the event loop watches.
    pub signal: Signal,
    /// Tasks to wake; `None` once the event loop has ended.
    keys: Mutex<Option<Vec<Key>>>,
    /// Wakes a task on the event loop's own thread. A parameter, because `tasks` depends on this module and
    /// not the reverse.
    wake_here: fn(Key),
}

impl RemoteWaker {
    /// Handle of an event loop that is about to run. `wake_here` wakes its tasks.
    ///
    /// # Errors
    /// Errors of `eventfd(2)`.
    pub fn new(wake_here: fn(Key)) -> io::Result<Arc<RemoteWaker>> {
        Ok(Arc::new(RemoteWaker { signal: Signal::new()?, keys: Mutex::new(Some(Vec::new())), wake_here }))
    }

    /// Marks that the event loop runs on this thread, which must not run another.
    pub fn enter(self: &Arc<RemoteWaker>) {
        assert!(!RemoteWaker::is_running(), "a thread runs one event loop at a time");
        HERE.set(Arc::as_ptr(self));
    }

    /// Marks that the event loop has ended: waking its tasks does nothing.
    pub fn leave(&self) {
        HERE.set(ptr::null());
        *self.keys() = None;
    }

    /// True if this thread runs an event loop.
    pub fn is_running() -> bool {
        !HERE.get().is_null()
    }

    /// True if this thread runs this event loop.
    #[inline]
    pub fn is_here(&self) -> bool {
        ptr::eq(HERE.get(), self)
    }

    /// Wakes a task of the event loop, from any thread.
    #[inline]
    pub fn wake(&self, key: Key) {
        if self.is_here() { (self.wake_here)(key) } else { self.notify(key) }
    }

    /// Queues a task and notifies the event loop.
    #[cold]
    fn notify(&self, key: Key) {
        if self.push(key) {
            self.signal.raise();
        }
    }

    /// Queues a task. Returns true if the event loop must be notified: it takes later tasks together with the
    /// first, and none after its end.
    fn push(&self, key: Key) -> bool {
        self.keys().as_mut().is_some_and(|keys| {
            keys.push(key);
            keys.len() == 1
        })
    }

    /// Wakes the tasks queued by other threads, in order.
    pub fn drain(&self) {
        let keys = self.keys().as_mut().map(std::mem::take);
        keys.into_iter().flatten().for_each(self.wake_here);
    }

    fn keys(&self) -> MutexGuard<'_, Option<Vec<Key>>> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::thread;

    thread_local! {
        static WOKEN: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
    }

    fn remote() -> Arc<RemoteWaker> {
        RemoteWaker::new(|key| WOKEN.with_borrow_mut(|woken| woken.push(key.to_bits()))).unwrap()
    }

    fn push(remote: &RemoteWaker, number: u64) -> bool {
        remote.push(Key::from_bits(number))
    }

    #[test]
    fn tasks_are_woken_once_and_in_order_and_the_first_notifies() {
        let remote = remote();
        assert_eq!([1, 2, 3].map(|n| push(&remote, n)), [true, false, false]);
        remote.drain();
        assert!(push(&remote, 4));
        remote.drain();
        assert_eq!(WOKEN.take(), [1, 2, 3, 4]);
    }

    #[test]
    fn an_event_loop_that_has_ended_is_neither_notified_nor_woken() {
        let remote = remote();
        push(&remote, 1);
        remote.leave();
        assert!(!push(&remote, 2));
        remote.drain();
        assert!(WOKEN.take().is_empty());
    }

    /// Each list that is taken has a notification, raised after its first key, so a reader that sleeps
    /// until then misses none.
    #[test]
    fn nothing_is_lost_between_threads() {
        const EACH: u64 = if cfg!(miri) { 50 } else { 5_000 };
        let remote = remote();
        let pushing = [0, EACH].map(|first| {
            let remote = remote.clone();
            thread::spawn(move || (first..first + EACH).filter(|&n| push(&remote, n)).count())
        });
        let (mut woken, mut lists) = (Vec::new(), 0);
        while woken.len() < 2 * EACH as usize {
            remote.drain();
            let list = WOKEN.take();
            lists += usize::from(!list.is_empty());
            woken.extend(list);
        }
        let notified: usize = pushing.into_iter().map(|thread| thread.join().unwrap()).sum();
        assert_eq!(notified, lists);
        let (one, other): (Vec<u64>, Vec<u64>) = woken.into_iter().partition(|&n| n < EACH);
        assert!(one.into_iter().eq(0..EACH) && other.into_iter().eq(EACH..2 * EACH), "in the order of its thread");
    }
}
