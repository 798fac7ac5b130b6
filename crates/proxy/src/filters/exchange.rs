//! A request and its response as filters see them: its peer, its pool and endpoint, and the state that filters share.

use super::states::States;
use crate::cache::counts::CacheResult;
use crate::cache::filling::Filling;
use crate::cache::state::CacheState;
use crate::core::Core;
use crate::observe::compressed::CompressState;
use crate::observe::request_id::RequestId;
use crate::observe::stats::{ListenerStats, MirrorDrop};
use crate::observe::timing::Timing;
use crate::observe::traces::Trace;
use crate::peer::Peer;
use crate::peer::bandwidth::Bandwidth;
use crate::peer::forwarded::Origin;
use crate::peer::sender::Sender;
use crate::side::copy::Coming;
use crate::upstream::pool::{Endpoint, WorkerPool};
use crate::upstream::session::Session;
use evenkeel_balance::Clock;
use evenkeel_config::plan::{MIRRORS_MAX, Scheme};
use evenkeel_tokens::{Checked, Refused};
use evenkeel_wire::head::Table;
use evenkeel_wire::http1::fields::Stated;
use evenkeel_wire::prefixes::Prefixes;
use std::cell::{Cell, OnceCell};
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;

/// A request and its response, as filters see them.
pub struct Exchange<'c> {
    /// State of the worker that serves the request.
    pub(crate) core: &'c Core,
    /// Peer that sent the request.
    pub(crate) peer: &'c Peer<'c>,
    /// Statistics of the listener.
    pub(crate) stats: &'c ListenerStats,
    pub(crate) timing: Cell<Timing>,
    /// False if the request cannot have passed a proxy before.
    pub(crate) has_passed_proxies: bool,
    /// The origin of the request as trusted proxies state it.
    pub(crate) said: Option<Box<Origin>>,
    /// The client, if a trusted proxy sent the request for it.
    pub(crate) origin: Option<IpAddr>,
    /// Pool of the route; `None` if no route matched.
    pub(crate) pool: Option<&'c WorkerPool>,
    /// The endpoint that was picked.
    pub(crate) endpoint: Option<Rc<Endpoint>>,
    /// Session of the client, if the pool is sticky.
    pub(crate) session: Option<Session>,
    /// Bandwidth of the route, if it is limited.
    pub(crate) bandwidth: Option<Arc<Bandwidth>>,
    /// User whose password the request has, if its route asks for one.
    pub(crate) user: Option<Box<[u8]>>,
    /// Decision about the credentials of the request in words; empty if its route asks for none.
    pub(super) auth: &'static str,
    /// Answer of the service that `forward_auth` of the route asks.
    pub(crate) asked: Asked,
    /// Fields of the answer of that service for the client.
    pub(super) of_service: Option<Box<Table>>,
    /// True if the request asks for a switch of protocols.
    pub(crate) switches: bool,
    /// True if the client speaks HTTP/1.0, which has no chunks.
    pub(crate) is_http10: bool,
    /// State of the request at `compress` of its route; `None` if it has none.
    pub(crate) compress: Option<Box<CompressState>>,
    /// State of the request at the cache of its route; `None` if it has none.
    pub(super) cached: Cell<Option<Box<CacheState>>>,
    /// True if a stored response answers the request.
    pub(super) serves_stored: Cell<bool>,
    /// Response that is to be stored once its body is complete.
    pub(super) filling: Cell<Option<Box<Filling>>>,
    /// Copies of the request for `mirror` of the route, while its body is still to come.
    pub(crate) copying: Cell<Vec<Rc<Coming>>>,
    /// Decision of each `mirror` of the route.
    pub(super) copied: [Copied; MIRRORS_MAX],
    /// Token of the request, or the reason why it is refused, if the route verifies tokens.
    pub(super) token: Option<Result<Checked, Refused>>,
    /// Trace of the request, if tracing is on.
    pub(crate) trace: Option<Box<Trace>>,
    /// True if each endpoint gets its own host instead of the client's.
    pub(crate) sends_host_of_endpoint: bool,
    /// Framing of the request body as the client states it; chunked if it has a body whose length is not stated, and
    /// for an open stream of a stated length of 0.
    pub(crate) framing: Stated,
    /// The page that sent the request, as a route with `cors` sees it.
    pub(super) page: Page,
    /// Prefixes of the request's path, if its route restores them.
    pub(super) prefixes: Option<Box<Prefixes>>,
    /// Values of the request that filters keep for its response.
    pub(super) kept: Vec<Vec<u8>>,
    pub(super) id: OnceCell<RequestId>,
    /// States of the filters.
    pub(super) states: States,
}

impl<'c> Exchange<'c> {
    /// Creates the exchange of a request whose head has just arrived.
    pub(crate) fn new(core: &'c Core, peer: &'c Peer<'c>, stats: &'c ListenerStats) -> Exchange<'c> {
        Exchange {
            core,
            peer,
            stats,
            timing: Cell::new(Timing::new(core.clock.now())),
            has_passed_proxies: true,
            said: None,
            origin: None,
            pool: None,
            endpoint: None,
            session: None,
            bandwidth: None,
            user: None,
            auth: "",
            asked: Asked::Not,
            of_service: None,
            switches: false,
            is_http10: false,
            compress: None,
            cached: Cell::new(None),
            serves_stored: Cell::new(false),
            filling: Cell::new(None),
            copying: Cell::default(),
            copied: [Copied::No; MIRRORS_MAX],
            token: None,
            trace: None,
            sends_host_of_endpoint: false,
            framing: Stated::Nothing,
            page: Page::None,
            prefixes: None,
            kept: Vec::new(),
            id: OnceCell::new(),
            states: States::default(),
        }
    }

    /// Id of the request in logs and traces, generated at the first use unless a trusted proxy sent one.
    pub(crate) fn request_id(&self) -> &RequestId {
        self.id.get_or_init(|| self.core.next_request_id())
    }

    /// Result of the request at the cache of its route, once its response has begun.
    pub(crate) fn cache_result(&self) -> Option<&'static str> {
        let state = self.cached.take();
        let outcome = state.as_deref().and_then(CacheState::outcome);
        self.cached.set(state);
        outcome.map(|outcome| CacheResult::LABELS[outcome.result() as usize])
    }

    /// Facts about the request that are not in its head, for its route.
    pub(crate) fn sender(&self) -> Sender {
        let scheme = self.said.as_deref().and_then(|said| said.scheme).unwrap_or(self.peer.scheme());
        let scheme = if scheme == "https" { Scheme::Https } else { Scheme::Http };
        Sender { is_trusted: self.peer.is_trusted, ..Sender::new(self.client(), scheme) }
    }

    /// The client's address: the one that trusted proxies report, or else the peer's.
    pub fn client(&self) -> IpAddr {
        self.origin.unwrap_or(self.peer.ip)
    }
}

/// Origin of the page that sent a request, as a route with `cors` sees it.
pub(super) enum Page {
    /// The request has no origin.
    None,
    /// The route does not allow it.
    Refused,
    /// The route allows every origin.
    Any,
    /// The route allows this one.
    Allowed(Box<[u8]>),
}

/// Answer of the service that `forward_auth` of a route asks about a request, by its status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// No service was asked, or its answer is not there yet.
    Not,
    Passed(u16),
    /// The answer goes to the client.
    Refused(u16),
    /// No whole answer came in time.
    InVain,
}

/// Decision of `mirror` of a route about a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Copied {
    No,
    Yes,
    /// Not copied although it was drawn, for this reason.
    Dropped(MirrorDrop),
}
