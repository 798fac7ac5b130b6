//! How does a plan become a running proxy, and how does the next plan take its place? What can fail comes first (sockets,
//! the access log, balancers), so that an error changes nothing; then every worker is given its part.

mod prepare;
mod restart;

use super::look::Looker;
use super::parts::{EndpointParts, ListenerParts, Parts, PoolParts, Slots, Update, protocol_of};
use super::secured::Secured;
use super::start_error::StartError;
use super::worker::{self, WorkerConfig};
use crate::core::Command;
use crate::core::handoff::Peers;
use crate::listener::error_pages::ErrorPages;
use crate::listener::route::Router;
use crate::listener::tls::ListenerTls;
use crate::listener::tls_route::TlsRoutes;
use crate::load::load_report::SharedLoad;
use crate::observe::access_log::{AccessLog, Lines};
use crate::observe::generation::{Generation, Summary};
use crate::observe::stats::WorkerStats;
use crate::observe::traces;
use crate::observe::watched::Watched;
use crate::peer::admission::Admission;
use crate::peer::per_address::PerAddress;
use evenkeel_config::Plan;
use evenkeel_config::plan::{self, LineSink, LogTarget, Mode, SyslogAddress};
use evenkeel_net::clock::Base;
use evenkeel_net::inherit::Inherited;
use evenkeel_net::listen::{ListenFd, Protocol};
use evenkeel_net::log_writer::{Logger, Sink, Writer};
use evenkeel_net::total::Total;
use evenkeel_net::workers::{Applying, Interrupt, Interrupted, Workers};
use evenkeel_runtime::Orders;
use evenkeel_runtime::control::{self, Control};
use evenkeel_runtime::pool::{Pools, SharedPool, address};
use evenkeel_tls::{Challenges, Store};
use evenkeel_wire::http1::{FIELDS_MAX, Limits};
use prepare::Prepared;
use restart::keep_until_restart;
use rustix::fd::OwnedFd;
use std::collections::{HashMap, HashSet};
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::{mpsc, watch};

/// A running proxy: the control side of its workers.
pub struct Server {
    running: watch::Sender<Arc<Generation>>,
    control: control::Thread,
    /// By listener.
    shared: HashMap<Arc<str>, Shared>,
    /// The sockets at each address, by worker, for as long as the worker has them.
    sockets: HashMap<(Protocol, SocketAddr), Vec<Weak<OwnedFd>>>,
    /// Where probes are answered.
    probed: Vec<SocketAddr>,
    workers: Workers<Update>,
    /// Which evenkeel this is.
    instance: u64,
    log: Option<Writer>,
    secured: Secured,
    /// Writes the journal of the pool that the plan names.
    journal: Option<Writer>,
    /// Requests that are recorded, on their way to who exports them.
    recorded: (mpsc::Sender<Arc<Watched>>, Option<mpsc::Receiver<Arc<Watched>>>),
}

impl Server {
    /// Starts the workers; when this returns, every listener accepts.
    ///
    /// # Errors
    /// Why not; then nothing runs.
    pub fn start(plan: Plan) -> Result<Server, StartError> {
        Server::start_with(plan, &mut Inherited::default(), Orders::default())
    }

    /// The same, with sockets that came with the process, and with what operators want of endpoints.
    ///
    /// # Errors
    /// Why not; then nothing runs.
    pub fn start_with(plan: Plan, inherited: &mut Inherited, orders: Orders) -> Result<Server, StartError> {
        Server::start_all(plan, inherited, Secured::default(), orders)
    }

    /// The same, where TLS is spoken.
    ///
    /// # Errors
    /// Why not; then nothing runs.
    pub fn start_secured(plan: Plan, inherited: &mut Inherited, secured: Secured) -> Result<Server, StartError> {
        Server::start_all(plan, inherited, secured, Orders::default())
    }

    fn start_all(
        plan: Plan,
        inherited: &mut Inherited,
        secured: Secured,
        orders: Orders,
    ) -> Result<Server, StartError> {
        let workers = match plan.runtime.workers {
            plan::Workers::Auto => std::thread::available_parallelism().map_or(1, usize::from),
            plan::Workers::Count(n) => usize::from(n),
        };
        let open = |journal: &plan::Journal| {
            Writer::open(&journal_sink(&journal.to), "journal")
                .map_err(|error| StartError::Journal(journal.to.clone(), error))
        };
        let journal = plan.telemetry.journal.as_ref().map(open).transpose()?;
        let first = Arc::new(Generation::first(Arc::new(plan), workers));
        let base = Base::now();
        let (recorded, record) = mpsc::channel(traces::WAITING_MAX);
        let mut server = Server {
            running: watch::channel(first.clone()).0,
            control: Control::start(base, orders).map_err(StartError::Thread)?,
            shared: HashMap::new(),
            sockets: HashMap::new(),
            probed: Vec::new(),
            workers: Workers::default(),
            instance: inherited.instance(),
            log: None,
            secured,
            journal,
            recorded: (recorded, Some(record)),
        };
        let prepared = server.prepare(&first.plan, None, inherited)?;
        let (doors, handed): (Vec<_>, Vec<_>) = (0..workers).map(|_| mpsc::unbounded_channel()).unzip();
        let peers = Arc::new(Peers::new(doors));
        for (index, handed) in handed.into_iter().enumerate() {
            let (peers, probing) = (peers.clone(), first.workers[index].probing.clone());
            let serve = move |link| worker::serve(index, base, WorkerConfig { link, peers, handed, probing });
            let worker = server.workers.spawn(format!("worker-{index}"), serve).map_err(StartError::Thread)?;
            server.workers.add(worker);
        }
        server.apply(first, prepared, |_, _| {})?;
        Ok(server)
    }

    /// Changes to another plan while everything runs. What both plans name goes on: connections, requests, idle
    /// connections to endpoints, counts. Requests that run end by the plan that they began with. When this returns,
    /// every worker follows the new plan.
    ///
    /// Some keys stay as they were at the start; [`Summary::at_restart`] names those that the new plan changes.
    ///
    /// # Errors
    /// Why not; then nothing has changed.
    pub fn reload(&mut self, plan: Plan) -> Result<Summary, StartError> {
        self.reload_telling(plan, |_, _| {})
    }

    /// The requests that are recorded, as they end; once.
    pub fn take_recorded(&mut self) -> Option<mpsc::Receiver<Arc<Watched>>> {
        self.recorded.1.take()
    }

    /// Certificates and keys of the plan that runs.
    pub fn certificates(&self) -> &Arc<Store> {
        self.secured.store()
    }

    /// The same. `tell` is given the pools with those of the plan that there were before, as [`apply_endpoints`](Self::apply_endpoints) does
    /// it: what they have new can be picked only behind it.
    ///
    /// # Errors
    /// As [`reload`](Self::reload); then `tell` is not called.
    pub fn reload_telling(
        &mut self,
        mut plan: Plan,
        tell: impl FnOnce(&Pools, &[&plan::Pool]),
    ) -> Result<Summary, StartError> {
        let now = self.now();
        let at_restart = keep_until_restart(&now.plan, &mut plan);
        let next = Arc::new(now.next(Arc::new(plan)));
        let prepared = self.prepare(&next.plan, Some(&now.plan), &mut Inherited::default())?;
        self.apply(next.clone(), prepared, tell)?;
        Ok(Summary::new(&now.plan, &next.plan, next.number, at_restart))
    }

    /// Applies other endpoints of some pools, by name, while everything else stays as it is: those that stay keep what
    /// they have, those that left end with the requests that they have. When this returns, every worker knows them. Pools
    /// that are not there, or have these endpoints already, cost nothing.
    ///
    /// `tell` is given the pools with those of the plan that have others now, when these have their slots, but no
    /// worker can pick them yet: for other planes that have balancers of these pools.
    ///
    /// # Errors
    /// The wait for the workers was interrupted, as the process is to end.
    pub fn apply_endpoints(
        &mut self,
        found: Vec<(Arc<str>, Vec<plan::Endpoint>)>,
        tell: impl FnOnce(&Pools, &[&plan::Pool]),
    ) -> Result<(), Interrupted> {
        let now = self.now();
        let pool_index = pools_by_name(&now.plan);
        let other = found.into_iter().filter_map(|(name, endpoints)| Some((*pool_index.get(&*name)?, endpoints)));
        let other: Vec<_> = other.filter(|(at, endpoints)| now.plan.pools[*at].endpoints != *endpoints).collect();
        if other.is_empty() {
            return Ok(());
        }
        let at: Vec<usize> = other.iter().map(|(at, _)| *at).collect();
        let mut plan = Plan::clone(&now.plan);
        other.into_iter().for_each(|(at, endpoints)| Arc::make_mut(&mut plan.pools[at]).endpoints = endpoints);
        let next = Arc::new(now.with_endpoints(Arc::new(plan)));
        let changed: Vec<_> = at.iter().map(|&at| &*next.plan.pools[at]).collect();

        let mut shared = self.control.pools();
        for pool in &changed {
            shared.get_mut(&pool.name).expect("every pool of the plan is there").reserve(pool);
        }
        let applying = Applying::default();
        for (worker, stats) in next.workers.iter().enumerate() {
            let pools = at
                .iter()
                .zip(&changed)
                .map(|(&at, pool)| (pool.name.clone(), endpoints(&shared[&pool.name], pool, at, stats)));
            let (pools, drain_timeout) = (pools.collect(), next.plan.runtime.drain_timeout);
            self.workers.send(worker, Update::Endpoints { pools, drain_timeout }, &applying);
        }
        tell(&shared, &changed);
        // Control goes on looking after the pools meanwhile.
        drop(shared);
        self.workers.wait(applying)?;
        let mut shared = self.control.pools();
        for pool in &changed {
            shared.get_mut(&pool.name).expect("every pool of the plan is there").publish(self.control.now());
        }
        drop(shared);
        self.control.changed();
        self.running.send_replace(next);
        Ok(())
    }

    /// Does the rest: gives every worker its part, waits until all of them use it, and lets go of what was before.
    fn apply(
        &mut self,
        next: Arc<Generation>,
        prepared: Prepared,
        tell: impl FnOnce(&Pools, &[&plan::Pool]),
    ) -> Result<(), StartError> {
        let Prepared {
            mut sockets,
            mut probed,
            pools: new_pools,
            mut balancers,
            sticky,
            error_pages,
            secured,
            log,
            explain,
        } = prepared;
        self.secured = secured;
        let plan = &next.plan;
        let new: HashSet<_> = new_pools.keys().cloned().collect();
        let mut shared_pools = self.control.pools();
        shared_pools.extend(new_pools);
        for pool in &plan.pools {
            let shared = shared_pools.get_mut(&pool.name).expect("every pool is there or was prepared");
            shared.reserve(pool);
            shared.secure(self.secured.pools.get(&pool.name));
            // No worker knows it yet, so none can pick too early.
            if new.contains(&pool.name) {
                shared.publish(self.control.now());
            }
        }
        for (&at, sockets) in &sockets {
            self.sockets.insert(at, sockets.iter().flatten().map(Arc::downgrade).collect());
        }
        let pool_index = pools_by_name(plan);
        let pool_of_route = plan.routes.iter().map(|r| pool_index[&*r.pool]);
        let pool_of_route: Arc<[usize]> = pool_of_route.collect();
        let (routers, tcp) = (Router::of_plan(plan), TlsRoutes::of_plan(plan));
        let asks_by_request = plan.acme.challenge == plan::Challenge::Http01 && !plan.issued().is_empty();
        let challenges = asks_by_request.then(|| self.secured.store().challenges().clone());
        let lines = plan.telemetry.access_log.as_ref().map(|log| Arc::new(Lines::new(log, next.number)));
        let applying = Applying::default();
        // From the last worker to the first, as that is the order in which sockets and balancers can be taken.
        for (worker, stats) in next.workers.iter().enumerate().rev() {
            let listeners = plan.listeners.iter().enumerate().map(|(index, listener)| {
                let shared = self.shared.entry(listener.name.clone());
                let shared = shared.or_insert_with(|| Shared::new(next.workers.len())).clone();
                listener_parts(
                    listener,
                    (routers[index].clone(), tcp[index].clone()),
                    (self.secured.listeners.get(&listener.name).cloned(), challenges.clone()),
                    error_pages.clone(),
                    shared,
                    stats,
                    index,
                )
            });
            let listeners = listeners.collect();
            let pools = plan.pools.iter().enumerate().map(|(index, pool)| PoolParts {
                name: pool.name.clone(),
                balancer: balancers[index].as_mut().and_then(Vec::pop),
                endpoints: self::endpoints(&shared_pools[&pool.name], pool, index, stats),
                key: pool.key().cloned(),
                limits: pool.limits,
                idle_time: pool.timeouts.upstream_idle,
                protocol: pool.protocol,
                http2: pool.http2,
                announce: pool.proxy_protocol,
                tolerated: pool.tolerate,
                tls: self.secured.pools.get(&pool.name).cloned(),
                source: pool.source,
                keepalive: pool.keepalive,
                queue_time: Duration::from_nanos(pool.queue.timeout_ns),
                sticky: sticky[index].clone(),
                reports: pool.load_reports.clone(),
                stats: stats.pools[index].clone(),
                control: (*self.control).clone(),
            });
            let pools = pools.collect();
            let all = plan.listeners.iter().enumerate().flat_map(|(i, l)| addresses(l).map(move |at| (i, at)));
            let mine = all.map(|(i, at)| (at, i, sockets.get_mut(&at).and_then(Vec::pop).unwrap_or_default()));
            let probed = probed_at(plan).map(|(i, addr)| (addr, i, probed.get_mut(&addr).and_then(Vec::pop)));
            let parts = Parts {
                number: next.number,
                plan: plan.clone(),
                workers: next.workers.len(),
                instance: self.instance,
                listeners,
                pools,
                pool_of_route: pool_of_route.clone(),
                sockets: mine.collect(),
                probed: probed.collect(),
                log: log.as_ref().map(|log| {
                    let lines = log.as_ref().zip(lines.as_ref());
                    lines.map(|(log, lines)| AccessLog::new(log.batch(stats.log_lines_dropped.clone()), lines.clone()))
                }),
                explain: explain.clone(),
                traces: plan
                    .telemetry
                    .traces
                    .as_ref()
                    .map(|traces| (traces::Rules::new(traces), self.recorded.0.clone())),
                generation: next.in_use.clone(),
            };
            self.workers.send(worker, Update::Plan(Box::new(parts)), &applying);
        }
        let stay: Vec<&plan::Pool> =
            plan.pools.iter().map(|pool| &**pool).filter(|pool| !new.contains(&pool.name)).collect();
        tell(&shared_pools, &stay);
        // Control goes on looking after the pools meanwhile.
        drop(shared_pools);
        self.workers.wait(applying).map_err(|Interrupted| StartError::Interrupted)?;
        let mut shared_pools = self.control.pools();
        for pool in stay {
            if let Some(shared) = shared_pools.get_mut(&pool.name) {
                shared.publish(self.control.now());
            }
        }
        shared_pools.retain(|name, _| pool_index.contains_key(&**name));
        drop(shared_pools);
        self.control.changed();
        self.shared.retain(|name, _| plan.listener(name).is_some());
        self.probed = probed_at(plan).map(|(_, addr)| addr).collect();
        self.sockets
            .retain(|at, _| plan.listeners.iter().flat_map(|listener| addresses(listener)).any(|other| other == *at));
        if let Some(log) = log
            && let Some(before) = std::mem::replace(&mut self.log, log)
        {
            before.finish();
        }
        self.running.send_replace(next);
        Ok(())
    }

    /// Opens the files of the access log and of the journal again, as they were moved away: lines go to new ones of their
    /// names.
    ///
    /// # Errors
    /// One cannot be opened; then its lines go on to where they went.
    pub fn reopen_log(&self) -> Result<(), StartError> {
        let telemetry = &self.plan().telemetry;
        if let (Some(log), Some(plan)) = (&self.log, &telemetry.access_log) {
            log.reopen(&line_sink(plan)).map_err(|error| StartError::AccessLog(plan.to.clone(), error))?;
        }
        if let (Some(journal), Some(plan)) = (&self.journal, &telemetry.journal) {
            journal.reopen(&journal_sink(&plan.to)).map_err(|error| StartError::Journal(plan.to.clone(), error))?;
        }
        Ok(())
    }

    /// Every listening socket with the name of its listener, for a process that takes over.
    pub fn sockets(&self) -> Vec<(String, ListenFd)> {
        let mut all: Vec<(String, ListenFd)> = Vec::new();
        for listener in &self.plan().listeners {
            let here = addresses(listener).filter_map(|at| self.sockets.get(&at)).flatten();
            for socket in here.filter_map(Weak::upgrade) {
                // Workers may share one.
                if !all.iter().any(|(_, other)| Arc::ptr_eq(other, &socket)) {
                    all.push((listener.name.to_string(), socket));
                }
            }
        }
        all
    }

    /// What distinguishes it from any other, but not from the process that takes over.
    pub fn instance(&self) -> u64 {
        self.instance
    }

    /// Returns the name of each worker, and a number that goes up between two calls if its event loop turns.
    pub fn beats(&self) -> impl Iterator<Item = (&str, u64)> {
        self.workers.beats()
    }

    /// The control thread of the pools.
    pub fn control(&self) -> &Control {
        &self.control
    }

    /// What runs now.
    pub fn now(&self) -> Arc<Generation> {
        self.running.borrow().clone()
    }

    /// What runs, now and later.
    pub fn running(&self) -> watch::Receiver<Arc<Generation>> {
        self.running.subscribe()
    }

    /// The plan it runs.
    pub fn plan(&self) -> Arc<Plan> {
        self.now().plan.clone()
    }

    /// The numbers of each worker.
    pub fn stats(&self) -> Vec<Arc<WorkerStats>> {
        self.now().workers.clone()
    }

    /// Where it listens.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.plan().listeners.iter().flat_map(|l| l.bind.clone()).collect()
    }

    /// Reads of the workers why requests went where they went.
    pub fn looker(&self) -> Looker {
        Looker::new(self.workers.doors(), self.running(), (*self.control).clone())
    }

    /// Interrupts waits for the workers.
    pub fn interrupt(&self) -> Interrupt {
        self.workers.interrupt()
    }

    /// The names of workers that have not ended.
    pub fn still_running(&self) -> impl Iterator<Item = &str> {
        self.workers.running()
    }

    /// Tells the workers to drain or to stop.
    pub fn command(&self, command: Command) {
        self.workers.command(command);
    }

    /// Waits until the thread of a worker is about to end.
    pub async fn worker_ends(&self) {
        self.workers.ends().await;
    }

    /// The thread of a worker that has ended, if there is one: see [`Workers::take_ended`].
    pub fn take_ended(&mut self) -> Option<JoinHandle<io::Result<()>>> {
        self.workers.take_ended()
    }

    /// Whether every worker has ended.
    pub fn has_ended(&self) -> bool {
        self.workers.has_ended()
    }

    /// Waits until every worker has ended and the log is written.
    pub fn join(self) {
        self.workers.join();
        [self.log, self.journal].into_iter().flatten().for_each(Writer::finish);
    }
}

/// Where lines of the journal go.
fn journal_sink(target: &LogTarget) -> Sink {
    match target {
        LogTarget::Stdout => Sink::Stdout,
        LogTarget::File(path) => Sink::File(path.clone()),
    }
}

/// Where lines of the access log go.
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

/// The index of each pool of a plan.
fn pools_by_name(plan: &Plan) -> HashMap<&str, usize> {
    plan.pools.iter().enumerate().map(|(index, pool)| (&*pool.name, index)).collect()
}

/// What a worker keeps of the endpoints of a plan, the pool number `index` of it, for which slots are reserved.
fn endpoints(shared: &SharedPool, plan: &plan::Pool, index: usize, stats: &WorkerStats) -> Slots {
    let one = |(endpoint, stats): (&plan::Endpoint, &_)| {
        let (slot, addr) = (shared.slot_of(endpoint)?, address(&endpoint.addr));
        Some((slot, EndpointParts { name: endpoint.name.clone(), addr, stats: Arc::clone(stats) }))
    };
    plan.endpoints.iter().zip(&stats.endpoints[index]).filter_map(one).collect()
}

/// Where a listener is reached that is served here: DNS is a plane of its own.
fn addresses(listener: &plan::Listener) -> impl Iterator<Item = (Protocol, SocketAddr)> {
    let protocol = protocol_of(listener.mode);
    let ours = listener.mode != Mode::Dns;
    listener.bind.iter().filter(move |_| ours).map(move |addr| (protocol, *addr))
}

/// What the workers share of one listener.
#[derive(Clone)]
struct Shared {
    /// Open connections.
    open: Arc<Total>,
    per_address: Arc<PerAddress>,
    load: Arc<SharedLoad>,
}

impl Shared {
    fn new(workers: usize) -> Shared {
        Shared { open: Arc::new(Total::new(workers)), per_address: Arc::default(), load: Arc::default() }
    }
}

fn listener_parts(
    listener: &plan::Listener,
    (router, tcp): (Arc<Router>, Option<Arc<TlsRoutes>>),
    (tls, challenges): (Option<ListenerTls>, Option<Arc<Challenges>>),
    error_pages: Arc<ErrorPages>,
    shared: Shared,
    stats: &WorkerStats,
    index: usize,
) -> ListenerParts {
    ListenerParts {
        name: listener.name.clone(),
        router,
        tcp,
        tls,
        redirect_https: listener.redirect_https,
        challenges,
        hsts: listener.tls.as_ref().and_then(|tls| tls.hsts).map(hsts),
        limits: Limits { head: listener.limits.headers, fields: listener.limits.header_count.min(FIELDS_MAX) },
        timeouts: listener.timeouts,
        h2c: listener.h2c,
        http2: listener.http2,
        flows: listener.udp,
        admission: Admission::new(listener, &shared.per_address),
        request_id: listener.request_id.clone(),
        detect_loops: listener.detect_loops,
        errors: listener.errors,
        error_pages,
        requests_max: match listener.limits.requests_per_connection {
            0 => u64::MAX,
            n => n,
        },
        connections_max: listener.limits.connections,
        open: shared.open,
        report_load: listener.report_load.clone().map(|plan| (plan, shared.load)),
        stats: stats.listeners[index].clone(),
        routes: stats.routes[index].clone(),
    }
}

/// Browsers that have seen it come by TLS alone for so long (RFC 6797).
fn hsts(time: Duration) -> Arc<str> {
    format!("Strict-Transport-Security: max-age={}\r\n", time.as_secs()).into()
}

/// Where probes are answered, each with the index of the listener.
fn probed_at(plan: &Plan) -> impl Iterator<Item = (usize, SocketAddr)> + '_ {
    let answers = |l: &plan::Listener| l.report_load.as_ref().is_some_and(|report| report.udp);
    let listeners = plan.listeners.iter().enumerate().filter(move |(_, l)| answers(l));
    listeners.flat_map(|(i, l)| l.bind.iter().map(move |addr| (i, *addr)))
}
