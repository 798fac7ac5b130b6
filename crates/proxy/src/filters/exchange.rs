//! A request and its response as filters see them: its peer, the facts about it, and the states that filters keep.

use super::redirects::Redirects;
use super::states::{Place, States};
use crate::cache::counts::CacheResult;
use crate::cache::filling::Stay;
use crate::cache::outcome::{Cached, Outcome};
use crate::core::Core;
use crate::observe::request_id::RequestId;
use crate::observe::stats::ListenerStats;
use crate::observe::timing::Timing;
use crate::observe::traces::Trace;
use crate::peer::Peer;
use crate::peer::forwarded::Origin;
use crate::peer::sender::Sender;
use crate::upstream::pool::{Endpoint, WorkerPool};
use crate::upstream::session::Session;
use evenkeel_balance::Clock;
use evenkeel_config::plan::Scheme;
use evenkeel_tokens::Checked;
use evenkeel_wire::head::Table;
use evenkeel_wire::http1::fields::Stated;
use evenkeel_wire::prefixes::Prefixes;
use std::any::Any;
use std::cell::{Cell, OnceCell};
use std::net::IpAddr;
use std::rc::Rc;
use std::task::Poll;

/// A request and its response, as filters see them.
pub struct Exchange<'c> {
    /// State of the worker that serves the request.
    pub(crate) core: &'c Core,
    /// Peer that sent the request.
    pub(crate) peer: &'c Peer<'c>,
    /// Statistics of the listener.
    pub(crate) stats: &'c ListenerStats,
    pub(crate) timing: Cell<Timing>,
    /// Facts about the request and its response.
    pub(crate) facts: Facts<'c>,
    /// Made by the first filter that keeps something.
    pub(super) states: States,
}

/// Facts about a request and its response that several filters, the pipeline or observers read.
pub(crate) struct Facts<'c> {
    /// False if the request cannot have passed a proxy before.
    pub has_passed_proxies: bool,
    /// True if the request wants to switch protocols.
    pub switches: bool,
    /// True if the client speaks HTTP/1.0, which has no chunks.
    pub is_http10: bool,
    /// True if each endpoint gets its own host instead of the client's.
    pub sends_host_of_endpoint: bool,
    /// True if `compress` may send the response in a coding that the client accepts.
    pub takes_coding: bool,
    /// True if a filter looks at the request body, whatever its framing.
    pub wants_body: bool,
    /// True if a stored response serves the request.
    pub serves_stored: Cell<bool>,
    /// Framing of the request body as the client states it; chunked if it has a body whose length is not stated, and
    /// for an open stream of a stated length of 0.
    pub framing: Stated,
    /// The origin of the request as trusted proxies state it.
    pub said: Option<Box<Origin>>,
    /// The client, if a trusted proxy sent the request for it.
    pub origin: Option<IpAddr>,
    /// Pool of the route; `None` if no route matched.
    pub pool: Option<&'c WorkerPool>,
    /// The endpoint that was picked.
    pub endpoint: Option<Rc<Endpoint>>,
    /// Places of the request in the in-flight limits of its route, until this is dropped.
    pub held: Option<Box<dyn Any>>,
    /// Session of the client, if the pool is sticky.
    pub session: Option<Session>,
    /// User that the request was authenticated as, if its route has `basic_auth`.
    pub user: Option<Box<[u8]>>,
    /// Token of the request, if its route verifies tokens.
    pub token: Option<Checked>,
    /// Fields for the client, from the service that `forward_auth` of the route asks.
    pub of_service: Option<Box<Table>>,
    /// Reason for the log, if a page of a service refuses the request.
    pub refusal: Option<Box<str>>,
    /// Prefixes of the request's path, if its route restores them.
    pub prefixes: Option<Box<Prefixes>>,
    /// Effect of the cache of the route, once the response has begun.
    pub cached: Cell<Option<Box<Cached>>>,
    /// Right of the request to continue without its client, until the head of the response arrives.
    pub stay: Cell<Option<Box<Stay>>>,
    /// Trace of the request, if tracing is on.
    pub trace: Option<Box<Trace>>,
    /// Id of the request, once it is needed.
    pub id: OnceCell<RequestId>,
    /// Internal redirects, if the request may be redirected.
    pub redirects: Option<Box<Redirects>>,
}

impl Facts<'_> {
    fn new() -> Self {
        Facts {
            has_passed_proxies: true,
            switches: false,
            is_http10: false,
            sends_host_of_endpoint: false,
            takes_coding: false,
            wants_body: false,
            serves_stored: Cell::new(false),
            framing: Stated::Nothing,
            said: None,
            origin: None,
            pool: None,
            endpoint: None,
            held: None,
            session: None,
            user: None,
            token: None,
            of_service: None,
            refusal: None,
            prefixes: None,
            cached: Cell::new(None),
            stay: Cell::new(None),
            trace: None,
            id: OnceCell::new(),
            redirects: None,
        }
    }
}

impl<'c> Exchange<'c> {
    /// Creates the exchange of a request whose head has just arrived.
    pub(crate) fn new(core: &'c Core, peer: &'c Peer<'c>, stats: &'c ListenerStats) -> Exchange<'c> {
        Exchange {
            core,
            peer,
            stats,
            timing: Cell::new(Timing::new(core.clock.now())),
            facts: Facts::new(),
            states: States::default(),
        }
    }

    /// Leaves the route, as another route answers. The states of its filters are dropped, and their facts, such as the
    /// user. `stays`: true for the states of the listener's filters.
    #[cold]
    pub(crate) fn leave_route(&mut self, stays: impl Fn(Place) -> bool) {
        self.states.retain(stays);
        let facts = std::mem::replace(&mut self.facts, Facts::new());
        let Facts { has_passed_proxies, is_http10, said, origin, trace, id, redirects, .. } = facts;
        self.facts = Facts { has_passed_proxies, is_http10, said, origin, trace, id, redirects, ..Facts::new() };
    }

    /// Id of the request in logs and traces, generated at the first use unless a trusted proxy sent an id.
    pub(crate) fn request_id(&self) -> &RequestId {
        self.facts.id.get_or_init(|| self.core.next_request_id())
    }

    /// Effect of the cache of the route, once the response has begun.
    pub(crate) fn cached(&self) -> Option<Outcome> {
        let cached = self.facts.cached.take();
        let outcome = cached.as_deref().map(Cached::outcome);
        self.facts.cached.set(cached);
        outcome
    }

    /// Ready if the client has left, as `gone` states, and the request does not continue without it.
    #[inline]
    pub(crate) fn poll_left(&self, gone: Poll<()>) -> Poll<()> {
        if gone.is_pending() || self.stays() { Poll::Pending } else { gone }
    }

    #[cold]
    fn stays(&self) -> bool {
        let mut stay = self.facts.stay.take();
        let is_granted = stay.as_mut().is_some_and(|stay| stay.is_granted());
        self.facts.stay.set(stay);
        is_granted
    }

    /// Result of the request at the cache of its route, once its response has begun.
    pub(crate) fn cache_result(&self) -> Option<&'static str> {
        self.cached().map(|outcome| CacheResult::LABELS[outcome.result() as usize])
    }

    /// Facts about the request that are not in its head, for its route.
    pub(crate) fn sender<'m>(&self) -> Sender<'m> {
        let said = self.facts.said.as_deref();
        let scheme = said.and_then(|said| said.scheme).unwrap_or(self.peer.scheme());
        let scheme = if scheme == "https" { Scheme::Https } else { Scheme::Http };
        Sender { is_trusted: self.peer.is_trusted, ..Sender::new(self.client(), scheme) }
    }

    /// State of this type that filters keep of the client's connection, made at its first use. Its requests share it.
    pub fn of_connection<S: Default + 'static>(&self) -> Rc<S> {
        self.peer.states.get()
    }

    /// Address of the client as trusted proxies report it, or else the address of the peer.
    pub fn client(&self) -> IpAddr {
        self.facts.origin.unwrap_or(self.peer.ip)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An exchange is written and dropped for each request.
    #[test]
    fn an_exchange_takes_few_cache_lines() {
        assert!(size_of::<Exchange<'_>>() <= 360, "{}", size_of::<Exchange<'_>>());
    }
}
