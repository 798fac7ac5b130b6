//! By which rules is a request served? Those of its listener at the moment its head was there: a request ends by the
//! rules it began with, whatever the configuration says by then.

use super::error_pages::ErrorPages;
use super::handshakes::Places;
use super::mark::Mark;
use super::per_route::{Noted, PerRoute, Routes};
use super::tls::ListenerTls;
use super::tls_route::TlsRoutes;
use crate::core::Core;
use crate::listener::route::{RouteId, Router};
use crate::load::load_report::Reporter;
use crate::load::probe::Prober;
use crate::observe::access_log::Names;
use crate::observe::stats::{ListenerStats, RouteStats};
use crate::peer::admission::Admission;
use crate::upstream::pool::WorkerPool;
use crate::upstream::retries::Retries;
use evenkeel_config::plan::{Errors, Http2, ListenerTimeouts, RequestIdField, Route, UdpFlows};
use evenkeel_net::total::Total;
use evenkeel_tls::Challenges;
use evenkeel_wire::http1::Limits;
use std::cell::{Cell, Ref, RefCell};
use std::rc::Rc;
use std::sync::Arc;

/// One listener as one worker sees it: what its connections hold on to while the rules change.
pub struct Listener {
    /// Its name, which makes it the same listener in the next plan.
    pub name: Arc<str>,
    /// Open connections over all workers.
    pub open: Arc<Total>,
    /// Its numbers.
    pub stats: Arc<ListenerStats>,
    /// Whether it is in the plan no more: its connections end after their request.
    pub gone: Cell<bool>,
    /// Whether the time of those connections is over.
    pub cut: Cell<bool>,
    /// Clients whose ClientHello has not come whole.
    pub hellos: Places,
    /// Handshakes of TLS that are under way, from a whole ClientHello on.
    pub handshakes: Places,
    rules: RefCell<Rc<Rules>>,
}

/// Settings of one listener in a plan. A tunnel holds them for days, so nothing in them grows with the endpoints of the plan.
pub struct Rules {
    /// The routes of the plan.
    pub planned: Arc<[Route]>,
    /// Finds a request's route.
    pub router: Arc<Router>,
    /// Finds a session's route, where requests are not read.
    pub tcp: Option<Arc<TlsRoutes>>,
    /// How TLS is spoken, where it is.
    pub tls: Option<ListenerTls>,
    /// Whether requests without TLS are sent to where it is spoken.
    pub redirect_https: bool,
    /// What authorities ask for, if they may ask by requests.
    pub challenges: Option<Arc<Challenges>>,
    /// A field for responses over TLS, with its line's end.
    pub hsts: Option<Arc<str>>,
    /// Of a request's head.
    pub limits: Limits,
    /// The client's side.
    pub timeouts: ListenerTimeouts,
    /// Whether clients may speak HTTP/2 without TLS.
    pub h2c: bool,
    /// What clients of HTTP/2 may use up.
    pub http2: Http2,
    /// When flows end.
    pub flows: UdpFlows,
    /// Which client addresses are trusted, and the limits per address.
    pub admission: Admission,
    /// By which field others learn what a request is called, if they do.
    pub request_id: Option<RequestIdField>,
    /// Whether requests that come back are known.
    pub detect_loops: bool,
    /// What clients read in answers of our own.
    pub errors: Errors,
    /// What they see instead, for all listeners.
    pub error_pages: Arc<ErrorPages>,
    /// Requests on one connection; `u64::MAX` for no limit.
    pub requests_max: u64,
    /// Open connections over all workers.
    pub connections_max: usize,
    /// Tells balancers in front how busy the listener is.
    pub reporter: Option<Reporter>,
    /// Asks endpoints for their load.
    pub prober: Rc<Prober>,
    /// Pools and retries, for all listeners of the worker.
    pub routes: Rc<Routes>,
    /// Numbers and names of the routes here.
    pub noted: PerRoute,
    /// Counts this generation as still in use.
    pub _generation: Arc<()>,
}

impl Listener {
    /// A listener of the plan.
    pub fn new(name: Arc<str>, open: Arc<Total>, stats: Arc<ListenerStats>, rules: Rules) -> Listener {
        let rules = RefCell::new(Rc::new(rules));
        let [gone, cut] = [Cell::new(false), Cell::new(false)];
        let (hellos, handshakes) = (Places::for_hellos(), Places::for_handshakes());
        Listener { name, open, stats, gone, cut, hellos, handshakes, rules }
    }

    /// The rules for a request that begins now.
    pub fn rules(&self) -> Rc<Rules> {
        self.rules.borrow().clone()
    }

    /// The rules of this moment, not to be held while anything waits.
    pub fn peek(&self) -> Ref<'_, Rules> {
        Ref::map(self.rules.borrow(), |rules| &**rules)
    }

    /// What a connection between two requests needs of them; holding all of them would keep pools that have left.
    pub fn limits(&self) -> (Limits, ListenerTimeouts) {
        let rules = self.peek();
        (rules.limits, rules.timeouts)
    }

    /// Whether requests are not read, and whether TLS is spoken.
    pub fn is_tcp_is_tls(&self) -> (bool, bool) {
        let rules = self.peek();
        (rules.tcp.is_some(), rules.tls.is_some())
    }

    /// Open connections over all workers that there may be.
    pub fn connections_max(&self) -> usize {
        self.peek().connections_max
    }

    /// When flows end.
    pub fn flows(&self) -> UdpFlows {
        self.peek().flows
    }

    /// Requests that begin from now on follow these.
    pub fn change(&self, rules: Rules) {
        self.rules.replace(Rc::new(rules));
    }
}

impl Rules {
    /// Whether nothing happens before clients have sent something.
    pub fn clients_speak_first(&self) -> bool {
        self.tls.is_some() || self.tcp.as_ref().is_none_or(|routes| routes.by_hello())
    }

    /// The pool of a route that the router has found.
    pub fn pool(&self, route: RouteId) -> &WorkerPool {
        self.routes.pool(route).expect("a router has routes of its plan")
    }

    /// What requests of a route may try again.
    pub fn retries(&self, route: RouteId, core: &Core) -> &Retries {
        self.routes.retries(route, &self.planned[route], core.index, &core.clock)
    }

    /// The numbers of a route here, or those of requests that no route took.
    pub fn stats(&self, route: RouteId) -> &RouteStats {
        &self.noted(route).stats
    }

    fn noted(&self, route: RouteId) -> &Noted {
        self.noted.of(route, &self.planned)
    }

    /// What requests are known by that go on by a route, if they are to be.
    pub fn mark(&self, route: RouteId) -> Option<&Mark> {
        self.detect_loops.then(|| &self.noted(route).mark)
    }

    /// The fields of the access log that tell a listener and its route.
    pub fn named(&self, listener: &Listener, route: RouteId) -> &Names {
        let route_name = || self.planned.get(route).map(|route| &*route.name);
        self.noted(route).named.taken(&listener.name, route_name)
    }

    /// The index of the numbers of requests that no route took.
    pub fn unrouted(&self) -> RouteId {
        self.routes.len()
    }
}
