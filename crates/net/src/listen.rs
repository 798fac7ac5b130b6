//! Listening sockets: each worker has a socket at every address (`SO_REUSEPORT`). Inherited sockets are used first.

use crate::datagrams::socket::{join_segments, open, turn_on};
use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::SocketFlags;
use socket2::{Domain, Protocol as Kind, Socket, Type};
use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;
use std::{fmt, io};

/// Most connections that wait to be accepted; the kernel caps it at `net.core.somaxconn`.
pub const BACKLOG: i32 = 4096;

/// Receive buffer of a UDP listener, in bytes; the kernel caps it at `net.core.rmem_max`. Sockets of flows
/// keep the kernel's default, because their datagrams do not wait for datagrams of others.
const WAITING_MAX: usize = 4 << 20;

/// Seconds that the kernel waits for a client's first bytes before it hands over the connection. Only so that
/// a client that sends at once is read at once; the header timeout is our own.
const DEFER_ACCEPT_S: i32 = 1;

/// A listening socket. Closed when all its workers, usually a single worker, have dropped it.
pub type ListenFd = Arc<OwnedFd>;

/// Transport of a socket. TCP and UDP ports are separate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Protocol {
    Tcp,
    Udp,
}

/// Claim to an address: exclusive, or shared with other processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// An address that another process listens on counts as in use, even if that process would share it: two balancers
    /// that silently get half of the clients each are rarely intended.
    Exclusive,
    /// Other processes of the same user may listen there too.
    Shared,
}

impl Claim {
    /// Returns the claim of a process whose plan has this `share_ports`.
    pub fn of(share_ports: bool) -> Claim {
        if share_ports { Claim::Shared } else { Claim::Exclusive }
    }

    /// Returns the claim to an address beside those that this process has: it shares with its own sockets, as when a
    /// listener moves from an address of the machine to all of them.
    #[must_use]
    pub fn beside(self, addr: SocketAddr, mut own: impl Iterator<Item = SocketAddr>) -> Claim {
        let overlaps = |other: SocketAddr| {
            let any = addr.ip().is_unspecified() || other.ip().is_unspecified();
            addr.port() == other.port() && (any || addr.ip() == other.ip())
        };
        if own.any(overlaps) { Claim::Shared } else { self }
    }
}

/// Returns whether an address could be listened on now, by a process that claims it alone.
pub fn is_free(protocol: Protocol, addr: SocketAddr) -> bool {
    match protocol {
        Protocol::Tcp => bound_tcp(addr, false).is_ok(),
        Protocol::Udp => bound_udp(addr, false).is_ok(),
    }
}

fn bound_tcp(addr: SocketAddr, shared: bool) -> io::Result<Socket> {
    let kind = Type::STREAM.nonblocking().cloexec();
    let socket = Socket::new(Domain::for_address(addr), kind, Some(Kind::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(shared)?;
    socket.bind(&addr.into())?;
    Ok(socket)
}

fn bound_udp(addr: SocketAddr, shared: bool) -> io::Result<Socket> {
    let socket = open(addr)?;
    socket.set_reuse_port(shared)?;
    socket.bind(&addr.into())?;
    Ok(socket)
}

/// Error: an address of a listener that cannot be listened on.
#[derive(Debug)]
pub struct CannotListen {
    pub listener: Arc<str>,
    pub addr: SocketAddr,
    pub error: io::Error,
}

impl fmt::Display for CannotListen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CannotListen { listener, addr, error } = self;
        write!(f, "listener \"{listener}\": cannot listen on {addr}: {error}")
    }
}

impl Error for CannotListen {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.error)
    }
}

/// Opens a listening socket or more for each worker. Inherited sockets in `given` are used first, and all
/// of them, because clients may wait there.
///
/// # Errors
/// Errors of `bind(2)` and `listen(2)`.
pub fn tcp(addr: SocketAddr, workers: usize, given: Vec<OwnedFd>, claim: Claim) -> io::Result<Vec<Vec<ListenFd>>> {
    let ready = |socket: &Socket| {
        // Accepted sockets inherit this: small responses must not wait for an ACK of the previous response.
        socket.set_tcp_nodelay(true)?;
        socket.listen(BACKLOG)
    };
    share_out(workers, given, claim, |shared| bound_tcp(addr, shared), ready)
}

/// Opens a UDP socket or more for each worker, using the sockets in `given` first. `joins` lets the kernel
/// coalesce datagrams of a sender.
///
/// # Errors
/// Errors of `bind(2)`.
pub fn udp(
    addr: SocketAddr,
    workers: usize,
    given: Vec<OwnedFd>,
    claim: Claim,
    joins: bool,
) -> io::Result<Vec<Vec<ListenFd>>> {
    let ready = |socket: &Socket| {
        socket.set_recv_buffer_size(WAITING_MAX)?;
        // The previous owner of an inherited socket may have set it differently.
        join_segments(socket, joins);
        if addr.ip().is_unspecified() {
            // An answer must come from the address that was asked, which only the datagram carries.
            let (level, name) = match addr {
                SocketAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_PKTINFO),
                SocketAddr::V6(_) => (libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO),
            };
            turn_on(socket, level, name)?;
        }
        Ok(())
    };
    share_out(workers, given, claim, |shared| bound_udp(addr, shared), ready)
}

/// Opens a blocking TCP socket for the admin.
///
/// # Errors
/// Errors of `bind(2)` and `listen(2)`.
pub fn admin(addr: SocketAddr, claim: Claim) -> io::Result<std::net::TcpListener> {
    let socket = Socket::new(Domain::for_address(addr), Type::STREAM.cloexec(), Some(Kind::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(claim == Claim::Shared)?;
    socket.bind(&addr.into())?;
    socket.listen(128)?;
    Ok(socket.into())
}

/// Accepts a waiting connection. `None` if that client has already left or a signal arrived; another may
/// wait.
///
/// # Errors
/// Errors of `accept(2)`: `AGAIN` if none waits.
#[inline]
pub fn accept(socket: &ListenFd) -> Result<Option<(OwnedFd, SocketAddr)>, Errno> {
    match rustix::net::acceptfrom_with(socket, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
        Ok((fd, peer)) => Ok(peer.and_then(|peer| Some((fd, SocketAddr::try_from(peer).ok()?)))),
        // Neither concerns the next connection.
        Err(Errno::CONNABORTED | Errno::INTR) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Makes the kernel hand over connections with their first bytes. An optimisation: failure is ignored.
pub fn defer_accept(socket: &impl AsFd, defers: bool) {
    let seconds = if defers { DEFER_ACCEPT_S } else { 0 };
    let len = size_of_val(&seconds) as libc::socklen_t;
    // SAFETY: the descriptor is open for the call, and the pointer and length describe `seconds`, which
    // outlives it.
    unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_DEFER_ACCEPT,
            (&raw const seconds).cast(),
            len,
        );
    }
}

/// Distributes `given` sockets over the workers, and opens a socket for each worker without. `socket` binds a new
/// socket, shared or exclusive; `ready` prepares a socket for use.
///
/// # Errors
/// Errors of the closures.
fn share_out(
    workers: usize,
    given: Vec<OwnedFd>,
    claim: Claim,
    socket: impl Fn(bool) -> io::Result<Socket>,
    ready: impl Fn(&Socket) -> io::Result<()>,
) -> io::Result<Vec<Vec<ListenFd>>> {
    let another = || -> io::Result<ListenFd> {
        let socket = socket(true)?;
        ready(&socket)?;
        Ok(ListenFd::new(socket.into()))
    };
    if given.is_empty() && claim == Claim::Exclusive {
        socket(false)?;
    }
    let given: Vec<Socket> = given.into_iter().map(Socket::from).collect();
    given.iter().try_for_each(&ready)?;
    let given: Vec<ListenFd> = given.into_iter().map(|socket| ListenFd::new(socket.into())).collect();
    let mut by_worker: Vec<Vec<ListenFd>> = (0..workers).map(|_| Vec::new()).collect();
    for (index, socket) in given.iter().enumerate() {
        by_worker[index % workers].push(socket.clone());
    }
    for (index, sockets) in by_worker.iter_mut().enumerate().filter(|(_, sockets)| sockets.is_empty()) {
        // An inherited socket without SO_REUSEPORT prevents others at its address, and then serves several
        // workers.
        sockets.push(match (another(), given.is_empty()) {
            (Err(_), false) => given[index % given.len()].clone(),
            (another, _) => another?,
        });
    }
    Ok(by_worker)
}
