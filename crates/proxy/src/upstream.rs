//! How does a request reach an endpoint? Over a connection that is idle, or a new one.

use crate::stats::PoolStats;
use crate::stream::Stream;
use evenkeel_balance::{Balancer, Instant, Slot};
use evenkeel_config::plan::{HashKey, ProxyVersion};
use rustix::io::Errno;
use std::cell::RefCell;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

/// One pool as one worker sees it.
pub struct WorkerPool {
    /// Its name.
    pub name: Arc<str>,
    /// Who gets the next request.
    pub balancer: RefCell<Balancer>,
    /// By slot.
    pub endpoints: Vec<Endpoint>,
    /// What of a request the algorithm is keyed by.
    pub key: Option<HashKey>,
    /// Idle connections to keep for each endpoint.
    pub idle_max: usize,
    /// How long an idle connection is kept.
    pub idle_time: Duration,
    /// The header that tells endpoints, first on each connection, who the client is. Such connections serve one request.
    pub announce: Option<ProxyVersion>,
}

/// One endpoint as one worker sees it.
pub struct Endpoint {
    /// As configured.
    pub name: Arc<str>,
    /// Its index in the plan, for the statistics.
    pub index: usize,
    /// Its address; `None` while its name does not resolve.
    pub addr: Option<SocketAddr>,
    idle: RefCell<Vec<Idle>>,
}

/// A connection that waits for its next request.
struct Idle {
    stream: Stream,
    since: Instant,
}

impl Endpoint {
    /// An endpoint without connections.
    pub fn new(name: Arc<str>, index: usize, addr: Option<SocketAddr>) -> Endpoint {
        Endpoint { name, index, addr, idle: RefCell::default() }
    }
}

impl WorkerPool {
    /// The endpoint in a slot. Slots come from this pool's balancer, and every one of them has an endpoint.
    #[inline]
    pub fn endpoint(&self, slot: Slot) -> &Endpoint {
        &self.endpoints[slot.index()]
    }

    /// The connection that became idle last, if one is still good: the one whose buffers are warm, and the least
    /// likely to be closed by the endpoint just now.
    #[inline]
    pub fn take_idle(&self, slot: Slot, now: Instant, stats: &PoolStats) -> Option<Stream> {
        let endpoint = self.endpoint(slot);
        let idle_time = self.idle_time.as_nanos() as u64;
        loop {
            let idle = endpoint.idle.borrow_mut().pop()?;
            stats.endpoints[endpoint.index].idle.sub(1);
            // Sweeps come too seldom to rely on: the endpoint may close as soon as the time is over. And no task is behind
            // this context: nobody is to be woken when something comes later.
            if now.since(idle.since) < idle_time && idle.stream.is_quiet(&mut Context::from_waker(Waker::noop())) {
                return Some(idle.stream);
            }
        }
    }

    /// Keeps a connection for the next request.
    #[inline]
    pub fn keep_idle(&self, slot: Slot, stream: Stream, now: Instant, stats: &PoolStats) {
        let endpoint = self.endpoint(slot);
        let mut idle = endpoint.idle.borrow_mut();
        if idle.len() < self.idle_max {
            stream.send_at_once();
            idle.push(Idle { stream, since: now });
            stats.endpoints[endpoint.index].idle.add(1);
        }
    }

    /// Closes connections that were idle for too long or that the endpoint has closed.
    pub fn sweep_idle(&self, now: Instant, stats: &PoolStats) {
        let idle_time = self.idle_time.as_nanos() as u64;
        for endpoint in &self.endpoints {
            let mut idle = endpoint.idle.borrow_mut();
            let before = idle.len();
            idle.retain(|c| {
                now.since(c.since) < idle_time && c.stream.is_quiet(&mut Context::from_waker(Waker::noop()))
            });
            stats.endpoints[endpoint.index].idle.sub((before - idle.len()) as u64);
        }
    }

    /// Closes all idle connections.
    pub fn close_idle(&self, stats: &PoolStats) {
        for endpoint in &self.endpoints {
            let closed = std::mem::take(&mut *endpoint.idle.borrow_mut()).len();
            stats.endpoints[endpoint.index].idle.sub(closed as u64);
        }
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
