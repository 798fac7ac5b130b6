//! Queue of requests that wait for a shared connection. News wakes all of them; room for a single stream wakes the
//! first.

use super::tls;
use evenkeel_net::event_loop::WakerSlot;
use evenkeel_net::tls::HandshakeError;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::task::Context;

/// Requests that wait, and the failures of connections that they may be waiting for.
#[derive(Default)]
pub struct Queue {
    /// Numbers and wakers of the requests, in the order of arrival.
    waiting: RefCell<VecDeque<(u64, WakerSlot)>>,
    /// Number of the next request.
    next: Cell<u64>,
    /// Number of connections that could not be opened; `failure` is the last reason.
    failures: Cell<u64>,
    failure: RefCell<Option<io::Error>>,
}

impl Queue {
    /// Number of requests that wait.
    pub fn len(&self) -> usize {
        self.waiting.borrow().len()
    }

    /// Number of connections that could not be opened so far. A request fails if it changes while it waits.
    pub fn failures(&self) -> u64 {
        self.failures.get()
    }

    /// Wakes all requests that wait.
    pub fn tell(&self) {
        let all: Vec<WakerSlot> = self.waiting.borrow().iter().map(|(_, waker)| waker.clone()).collect();
        all.iter().for_each(WakerSlot::wake);
    }

    /// Wakes the first request, which wakes the next when it leaves the queue.
    pub fn tell_first(&self) {
        let first = self.waiting.borrow().front().map(|(_, waker)| waker.clone());
        first.iter().for_each(WakerSlot::wake);
    }

    /// Notes that a connection could not be opened, or ended without having had a request.
    pub fn fail(&self, error: io::Error) {
        self.failures.set(self.failures.get() + 1);
        self.failure.replace(Some(error));
    }

    /// The reason of the last failure, rebuilt for each request as `io::Error` is not `Clone`.
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

/// A request's place in the queue, left on drop.
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

    /// Stores the waker of the request's task at its place.
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
        // Room that this request was woken for may be left.
        self.queue.tell_first();
    }
}
