//! Pools, owned by the control side, which turns configured endpoints into sets, and gives each worker a
//! balancer and what the worker keeps by slot. The results of checks and requests come together here.

use crate::events::Events;
use crate::history::{Checked, History};
use crate::journal::Journal;
use crate::orders::{Change, Order, Orders};
use evenkeel_balance::control::Settings;
use evenkeel_balance::params::ParamError;
use evenkeel_balance::state::State;
use evenkeel_balance::subset::Subset;
use evenkeel_balance::{Balancer, EndpointId, EndpointSpec, Instant, Pool, Seat, Slot};
use evenkeel_config::plan::{self, Address, HealthCheck, ProxyVersion};
use evenkeel_net::log_writer::Writer;
use evenkeel_net::tls::towards::Towards;
use evenkeel_view::events::Kind;
use evenkeel_view::words::unix_ms;
use evenkeel_view::{Drain, Health};
use rustls::pki_types::ServerName;
use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::SystemTime;

pub type Pools = HashMap<Arc<str>, SharedPool>;

/// A pool as all workers share it.
#[derive(Debug)]
pub struct SharedPool {
    /// The decisions: which endpoints may get a request.
    pub pool: Pool,
    workers: u32,
    settings: Settings,
    queue_max: u32,
    check: Option<Arc<HealthCheck>>,
    announce: Option<ProxyVersion>,
    tls: Option<Towards>,
    name: Arc<str>,
    /// Plan of the endpoints that were published last.
    planned: Vec<(Arc<str>, EndpointSpec)>,
    /// Plan of those that are reserved and not published yet.
    reserved: Option<Vec<(Arc<str>, EndpointSpec)>>,
    orders: Orders,
    events: Events,
    /// History of the pool and its endpoints.
    history: History,
    /// Time when something is due next.
    due: Option<Instant>,
}

/// Reason for which an operator's order changed nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The endpoint is unknown; these are known.
    Unknown(Vec<Arc<str>>),
    /// The endpoint is in that state already.
    Already(&'static str),
    /// Too many orders are kept.
    TooMany,
}

/// Health check of one endpoint.
#[derive(Clone, Debug, PartialEq)]
pub struct Checkup {
    /// Question and timing of the check.
    pub check: Arc<HealthCheck>,
    pub addr: SocketAddr,
    /// The header that the endpoint expects first on each connection.
    pub announce: Option<ProxyVersion>,
    /// TLS settings and the name to verify, if the check uses TLS.
    pub tls: Option<(Towards, ServerName<'static>)>,
}

impl SharedPool {
    /// A pool without endpoints. `orders`: what operators want of them; `events`: where it tells what happens.
    pub fn new(workers: usize, orders: &Orders, events: &Events) -> SharedPool {
        let workers = workers as u32;
        SharedPool {
            pool: Pool::new(workers),
            workers,
            settings: Settings::default(),
            queue_max: 0,
            check: None,
            announce: None,
            tls: None,
            name: Arc::default(),
            planned: Vec::new(),
            reserved: None,
            orders: orders.clone(),
            events: events.clone(),
            history: History::default(),
            due: None,
        }
    }

    /// A balancer for each worker, with a journal if there is a `writer` for it.
    ///
    /// # Errors
    /// The algorithm refuses its parameters.
    pub fn balancers(&self, plan: &plan::Pool, writer: Option<&Writer>) -> Result<Vec<Balancer>, ParamError> {
        let seats = (0..self.workers).map(|worker| Seat { worker, workers: self.workers });
        let (algorithm, params, seed) = (plan.balance.algorithm, &plan.balance.params, seed(plan));
        let balancer = |seat| {
            let balancer = match writer {
                Some(writer) => {
                    self.pool.recorded_balancer(algorithm, params, seat, seed, Box::new(Journal::new(writer)))?
                }
                None => self.pool.balancer(algorithm, params, seat, seed)?,
            };
            Ok(if plan.shadow.is_empty() { balancer } else { balancer.remembering() })
        };
        seats.map(balancer).collect()
    }

    /// Gives the endpoints of a pool their slots: no worker may pick a new endpoint before it knows what is in the
    /// slot.
    pub fn reserve(&mut self, plan: &plan::Pool, endpoints: &[plan::Endpoint]) {
        self.name = plan.name.clone();
        let planned: Vec<_> = endpoints.iter().map(|e| (e.name.clone(), spec(e, plan))).collect();
        self.pool.reserve(&self.as_ordered(&planned));
        self.reserved = Some(planned);
        self.settings = settings(plan);
        self.queue_max = plan.queue.max;
        self.announce = plan.proxy_protocol;
        let check = plan.health.as_ref();
        if self.check.as_deref() != check {
            self.check = check.cloned().map(Arc::new);
        }
        self.history.apply(&plan.name, endpoints);
    }

    /// Has checks speak TLS, where requests do.
    pub fn secure(&mut self, tls: Option<&Towards>) {
        self.tls = tls.cloned();
    }

    /// Lets the workers pick the endpoints that were [reserved](Self::reserve), and no others, under the settings of
    /// their plan.
    pub fn publish(&mut self, now: Instant) {
        self.pool.queue().set_max(self.queue_max);
        self.pool.configure(self.settings, now);
        if let Some(reserved) = self.reserved.take() {
            self.planned = reserved;
        }
        self.due = self.pool.update(&self.as_ordered(&self.planned), now);
        self.record();
    }

    /// The endpoints as their orders want them to be.
    fn as_ordered(&self, planned: &[(Arc<str>, EndpointSpec)]) -> Vec<EndpointSpec> {
        let ordered = |(name, spec): &(Arc<str>, EndpointSpec)| match self.orders.of(&self.name, name) {
            Some(order) => order.applied_to(spec.clone()),
            None => spec.clone(),
        };
        planned.iter().map(ordered).collect()
    }

    /// Changes what an operator wants of an endpoint, and does it. `by`: who that is.
    ///
    /// # Errors
    /// The order changes nothing.
    pub fn order(&mut self, endpoint: &str, change: Change, by: &str, now: Instant) -> Result<(), Refused> {
        let name = self.name_of(endpoint)?;
        if !self.orders.change(&self.name, &name, change, by, unix_ms(SystemTime::now())) {
            return Err(Refused::TooMany);
        }
        let text = match change {
            Change::Drain(Some(Drain::KeepSessions)) => "is draining; its sessions stay".to_owned(),
            Change::Drain(Some(Drain::Now)) => "is draining; its sessions move".to_owned(),
            Change::Drain(None) => "is no longer draining, unless configured to".to_owned(),
            Change::Weight(Some(weight)) => format!("has weight {weight}"),
            Change::Weight(None) => "has its configured weight".to_owned(),
            Change::Health(Some(Health::Up)) => "is forced up, whatever its checks report".to_owned(),
            Change::Health(Some(Health::Down)) => "is forced down, whatever its checks report".to_owned(),
            Change::Health(None) => "follows its checks again".to_owned(),
            Change::Clear => "follows its configuration again".to_owned(),
        };
        self.note_order(&name, text, by);
        // Not of those that are only reserved: workers may be about to learn of them.
        self.due = self.pool.update(&self.as_ordered(&self.planned), now);
        self.record();
        Ok(())
    }

    /// Takes an endpoint out of use for as long as an ejection lasts.
    ///
    /// # Errors
    /// The order changes nothing.
    pub fn eject(&mut self, endpoint: &str, by: &str, now: Instant) -> Result<(), Refused> {
        let name = self.name_of(endpoint)?;
        self.due = self.pool.eject(EndpointId::of(&name), now).ok_or(Refused::Already("ejected"))?;
        self.note_order(&name, "is ejected temporarily".to_owned(), by);
        self.record();
        Ok(())
    }

    /// Ends the ejection or the probation of an endpoint.
    ///
    /// # Errors
    /// The order changes nothing.
    pub fn restore(&mut self, endpoint: &str, by: &str, now: Instant) -> Result<(), Refused> {
        let name = self.name_of(endpoint)?;
        self.due = self.pool.restore(EndpointId::of(&name), now).ok_or(Refused::Already("not ejected"))?;
        self.note_order(&name, "is restored from its ejection".to_owned(), by);
        self.record();
        Ok(())
    }

    fn name_of(&self, endpoint: &str) -> Result<Arc<str>, Refused> {
        let names = || self.planned.iter().chain(self.reserved.iter().flatten()).map(|(name, _)| name);
        names().find(|name| &***name == endpoint).cloned().ok_or_else(|| Refused::Unknown(names().cloned().collect()))
    }

    fn note_order(&self, endpoint: &Arc<str>, text: String, by: &str) {
        tracing::info!(pool = &*self.name, endpoint = &**endpoint, by, "operator order: the endpoint {text}");
        self.events.tell(Kind::Operator, (Some(&self.name), Some(endpoint)), text, Some(by));
    }

    /// Returns the order of operators for an endpoint.
    pub fn order_of(&self, endpoint: &str) -> Option<Order> {
        self.orders.of(&self.name, endpoint)
    }

    /// Returns the time when something is due next.
    pub fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Does everything that is due.
    pub fn poll(&mut self, now: Instant) {
        self.due = self.pool.poll(now);
        self.record();
    }

    /// Takes the result of a check.
    pub fn on_check(&mut self, id: EndpointId, checked: &Checked, now: Instant) {
        self.history.on_check(id, checked);
        self.due = self.pool.on_check(id, checked.result.is_ok(), now);
        self.record();
    }

    fn record(&mut self) {
        let changes = self.pool.take_changes();
        let states = self.pool.states().map(|(_, state)| state);
        let (in_panic, mode) = (self.pool.view().set.in_panic(), self.settings.panic.mode);
        self.history.record(&changes, in_panic, states, mode, &self.events);
    }

    /// The endpoints to check, and how.
    pub fn checkups(&self) -> impl Iterator<Item = (EndpointId, Checkup)> + '_ {
        let used: HashSet<EndpointId> = self.pool.states().map(|(id, _)| id).collect();
        let endpoints = self.check.iter().flat_map(|check| self.history.endpoints().map(move |e| (check, e)));
        endpoints.filter(move |(_, e)| used.contains(&EndpointId::of(&e.name))).filter_map(|(check, endpoint)| {
            let addr = address(&endpoint.addr)?;
            let named = |tls: &Towards| Some((tls.clone(), tls.name_of(&endpoint.name, Some(addr.ip())).ok()?));
            let tls = self.tls.as_ref().and_then(named);
            let checkup = Checkup { check: check.clone(), addr, announce: self.announce, tls };
            Some((EndpointId::of(&endpoint.name), checkup))
        })
    }

    /// Returns the history of the pool.
    pub fn history(&self) -> &History {
        &self.history
    }

    /// The present state of an endpoint.
    pub fn state_of(&self, name: &str) -> Option<State> {
        let wanted = EndpointId::of(name);
        self.pool.states().find(|(id, _)| *id == wanted).map(|(_, state)| state)
    }

    /// A balancer for a worker of another plane, which picks and counts nothing.
    ///
    /// # Errors
    /// The algorithm refuses its parameters.
    pub fn balancer_for_answers(&self, plan: &plan::Pool, worker: u32) -> Result<Balancer, ParamError> {
        // Never the only worker: it does not see what the workers here count.
        let seat = Seat { worker: worker % self.workers, workers: self.workers + 1 };
        self.pool.balancer(plan.balance.algorithm, &plan.balance.params, seat, seed(plan) ^ !0)
    }

    /// The slot of an endpoint of a plan, once that is reserved.
    pub fn slot_of(&self, endpoint: &plan::Endpoint) -> Option<Slot> {
        self.pool.slot_of(EndpointId::of(&endpoint.name))
    }
}

/// The seed of a pool's balancers.
fn seed(plan: &plan::Pool) -> u64 {
    EndpointId::of(&plan.name).0 ^ u64::from(std::process::id())
}

/// The part of a plan that says how the pool watches its endpoints.
fn settings(plan: &plan::Pool) -> Settings {
    Settings {
        health: plan.health.as_ref().map(|health| health.machine),
        outlier: plan.outlier,
        slow_start: plan.slow_start,
        panic: plan.panic,
        locality: plan.locality,
        concurrency: plan.limits.concurrency,
        subset: plan.subset.as_ref().map(subset),
    }
}

/// The part of the endpoints for this instance: by the name in its plan, or that of the host.
fn subset(plan: &plan::Subset) -> Subset {
    let host = || std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let instance = plan.instance.as_deref().map_or_else(host, str::to_string);
    Subset::named(plan.size, instance.trim())
}

/// The specification of one endpoint of a plan.
fn spec(endpoint: &plan::Endpoint, plan: &plan::Pool) -> EndpointSpec {
    let spec = EndpointSpec::new(&endpoint.name)
        .weight(endpoint.weight.into())
        // Without an address it would fail each request that it got.
        .unresolved(address(&endpoint.addr).is_none())
        .priority(endpoint.priority)
        .drain(endpoint.drain)
        .in_flight_max(plan.limits.requests_per_endpoint);
    match &endpoint.zone {
        Some(zone) => spec.zone(zone),
        None => spec,
    }
}

/// The address to connect to; `None` for a name that discovery has not resolved yet.
pub fn address(addr: &Address) -> Option<SocketAddr> {
    match addr {
        Address::Ip(addr) => Some(*addr),
        Address::Name { .. } => None,
    }
}
