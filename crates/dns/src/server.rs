//! How does a plan become answers, and how does the next plan take its place? What can fail comes first (sockets), so that
//! an error changes nothing; then every worker is given its part.

use crate::answer::Answerer;
use crate::cookie::Secret;
use crate::metrics::Numbers;
use crate::pools::{Found, PoolParts, WorkerPool};
use crate::worker::{self, ListenerParts, Sockets, ZoneUpdate};
use crate::zone::Zone;
use evenkeel_balance::rng::mix;
use evenkeel_config::Plan;
use evenkeel_config::plan::{Listener, Mode};
use evenkeel_net::clock::Base;
use evenkeel_net::listen::{CannotListen, ListenFd, Protocol};
use evenkeel_net::workers::{Applying, Command, Interrupt, Interrupted, Worker, Workers};
use std::collections::HashMap;
use std::error::Error;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use tokio::sync::watch;

/// Why a plan could not be started.
#[derive(Debug)]
pub enum StartError {
    /// A listener's address cannot be listened on.
    Listen(CannotListen),
    /// The kernel has no random bytes for the cookies' secret.
    Secret(io::Error),
    /// A thread cannot be made.
    Thread(io::Error),
    /// The process is to end, and a worker has not applied the plan.
    Interrupted,
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartError::Listen(error) => error.fmt(f),
            StartError::Secret(error) => write!(f, "DNS: no random bytes for the secret of cookies: {error}"),
            StartError::Thread(error) => write!(f, "cannot start a DNS worker: {error}"),
            StartError::Interrupted => f.write_str("interrupted while a DNS worker had not applied the plan"),
        }
    }
}

impl Error for StartError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            StartError::Listen(e) => e.source(),
            StartError::Secret(e) | StartError::Thread(e) => Some(e),
            StartError::Interrupted => None,
        }
    }
}

/// Gives a worker (by its number) a pool of the plan (by its name). The owner of the pools has every pool of the plan.
pub type GivePool<'a> = &'a dyn Fn(&str, u32) -> PoolParts;

/// Opens the sockets of one kind at an address: for each of so many workers one or more. Sockets that the process inherited
/// come first.
pub type OpenSockets<'a> = &'a mut dyn FnMut(Protocol, SocketAddr, usize) -> io::Result<Vec<Vec<ListenFd>>>;

/// The control side of the workers. There are no threads until a plan has a listener with `mode = "dns"`.
pub struct Server {
    count: usize,
    base: Base,
    secret: Secret,
    workers: Workers<ZoneUpdate>,
    /// The sockets at each address, for as long as a worker has them.
    sockets: HashMap<SocketAddr, Vec<Weak<OwnedFd>>>,
    /// The name and the addresses of each listener.
    listeners: Vec<(Arc<str>, Vec<SocketAddr>)>,
    numbers: watch::Sender<Arc<Numbers>>,
}

/// A plan whose steps that can fail have succeeded.
pub struct Prepared {
    /// By address and worker, where there were none.
    sockets: HashMap<SocketAddr, Vec<Sockets>>,
    workers: Vec<Worker<ZoneUpdate>>,
}

impl Server {
    /// A server with `workers` workers, which serves nothing yet.
    ///
    /// # Errors
    /// The kernel has no random bytes.
    pub fn new(workers: usize) -> Result<Server, StartError> {
        Ok(Server {
            count: workers,
            base: Base::now(),
            secret: Secret::random().map_err(StartError::Secret)?,
            workers: Workers::default(),
            sockets: HashMap::new(),
            listeners: Vec::new(),
            numbers: watch::channel(Arc::default()).0,
        })
    }

    /// Does what can fail for a plan: to be called before the pools change to it.
    ///
    /// # Errors
    /// Why it cannot be served; then nothing has changed.
    pub fn prepare(&self, plan: &Plan, open: OpenSockets<'_>) -> Result<Prepared, StartError> {
        let mut sockets = HashMap::new();
        for listener in listeners(plan) {
            for &addr in listener.bind.iter().filter(|addr| !self.sockets.contains_key(addr)) {
                let mut all = |protocol| {
                    let fail =
                        |error| StartError::Listen(CannotListen { listener: listener.name.clone(), addr, error });
                    open(protocol, addr, self.count).map_err(fail)
                };
                let by_worker = all(Protocol::Udp)?.into_iter().zip(all(Protocol::Tcp)?);
                sockets.insert(addr, by_worker.map(|(udp, tcp)| Sockets { udp, tcp }).collect());
            }
        }
        let missing = if listeners(plan).next().is_some() { self.count - self.workers.len() } else { 0 };
        let base = self.base;
        let spawn = |index| self.workers.spawn(format!("dns-{index}"), move |link| worker::serve(base, link));
        let workers = (0..missing).map(spawn).collect::<io::Result<_>>();
        Ok(Prepared { sockets, workers: workers.map_err(StartError::Thread)? })
    }

    /// Does the rest, once the pools have changed to the plan. Zones are replaced as a whole; sockets of addresses that stay
    /// go on, with all that waits there. When this returns, every worker answers by the plan.
    ///
    /// # Errors
    /// The wait for the workers was interrupted, as the process is to end.
    pub fn apply(&mut self, plan: &Plan, prepared: Prepared, give: GivePool<'_>) -> Result<(), StartError> {
        let Prepared { mut sockets, workers } = prepared;
        workers.into_iter().for_each(|worker| self.workers.add(worker));
        for (addr, new) in &sockets {
            let all = new.iter().flat_map(|sockets| sockets.udp.iter().chain(&sockets.tcp));
            self.sockets.insert(*addr, all.map(Arc::downgrade).collect());
        }
        let numbers = Arc::new(Numbers::next(plan, self.count, &self.numbers.borrow()));
        let zones: Vec<_> = listeners(plan).filter_map(|l| Some((l, Arc::new(Zone::new(l.zone.as_ref()?))))).collect();
        let applying = Applying::default();
        for index in 0..self.workers.len() {
            let parts = zones.iter().map(|(listener, zone)| {
                let pool = |name: &Arc<str>| WorkerPool::new(give(name, index as u32), numbers.pool(name, index));
                let pools = zone.pools().iter().map(pool).collect();
                let seed = mix(u64::from(std::process::id())) ^ mix(index as u64 + 1);
                let stats = numbers.listener(&listener.name, index);
                ListenerParts {
                    answerer: Answerer::new(zone.clone(), pools, self.secret, stats, seed),
                    binds: listener.bind.iter().map(|&a| (a, sockets.get_mut(&a).and_then(Vec::pop))).collect(),
                    idle: listener.timeouts.client_idle,
                    connections_max: listener.limits.connections.div_ceil(self.count),
                }
            });
            self.workers.send(index, ZoneUpdate::Plan(parts.collect()), &applying);
        }
        self.workers.wait(applying).map_err(|Interrupted| StartError::Interrupted)?;
        self.sockets.retain(|addr, _| listeners(plan).any(|listener| listener.bind.contains(addr)));
        self.listeners = listeners(plan).map(|l| (l.name.clone(), l.bind.clone())).collect();
        self.numbers.send_replace(numbers);
        Ok(())
    }

    /// Applies other endpoints of some pools, before they can be picked. When this returns, every worker knows them. Pools
    /// that no zone names cost nothing.
    ///
    /// # Errors
    /// The wait for the workers was interrupted, as the process is to end.
    pub fn apply_endpoints(&self, found: Found) -> Result<(), Interrupted> {
        let (found, applying) = (Arc::new(found), Applying::default());
        (0..self.workers.len()).for_each(|worker| {
            self.workers.send(worker, ZoneUpdate::Endpoints(found.clone()), &applying);
        });
        self.workers.wait(applying)
    }

    /// Interrupts waits for the workers.
    pub fn interrupt(&self) -> Interrupt {
        self.workers.interrupt()
    }

    /// The names of workers that have not ended.
    pub fn still_running(&self) -> impl Iterator<Item = &str> {
        self.workers.running()
    }

    /// The metrics' numbers, now and after later plans.
    pub fn numbers(&self) -> watch::Receiver<Arc<Numbers>> {
        self.numbers.subscribe()
    }

    /// Every socket with the name of its listener, for a process that takes over.
    pub fn sockets(&self) -> Vec<(String, ListenFd)> {
        let mut all: Vec<(String, ListenFd)> = Vec::new();
        for (name, binds) in &self.listeners {
            let here = binds.iter().filter_map(|addr| self.sockets.get(addr)).flatten();
            for socket in here.filter_map(Weak::upgrade) {
                // Workers may share one.
                if !all.iter().any(|(_, other)| Arc::ptr_eq(other, &socket)) {
                    all.push((name.to_string(), socket));
                }
            }
        }
        all
    }

    /// Returns the name of each worker, and a number that goes up between two calls if its event loop turns.
    pub fn beats(&self) -> impl Iterator<Item = (&str, u64)> {
        self.workers.beats()
    }

    /// Tells the workers to drain, or to end.
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

    /// Waits until every worker has ended.
    pub fn join(self) {
        self.workers.join();
    }
}

/// The listeners that speak DNS.
fn listeners(plan: &Plan) -> impl Iterator<Item = &Arc<Listener>> {
    plan.listeners.iter().filter(|l| l.mode == Mode::Dns)
}
