//! The proxy as a plane of a runtime. First it prepares the parts of a plan that can fail (sockets, access log,
//! balancers). Then it sends every worker its parts.

mod prepare;
mod sticky_key;

use super::look::Looker;
use super::parts::{EndpointParts, Parts, PoolParts, Slots, Update, protocol_of};
use super::secured::Secured;
use super::worker::{self, WorkerConfig};
use crate::core::handoff::Peers;
use crate::filters::table;
use crate::listener::compiled::{self, Compiled};
use crate::listener::rules::Shared;
use crate::observe::access_log::{AccessLog, Layout};
use crate::observe::finished::FinishedRequest;
use crate::observe::metrics::Metrics;
use crate::observe::numbers::{Members, Numbers};
use crate::observe::shown::Shown;
use crate::observe::traces;
use crate::resource::Resources;
use evenkeel_balance::Instant;
use evenkeel_config::Plan;
use evenkeel_config::plan::{self, LineSink, LogTarget, SyslogAddress};
use evenkeel_net::inherit::Inherited;
use evenkeel_net::listen::{ListenFd, Protocol};
use evenkeel_net::log_writer::{Logger, Sink, Writer};
use evenkeel_net::workers::{Threads, Workers};
use evenkeel_runtime::pool::address;
use evenkeel_runtime::{
    Change, Control, Diagnostic, Next, Plane, Pools, Prepared, Runtime, Sending, SharedPool, StartError, View, Work,
};
use evenkeel_tls::Store;
use evenkeel_tokens::Tokens;
use prometheus_client::collector::Collector;
use rustix::fd::OwnedFd;
use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Weak};
use tokio::sync::{mpsc, watch};

/// Seconds between two looks at the files of certificates: a renewed certificate is in use before its operator checks
/// it.
const CERTIFICATES_EVERY: u32 = 3;

/// The control side of the proxy's workers.
pub struct Proxy {
    /// Statistics, under the plan in use.
    numbers: watch::Sender<Arc<Numbers>>,
    /// Certificates and keys of the plan in use.
    certificates: watch::Sender<Arc<Store>>,
    /// Verifiers of tokens of the plan in use.
    tokens_in_use: watch::Sender<Arc<Tokens>>,
    control: Control,
    /// State of each listener that is shared by workers and outlives plans.
    shared: HashMap<Arc<str>, Shared>,
    /// Sockets by address, a socket for each worker. Weak: workers own them.
    sockets: HashMap<(Protocol, SocketAddr), Vec<Weak<OwnedFd>>>,
    /// Addresses that answer UDP probes.
    probed: Vec<SocketAddr>,
    workers: Workers<Update>,
    /// Number that distinguishes this instance from others; see [`Parts::instance`].
    instance: u64,
    log: Option<Writer>,
    secured: Secured,
    /// Number of calls of [`Plane::tick`].
    ticks: u32,
    /// Writer of the pick journal, if the first plan names one.
    journal: Option<Writer>,
    /// Channel for finished requests with spans; the receiver is there until the exporter takes it.
    recorded: (mpsc::Sender<Arc<FinishedRequest>>, Option<mpsc::Receiver<Arc<FinishedRequest>>>),
    /// Statistics of the plan that was sent, until all workers have applied it.
    sent: Option<Arc<Numbers>>,
    /// Endpoints that were sent, by index of the pool, until all workers have applied them.
    changed: Vec<(usize, Arc<Members>)>,
    /// Resources to release once all workers have applied the plan.
    left: Option<Left>,
}

/// Resources that the previous plan leaves behind.
struct Left {
    /// The previous access log, if the new plan has a different log.
    log: Option<Writer>,
}

impl Proxy {
    /// Starts the workers, which serve nothing until [`Plane`] sends them a plan. `secured` adds TLS to the listeners
    /// of plans.
    ///
    /// # Errors
    /// The journal cannot be opened, or a thread cannot be started.
    pub fn start(runtime: &Runtime, secured: Secured) -> Result<Proxy, StartError> {
        let (generation, workers) = (runtime.now(), runtime.workers());
        let journal = generation.plan.telemetry.journal.as_ref().map(open_journal).transpose()?;
        let base = runtime.control().base();
        let none = Resources::default();
        let resources = Resources::default().install(&table::makers(), &generation.plan, &none);
        let first = Arc::new(Numbers::first(generation, workers, resources));
        let (recorded, record) = mpsc::channel(traces::WAITING_MAX);
        let mut proxy = Proxy {
            numbers: watch::channel(first.clone()).0,
            certificates: watch::channel(secured.store().clone()).0,
            tokens_in_use: watch::channel(Arc::default()).0,
            control: runtime.control().clone(),
            shared: HashMap::new(),
            sockets: HashMap::new(),
            probed: Vec::new(),
            workers: Workers::default(),
            instance: runtime.instance(),
            log: None,
            secured,
            ticks: 0,
            journal,
            recorded: (recorded, Some(record)),
            sent: None,
            changed: Vec::new(),
            left: None,
        };
        let (doors, handed): (Vec<_>, Vec<_>) = (0..workers).map(|_| mpsc::unbounded_channel()).unzip();
        let peers = Arc::new(Peers::new(doors));
        for (index, handed) in handed.into_iter().enumerate() {
            let (peers, probing) = (peers.clone(), first.workers[index].probing.clone());
            let serve = move |link| worker::serve(index, base, WorkerConfig { link, peers, handed, probing });
            let no_thread = |error| Diagnostic::machine(format!("cannot start a worker: {error}"));
            let worker = proxy.workers.spawn(format!("worker-{index}"), serve).map_err(no_thread)?;
            proxy.workers.add(worker);
        }
        Ok(proxy)
    }

    /// Receiver of finished requests with spans; `None` from the second call on.
    pub fn take_recorded(&mut self) -> Option<mpsc::Receiver<Arc<FinishedRequest>>> {
        self.recorded.1.take()
    }

    /// Watches the certificates and keys of the plan in use.
    pub fn certificates(&self) -> watch::Receiver<Arc<Store>> {
        self.certificates.subscribe()
    }

    /// Watches the verifiers of tokens of the plan in use.
    pub fn tokens(&self) -> watch::Receiver<Arc<Tokens>> {
        self.tokens_in_use.subscribe()
    }

    /// Watches the statistics of the workers.
    pub fn numbers(&self) -> watch::Receiver<Arc<Numbers>> {
        self.numbers.subscribe()
    }

    /// Asks workers for explanations of their picks.
    pub fn looker(&self) -> Looker {
        Looker::new(self.workers.doors(), self.numbers(), self.control.clone())
    }

    fn now(&self) -> Arc<Numbers> {
        self.numbers.borrow().clone()
    }
}

impl Plane for Proxy {
    fn prepare(&self, next: &Next<'_>, inherited: &mut Inherited) -> Result<Prepared, Vec<Diagnostic>> {
        prepare::prepare(self, next, inherited).map(Prepared::new)
    }

    fn install(&mut self, prepared: Prepared, shared_pools: &mut Pools, sending: &Sending<'_>) {
        let prepare::Prepared {
            mut sockets,
            mut probed,
            mut balancers,
            pool_rules,
            resources,
            secured,
            log,
            explain,
            quic,
        } = prepared.into();
        self.secured = secured;
        let now = self.now();
        let resources = resources.install(&table::makers(), &sending.generation.plan, &now.resources);
        let next = Arc::new(now.next(sending.generation.clone(), resources.into()));
        let (plan, members) = (&next.generation.plan, next.all_members());
        for pool in &plan.pools {
            let shared = shared_pools.get_mut(&pool.name).expect("every pool of the plan is there");
            shared.secure(self.secured.pools.get(&pool.name));
        }
        for (&at, sockets) in &sockets {
            self.sockets.insert(at, sockets.iter().flatten().map(Arc::downgrade).collect());
        }
        let pool_index = plan.pools_by_name();
        let pools_of = |route: &plan::Route| route.pools().map(|pool| pool_index[&**pool]).collect();
        let pools_of_route: Arc<[Box<[usize]>]> = plan.routes.iter().map(pools_of).collect();
        let asks_by_request = plan.acme.challenge == plan::Challenge::Http01 && !plan.issued().is_empty();
        let challenges = asks_by_request.then(|| self.secured.store().challenges().clone());
        let workers = next.workers.len();
        let shared = plan.listeners.iter().map(|listener| {
            let shared = self.shared.entry(listener.name.clone());
            shared.or_insert_with(|| Shared::new(workers)).clone()
        });
        let shared: Vec<_> = shared.collect();
        let prepared =
            compiled::Prepared { tls: &self.secured.listeners, challenges, resources: next.resources.clone() };
        let compiled = Compiled::of_plan(plan, &prepared, &shared);
        let listeners: Arc<[_]> = compiled.into_iter().zip(shared).collect();
        let layout = plan.telemetry.access_log.as_ref().map(|log| Arc::new(Layout::new(log, next.generation.number)));
        // Last worker first: sockets and balancers are popped off the ends of their lists.
        for (worker, stats) in next.workers.iter().enumerate().rev() {
            let pools = plan.pools.iter().enumerate().map(|(index, pool)| PoolParts {
                rules: pool_rules[index].clone(),
                balancer: balancers[index].as_mut().and_then(Vec::pop),
                endpoints: slots(&shared_pools[&pool.name], &members[index], worker),
            });
            let pools = pools.collect();
            let all = plan.listeners.iter().enumerate().flat_map(|(i, l)| addresses(l).map(move |at| (i, at)));
            let mine = all.map(|(i, at)| (at, i, sockets.get_mut(&at).and_then(Vec::pop).unwrap_or_default()));
            let probed = probed_at(plan).map(|(i, addr)| (addr, i, probed.get_mut(&addr).and_then(Vec::pop)));
            let parts = Parts {
                number: next.generation.number,
                plan: plan.clone(),
                workers: next.workers.len(),
                instance: self.instance,
                stats: stats.clone(),
                control: self.control.clone(),
                listeners: listeners.clone(),
                pools,
                pools_of_route: pools_of_route.clone(),
                splits: next.generation.splits.clone(),
                sockets: mine.collect(),
                probed: probed.collect(),
                log: log.as_ref().map(|log| {
                    let log = log.as_ref().zip(layout.as_ref());
                    log.map(|(log, layout)| AccessLog::new(log.batch(stats.log_lines_dropped.clone()), layout.clone()))
                }),
                explain: explain.clone(),
                traces: plan
                    .telemetry
                    .traces
                    .as_ref()
                    .map(|traces| (traces::Rules::new(traces), self.recorded.0.clone())),
                quic_keys: quic.clone(),
                generation: next.generation.in_use(),
            };
            self.workers.send(worker, Update::Plan(Box::new(parts)), sending.applying);
        }
        let log = log.and_then(|log| std::mem::replace(&mut self.log, log));
        (self.sent, self.left) = (Some(next), Some(Left { log }));
    }

    fn endpoints(&mut self, changes: &[Change<'_>], sending: &Sending<'_>) {
        let now = self.now();
        let next = |change: &Change<'_>| Arc::new(now.members(change.at).next(change.endpoints.clone()));
        let members: Vec<Arc<Members>> = changes.iter().map(next).collect();
        let drain_timeout = sending.generation.plan.runtime.drain_timeout;
        for worker in 0..now.workers.len() {
            let pools = changes.iter().zip(&members);
            let pools = pools.map(|(change, members)| (change.at, slots(change.shared, members, worker)));
            self.workers.send(worker, Update::Endpoints { pools: pools.collect(), drain_timeout }, sending.applying);
        }
        self.changed = changes.iter().map(|change| change.at).zip(members).collect();
    }

    fn applied(&mut self) {
        for (pool, members) in self.changed.drain(..) {
            self.numbers.borrow().change(pool, members);
        }
        let Some(next) = self.sent.take() else { return };
        if let Some(left) = self.left.take() {
            let plan = &next.generation.plan;
            self.shared.retain(|name, _| plan.listener(name).is_some());
            self.probed = probed_at(plan).map(|(_, addr)| addr).collect();
            self.sockets.retain(|at, _| {
                plan.listeners.iter().flat_map(|listener| addresses(listener)).any(|other| other == *at)
            });
            left.log.into_iter().for_each(Writer::finish);
            self.certificates.send_replace(self.secured.store().clone());
            self.tokens_in_use.send_replace(next.resources.of::<Tokens>().clone());
        }
        self.numbers.send_replace(next);
    }

    fn workers(&self) -> &Threads {
        self.workers.threads()
    }

    fn workers_mut(&mut self) -> &mut Threads {
        self.workers.threads_mut()
    }

    fn sockets(&self) -> Vec<(String, ListenFd)> {
        let mut all: Vec<(String, ListenFd)> = Vec::new();
        for listener in &self.now().plan().listeners {
            let here = addresses(listener).filter_map(|at| self.sockets.get(&at)).flatten();
            for socket in here.filter_map(Weak::upgrade) {
                // Workers may share a socket.
                if !all.iter().any(|(_, other)| Arc::ptr_eq(other, &socket)) {
                    all.push((listener.name.to_string(), socket));
                }
            }
        }
        all
    }

    fn collector(&self) -> Box<dyn Collector> {
        Box::new(Metrics::new(self.numbers()))
    }

    fn view(&self) -> Arc<dyn View> {
        Arc::new(Shown(self.numbers()))
    }

    fn tick(&mut self, now: Instant) -> Option<Work> {
        let numbers = self.now();
        numbers.tick_cache(now);
        if self.ticks.is_multiple_of(CERTIFICATES_EVERY) {
            self.secured.store().look();
        }
        self.ticks = self.ticks.wrapping_add(1);
        let resources = numbers.resources.clone();
        (resources.has_files() && numbers.plan().runtime.watch).then(|| Box::new(move || resources.look()) as Work)
    }

    fn open(&self) -> u64 {
        let now = self.now();
        let listeners = now.workers.iter().flat_map(|worker| &worker.listeners);
        listeners.fold(0, |sum, listener| sum.wrapping_add(listener.active.get()))
    }

    fn reopen(&self) -> Result<(), String> {
        let now = self.now();
        let telemetry = &now.plan().telemetry;
        if let (Some(log), Some(plan)) = (&self.log, &telemetry.access_log) {
            log.reopen(&line_sink(plan)).map_err(|error| match &plan.to {
                LineSink::File(path) => format!("access log: cannot open {}: {error}", path.display()),
                _ => format!("access log: {error}"),
            })?;
        }
        if let (Some(journal), Some(plan)) = (&self.journal, &telemetry.journal) {
            journal.reopen(&journal_sink(&plan.to)).map_err(|error| cannot_open_journal(plan, &error))?;
        }
        Ok(())
    }

    fn join(self: Box<Self>) {
        self.workers.join();
        [self.log, self.journal].into_iter().flatten().for_each(Writer::finish);
    }
}

/// Opens the journal of picks.
fn open_journal(plan: &plan::Journal) -> Result<Writer, Diagnostic> {
    let opened = Writer::open(&journal_sink(&plan.to), "journal");
    opened.map_err(|error| Diagnostic::machine(cannot_open_journal(plan, &error)))
}

fn cannot_open_journal(plan: &plan::Journal, error: &io::Error) -> String {
    match &plan.to {
        LogTarget::File(path) => format!("journal: cannot open {}: {error}", path.display()),
        LogTarget::Stdout => format!("journal: {error}"),
    }
}

/// Destination of the journal.
fn journal_sink(target: &LogTarget) -> Sink {
    match target {
        LogTarget::Stdout => Sink::Stdout,
        LogTarget::File(path) => Sink::File(path.clone()),
    }
}

/// Destination of the access log.
pub(super) fn line_sink(log: &plan::AccessLog) -> Sink {
    match &log.to {
        LineSink::Stdout => Sink::Stdout,
        LineSink::Stderr => Sink::Stderr,
        LineSink::File(path) => Sink::File(path.clone()),
        LineSink::Syslog(SyslogAddress::Unix(path)) => {
            Sink::Logger(Logger::SyslogUnix(path.clone(), log.facility.number()))
        }
        LineSink::Syslog(SyslogAddress::Udp(addr)) => Sink::Logger(Logger::SyslogUdp(*addr, log.facility.number())),
        LineSink::Journald(path) => Sink::Logger(Logger::Journald(path.clone())),
    }
}

/// Endpoints of a pool as sent to `worker`. Endpoints without a reserved slot are omitted.
fn slots(shared: &SharedPool, members: &Members, worker: usize) -> Slots {
    let one = |(endpoint, stats): (&plan::Endpoint, &_)| {
        let (slot, addr) = (shared.slot_of(endpoint)?, address(&endpoint.addr));
        let (name, own) = (endpoint.name.clone(), endpoint.own.clone());
        Some((slot, EndpointParts { name, addr, own, stats: Arc::clone(stats) }))
    };
    members.endpoints.iter().zip(&members.workers[worker]).filter_map(one).collect()
}

/// Addresses of a listener that this plane serves.
fn addresses(listener: &plan::Listener) -> impl Iterator<Item = (Protocol, SocketAddr)> {
    let protocol = protocol_of(listener.mode);
    let ours = listener.mode.is_proxied() && !listener.plane.is_kernel();
    let quic = listener.http3.as_ref().filter(|_| listener.tls.is_some()).map(|_| Protocol::Udp);
    let protocols = [Some(protocol), quic].into_iter().flatten();
    let bound = listener.bind.iter().filter(move |_| ours);
    bound.flat_map(move |addr| protocols.clone().map(|protocol| (protocol, *addr)))
}

/// Addresses that answer UDP probes, each with the index of its listener.
fn probed_at(plan: &Plan) -> impl Iterator<Item = (usize, SocketAddr)> + '_ {
    let answers = |l: &plan::Listener| l.report_load.as_ref().is_some_and(|report| report.udp);
    let listeners = plan.listeners.iter().enumerate().filter(move |(_, l)| answers(l));
    listeners.flat_map(|(i, l)| l.bind.iter().map(move |addr| (i, *addr)))
}
