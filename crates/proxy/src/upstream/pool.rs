//! What is a pool to one worker? Its balancer, and its endpoints by slot.

use super::idle::IdleConns;
use super::probe_rate::ProbeRate;
use super::rules::PoolRules;
use super::sessions::{Sessions, Way};
use super::tls::Offers;
use crate::core::Core;
use crate::observe::access_log::{Named, Names};
use crate::observe::stats::{EndpointStats, PoolStats};
use evenkeel_balance::{Balancer, Instant, Slot};
use evenkeel_config::plan::{self, EndpointProtocol};
use evenkeel_net::transport::Transport;
use evenkeel_runtime::control::Control;
use std::cell::{Cell, Ref, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// One pool as one worker sees it. Another algorithm makes another one, over the same endpoints: requests give their
/// places back to the balancer that they have them from.
pub struct WorkerPool {
    /// Its name, which makes it the same pool in the next plan.
    pub name: Arc<str>,
    /// Who gets the next request.
    pub balancer: RefCell<Balancer>,
    /// Who is in it.
    pub endpoints: Rc<Endpoints>,
    /// Whether an endpoint that may choose chose HTTP/2.
    pub chose_h2: Rc<Cell<bool>>,
    /// How many probes it may send.
    pub probes: ProbeRate,
    /// Its numbers.
    pub stats: Arc<PoolStats>,
    /// For requests that got to no endpoint.
    named: Named,
    /// Told when requests decide something about an endpoint.
    pub control: Control,
    rules: RefCell<Rc<PoolRules>>,
}

/// The endpoints of a pool by slot. A slot is filled before any balancer can give it, and a leaving endpoint stays until
/// its slot is needed again.
#[derive(Default)]
pub struct Endpoints(RefCell<Vec<Option<Rc<Endpoint>>>>);

/// One endpoint as one worker sees it.
pub struct Endpoint {
    /// As configured.
    pub name: Arc<str>,
    /// Its address; `None` while its name does not resolve.
    pub addr: Option<SocketAddr>,
    /// Its numbers.
    pub stats: Arc<EndpointStats>,
    named: Named,
    connections: Rc<IdleConns>,
    /// The connections that requests share.
    pub sessions: Rc<Sessions>,
    /// Whether it is in its pool no more: its connections are not kept.
    gone: Cell<bool>,
    /// Whether the time of the sessions that it still has is over.
    pub cut: Cell<bool>,
}

impl Endpoint {
    /// An endpoint without connections.
    pub fn new(core: &Rc<Core>, name: Arc<str>, addr: Option<SocketAddr>, stats: Arc<EndpointStats>) -> Endpoint {
        Endpoint {
            sessions: Sessions::new(core, stats.clone()),
            connections: IdleConns::new(core, stats.clone()),
            name,
            addr,
            stats,
            named: Named::default(),
            gone: Cell::new(false),
            cut: Cell::new(false),
        }
    }

    /// Whether it is in its pool no more.
    pub fn is_gone(&self) -> bool {
        self.gone.get()
    }

    /// Closes its idle connections, and the others when they are.
    fn close_idle(&self) {
        self.connections.close();
        self.sessions.close();
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        self.close_idle();
    }
}

impl Endpoints {
    /// The endpoint in a slot that the pool's balancer gave.
    pub fn at(&self, slot: Slot) -> Rc<Endpoint> {
        self.0.borrow()[slot.index()].clone().expect("a slot is filled before it is given")
    }

    /// The name of the endpoint in a slot; empty if there is none.
    pub fn name_of(&self, slot: Slot) -> Arc<str> {
        let slots = self.0.borrow();
        slots.get(slot.index()).and_then(Option::as_ref).map_or_else(|| "".into(), |endpoint| endpoint.name.clone())
    }

    /// Whether this endpoint has the slot.
    pub fn has(&self, slot: Slot, endpoint: &Rc<Endpoint>) -> bool {
        self.0.borrow().get(slot.index()).and_then(Option::as_ref).is_some_and(|here| Rc::ptr_eq(here, endpoint))
    }

    /// Takes up the endpoints of a new plan, each with its slot. One that has stayed, at its address, stays as it is; those
    /// that have left are returned.
    pub fn change(&self, new: Vec<(Slot, Endpoint)>) -> Vec<Rc<Endpoint>> {
        let mut slots = self.0.borrow_mut();
        let before = slots.clone();
        let mut stays = vec![false; before.len()];
        for (slot, endpoint) in new {
            let at = slot.index();
            if slots.len() <= at {
                slots.resize(at + 1, None);
            }
            match &slots[at] {
                // Who has the same numbers is the same endpoint.
                Some(old) if Arc::ptr_eq(&old.stats, &endpoint.stats) && old.addr == endpoint.addr => stays[at] = true,
                _ => slots[at] = Some(Rc::new(endpoint)),
            }
        }
        let left = before.into_iter().zip(stays).filter(|(_, stays)| !stays).filter_map(|(old, _)| old);
        // A slot that is not needed yet keeps the endpoint that left it.
        let left: Vec<_> = left.filter(|old| !old.gone.replace(true)).collect();
        left.iter().for_each(|old| old.close_idle());
        left
    }

    /// Lets go of all.
    pub fn leave(&self) -> Vec<Rc<Endpoint>> {
        self.change(Vec::new())
    }

    /// Each endpoint.
    fn each(&self, look: impl FnMut(&Rc<Endpoint>)) {
        self.0.borrow().iter().flatten().for_each(look);
    }
}

impl WorkerPool {
    /// A pool that is new to the worker, or has another algorithm now.
    pub fn new(
        rules: PoolRules,
        balancer: Balancer,
        endpoints: Rc<Endpoints>,
        stats: Arc<PoolStats>,
        control: Control,
    ) -> WorkerPool {
        WorkerPool {
            name: rules.plan.name.clone(),
            balancer: RefCell::new(balancer),
            endpoints,
            chose_h2: Rc::default(),
            probes: ProbeRate::default(),
            stats,
            named: Named::default(),
            control,
            rules: RefCell::new(Rc::new(rules)),
        }
    }

    /// Follows another plan from now on, requests that run included.
    pub fn change(&self, rules: PoolRules) {
        let before = self.rules.replace(Rc::new(rules));
        let now = self.peek();
        if before.compiled.tls != now.compiled.tls {
            // Endpoints chose as the plan before says.
            self.chose_h2.set(false);
        }
        if before.connects_otherwise(&now) {
            self.close_idle();
        }
    }

    /// The rules of this moment, to be held while something waits.
    pub fn rules(&self) -> Rc<PoolRules> {
        self.rules.borrow().clone()
    }

    /// The rules of this moment, not to be held while anything waits.
    pub fn peek(&self) -> Ref<'_, PoolRules> {
        Ref::map(self.rules.borrow(), |rules| &**rules)
    }

    /// The pool as planned, not to be held while anything waits.
    #[inline]
    pub fn plan(&self) -> Ref<'_, plan::Pool> {
        Ref::map(self.rules.borrow(), |rules| &*rules.plan)
    }

    /// The fields of the access log that tell the pool and an endpoint of it.
    pub fn named<'a>(&'a self, endpoint: Option<&'a Endpoint>) -> &'a Names {
        match endpoint {
            Some(endpoint) => endpoint.named.sent(&self.name, Some(&endpoint.name)),
            None => self.named.sent(&self.name, None),
        }
    }

    /// True if its endpoints take a request as messages, many on a connection. `upgrades`: the request asks for another protocol,
    /// which goes over HTTP/1.1 where an endpoint may choose: few servers take it over HTTP/2 (RFC 8441).
    #[inline]
    pub fn takes_messages(&self, upgrades: bool) -> bool {
        match self.plan().protocol {
            EndpointProtocol::Http1 => false,
            EndpointProtocol::H2 => true,
            EndpointProtocol::Auto => self.chose_h2.get() && !upgrades,
        }
    }

    /// The scheme of its endpoints' connections.
    #[inline]
    pub fn scheme(&self) -> &'static str {
        if self.peek().compiled.tls.is_some() { "https" } else { "http" }
    }

    /// What its endpoints may choose, on a connection for a request that was written in HTTP/1.
    pub fn offers(&self) -> Offers {
        let is_open = self.plan().protocol == EndpointProtocol::Auto && !self.chose_h2.get();
        if is_open { Offers::Both } else { Offers::Nothing }
    }

    /// How connections to an endpoint are opened that requests share.
    pub fn way(&self, endpoint: &Endpoint) -> Way {
        let rules = self.rules();
        let is_auto = rules.plan.protocol == EndpointProtocol::Auto;
        let chose_h2 = is_auto.then(|| self.chose_h2.clone());
        Way { name: endpoint.name.clone(), addr: endpoint.addr, rules, chose_h2 }
    }

    /// Longest wait of a request for a place.
    pub fn queue_time(&self) -> Duration {
        Duration::from_nanos(self.plan().queue.timeout_ns)
    }

    /// True if a connection to an endpoint serves one request: none is kept idle, or its first bytes name one client.
    #[inline]
    pub fn connects_for_each(&self) -> bool {
        let plan = self.plan();
        plan.limits.idle_per_endpoint == 0 || plan.proxy_protocol.is_some()
    }

    /// A connection to the endpoint that is idle and still good, if there is one.
    pub fn take_idle(&self, endpoint: &Endpoint, now: Instant) -> Option<Transport> {
        endpoint.connections.take(self.peek().idle_ns(), now)
    }

    /// Keeps a connection for the next request. `kept_secs`: seconds for which its endpoint keeps it, if it states them.
    pub fn keep_idle(&self, endpoint: &Endpoint, transport: Transport, kept_secs: Option<u32>, now: Instant) {
        if !endpoint.gone.get() {
            let most = self.plan().limits.idle_per_endpoint;
            endpoint.connections.keep(transport, most, kept_secs, now);
        }
    }

    /// Closes connections that were idle for too long or that the endpoint has closed, and lets go of the set before the
    /// newest: a pool that gets no requests would hold it for ever.
    pub fn sweep(&self, now: Instant) {
        let mut balancer = self.balancer.borrow_mut();
        balancer.refresh(now);
        balancer.flush_journal();
        drop(balancer);
        let rules = self.rules();
        let kept_ns = rules.idle_ns();
        self.endpoints.each(|endpoint| {
            endpoint.connections.sweep(kept_ns, now);
            endpoint.sessions.sweep(&rules.plan.http2, kept_ns, now);
        });
    }

    /// True if the next sweep has something to look after.
    pub fn needs_sweep(&self) -> bool {
        let mut keeps = false;
        self.endpoints.each(|endpoint| keeps |= endpoint.connections.any() || endpoint.sessions.any());
        keeps || self.balancer.borrow().writes_journal()
    }

    /// Closes all idle connections.
    pub fn close_idle(&self) {
        self.endpoints.each(|endpoint| endpoint.close_idle());
    }
}
