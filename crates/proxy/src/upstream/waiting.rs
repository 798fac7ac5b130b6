//! Which requests wait for a connection that they will share? All of them look again when there is news; the first of them when
//! there is room for one.

use super::tls;
use evenkeel_net::event_loop::WakerSlot;
use evenkeel_net::tls::HandshakeError;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::task::Context;

/// Requests that wait, and why they might wait for nothing.
#[derive(Default)]
pub struct Queue {
    /// Requests, the first to come first.
    waiting: RefCell<VecDeque<(u64, WakerSlot)>>,
    /// The number of the next of them.
    next: Cell<u64>,
    /// Connections that could not be opened, and why the last could not.
    failures: Cell<u64>,
    failure: RefCell<Option<io::Error>>,
}

impl Queue {
    /// How many wait.
    pub fn len(&self) -> usize {
        self.waiting.borrow().len()
    }

    /// Connections that could not be opened.
    pub fn failures(&self) -> u64 {
        self.failures.get()
    }

    /// Has requests that wait look again.
    pub fn tell(&self) {
        let all: Vec<WakerSlot> = self.waiting.borrow().iter().map(|(_, waker)| waker.clone()).collect();
        all.iter().for_each(WakerSlot::wake);
    }

    /// Has the first of them look again; it passes on what it cannot take.
    pub fn tell_first(&self) {
        let first = self.waiting.borrow().front().map(|(_, waker)| waker.clone());
        first.iter().for_each(WakerSlot::wake);
    }

    /// A connection could not be opened, or was none.
    pub fn fail(&self, error: io::Error) {
        self.failures.set(self.failures.get() + 1);
        self.failure.replace(Some(error));
    }

    /// Why a connection could not be opened.
    #[cold]
    pub fn why(&self) -> io::Error {
        let failure = self.failure.borrow();
        let Some(error) = &*failure else { return io::ErrorKind::ConnectionAborted.into() };
        match (error.raw_os_error(), tls::cause(error)) {
            (Some(code), _) => io::Error::from_raw_os_error(code),
            (None, Some(cause)) => io::Error::other(HandshakeError::new(cause)),
            (None, None) => io::Error::new(error.kind(), error.to_string()),
        }
    }
}

/// A request that waits for a connection.
pub struct Waiting<'s> {
    queue: &'s Queue,
    number: u64,
}

impl<'s> Waiting<'s> {
    pub fn begin(queue: &'s Queue) -> Waiting<'s> {
        let number = queue.next.get();
        queue.next.set(number + 1);
        Waiting { queue, number }
    }

    /// Keeps the waker, at the request's place in the row.
    pub fn note(&self, cx: &Context<'_>) {
        let new = WakerSlot::of(cx);
        let mut waiting = self.queue.waiting.borrow_mut();
        let old = match waiting.binary_search_by_key(&self.number, |(number, _)| *number) {
            Ok(at) => Some(std::mem::replace(&mut waiting[at].1, new)),
            Err(at) => {
                waiting.insert(at, (self.number, new));
                None
            }
        };
        drop(waiting);
        drop(old);
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut waiting = self.queue.waiting.borrow_mut();
        let at = waiting.binary_search_by_key(&self.number, |(number, _)| *number);
        let old = at.ok().and_then(|at| waiting.remove(at));
        drop(waiting);
        drop(old);
        // There may be room for the next.
        self.queue.tell_first();
    }
}
