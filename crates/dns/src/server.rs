//! How does a plan become answers, and how does the next plan take its place? What can fail comes first (sockets), so that
//! an error changes nothing; then every worker is given its part.

use crate::answer::{Answerer, Transport};
use crate::cookie::Secret;
use crate::metrics::Numbers;
use crate::pools::{Found, PoolParts, WorkerPool};
use crate::worker::{self, Command, ListenFd, ListenerParts, News, Parts, Sockets};
use crate::zone::Zone;
use crate::{tcp, udp};
use evenkeel_balance::rng::mix;
use evenkeel_config::Plan;
use evenkeel_config::plan::{Listener, Mode};
use socket2::{Domain, Protocol, Socket, Type};
use std::collections::HashMap;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use tokio::sync::{mpsc, watch};

/// Why a plan could not be started.
#[derive(Debug)]
pub enum StartError {
    /// A listener's address cannot be listened on.
    Listen(Arc<str>, SocketAddr, io::Error),
    /// There is no chance to be had for cookies.
    Secret(io::Error),
    /// A thread cannot be made.
    Thread(io::Error),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartError::Listen(name, addr, error) => {
                write!(f, "listener \"{name}\": cannot listen on {addr}: {error}")
            }
            StartError::Secret(error) => write!(f, "DNS: no random bytes for the secret of cookies: {error}"),
            StartError::Thread(error) => write!(f, "cannot start a DNS worker: {error}"),
        }
    }
}

impl std::error::Error for StartError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            StartError::Listen(_, _, e) | StartError::Secret(e) | StartError::Thread(e) => Some(e),
        }
    }
}

/// Gives a pool of the plan, by its name, to a worker, by its number. Whoever owns the pools knows those of the plan.
pub type GivePool<'a> = &'a dyn Fn(&str, u32) -> PoolParts;

/// Opens what is bound to an address, by the kind of socket: for each of so many workers one or more. Whoever knows which
/// sockets came with the process gives these first; [`bind`] and [`ready`] are what it takes beside them.
pub type OpenSockets<'a> = &'a mut dyn FnMut(Transport, SocketAddr, usize) -> io::Result<Vec<Vec<ListenFd>>>;

/// Binds a socket, alone at its address or as one of several.
///
/// # Errors
/// As socket(2) and bind(2).
pub fn bind(transport: Transport, addr: SocketAddr, shared: bool) -> io::Result<Socket> {
    let (kind, protocol) = match transport {
        Transport::Udp => (Type::DGRAM, Protocol::UDP),
        Transport::Tcp => (Type::STREAM, Protocol::TCP),
    };
    let socket = Socket::new(Domain::for_address(addr), kind.nonblocking().cloexec(), Some(protocol))?;
    if transport == Transport::Tcp {
        socket.set_reuse_address(true)?;
    }
    socket.set_reuse_port(shared)?;
    socket.bind(&addr.into())?;
    Ok(socket)
}

/// Makes of a socket at an address one that a worker can use.
///
/// # Errors
/// As setsockopt(2) and listen(2).
pub fn ready(transport: Transport, addr: SocketAddr, socket: &Socket) -> io::Result<()> {
    match transport {
        Transport::Udp => udp::ready(socket, addr),
        Transport::Tcp => tcp::ready(socket),
    }
}

/// The control side of the workers. No threads until a plan has a listener that speaks DNS.
pub struct Server {
    count: usize,
    base: std::time::Instant,
    secret: Secret,
    workers: Vec<Worker>,
    commands: watch::Sender<Command>,
    /// The sockets at each address, for as long as a worker has them.
    sockets: HashMap<SocketAddr, Vec<Weak<OwnedFd>>>,
    /// The name and the addresses of each listener.
    listeners: Vec<(Arc<str>, Vec<SocketAddr>)>,
    numbers: watch::Sender<Arc<Numbers>>,
}

struct Worker {
    plans: mpsc::UnboundedSender<News>,
    thread: JoinHandle<io::Result<()>>,
}

/// What of a plan can fail, done.
pub struct Prepared {
    /// By address and worker, where there were none.
    sockets: HashMap<SocketAddr, Vec<Sockets>>,
    workers: Vec<Worker>,
}

impl Server {
    /// One of so many workers, which serves nothing yet.
    ///
    /// # Errors
    /// The kernel has no random bytes.
    pub fn new(workers: usize) -> Result<Server, StartError> {
        Ok(Server {
            count: workers,
            base: std::time::Instant::now(),
            secret: Secret::random().map_err(StartError::Secret)?,
            workers: Vec::new(),
            commands: watch::channel(Command::Run).0,
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
                let mut all = |transport| {
                    let fail = |error| StartError::Listen(listener.name.clone(), addr, error);
                    open(transport, addr, self.count).map_err(fail)
                };
                let by_worker = all(Transport::Udp)?.into_iter().zip(all(Transport::Tcp)?);
                sockets.insert(addr, by_worker.map(|(udp, tcp)| Sockets { udp, tcp }).collect());
            }
        }
        let missing = if listeners(plan).next().is_some() { self.count - self.workers.len() } else { 0 };
        let workers = (0..missing).map(|index| self.spawn(index)).collect::<io::Result<_>>();
        Ok(Prepared { sockets, workers: workers.map_err(StartError::Thread)? })
    }

    fn spawn(&self, index: usize) -> io::Result<Worker> {
        let (plans, receiver) = mpsc::unbounded_channel();
        let (base, commands) = (self.base, self.commands.subscribe());
        let (made, heard) = std::sync::mpsc::channel();
        let thread = std::thread::Builder::new().name(format!("dns-{index}"));
        let thread = thread.spawn(move || worker::run(base, receiver, commands, &made))?;
        heard.recv().map_err(io::Error::other)??;
        Ok(Worker { plans, thread })
    }

    /// Does the rest, once the pools have changed to the plan. Zones are replaced as a whole; sockets of addresses that stay
    /// go on, with all that waits there. When this returns, every worker answers by the plan.
    pub fn apply(&mut self, plan: &Plan, prepared: Prepared, give: GivePool<'_>) {
        let Prepared { mut sockets, workers } = prepared;
        self.workers.extend(workers);
        for (addr, new) in &sockets {
            let all = new.iter().flat_map(|sockets| sockets.udp.iter().chain(&sockets.tcp));
            self.sockets.insert(*addr, all.map(Arc::downgrade).collect());
        }
        let numbers = Arc::new(Numbers::next(plan, self.count, &self.numbers.borrow()));
        let zones: Vec<_> = listeners(plan).filter_map(|l| Some((l, Arc::new(Zone::new(l.zone.as_ref()?))))).collect();
        let (done, waiting) = std::sync::mpsc::channel();
        for (index, worker) in self.workers.iter().enumerate() {
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
            // A worker that has ended needs none; that it has is told elsewhere.
            let _ = worker.plans.send(News::Plan(Parts { listeners: parts.collect(), done: done.clone() }));
        }
        drop(done);
        // Nothing is ever sent: it ends when the last worker has let go.
        let _ = waiting.recv();
        self.sockets.retain(|addr, _| listeners(plan).any(|listener| listener.bind.contains(addr)));
        self.listeners = listeners(plan).map(|l| (l.name.clone(), l.bind.clone())).collect();
        self.numbers.send_replace(numbers);
    }

    /// Takes up other endpoints of some pools, before they can be picked. When this returns, every worker knows them. Pools
    /// that no zone names cost nothing.
    pub fn take_up(&self, found: Found) {
        let found = Arc::new(found);
        let (done, waiting) = std::sync::mpsc::channel();
        for worker in &self.workers {
            // A worker that has ended needs none.
            let _ = worker.plans.send(News::Endpoints(found.clone(), done.clone()));
        }
        drop(done);
        let _ = waiting.recv();
    }

    /// The numbers, now and later.
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

    /// Tells the workers to leave, or to end.
    pub fn command(&self, command: Command) {
        self.commands.send_replace(command);
    }

    /// The thread of a worker that has ended, if there is one. Where nobody told it to, it cannot be had back: what is left
    /// is to end the rest, and to say why.
    pub fn take_ended(&mut self) -> Option<JoinHandle<io::Result<()>>> {
        let at = self.workers.iter().position(|worker| worker.thread.is_finished())?;
        Some(self.workers.swap_remove(at).thread)
    }

    /// Whether every worker has ended.
    pub fn has_ended(&self) -> bool {
        self.workers.iter().all(|worker| worker.thread.is_finished())
    }
}

/// The listeners that speak DNS.
fn listeners(plan: &Plan) -> impl Iterator<Item = &Listener> {
    plan.listeners.iter().filter(|l| l.mode == Mode::Dns)
}
