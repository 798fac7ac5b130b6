//! Endpoints and their readiness: services by slot, each polled until it is ready, and again after each request.

use crate::wakes::Wakes;
use evenkeel_balance::{EndpointId, Slot};
use std::task::{Context, Poll, Waker};
use tower::Service;

/// Services of a pool, by slot.
pub(crate) struct Endpoints<S> {
    by_slot: Vec<Option<Endpoint<S>>>,
    len: usize,
    /// Endpoints that are not ready, in no order.
    unready: Vec<Slot>,
    /// Endpoints to poll next: new, called, or woken.
    due: Vec<Slot>,
    wakes: Wakes,
    /// Index in `by_slot` at which the next search for a ready endpoint begins.
    from: usize,
}

struct Endpoint<S> {
    id: EndpointId,
    slot: Slot,
    service: S,
    /// Service that replaces `service` once it is ready.
    successor: Option<S>,
    waker: Waker,
    /// Its index in `unready`; `None` if it is ready.
    unready_at: Option<u32>,
}

impl<S> Endpoints<S> {
    pub(crate) fn new() -> Endpoints<S> {
        let (by_slot, unready, due) = (Vec::new(), Vec::new(), Vec::new());
        Endpoints { by_slot, len: 0, unready, due, wakes: Wakes::default(), from: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Endpoints that must not get a request now.
    #[inline]
    pub(crate) fn unready(&self) -> &[Slot] {
        &self.unready
    }

    pub(crate) fn ready_len(&self) -> usize {
        self.len - self.unready.len()
    }

    /// Registers `waker` to be woken when an endpoint wakes up. Returns `false` if any already has.
    pub(crate) fn wait(&self, waker: &Waker) -> bool {
        self.wakes.wait(waker)
    }

    /// Adds an endpoint. If it exists and is ready, its old service stays in use until the new service is ready.
    pub(crate) fn insert(&mut self, id: EndpointId, slot: Slot, service: S) {
        if self.by_slot.len() <= slot.index() {
            self.by_slot.resize_with(slot.index() + 1, || None);
        }
        self.due.push(slot);
        match &mut self.by_slot[slot.index()] {
            Some(endpoint) if endpoint.unready_at.is_none() => endpoint.successor = Some(service),
            Some(endpoint) => endpoint.service = service,
            empty => {
                let waker = self.wakes.waker(slot.index());
                *empty = Some(Endpoint { id, slot, service, successor: None, waker, unready_at: None });
                self.len += 1;
                self.withhold(slot);
            }
        }
    }

    /// Removes an endpoint if it exists, and returns its identity.
    pub(crate) fn remove(&mut self, slot: Slot) -> Option<EndpointId> {
        self.admit(slot);
        let removed = self.by_slot.get_mut(slot.index())?.take()?;
        self.len -= 1;
        Some(removed.id)
    }

    #[inline]
    fn withhold(&mut self, slot: Slot) {
        let Some(endpoint) = &mut self.by_slot[slot.index()] else { return };
        if endpoint.unready_at.is_none() {
            endpoint.unready_at = Some(self.unready.len() as u32);
            self.unready.push(slot);
        }
    }

    #[inline]
    fn admit(&mut self, slot: Slot) {
        let Some(Some(endpoint)) = self.by_slot.get_mut(slot.index()) else { return };
        let Some(at) = endpoint.unready_at.take() else { return };
        self.unready.swap_remove(at as usize);
        if let Some(&moved) = self.unready.get(at as usize) {
            let moved = self.by_slot[moved.index()].as_mut().expect("an endpoint that leaves is removed from the list");
            moved.unready_at = Some(at);
        }
    }

    /// Sends a request to an endpoint, which is then unready until polled again.
    #[inline]
    pub(crate) fn call<Req>(&mut self, slot: Slot, request: Req) -> S::Future
    where
        S: Service<Req>,
    {
        let endpoint = self.by_slot[slot.index()].as_mut().expect("only endpoints of the set are picked");
        let future = endpoint.service.call(request);
        if let Some(successor) = endpoint.successor.take() {
            endpoint.service = successor;
        }
        self.withhold(slot);
        self.due.push(slot);
        future
    }

    /// Polls an endpoint and returns true if it is ready.
    ///
    /// # Errors
    /// The service failed and cannot be used any more.
    #[inline]
    pub(crate) fn poll<Req>(&mut self, slot: Slot) -> Result<bool, S::Error>
    where
        S: Service<Req>,
    {
        let Some(Some(endpoint)) = self.by_slot.get_mut(slot.index()) else { return Ok(false) };
        let mut cx = Context::from_waker(&endpoint.waker);
        if let Some(successor) = &mut endpoint.successor {
            match successor.poll_ready(&mut cx) {
                Poll::Ready(Ok(())) => {
                    endpoint.service = endpoint.successor.take().expect("it was just polled");
                    self.admit(slot); // the old service may have become unready
                    return Ok(true);
                }
                Poll::Ready(Err(_)) => endpoint.successor = None, // the old service stays
                Poll::Pending => {}
            }
        }
        let ready = endpoint.service.poll_ready(&mut cx)?.is_ready();
        if ready != endpoint.unready_at.is_none() {
            if ready { self.admit(slot) } else { self.withhold(slot) }
        }
        Ok(ready)
    }

    /// Next endpoint to poll: new, called or woken.
    #[inline]
    pub(crate) fn next_due(&mut self) -> Option<Slot> {
        let (by_slot, due) = (&self.by_slot, &mut self.due);
        self.wakes.take(|index| due.extend(by_slot[index].as_ref().map(|endpoint| endpoint.slot)));
        self.due.pop()
    }

    /// Endpoint that was ready when last polled, in turn over all such endpoints.
    pub(crate) fn next_ready(&mut self) -> Option<Slot> {
        if self.ready_len() == 0 {
            return None;
        }
        let (before, after) = self.by_slot.split_at(self.from.min(self.by_slot.len()));
        let mut ready = after.iter().chain(before).flatten().filter(|endpoint| endpoint.unready_at.is_none());
        let slot = ready.next()?.slot;
        self.from = slot.index() + 1;
        Some(slot)
    }
}
