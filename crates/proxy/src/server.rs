//! How does a plan become a running proxy? Sockets first, so that an address in use is an error before anything
//! serves; then balancers, then one thread for each worker.

use crate::accept;
use crate::access_log::Writer;
use crate::edge::Edge;
use crate::http1::{FIELDS_MAX, Limits};
use crate::per_address::PerAddress;
use crate::route::Router;
use crate::stats::WorkerStats;
use crate::upstream::{Endpoint, WorkerPool};
use crate::worker::{self, Command, Parts, WorkerListener};
use evenkeel_balance::{EndpointId, EndpointSpec, Pool, Seat};
use evenkeel_config::Plan;
use evenkeel_config::plan::{self, Address, LogTarget, Workers};
use std::fmt;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::thread::JoinHandle;
use tokio::sync::watch;

/// Why a plan could not be started.
#[derive(Debug)]
pub enum StartError {
    /// A listener's address cannot be listened on.
    Listen(Arc<str>, SocketAddr, io::Error),
    /// The access log cannot be opened.
    AccessLog(LogTarget, io::Error),
    /// A pool's algorithm refuses its parameters.
    Balance(Arc<str>, evenkeel_balance::params::ParamError),
    /// A thread cannot be made.
    Thread(io::Error),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartError::Listen(name, addr, error) => {
                write!(f, "listener \"{name}\": cannot listen on {addr}: {error}")
            }
            StartError::AccessLog(LogTarget::File(path), error) => {
                write!(f, "access log: cannot open {}: {error}", path.display())
            }
            StartError::AccessLog(LogTarget::Stdout, error) => write!(f, "access log: {error}"),
            StartError::Balance(pool, error) => write!(f, "pool \"{pool}\": {error}"),
            StartError::Thread(error) => write!(f, "cannot start a worker: {error}"),
        }
    }
}

impl std::error::Error for StartError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            StartError::Listen(_, _, e) | StartError::AccessLog(_, e) | StartError::Thread(e) => Some(e),
            StartError::Balance(_, e) => Some(e),
        }
    }
}

/// A running proxy.
pub struct Server {
    plan: Arc<Plan>,
    stats: Vec<Arc<WorkerStats>>,
    commands: watch::Sender<Command>,
    threads: Vec<JoinHandle<io::Result<()>>>,
    log: Option<Writer>,
    addresses: Vec<SocketAddr>,
}

impl Server {
    /// Starts the workers; when this returns, every listener accepts.
    ///
    /// # Errors
    /// Why not; then nothing runs.
    pub fn start(plan: Plan) -> Result<Server, StartError> {
        let plan = Arc::new(plan);
        let workers = match plan.runtime.workers {
            Workers::Auto => std::thread::available_parallelism().map_or(1, usize::from),
            Workers::Count(n) => usize::from(n),
        };
        let mut sockets: Vec<Vec<_>> = (0..workers).map(|_| Vec::new()).collect();
        let mut addresses = Vec::new();
        for (index, listener) in plan.listeners.iter().enumerate() {
            for &addr in &listener.bind {
                let fail = |error| StartError::Listen(listener.name.clone(), addr, error);
                for (worker, socket) in accept::listen(addr, workers).map_err(fail)?.into_iter().enumerate() {
                    sockets[worker].push((index, socket));
                }
                addresses.push(addr);
            }
        }
        let log = plan
            .telemetry
            .access_log
            .as_ref()
            .map(|log| Writer::open(&log.to).map_err(|error| StartError::AccessLog(log.to.clone(), error)));
        let log = log.transpose()?;
        let pools: Vec<_> = plan.pools.iter().map(|pool| SharedPool::new(pool, workers)).collect();
        let shared: Vec<_> = plan.listeners.iter().map(|_| Shared::default()).collect();
        let (commands, receiver) = watch::channel(Command::Run);
        let base = std::time::Instant::now();
        let mut parts = Vec::with_capacity(workers);
        for (index, sockets) in sockets.into_iter().enumerate() {
            parts.push(Parts {
                index,
                plan: plan.clone(),
                sockets,
                listeners: listeners(&plan, &shared),
                pools: pools.iter().map(|pool| pool.for_worker(index, workers)).collect::<Result<_, _>>()?,
                stats: Arc::new(WorkerStats::new(&plan)),
                log: log.as_ref().map(Writer::batch),
                base,
                commands: receiver.clone(),
            });
        }
        let stats = parts.iter().map(|p| p.stats.clone()).collect();
        let thread = |parts: Parts| {
            let name = format!("worker-{}", parts.index);
            std::thread::Builder::new().name(name).spawn(move || worker::run(parts))
        };
        let threads = parts.into_iter().map(thread).collect::<io::Result<_>>().map_err(StartError::Thread)?;
        Ok(Server { plan, stats, commands, threads, log, addresses })
    }

    /// The plan it runs.
    pub fn plan(&self) -> &Arc<Plan> {
        &self.plan
    }

    /// The numbers of each worker.
    pub fn stats(&self) -> &[Arc<WorkerStats>] {
        &self.stats
    }

    /// Where it listens.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Tells the workers to drain or to stop.
    pub fn command(&self, command: Command) {
        self.commands.send_replace(command);
    }

    /// Whether every worker has ended.
    pub fn has_ended(&self) -> bool {
        self.threads.iter().all(JoinHandle::is_finished)
    }

    /// Waits until every worker has ended and the log is written.
    pub fn join(self) {
        for thread in self.threads {
            match thread.join() {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::error!(%error, "a worker could not run"),
                Err(_) => tracing::error!("a worker panicked"),
            }
        }
        if let Some(log) = self.log {
            log.finish();
        }
    }
}

/// What the workers share of one listener.
#[derive(Default)]
struct Shared {
    open: Arc<AtomicUsize>,
    per_address: Arc<PerAddress>,
}

fn listeners(plan: &Plan, shared: &[Shared]) -> Vec<WorkerListener> {
    let one = |(listener, shared): (&plan::Listener, &Shared)| WorkerListener {
        router: Router::new(plan, &listener.name),
        limits: Limits { head: listener.limits.headers, fields: listener.limits.header_count.min(FIELDS_MAX) },
        timeouts: listener.timeouts,
        edge: Edge::new(listener, &shared.per_address),
        requests_max: match listener.limits.requests_per_connection {
            0 => u64::MAX,
            n => n,
        },
        connections_max: listener.limits.connections,
        open: shared.open.clone(),
    };
    plan.listeners.iter().zip(shared).map(one).collect()
}

/// A pool as all workers share it.
struct SharedPool<'p> {
    plan: &'p plan::Pool,
    pool: Pool,
    /// By slot: index in the plan and address.
    endpoints: Vec<(usize, Option<SocketAddr>)>,
}

impl<'p> SharedPool<'p> {
    fn new(plan: &'p plan::Pool, workers: usize) -> SharedPool<'p> {
        let addrs: Vec<_> = plan.endpoints.iter().map(|e| resolve(&plan.name, &e.addr)).collect();
        let spec = |(e, addr): (&plan::Endpoint, &Option<SocketAddr>)| {
            EndpointSpec::new(&e.name)
                // Without an address it would fail each request that it got.
                .weight(if addr.is_some() { e.weight.into() } else { 0 })
                .priority(e.priority)
                .drain(e.drain)
                .in_flight_max(plan.limits.requests_per_endpoint)
        };
        let mut pool = Pool::new(workers as u32);
        pool.update(&plan.endpoints.iter().zip(&addrs).map(spec).collect::<Vec<_>>());
        let mut endpoints = vec![(0, None); plan.endpoints.len()];
        for (index, endpoint) in plan.endpoints.iter().enumerate() {
            if let Some(slot) = pool.slot_of(EndpointId::of(&endpoint.name)) {
                endpoints[slot.index()] = (index, addrs[index]);
            }
        }
        SharedPool { plan, pool, endpoints }
    }

    fn for_worker(&self, worker: usize, workers: usize) -> Result<WorkerPool, StartError> {
        let plan = self.plan;
        let seat = Seat { worker: worker as u32, workers: workers as u32 };
        let seed = EndpointId::of(&plan.name).0 ^ u64::from(std::process::id());
        let balancer = self.pool.balancer(plan.balance.algorithm, &plan.balance.params, seat, seed);
        let endpoint = |&(index, addr): &(usize, _)| Endpoint::new(plan.endpoints[index].name.clone(), index, addr);
        Ok(WorkerPool {
            name: plan.name.clone(),
            balancer: balancer.map_err(|e| StartError::Balance(plan.name.clone(), e))?.into(),
            endpoints: self.endpoints.iter().map(endpoint).collect(),
            key: plan.balance.key().cloned(),
            // The header speaks of one client, and so does all that follows it.
            idle_max: if plan.proxy_protocol.is_some() { 0 } else { plan.limits.idle_per_endpoint },
            announce: plan.proxy_protocol,
            idle_time: plan.timeouts.upstream_idle,
        })
    }
}

/// A name that does not resolve is no reason not to start: the other endpoints can serve.
fn resolve(pool: &str, addr: &Address) -> Option<SocketAddr> {
    let (host, port) = match addr {
        Address::Ip(addr) => return Some(*addr),
        Address::Name { host, port } => (host.as_str(), *port),
    };
    let found = (host, port).to_socket_addrs().map(|mut found| found.next());
    match found {
        Ok(Some(addr)) => Some(addr),
        Ok(None) => {
            tracing::warn!(pool, host, "the name of an endpoint has no address; it gets no requests");
            None
        }
        Err(error) => {
            tracing::warn!(pool, host, %error, "the name of an endpoint does not resolve; it gets no requests");
            None
        }
    }
}
