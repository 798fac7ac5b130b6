//! By which rules is a request served? Those of its listener at the moment its head was there: a request ends by the
//! rules it began with, whatever the configuration says by then.

use super::compiled::Compiled;
use super::handshakes::Places;
use super::per_route::{Noted, PerRoute, Routes};
use crate::core::Core;
use crate::filters::list::Filters;
use crate::filters::row::{self, Build, Stage};
use crate::filters::table;
use crate::listener::route::RouteId;
use crate::load::load_report::{Reporter, SharedLoad};
use crate::load::probe::Prober;
use crate::observe::access_log::Names;
use crate::observe::stats::{ListenerStats, RouteStats};
use crate::peer::per_address::PerAddress;
use crate::upstream::pool::WorkerPool;
use crate::upstream::retries::Retries;
use evenkeel_config::plan::{self, ListenerTimeouts};
use evenkeel_net::total::Total;
use evenkeel_wire::http1::Limits;
use std::cell::{Cell, Ref, RefCell};
use std::rc::Rc;
use std::sync::Arc;

/// Listener of a worker. Its connections hold it while its rules change.
pub struct Listener {
    /// Its name, which makes it the same listener in the next plan.
    pub name: Arc<str>,
    /// Open connections over all workers.
    pub open: Arc<Total>,
    /// Statistics of the listener, on this worker.
    pub stats: Arc<ListenerStats>,
    /// True once it has left the plan: its connections end after their request.
    pub gone: Cell<bool>,
    /// True once the time of those connections is over.
    pub cut: Cell<bool>,
    /// Clients whose ClientHello is incomplete.
    pub hellos: Places,
    /// Handshakes of TLS that are under way, from a whole ClientHello on.
    pub handshakes: Places,
    rules: RefCell<Rc<Rules>>,
}

/// Rules of one listener under one plan. A tunnel holds them for days, so nothing in them grows with the endpoints of the plan.
pub struct Rules {
    /// The listener as planned: a key that is used as it is needs no other place.
    pub plan: Arc<plan::Listener>,
    /// Values made from the plan, once for all workers.
    pub compiled: Arc<Compiled>,
    /// Counts shared by all workers.
    pub shared: Shared,
    /// Tells balancers in front how busy the listener is.
    pub reporter: Option<Rc<Reporter>>,
    /// Filters that every request passes, whatever its route.
    pub filters: Filters,
    /// Asks endpoints for their load.
    pub prober: Rc<Prober>,
    /// Routes of the plan with their pools and retries, for all listeners of the worker.
    pub routes: Rc<Routes>,
    /// Numbers and names of the routes here.
    pub noted: PerRoute,
    /// Counts this generation as still in use.
    pub _generation: Arc<()>,
}

/// Counts of one listener that all workers have in common, and all plans in which it is.
#[derive(Clone)]
pub struct Shared {
    /// Number of open connections over all workers.
    pub open: Arc<Total>,
    /// Connections and requests of each client address.
    pub per_address: Arc<PerAddress>,
    /// The load that is reported.
    pub load: Arc<SharedLoad>,
}

impl Shared {
    /// Counts of a listener that is new, for so many workers.
    pub fn new(workers: usize) -> Shared {
        Shared { open: Arc::new(Total::new(workers)), per_address: Arc::default(), load: Arc::default() }
    }
}

impl Listener {
    /// A listener that was not in the plan before.
    pub fn new(stats: Arc<ListenerStats>, rules: Rules) -> Listener {
        let (name, open) = (rules.plan.name.clone(), rules.shared.open.clone());
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

    /// The listener as planned, not to be held while anything waits.
    pub fn plan(&self) -> Ref<'_, plan::Listener> {
        Ref::map(self.rules.borrow(), |rules| &*rules.plan)
    }

    /// Values that a connection needs between two requests; holding all rules would keep pools that have left.
    pub fn limits(&self) -> (Limits, ListenerTimeouts) {
        let rules = self.peek();
        (rules.compiled.limits, rules.plan.timeouts)
    }

    /// True if sessions are relayed without reading requests, and true if it terminates TLS.
    pub fn is_tcp_is_tls(&self) -> (bool, bool) {
        let rules = self.peek();
        (rules.compiled.tcp.is_some(), rules.compiled.tls.is_some())
    }

    /// Requests that begin from now on follow these.
    pub fn change(&self, rules: Rules) {
        self.rules.replace(Rc::new(rules));
    }
}

impl Rules {
    /// True if the client always sends first.
    pub fn clients_speak_first(&self) -> bool {
        let compiled = &self.compiled;
        compiled.tls.is_some() || compiled.tcp.as_ref().is_none_or(|routes| routes.by_hello())
    }

    /// True if no request follows the one of this number, counted from 1, on its connection.
    pub fn is_last(&self, served: u64) -> bool {
        let most = self.plan.limits.requests_per_connection;
        most != 0 && served >= most
    }

    /// The pool of a route that the router has found.
    pub fn pool(&self, route: RouteId) -> &WorkerPool {
        self.routes.pool(route).expect("a router has routes of its plan")
    }

    /// Retry rules and budget of a route.
    pub fn retries(&self, route: RouteId, core: &Core) -> &Retries {
        self.routes.retries(route, core.index, &core.clock)
    }

    /// The numbers of a route here, or those of requests that no route took.
    pub fn stats(&self, route: RouteId) -> &RouteStats {
        &self.noted(route).stats
    }

    /// The filters of a route; none for requests that no route took.
    pub fn filters_of(&self, route: RouteId) -> &Filters {
        &self.noted(route).filters
    }

    fn noted(&self, route: RouteId) -> &Noted {
        self.noted.of(route, self.routes.planned.get(route), || self.build_filters(route))
    }

    fn build_filters(&self, id: RouteId) -> Filters {
        let (Some(route), Some(pool)) = (self.routes.planned.get(id), self.routes.pool(id)) else {
            return Filters::default();
        };
        let route = Some(row::Route { plan: route, pool, instance: self.noted.instance });
        let (listener, compiled) = (&*self.plan, &*self.compiled);
        let build = Build {
            listener,
            admission: &compiled.admission,
            challenges: compiled.challenges.as_ref(),
            reporter: self.reporter.as_ref(),
            route,
        };
        table::build(Stage::Route, &build)
    }

    /// The fields of the access log that tell a listener and its route.
    pub fn named(&self, listener: &Listener, route: RouteId) -> &Names {
        let route_name = || self.routes.planned.get(route).map(|route| &*route.name);
        self.noted(route).named.taken(&listener.name, route_name)
    }

    /// The index of the numbers of requests that no route took.
    pub fn unrouted(&self) -> RouteId {
        self.routes.len()
    }
}
