//! A pool as a worker sees it: its balancer, and its endpoints by slot.

use super::idle::IdleConns;
use super::marked::{Mark, Marked, Swept};
use super::probe_rate::ProbeRate;
use super::rules::PoolRules;
use super::sessions::{Sessions, Way};
use super::tls::Offers;
use crate::core::Core;
use crate::observe::access_log::{Named, Names};
use crate::observe::stats::{EndpointStats, PoolStats};
use evenkeel_balance::{Balancer, Exclusion, Instant, Slot};
use evenkeel_config::plan::{self, EndpointProtocol, OnDown, Own};
use evenkeel_net::dial::Remote;
use evenkeel_net::tls::towards;
use evenkeel_net::transport::Transport;
use evenkeel_runtime::control::Control;
use std::cell::{Cell, Ref, RefCell};
use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;

/// A pool as a worker sees it. A new algorithm makes a new `WorkerPool` over the same endpoints, so that requests
/// return their tickets to the balancer that issued them.
pub struct WorkerPool {
    /// Name, which identifies the pool in the next plan.
    pub name: Arc<str>,
    /// Algorithm that picks endpoints.
    pub balancer: RefCell<Balancer>,
    /// Endpoints by slot, kept when the algorithm changes.
    pub endpoints: Rc<Endpoints>,
    /// True if an endpoint of a pool with `protocol = "auto"` chose HTTP/2.
    pub chose_h2: Rc<Cell<bool>>,
    /// Rate limit of load probes.
    pub probes: ProbeRate,
    /// Number of copies of requests that each route makes for it, or has in flight.
    mirrored: RefCell<HashMap<Arc<str>, Weak<Cell<usize>>>>,
    /// Statistics of the pool on this worker.
    pub stats: Arc<PoolStats>,
    /// Log fields of requests that reached no endpoint.
    named: Named,
    /// Notified when requests eject an endpoint or readmit it.
    pub control: Control,
    rules: RefCell<Rc<PoolRules>>,
}

/// Endpoints of a pool by slot. A slot is filled before any balancer picks it, and an endpoint that left stays until
/// its slot is reused.
pub struct Endpoints {
    slots: RefCell<Vec<Option<Rc<Endpoint>>>>,
    /// Server ids in connection ids of QUIC, the longest first.
    quic_ids: RefCell<Vec<(Arc<[u8]>, Slot)>>,
    /// Set while an endpoint has connections.
    pub mark: Rc<Mark>,
}

/// An endpoint as a worker sees it.
pub struct Endpoint {
    /// Name as configured or discovered.
    pub name: Arc<str>,
    /// Address; `None` while the name does not resolve.
    pub addr: Option<Remote>,
    /// Host, path prefix and name in TLS that only this endpoint has.
    pub own: Own,
    /// Statistics of the endpoint on this worker.
    pub stats: Arc<EndpointStats>,
    named: Named,
    connections: Rc<IdleConns>,
    /// Shared (HTTP/2) connections.
    pub sessions: Rc<Sessions>,
    /// True once it has left the pool: its connections are not kept.
    gone: Cell<bool>,
    /// True once the drain timeout for its sessions is over.
    pub cut: Cell<bool>,
    /// Number of times that it went down in a pool that then ends its sessions.
    pub downs: Cell<u32>,
    /// True from an end of its sessions until it is up again.
    is_down: Cell<bool>,
}

impl Endpoint {
    /// An endpoint without connections.
    pub fn new(
        (core, mark): (&Rc<Core>, &Rc<Mark>),
        name: Arc<str>,
        (addr, own): (Option<Remote>, Own),
        stats: Arc<EndpointStats>,
    ) -> Endpoint {
        Endpoint {
            sessions: Sessions::new(core, mark, stats.clone()),
            connections: IdleConns::new(core, mark, stats.clone()),
            name,
            addr,
            own,
            stats,
            named: Named::default(),
            gone: Cell::new(false),
            cut: Cell::new(false),
            downs: Cell::new(0),
            is_down: Cell::new(false),
        }
    }

    /// Names of which the endpoint has to prove any by TLS.
    pub fn proves(&self) -> towards::Named<'_> {
        let ip = self.addr.as_ref().and_then(Remote::ip);
        towards::Named { own: self.own.tls_name.as_deref(), name: &self.name, ip }
    }

    /// True once it has left the pool.
    pub fn is_gone(&self) -> bool {
        self.gone.get()
    }

    /// True if requests to the other would be sent to the same address, with the same settings of the endpoint.
    fn is_like(&self, other: &Endpoint) -> bool {
        self.addr == other.addr && self.own == other.own
    }

    /// Closes idle connections, and shared connections once their requests have ended.
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
    /// An empty table. `marked` are the pools that the worker's sweep visits.
    pub fn new(marked: &Rc<Marked>) -> Endpoints {
        Endpoints { slots: RefCell::default(), quic_ids: RefCell::default(), mark: Mark::new(marked) }
    }

    /// The endpoint in a slot that the pool's balancer has picked.
    pub fn at(&self, slot: Slot) -> Rc<Endpoint> {
        self.slots.borrow()[slot.index()].clone().expect("a slot is filled before it is given")
    }

    /// Name of the endpoint in a slot; empty for a free slot.
    pub fn name_of(&self, slot: Slot) -> Arc<str> {
        let slots = self.slots.borrow();
        slots.get(slot.index()).and_then(Option::as_ref).map_or_else(|| "".into(), |endpoint| endpoint.name.clone())
    }

    /// Slot of the endpoint whose server id begins `id`, a connection id of QUIC without its first byte.
    pub fn of_quic_id(&self, id: &[u8]) -> Option<Slot> {
        let ids = self.quic_ids.borrow();
        ids.iter().find(|(own, _)| id.starts_with(own)).map(|(_, slot)| *slot)
    }

    /// True if this endpoint is in the slot.
    pub fn has(&self, slot: Slot, endpoint: &Rc<Endpoint>) -> bool {
        self.slots.borrow().get(slot.index()).and_then(Option::as_ref).is_some_and(|here| Rc::ptr_eq(here, endpoint))
    }

    /// Replaces the endpoints. An endpoint that stays at its address is kept with its connections. Returns the removed
    /// endpoints.
    pub fn change(&self, new: Vec<(Slot, Endpoint)>) -> Vec<Rc<Endpoint>> {
        let id_of = |(slot, endpoint): &(Slot, Endpoint)| Some((endpoint.own.quic_id.clone()?, *slot));
        let mut ids: Vec<_> = new.iter().filter_map(id_of).collect();
        ids.sort_by_key(|(id, _)| Reverse(id.len()));
        self.quic_ids.replace(ids);
        let mut slots = self.slots.borrow_mut();
        let before = slots.clone();
        let mut stays = vec![false; before.len()];
        for (slot, endpoint) in new {
            let at = slot.index();
            if slots.len() <= at {
                slots.resize(at + 1, None);
            }
            match &slots[at] {
                // The same statistics mean the same endpoint.
                Some(old) if Arc::ptr_eq(&old.stats, &endpoint.stats) && old.is_like(&endpoint) => stays[at] = true,
                _ => slots[at] = Some(Rc::new(endpoint)),
            }
        }
        let left = before.into_iter().zip(stays).filter(|(_, stays)| !stays).filter_map(|(old, _)| old);
        // An endpoint that left stays in its slot until that is reused, and is returned only once.
        let left: Vec<_> = left.filter(|old| !old.gone.replace(true)).collect();
        left.iter().for_each(|old| old.close_idle());
        left
    }

    /// Wakes everything of the worker that waits with a timer, sessions among them.
    fn wake(&self) {
        if let Some(endpoint) = self.slots.borrow().iter().flatten().next() {
            endpoint.connections.wake_all();
        }
    }

    /// Removes all endpoints and returns them.
    pub fn leave(&self) -> Vec<Rc<Endpoint>> {
        self.change(Vec::new())
    }

    /// Calls `look` with each endpoint, including those that left but are still in their slots.
    fn each(&self, look: impl FnMut(&Rc<Endpoint>)) {
        self.slots.borrow().iter().flatten().for_each(look);
    }
}

impl WorkerPool {
    /// Creates a pool that is new to the worker, or has a new algorithm.
    pub fn new(
        rules: PoolRules,
        balancer: Balancer,
        endpoints: Rc<Endpoints>,
        stats: Arc<PoolStats>,
        control: Control,
    ) -> Rc<WorkerPool> {
        let pool = Rc::new(WorkerPool {
            name: rules.plan.name.clone(),
            balancer: RefCell::new(balancer),
            endpoints,
            chose_h2: Rc::default(),
            probes: ProbeRate::default(),
            mirrored: RefCell::default(),
            stats,
            named: Named::default(),
            control,
            rules: RefCell::new(Rc::new(rules)),
        });
        let swept: Weak<WorkerPool> = Rc::downgrade(&pool);
        pool.endpoints.mark.follow(swept);
        pool
    }

    /// Number of copies that a route makes for the pool, or has in flight, the same under each plan.
    pub fn mirrored_of(&self, route: &Arc<str>) -> Rc<Cell<usize>> {
        let mut all = self.mirrored.borrow_mut();
        all.retain(|_, number| number.strong_count() > 0);
        all.get(route).and_then(Weak::upgrade).unwrap_or_else(|| {
            let number = Rc::default();
            all.insert(route.clone(), Rc::downgrade(&number));
            number
        })
    }

    /// Replaces the rules, also for requests that run. Closes idle connections that would now be opened differently.
    pub fn change(&self, rules: PoolRules) {
        let before = self.rules.replace(Rc::new(rules));
        // Its sessions may have to be looked after from now on.
        self.endpoints.mark.set();
        let now = self.peek();
        if before.compiled.tls != now.compiled.tls {
            // The choice was made under the old TLS settings.
            self.chose_h2.set(false);
        }
        if before.connects_otherwise(&now) {
            self.close_idle();
        }
    }

    /// The current rules, which may be held across an await.
    pub fn rules(&self) -> Rc<PoolRules> {
        self.rules.borrow().clone()
    }

    /// The current rules, borrowed: not to be held across an await.
    pub fn peek(&self) -> Ref<'_, PoolRules> {
        Ref::map(self.rules.borrow(), |rules| &**rules)
    }

    /// The pool's section of the current plan, borrowed: not to be held across an await.
    #[inline]
    pub fn plan(&self) -> Ref<'_, plan::Pool> {
        Ref::map(self.rules.borrow(), |rules| &*rules.plan)
    }

    /// Log fields with the names of the pool and of an endpoint.
    pub fn named<'a>(&'a self, endpoint: Option<&'a Endpoint>) -> &'a Names {
        match endpoint {
            Some(endpoint) => endpoint.named.sent(&self.name, Some(&endpoint.name)),
            None => self.named.sent(&self.name, None),
        }
    }

    /// True if its endpoints take a request as messages, many on a connection. `upgrades`: the request asks for a
    /// switch of protocols. If endpoints may choose, that uses HTTP/1.1, as few servers support it over HTTP/2 (RFC
    /// 8441).
    #[inline]
    pub fn takes_messages(&self, upgrades: bool) -> bool {
        match self.plan().protocol {
            EndpointProtocol::Http1 => false,
            EndpointProtocol::H2 => true,
            EndpointProtocol::Auto => self.chose_h2.get() && !upgrades,
        }
    }

    /// Scheme of connections to its endpoints.
    #[inline]
    pub fn scheme(&self) -> &'static str {
        if self.peek().compiled.tls.is_some() { "https" } else { "http" }
    }

    /// Appends the host of an endpoint: its `host` setting, or the host of its address as configured.
    pub fn write_host(&self, endpoint: &Endpoint, out: &mut Vec<u8>) {
        match &endpoint.own.host {
            Some(own) => out.extend_from_slice(own.as_bytes()),
            None => {
                self.peek().compiled.hosts.write((&endpoint.name, endpoint.addr.as_ref()), self.scheme(), out);
            }
        }
    }

    /// ALPN protocols to offer on a connection for a request in HTTP/1 format.
    pub fn offers(&self) -> Offers {
        let is_open = self.plan().protocol == EndpointProtocol::Auto && !self.chose_h2.get();
        if is_open { Offers::Both } else { Offers::Nothing }
    }

    /// Settings for opening shared connections to an endpoint.
    pub fn way(&self, endpoint: &Endpoint) -> Way {
        let rules = self.rules();
        let is_auto = rules.plan.protocol == EndpointProtocol::Auto;
        let chose_h2 = is_auto.then(|| self.chose_h2.clone());
        Way {
            name: endpoint.name.clone(),
            addr: endpoint.addr.clone(),
            tls_name: endpoint.own.tls_name.clone(),
            rules,
            chose_h2,
        }
    }

    /// Longest wait of a request in the queue.
    pub fn queue_time(&self) -> Duration {
        Duration::from_nanos(self.plan().queue.timeout_ns)
    }

    /// True if each request needs a new connection: none is kept idle, or the PROXY protocol header names a single
    /// client.
    #[inline]
    pub fn connects_for_each(&self) -> bool {
        let plan = self.plan();
        plan.limits.idle_per_endpoint == 0 || plan.proxy_protocol.is_some()
    }

    /// Takes a reusable idle connection to the endpoint, if any.
    pub fn take_idle(&self, endpoint: &Endpoint, now: Instant) -> Option<Transport> {
        endpoint.connections.take(self.peek().idle_ns(), now)
    }

    /// Keeps a connection for the next request, unless the endpoint has left. `kept_secs` as in [`IdleConns::keep`].
    pub fn keep_idle(&self, endpoint: &Endpoint, transport: Transport, kept_secs: Option<u32>, now: Instant) {
        if !endpoint.gone.get() {
            let most = self.plan().limits.idle_per_endpoint;
            endpoint.connections.keep(transport, most, kept_secs, now);
        }
    }

    /// Adopts the latest endpoint set. A pool without requests would otherwise keep the previous set for ever.
    pub fn refresh(&self, now: Instant) {
        self.balancer.borrow_mut().refresh(now);
    }

    /// Closes all idle connections.
    pub fn close_idle(&self) {
        self.endpoints.each(|endpoint| endpoint.close_idle());
    }
}

impl WorkerPool {
    /// Ends the sessions of endpoints that went down since the last sweep, if the pool does so. Returns true while
    /// there are sessions to look after.
    fn end_downed(&self) -> bool {
        if self.plan().on_down != OnDown::Close {
            return false;
        }
        let downed = {
            let balancer = self.balancer.borrow();
            let is_down = |why: &Exclusion| matches!(why, Exclusion::Unhealthy | Exclusion::Ejected);
            let excluded = balancer.set().excluded().iter();
            excluded.filter(|(.., why)| is_down(why)).map(|(slot, ..)| slot.index()).collect::<HashSet<_>>()
        };
        let (mut ended, mut holds) = (0, false);
        for (slot, endpoint) in self.endpoints.slots.borrow().iter().enumerate() {
            let Some(endpoint) = endpoint else { continue };
            let is_down = downed.contains(&slot);
            if is_down && !endpoint.is_down.replace(is_down) {
                endpoint.downs.set(endpoint.downs.get().wrapping_add(1));
                ended += endpoint.stats.active.get();
            }
            endpoint.is_down.set(is_down);
            holds |= endpoint.stats.active.get() > 0;
        }
        if ended > 0 {
            self.stats.ended_down.add(ended);
            self.endpoints.wake();
        }
        holds
    }
}

impl Swept for WorkerPool {
    /// Flushes the journal, and closes connections that were idle for too long or that the endpoint has closed.
    fn sweep(&self, now: Instant) -> bool {
        self.refresh(now);
        let mut balancer = self.balancer.borrow_mut();
        balancer.flush_journal();
        let mut holds = balancer.writes_journal();
        drop(balancer);
        holds |= self.end_downed();
        let rules = self.rules();
        let kept_ns = rules.idle_ns();
        self.endpoints.each(|endpoint| {
            endpoint.connections.sweep(kept_ns, now);
            endpoint.sessions.sweep(&rules.plan.http2, kept_ns, now);
            holds |= endpoint.connections.any() || endpoint.sessions.any();
        });
        holds
    }
}
