//! A request and its response as filters see them: who sent it, where it goes, and what filters keep of it for each other.

use crate::core::Core;
use crate::load::load_report::Working;
use crate::observe::request_id::RequestId;
use crate::observe::stats::ListenerStats;
use crate::observe::timing::Timing;
use crate::observe::traces::Trace;
use crate::peer::Peer;
use crate::peer::forwarded::Origin;
use crate::upstream::pool::{Endpoint, WorkerPool};
use crate::upstream::session::Session;
use evenkeel_balance::Clock;
use std::cell::{Cell, OnceCell};
use std::net::IpAddr;
use std::rc::Rc;

/// A request and its response.
pub struct Exchange<'c> {
    /// The thread that serves it.
    pub(crate) core: &'c Core,
    /// Peer that sent the request.
    pub(crate) peer: &'c Peer<'c>,
    /// Statistics of its listener.
    pub(crate) stats: &'c ListenerStats,
    pub(crate) timing: Cell<Timing>,
    /// False if it cannot have passed a proxy before.
    pub(crate) has_passed_proxies: bool,
    /// The origin of the request as trusted proxies state it.
    pub(crate) said: Option<Box<Origin>>,
    /// The client, if a trusted proxy sent the request for it.
    pub(crate) origin: Option<IpAddr>,
    /// Pool of its route; `None` if no route matched.
    pub(crate) pool: Option<&'c WorkerPool>,
    /// The endpoint that was picked.
    pub(crate) endpoint: Option<Rc<Endpoint>>,
    /// The session of its client, where sessions are kept.
    pub(crate) session: Option<Session>,
    /// Its place among the requests in flight through its listener, where that is reported.
    pub(crate) working: Option<Working<'c>>,
    /// The trace that it belongs to, where traces are told of.
    pub(crate) trace: Option<Box<Trace>>,
    pub(super) id: OnceCell<RequestId>,
}

impl<'c> Exchange<'c> {
    /// A request whose head has just come.
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
            working: None,
            trace: None,
            id: OnceCell::new(),
        }
    }

    /// The name of the request in logs and traces.
    pub(crate) fn request_id(&self) -> &RequestId {
        self.id.get_or_init(|| self.core.next_request_id())
    }

    /// The client's address, as far as trusted proxies know it.
    pub fn client(&self) -> IpAddr {
        self.origin.unwrap_or(self.peer.ip)
    }
}
