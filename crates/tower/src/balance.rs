//! [`Balance`], the balancer as a tower service: discovers endpoints, tracks which are ready, and lets a
//! [`Balancer`](evenkeel_balance::Balancer) pick among those.

use crate::builder::{Builder, Closures};
use crate::completion::{AtHead, Completion, InFlight};
use crate::endpoints::Endpoints;
use crate::error::DiscoverError;
use crate::future::ResponseFuture;
use crate::returns::{HEAD, Returns};
use evenkeel_balance::slab::SlotNumbers;
use evenkeel_balance::{Balancer, EndpointId, EndpointSpec, Instant, Outcome, Pool, Request, Slot, Ticket, algorithms};
use std::collections::BTreeMap;
use std::hash::Hash;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tower::discover::{Change, Discover};
use tower::{BoxError, Service};

/// Balances requests over the services that `D` discovers. Replaces `tower::balance::p2c::Balance`.
///
/// The [crate documentation](crate) describes when it is ready, when it picks, and how it counts.
pub struct Balance<D: Discover, Req, C = AtHead> {
    discover: D,
    /// True once discovery has ended.
    complete: bool,
    closures: Closures<D::Key, Req>,
    completion: C,

    /// Discovered endpoints, each with its number in the order of discovery.
    listed: BTreeMap<EndpointId, (u64, EndpointSpec)>,
    discovered: u64,
    pool: Pool,
    balancer: Balancer,
    endpoints: Endpoints<D::Service>,
    /// Endpoint that `poll_ready` found to be ready, so that `call` need not poll it again.
    vouched: Option<Slot>,

    returns: Arc<Returns>,
    /// Tickets of requests in flight, by their node in `returns`.
    tickets: Vec<Option<Ticket>>,
    nodes: SlotNumbers,
    /// Node that was taken last from `returns`, the head of its list.
    head: u32,
}

impl<D, Req> Balance<D, Req>
where
    D: Discover,
    D::Key: Hash + 'static,
    D::Service: Service<Req>,
    Req: 'static,
{
    /// Creates a balancer with the default algorithm: draws two endpoints at random and picks the endpoint with fewer
    /// requests in flight. See [`Builder`] for other algorithms.
    pub fn new(discover: D) -> Balance<D, Req> {
        let builder = Builder::of(algorithms::default());
        builder.build(discover).expect("the default algorithm needs no key and no reports")
    }
}

impl<D: Discover, Req, C> Balance<D, Req, C> {
    pub(crate) fn assemble(
        discover: D,
        closures: Closures<D::Key, Req>,
        completion: C,
        (pool, balancer): (Pool, Balancer),
        returns: Returns,
    ) -> Balance<D, Req, C> {
        let mut nodes = SlotNumbers::new();
        let head = nodes.occupy();
        debug_assert_eq!(head, HEAD, "the first node is the list's, and no request's");
        Balance {
            discover,
            complete: false,
            closures,
            completion,
            listed: BTreeMap::new(),
            discovered: 0,
            pool,
            balancer,
            endpoints: Endpoints::new(),
            vouched: None,
            returns: Arc::new(returns),
            tickets: Vec::from([None]),
            nodes,
            head,
        }
    }

    /// Number of endpoints, ready or not.
    pub fn len(&self) -> usize {
        self.endpoints.len()
    }

    /// True if there are no endpoints.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of endpoints that were ready when last polled.
    pub fn ready_len(&self) -> usize {
        self.endpoints.ready_len()
    }

    /// Number of requests in flight, over all endpoints.
    pub fn in_flight(&mut self) -> u32 {
        self.settle();
        self.balancer.loads().in_flight_total()
    }

    /// Reports requests that have ended since the last call to the balancer.
    #[inline]
    fn settle(&mut self) {
        let (balancer, tickets, nodes) = (&mut self.balancer, &mut self.tickets, &mut self.nodes);
        self.returns.take(&mut self.head, |node, freed, ended| {
            let mut ticket = tickets[node as usize].take().expect("a node is given back once");
            nodes.vacate(freed);
            if let Some(at) = ended.answered {
                ticket.answered(at);
            }
            if let Some(report) = ended.report {
                // A report that the balancer rejects does not affect the request.
                let _dropped = balancer.report(ticket.slot(), &report, ended.at);
            }
            balancer.end(ticket, ended.outcome, ended.at);
        });
    }

    /// Counts a request as in flight until the returned guard is dropped.
    #[inline]
    fn hold(&mut self, ticket: Ticket) -> InFlight {
        let node = self.nodes.occupy();
        match self.tickets.get_mut(node as usize) {
            Some(free) => *free = Some(ticket),
            None => self.tickets.push(Some(ticket)),
        }
        InFlight::new(self.returns.clone(), node)
    }

    /// Updates the pool to the endpoints listed now.
    fn publish(&mut self) {
        let mut listed: Vec<_> = self.listed.values().collect();
        listed.sort_unstable_by_key(|(number, _)| *number);
        let specs: Vec<_> = listed.into_iter().map(|(_, spec)| spec.clone()).collect();
        let now = self.returns.now();
        // Settle first, so that the slots of endpoints that left are free again.
        self.settle();
        self.pool.update(&specs, now);
        self.balancer.refresh(now);
    }

    /// Removes an endpoint that failed.
    #[cold]
    fn drop_failed(&mut self, slot: Slot) {
        if let Some(id) = self.endpoints.remove(slot) {
            self.listed.remove(&id);
            self.publish();
        }
    }
}

impl<D, Req, C> Balance<D, Req, C>
where
    D: Discover + Unpin,
    D::Error: Into<BoxError>,
    D::Service: Service<Req>,
{
    /// Applies all pending changes of discovery with a single update of the pool, so that thousands of endpoints do not
    /// cost thousands of updates.
    fn follow(&mut self, cx: &mut Context<'_>) -> Result<(), DiscoverError> {
        let (mut changed, mut failed) = (false, None);
        let mut arrivals: BTreeMap<EndpointId, D::Service> = BTreeMap::new();
        while !self.complete {
            match Pin::new(&mut self.discover).poll_discover(cx) {
                Poll::Ready(Some(Ok(Change::Insert(key, service)))) => {
                    let spec = self.closures.spec(&key);
                    let id = spec.id;
                    self.discovered += 1;
                    let number = self.listed.get(&id).map_or(self.discovered, |(number, _)| *number);
                    self.listed.insert(id, (number, spec));
                    arrivals.insert(id, service);
                    changed = true;
                }
                Poll::Ready(Some(Ok(Change::Remove(key)))) => {
                    let id = self.closures.spec(&key).id;
                    arrivals.remove(&id);
                    self.pool.slot_of(id).and_then(|slot| self.endpoints.remove(slot));
                    changed |= self.listed.remove(&id).is_some();
                }
                Poll::Ready(Some(Err(error))) => {
                    failed = Some(DiscoverError(error.into()));
                    break;
                }
                Poll::Ready(None) => self.complete = true,
                Poll::Pending => break,
            }
        }
        if changed {
            self.publish();
        }
        for (id, service) in arrivals {
            let slot = self.pool.slot_of(id).expect("it was just listed");
            self.endpoints.insert(id, slot, service);
        }
        failed.map_or(Ok(()), Err)
    }

    /// Polls an endpoint and returns true if it is ready. Removes it if it failed.
    #[inline]
    fn check(&mut self, slot: Slot) -> bool {
        match self.endpoints.poll(slot) {
            Ok(ready) => ready,
            Err(_) => {
                self.drop_failed(slot);
                false
            }
        }
    }

    /// Returns true if an endpoint is ready now. Polls all that are new, were called or woke up. If none of them is
    /// ready, polls those that were ready before until a ready endpoint is found, as they may have failed since.
    #[inline]
    fn vouch(&mut self) -> bool {
        self.vouched = None;
        while let Some(slot) = self.endpoints.next_due() {
            if self.check(slot) {
                self.vouched = Some(slot);
            }
        }
        while self.vouched.is_none() {
            let Some(slot) = self.endpoints.next_ready() else { return false };
            self.vouched = self.check(slot).then_some(slot);
        }
        true
    }

    /// Picks an endpoint and counts the request there; `None` if none is ready.
    #[inline]
    fn pick(&mut self, request: &Req, now: Instant) -> Option<Ticket> {
        let key = self.closures.key.as_ref().map(|key| key(request));
        let vouched = self.vouched.take();
        loop {
            let ticket =
                self.balancer.start(&Request { key, tried: self.endpoints.unready(), beyond: false }, now).ok()?;
            let slot = ticket.slot();
            // Terminates: each further round has an endpoint less to pick from.
            if vouched == Some(slot) || self.check(slot) {
                return Some(ticket);
            }
            self.balancer.end(ticket, Outcome::Cancelled, now);
        }
    }
}

impl<D, Req, C> Service<Req> for Balance<D, Req, C>
where
    D: Discover + Unpin,
    D::Error: Into<BoxError>,
    D::Service: Service<Req>,
    <D::Service as Service<Req>>::Error: Into<BoxError>,
    C: Completion<<D::Service as Service<Req>>::Response, <D::Service as Service<Req>>::Error>,
{
    type Response = C::Output;
    type Error = BoxError;
    type Future = ResponseFuture<<D::Service as Service<Req>>::Future, C>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        if !self.complete {
            self.follow(cx)?;
        }
        if self.vouch() {
            return Poll::Ready(Ok(()));
        }
        if !self.endpoints.wait(cx.waker()) {
            // An endpoint woke up meanwhile. Do not poll it right now: it may wake itself each time to yield to other
            // tasks.
            cx.waker().wake_by_ref();
        }
        Poll::Pending
    }

    /// Sends the request to the endpoint that the algorithm picks among the ready ones. If none is ready, for instance
    /// because `poll_ready` was not called, the future resolves to [`Unready`](crate::Unready).
    fn call(&mut self, request: Req) -> Self::Future {
        let now = self.returns.now();
        self.settle();
        let Some(ticket) = self.pick(&request, now) else { return ResponseFuture::unready(self.completion.clone()) };
        let slot = ticket.slot();
        let in_flight = self.hold(ticket);
        ResponseFuture::new(self.endpoints.call(slot, request), in_flight, self.completion.clone())
    }
}

impl<D: Discover + std::fmt::Debug, Req, C> std::fmt::Debug for Balance<D, Req, C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (endpoints, ready) = (self.len(), self.ready_len());
        let shown = &mut f.debug_struct("Balance");
        shown.field("discover", &self.discover).field("endpoints", &endpoints).field("ready", &ready);
        shown.finish_non_exhaustive()
    }
}
