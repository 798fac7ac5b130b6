//! Pools of the control side: turn configured endpoints into sets, create the balancers of workers, and combine the
//! results of checks and requests.

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
use evenkeel_net::dial::Remote;
use evenkeel_net::log_writer::Writer;
use evenkeel_net::tls::towards::{Named, Towards};
use evenkeel_view::events::Kind;
use evenkeel_view::words::unix_ms;
use evenkeel_view::{Drain, Health};
use rustls::pki_types::ServerName;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::SystemTime;

pub type Pools = HashMap<Arc<str>, SharedPool>;

/// Pool that all workers share.
#[derive(Debug)]
pub struct SharedPool {
    /// State machine that decides which endpoints may get requests.
    pub pool: Pool,
    workers: u32,
    settings: Settings,
    queue_max: u32,
    check: Option<Arc<HealthCheck>>,
    announce: Option<ProxyVersion>,
    tls: Option<Towards>,
    name: Arc<str>,
    /// Specifications of the endpoints that were published last.
    planned: Vec<(Arc<str>, EndpointSpec)>,
    /// Specifications of endpoints that are reserved but not yet published.
    reserved: Option<Vec<(Arc<str>, EndpointSpec)>>,
    orders: Orders,
    events: Events,
    /// History of the pool and its endpoints.
    history: History,
    /// Time at which the pool must be polled next.
    due: Option<Instant>,
}

/// Reason why an operator's order was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The endpoint is unknown; the list has the known endpoints.
    Unknown(Vec<Arc<str>>),
    /// The endpoint already is in this state.
    Already(&'static str),
    /// There are too many orders already.
    TooMany,
}

/// Health check of an endpoint.
#[derive(Clone, Debug, PartialEq)]
pub struct Checkup {
    /// Question and timing of the check.
    pub check: Arc<HealthCheck>,
    pub addr: Remote,
    /// Host of the endpoint, unless the check has one.
    pub host: Option<Arc<str>>,
    /// Version of the PROXY header that the endpoint expects, if any.
    pub announce: Option<ProxyVersion>,
    /// TLS settings and the name to verify; `None` without TLS.
    pub tls: Option<(Towards, ServerName<'static>)>,
}

impl SharedPool {
    /// Creates a pool without endpoints. `orders`: orders of operators; `events` gets its changes.
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

    /// Creates a balancer for each worker, with a journal if `writer` is given.
    ///
    /// # Errors
    /// The algorithm rejects its parameters.
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
            let balancer = balancer.exploring(plan.explore, seed);
            Ok(if plan.shadow.is_empty() { balancer } else { balancer.remembering() })
        };
        seats.map(balancer).collect()
    }

    /// Assigns slots to the endpoints of a pool without publishing them: no worker may pick a new endpoint before it
    /// knows its slot.
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

    /// Sets TLS for checks, if requests use it.
    pub fn secure(&mut self, tls: Option<&Towards>) {
        self.tls = tls.cloned();
    }

    /// Publishes the [reserved](Self::reserve) endpoints and the settings of their plan, so that workers pick these and
    /// no others. Returns true if all endpoints are drained now and were not before, or the other way round.
    pub fn publish(&mut self, now: Instant) -> bool {
        self.pool.queue().set_max(self.queue_max);
        self.pool.configure(self.settings, now);
        if let Some(reserved) = self.reserved.take() {
            self.planned = reserved;
        }
        self.update(now)
    }

    /// Applies the published endpoints with the orders of operators.
    fn update(&mut self, now: Instant) -> bool {
        let specs = self.as_ordered(&self.planned);
        self.due = self.pool.update(&specs, now);
        self.record();
        let is_drained = !specs.is_empty() && specs.iter().all(|spec| spec.drain);
        self.orders.note_drained(&self.name, is_drained)
    }

    /// Specifications with the orders of operators applied.
    fn as_ordered(&self, planned: &[(Arc<str>, EndpointSpec)]) -> Vec<EndpointSpec> {
        let ordered = |(name, spec): &(Arc<str>, EndpointSpec)| match self.orders.of(&self.name, name) {
            Some(order) => order.applied_to(spec.clone()),
            None => spec.clone(),
        };
        planned.iter().map(ordered).collect()
    }

    /// Changes the order for an endpoint and applies it. `by`: the operator.
    ///
    /// # Errors
    /// The reason why nothing changed.
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
        // Without those that are only reserved: workers may not know them yet.
        self.update(now);
        Ok(())
    }

    /// Ejects an endpoint for the usual time.
    ///
    /// # Errors
    /// The reason why nothing changed.
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
    /// The reason why nothing changed.
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

    /// Returns the time at which the pool must be polled next.
    pub fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Does everything that is due at `now`.
    pub fn poll(&mut self, now: Instant) {
        self.due = self.pool.poll(now);
        self.record();
    }

    /// Handles the result of a check.
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

    /// Checks to run, by endpoint.
    pub fn checkups(&self) -> impl Iterator<Item = (EndpointId, Checkup)> + '_ {
        let used: HashSet<EndpointId> = self.pool.states().map(|(id, _)| id).collect();
        let endpoints = self.check.iter().flat_map(|check| self.history.endpoints().map(move |e| (check, e)));
        endpoints.filter(move |(_, e)| used.contains(&EndpointId::of(&e.name))).filter_map(|(check, endpoint)| {
            let addr = address(&endpoint.addr)?;
            let own = &endpoint.own;
            let name = Named { own: own.tls_name.as_deref(), name: &endpoint.name, ip: addr.ip() };
            let named = |tls: &Towards| Some((tls.clone(), tls.name_of(name).ok()?));
            let tls = self.tls.as_ref().and_then(named);
            let host = own.host.clone();
            let checkup = Checkup { check: check.clone(), addr, host, announce: self.announce, tls };
            Some((EndpointId::of(&endpoint.name), checkup))
        })
    }

    /// Returns the history of the pool.
    pub fn history(&self) -> &History {
        &self.history
    }

    /// Current state of an endpoint.
    pub fn state_of(&self, name: &str) -> Option<State> {
        let wanted = EndpointId::of(name);
        self.pool.states().find(|(id, _)| *id == wanted).map(|(_, state)| state)
    }

    /// Creates a balancer for a worker of a plane that picks but counts no requests, such as DNS.
    ///
    /// # Errors
    /// The algorithm rejects its parameters.
    pub fn balancer_for_answers(&self, plan: &plan::Pool, worker: u32) -> Result<Balancer, ParamError> {
        // One worker more than there are: a balancer that is the only worker would ignore the counts of others.
        let seat = Seat { worker: worker % self.workers, workers: self.workers + 1 };
        self.pool.balancer(plan.balance.algorithm, &plan.balance.params, seat, seed(plan) ^ !0)
    }

    /// Slot of an endpoint, once reserved.
    pub fn slot_of(&self, endpoint: &plan::Endpoint) -> Option<Slot> {
        self.pool.slot_of(EndpointId::of(&endpoint.name))
    }
}

/// Seed of a pool's balancers, different in each process.
fn seed(plan: &plan::Pool) -> u64 {
    EndpointId::of(&plan.name).0 ^ u64::from(std::process::id())
}

/// Control settings of a pool from its plan.
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

/// Subset of the endpoints for this instance, by its configured name or the host name.
fn subset(plan: &plan::Subset) -> Subset {
    let host = || std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let instance = plan.instance.as_deref().map_or_else(host, str::to_string);
    Subset::named(plan.size, instance.trim())
}

/// Specification of an endpoint of a plan.
fn spec(endpoint: &plan::Endpoint, plan: &plan::Pool) -> EndpointSpec {
    let spec = EndpointSpec::new(&endpoint.name)
        .weight(endpoint.weight.into())
        // Without an address it would fail every request.
        .unresolved(address(&endpoint.addr).is_none())
        .priority(endpoint.priority)
        .drain(endpoint.drain)
        .in_flight_max(plan.limits.requests_per_endpoint);
    match &endpoint.zone {
        Some(zone) => spec.zone(zone),
        None => spec,
    }
}

/// Address to connect to; `None` for a name that discovery has not resolved yet.
pub fn address(addr: &Address) -> Option<Remote> {
    match addr {
        Address::Ip(addr) => Some(Remote::Ip(*addr)),
        Address::Unix(path) => Some(Remote::Unix(path.clone())),
        Address::Name { .. } => None,
    }
}
