//! How does another thread wake a task of this event loop? It leaves the task's key, and rings.

use super::tasks::{self, Key};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::OwnedFd;
use std::cell::Cell;
use std::io;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::AcqRel};
use std::sync::mpsc::{Receiver, Sender, channel};

thread_local! {
    /// Of the event loop that this thread runs. Only compared.
    static HERE: Cell<*const RemoteWaker> = const { Cell::new(ptr::null()) };
}

/// The bell of an event loop.
#[derive(Debug)]
pub struct RemoteWaker {
    /// Ready to be read for ever after the first ring; the kernel tells of each ring all the same, as of an edge.
    pub fd: OwnedFd,
    keys: Sender<Key>,
    /// Whether it has rung since it was last heard: then the next who leaves a key need not.
    has_rung: AtomicBool,
}

impl RemoteWaker {
    /// A bell, and the keys that are left there.
    ///
    /// # Errors
    /// As `eventfd(2)`.
    pub fn new() -> io::Result<(Arc<RemoteWaker>, Receiver<Key>)> {
        let fd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let (keys, left) = channel();
        Ok((Arc::new(RemoteWaker { fd, keys, has_rung: AtomicBool::new(false) }), left))
    }

    /// This thread's event loop has this bell, or none any more.
    pub fn hang(here: Option<&Arc<RemoteWaker>>) {
        HERE.set(here.map_or(ptr::null(), Arc::as_ptr));
    }

    /// Whether this thread runs an event loop.
    pub fn hangs() -> bool {
        !HERE.get().is_null()
    }

    /// Wakes a task of the event loop, from any thread.
    pub fn wake(&self, key: Key) {
        if ptr::eq(HERE.get(), self) { tasks::wake(key) } else { self.ring(key) }
    }

    /// Has the event loop wake a task.
    fn ring(&self, key: Key) {
        // Whoever is gone needs not be woken.
        if self.keys.send(key).is_ok() && !self.has_rung.swap(true, AcqRel) {
            let _ = rustix::io::write(&self.fd, &1u64.to_ne_bytes());
        }
    }

    /// It was heard. To be called before the keys are taken: one that comes later rings again.
    pub fn hear(&self) {
        self.has_rung.swap(false, AcqRel);
    }
}
