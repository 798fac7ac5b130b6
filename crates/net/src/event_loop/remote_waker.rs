//! How does another thread wake a task of this event loop? It leaves the task's key in a queue, and writes to a descriptor
//! that the event loop watches.

use super::kernel::Signal;
use super::remote_queue::RemoteQueue;
use crate::slab::Key;
use std::cell::Cell;
use std::io;
use std::ptr;
use std::sync::Arc;

thread_local! {
    /// Of the event loop that this thread runs. Only compared.
    static HERE: Cell<*const RemoteWaker> = const { Cell::new(ptr::null()) };
}

/// One event loop, as all threads see it.
#[derive(Debug)]
pub struct RemoteWaker {
    /// What the event loop watches.
    pub signal: Signal,
    keys: RemoteQueue<Key>,
    /// Wakes a task on the thread that runs the event loop. Passed in, as tasks know this and not the other way round.
    wake_here: fn(Key),
}

impl RemoteWaker {
    /// The remote waker of an event loop that is about to run, whose tasks `wake_here` wakes.
    ///
    /// # Errors
    /// As `eventfd(2)`.
    pub fn new(wake_here: fn(Key)) -> io::Result<Arc<RemoteWaker>> {
        Ok(Arc::new(RemoteWaker { signal: Signal::new()?, keys: RemoteQueue::new(), wake_here }))
    }

    /// The event loop begins to run on this thread, which must not run another.
    pub fn enter(self: &Arc<RemoteWaker>) {
        assert!(!RemoteWaker::is_running(), "a thread runs one event loop at a time");
        HERE.set(Arc::as_ptr(self));
    }

    /// The event loop has ended: its tasks are gone, and waking them does nothing.
    pub fn leave(&self) {
        HERE.set(ptr::null());
        self.keys.close();
    }

    /// Whether this thread runs an event loop.
    pub fn is_running() -> bool {
        !HERE.get().is_null()
    }

    /// Whether this thread runs this event loop.
    #[inline]
    pub fn is_here(&self) -> bool {
        ptr::eq(HERE.get(), self)
    }

    /// Wakes a task of the event loop, from any thread.
    #[inline]
    pub fn wake(&self, key: Key) {
        if self.is_here() { (self.wake_here)(key) } else { self.notify(key) }
    }

    /// Has the event loop wake a task.
    #[cold]
    fn notify(&self, key: Key) {
        if self.keys.push(key) {
            self.signal.raise();
        }
    }

    /// Wakes the tasks that other threads have asked for.
    pub fn drain(&self) {
        self.keys.drain(self.wake_here);
    }
}
