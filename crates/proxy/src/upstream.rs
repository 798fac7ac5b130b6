//! How does a request reach an endpoint? Over a connection that is idle, or a new one.

use crate::control::Control;
use crate::session::Sticky;
use crate::stats::{EndpointStats, PoolStats};
use crate::stream::Stream;
use evenkeel_balance::{Balancer, Instant, Slot};
use evenkeel_config::plan::{HashKey, LoadReports, PoolLimits, ProxyVersion};
use rustix::io::Errno;
use std::cell::{Cell, RefCell};
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

/// One pool as one worker sees it. Another algorithm makes another one, over the same endpoints: requests give their
/// places back to the balancer that they have them from.
pub struct WorkerPool {
    /// Its name.
    pub name: Arc<str>,
    /// Who gets the next request.
    pub balancer: RefCell<Balancer>,
    /// What of a request the algorithm is keyed by.
    pub key: Option<HashKey>,
    /// Who is in it.
    pub endpoints: Rc<Endpoints>,
    /// Its limits.
    pub limits: Cell<PoolLimits>,
    /// How long an idle connection is kept.
    pub idle_time: Cell<Duration>,
    /// The header that tells endpoints, first on each connection, who the client is. Such connections serve one request.
    pub announce: Cell<Option<ProxyVersion>>,
    /// How long a request may wait for a place.
    pub queue_time: Cell<Duration>,
    /// What is done about what endpoints say of their load.
    pub reports: RefCell<Option<Rc<LoadReports>>>,
    /// How clients find their endpoint again.
    pub sticky: RefCell<Option<Arc<Sticky>>>,
    /// Its numbers.
    pub stats: Arc<PoolStats>,
    /// Told when requests decide something about an endpoint.
    pub control: Control,
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
    idle: RefCell<Vec<Idle>>,
    /// Whether it is in its pool no more: its connections are not kept.
    gone: Cell<bool>,
}

/// A connection that waits for its next request.
struct Idle {
    stream: Stream,
    since: Instant,
}

impl Endpoint {
    /// An endpoint without connections.
    pub fn new(name: Arc<str>, addr: Option<SocketAddr>, stats: Arc<EndpointStats>) -> Endpoint {
        Endpoint { name, addr, stats, idle: RefCell::default(), gone: Cell::new(false) }
    }

    /// Whether it is in its pool no more.
    pub fn is_gone(&self) -> bool {
        self.gone.get()
    }

    /// Closes its idle connections.
    fn close_idle(&self) {
        let closed = std::mem::take(&mut *self.idle.borrow_mut()).len();
        self.stats.idle.sub(closed as u64);
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        self.close_idle();
    }
}

impl Endpoints {
    /// The endpoint in a slot that the pool's balancer gave.
    #[inline]
    pub fn at(&self, slot: Slot) -> Rc<Endpoint> {
        self.0.borrow()[slot.index()].clone().expect("a slot is filled before it is given")
    }

    /// Whether this endpoint has the slot.
    pub fn has(&self, slot: Slot, endpoint: &Rc<Endpoint>) -> bool {
        self.0.borrow().get(slot.index()).and_then(Option::as_ref).is_some_and(|here| Rc::ptr_eq(here, endpoint))
    }

    /// Takes up the endpoints of a new plan, each with its slot. One that has stayed, at its address, stays as it is.
    pub fn change(&self, new: Vec<(Slot, Endpoint)>) {
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
        for (old, _) in before.iter().zip(stays).filter(|(_, stays)| !stays) {
            if let Some(old) = old {
                old.gone.set(true);
                old.close_idle();
            }
        }
    }

    /// Each endpoint.
    fn each(&self, look: impl FnMut(&Rc<Endpoint>)) {
        self.0.borrow().iter().flatten().for_each(look);
    }
}

impl WorkerPool {
    /// The connection that became idle last, if one is still good: the one whose buffers are warm, and the least
    /// likely to be closed by the endpoint just now.
    #[inline]
    pub fn take_idle(&self, endpoint: &Endpoint, now: Instant) -> Option<Stream> {
        let idle_time = self.idle_time.get().as_nanos() as u64;
        loop {
            let idle = endpoint.idle.borrow_mut().pop()?;
            endpoint.stats.idle.sub(1);
            // Sweeps come too seldom to rely on: the endpoint may close as soon as the time is over. And no task is behind
            // this context: nobody is to be woken when something comes later.
            if now.since(idle.since) < idle_time && idle.stream.is_quiet(&mut Context::from_waker(Waker::noop())) {
                return Some(idle.stream);
            }
        }
    }

    /// Keeps a connection for the next request.
    #[inline]
    pub fn keep_idle(&self, endpoint: &Endpoint, stream: Stream, now: Instant) {
        let mut idle = endpoint.idle.borrow_mut();
        if idle.len() < self.limits.get().idle_per_endpoint && !endpoint.gone.get() {
            stream.send_at_once();
            idle.push(Idle { stream, since: now });
            endpoint.stats.idle.add(1);
        }
    }

    /// Closes connections that were idle for too long or that the endpoint has closed, and lets go of the set before the
    /// newest: a pool that gets no requests would hold it for ever.
    pub fn sweep(&self, now: Instant) {
        self.balancer.borrow_mut().refresh(now);
        let idle_time = self.idle_time.get().as_nanos() as u64;
        self.endpoints.each(|endpoint| {
            let mut idle = endpoint.idle.borrow_mut();
            let before = idle.len();
            idle.retain(|c| {
                now.since(c.since) < idle_time && c.stream.is_quiet(&mut Context::from_waker(Waker::noop()))
            });
            endpoint.stats.idle.sub((before - idle.len()) as u64);
        });
    }

    /// Closes all idle connections.
    pub fn close_idle(&self) {
        self.endpoints.each(|endpoint| endpoint.close_idle());
    }
}

/// Starts a connection. It may be under way when this returns; a write then says so.
///
/// # Errors
/// Why it could not even start.
pub fn dial(addr: SocketAddr) -> io::Result<Stream> {
    use socket2::{Domain, Protocol, Socket, Type};
    let kind = Type::STREAM.nonblocking().cloexec();
    let socket = Socket::new(Domain::for_address(addr), kind, Some(Protocol::TCP))?;
    // The request follows at once and carries the last acknowledgement of the handshake: a packet less. Only a saving, so a
    // kernel that does not know it is fine.
    let _ = rustix::net::sockopt::set_tcp_quickack(&socket, false);
    match socket.connect(&addr.into()) {
        Ok(()) => {}
        Err(e) if e.raw_os_error() == Some(Errno::INPROGRESS.raw_os_error()) => {}
        Err(e) => return Err(e),
    }
    Ok(Stream::new(socket.into()))
}
