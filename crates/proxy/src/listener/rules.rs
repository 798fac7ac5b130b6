//! Rules of a listener. A request is served by the rules that were in force when its head was complete, even if the
//! configuration changes before its end.

use super::compiled::Compiled;
use super::handshakes::Places;
use super::per_route::{Noted, PerRoute, Routes};
use crate::core::Core;
use crate::filters::list::Filters;
use crate::filters::row::{self, Build, Stage};
use crate::filters::table;
use crate::filters::template::lookup::Lookup;
use crate::filters::template::lookups::Lookups;
use crate::filters::template::parameters::Parameters;
use crate::filters::template::source::Source;
use crate::listener::route::RouteId;
use crate::load::load_report::{Reporter, SharedLoad};
use crate::load::probe::Prober;
use crate::observe::access_log::Names;
use crate::observe::stats::{ListenerStats, RouteStats};
use crate::peer::per_address::PerAddress;
use crate::upstream::retries::Retries;
use crate::upstream::target::Target;
use evenkeel_config::plan::{self, ListenerTimeouts};
use evenkeel_net::total::Total;
use evenkeel_wire::http1::Limits;
use std::cell::{Cell, Ref, RefCell};
use std::rc::Rc;
use std::sync::Arc;

/// Listener of a worker. Its connections hold it while its rules change.
pub struct Listener {
    /// Name, by which the next plan finds the same listener.
    pub name: Arc<str>,
    /// Open connections over all workers.
    pub open: Arc<Total>,
    /// Statistics of the listener, on this worker.
    pub stats: Arc<ListenerStats>,
    /// True once the listener left the plan: its connections end after the current request.
    pub gone: Cell<bool>,
    /// True once the drain time of those connections is over.
    pub cut: Cell<bool>,
    /// Clients whose ClientHello is incomplete.
    pub hellos: Places,
    /// TLS handshakes in progress, from a complete ClientHello on.
    pub handshakes: Places,
    rules: RefCell<Rc<Rules>>,
}

/// Rules of a listener under a plan. A tunnel may hold them for days, so their size must not depend on the number of
/// endpoints.
pub struct Rules {
    /// The listener's plan. Settings that need no compilation are read from here.
    pub plan: Arc<plan::Listener>,
    /// Values compiled from the plan, once for all workers.
    pub compiled: Arc<Compiled>,
    /// Counts shared by all workers.
    pub shared: Shared,
    /// Reports the listener's load to balancers in front.
    pub reporter: Option<Rc<Reporter>>,
    /// Filters that every request passes, before it has a route.
    pub filters: Filters,
    /// Probes endpoints for their load.
    pub prober: Rc<Prober>,
    /// Routes of the plan with their pools and retries, for all listeners of the worker.
    pub routes: Rc<Routes>,
    /// Maps of the matches of routes.
    pub lookups: Lookups,
    /// Statistics, names and filters of the routes at this listener.
    pub noted: PerRoute,
    /// Keeps the generation counted as in use.
    pub _generation: Arc<()>,
}

/// Counts of a listener, shared by all workers and kept across plans.
#[derive(Clone)]
pub struct Shared {
    /// Number of open connections over all workers.
    pub open: Arc<Total>,
    /// Connections and requests of each client address.
    pub per_address: Arc<PerAddress>,
    /// Load that the listener reports.
    pub load: Arc<SharedLoad>,
}

impl Shared {
    /// Counts of a new listener, for `workers` workers.
    pub fn new(workers: usize) -> Shared {
        Shared { open: Arc::new(Total::new(workers)), per_address: Arc::default(), load: Arc::default() }
    }
}

impl Listener {
    /// Creates a listener that was not in the plan before.
    pub fn new(stats: Arc<ListenerStats>, rules: Rules) -> Listener {
        let (name, open) = (rules.plan.name.clone(), rules.shared.open.clone());
        let rules = RefCell::new(Rc::new(rules));
        let [gone, cut] = [Cell::new(false), Cell::new(false)];
        let (hellos, handshakes) = (Places::for_hellos(), Places::for_handshakes());
        Listener { name, open, stats, gone, cut, hellos, handshakes, rules }
    }

    /// Rules for a request that begins now.
    pub fn rules(&self) -> Rc<Rules> {
        self.rules.borrow().clone()
    }

    /// Current rules. Must not be held across an await: `change` would panic.
    pub fn peek(&self) -> Ref<'_, Rules> {
        Ref::map(self.rules.borrow(), |rules| &**rules)
    }

    /// Current plan of the listener. Must not be held across an await, like [`peek`](Self::peek).
    pub fn plan(&self) -> Ref<'_, plan::Listener> {
        Ref::map(self.rules.borrow(), |rules| &*rules.plan)
    }

    /// Values that a connection needs between two requests. Holding the rules instead would keep removed pools alive.
    pub fn limits(&self) -> (Limits, ListenerTimeouts) {
        let rules = self.peek();
        (rules.compiled.limits, rules.plan.timeouts)
    }

    /// Two flags: sessions are relayed without reading requests; the listener terminates TLS.
    pub fn is_tcp_is_tls(&self) -> (bool, bool) {
        let rules = self.peek();
        (rules.compiled.tcp.is_some(), rules.compiled.tls.is_some())
    }

    /// Sets the rules for requests that begin from now on.
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

    /// True if request number `served`, from 1, is the last request that its connection may carry.
    pub fn is_last(&self, served: u64) -> bool {
        let most = self.plan.limits.requests_per_connection;
        most != 0 && served >= most
    }

    /// Pools of a route that the router has found.
    pub fn target(&self, route: RouteId) -> &Target {
        self.routes.target(route).expect("a router has routes of its plan")
    }

    /// Writes the name of the pool that a map chooses for a request.
    pub fn write_choice(&self, route: RouteId, from: &Source<'_, '_, '_, '_>, out: &mut Vec<u8>) {
        if let Some(lookup) = &self.noted(route).choice {
            lookup.write(from, out);
        }
    }

    /// Retry rules and budget of a route.
    pub fn retries(&self, route: RouteId, core: &Core) -> &Retries {
        self.routes.retries(route, core.index, &core.clock)
    }

    /// Statistics of a route at this listener. Under [`unrouted`](Self::unrouted), statistics of requests that no route
    /// matched.
    pub fn stats(&self, route: RouteId) -> &RouteStats {
        &self.noted(route).stats
    }

    /// Filters of a route; none for requests that no route matched.
    pub fn filters_of(&self, route: RouteId) -> &Filters {
        &self.noted(route).filters
    }

    fn noted(&self, route: RouteId) -> &Noted {
        self.noted.of(route, self.routes.planned.get(route), |stats| self.build_filters(route, stats))
    }

    fn build_filters(&self, id: RouteId, route_stats: &Arc<RouteStats>) -> (Filters, Option<Lookup>) {
        let (Some(route), Some(target)) = (self.routes.planned.get(id), self.routes.target(id)) else {
            return (Filters::default(), None);
        };
        let choice = if let plan::Action::Choice(choice) = &route.action { Some(&choice.map) } else { None };
        let path = || Rc::new(Parameters::of_route(route, self.plan.ignore_case));
        let choice = choice.and_then(|map| Lookup::new(map, &path(), self.compiled.resources.of()));
        let (listener, compiled) = (&*self.plan, &*self.compiled);
        let route = Some(row::Route {
            plan: route,
            target,
            stats: &self.noted.of_listener,
            route_stats,
            instance: self.noted.instance,
            services: self.routes.services(id),
            prober: &self.prober,
            workers: self.routes.workers,
        });
        let build = Build {
            listener,
            routes: &self.routes.planned,
            resources: &compiled.resources,
            admission: &compiled.admission,
            challenges: compiled.challenges.as_ref(),
            reporter: self.reporter.as_ref(),
            route,
        };
        (table::build(Stage::Route, &build), choice)
    }

    /// Names of the listener and a route for the access log.
    pub fn named(&self, listener: &Listener, route: RouteId) -> &Names {
        let route_name = || self.routes.planned.get(route).map(|route| &*route.name);
        self.noted(route).named.taken(&listener.name, route_name)
    }

    /// Index for requests that no route matched.
    pub fn unrouted(&self) -> RouteId {
        self.routes.len()
    }
}
