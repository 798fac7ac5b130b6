//! Where do clients come in? Sockets for each worker at every address (`SO_REUSEPORT`); those that came with the process go
//! first.

use crate::datagrams::socket::{join_segments, open, turn_on};
use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::SocketFlags;
use socket2::{Domain, Protocol as Kind, Socket, Type};
use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;
use std::{fmt, io};

/// Connections that may wait to be accepted; the kernel caps it at `net.core.somaxconn`.
pub const BACKLOG: i32 = 4096;

/// Bytes of datagrams that may wait to be taken; the kernel caps it at `net.core.rmem_max`. A flow has what the kernel gives,
/// as its datagrams do not wait for those of others.
const WAITING_MAX: usize = 4 << 20;

/// Seconds that the kernel waits for a client's first bytes before it shows us the connection. The header timeout is
/// ours; this is only so that a client that sends at once is read at once.
const DEFER_ACCEPT_S: i32 = 1;

/// A listening socket. It is closed when its workers, mostly one, have let go of it.
pub type ListenFd = Arc<OwnedFd>;

/// By which of them a socket is reached: each has ports of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// Connections.
    Tcp,
    /// Datagrams.
    Udp,
}

/// An address of a listener that cannot be listened on.
#[derive(Debug)]
pub struct CannotListen {
    /// The name of the listener.
    pub listener: Arc<str>,
    /// The address.
    pub addr: SocketAddr,
    /// Why.
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

/// Opens one listening socket for each of `workers` workers, or more: those that are `given` are used first, and each
/// of them, as clients may wait there.
///
/// # Errors
/// As `bind(2)` and `listen(2)`. An address that another process listens on is in use, even if that process would
/// share it: two balancers that silently take half of the clients each are never wanted.
pub fn tcp(addr: SocketAddr, workers: usize, given: Vec<OwnedFd>) -> io::Result<Vec<Vec<ListenFd>>> {
    let socket = |shared: bool| -> io::Result<Socket> {
        let kind = Type::STREAM.nonblocking().cloexec();
        let socket = Socket::new(Domain::for_address(addr), kind, Some(Kind::TCP))?;
        socket.set_reuse_address(true)?;
        socket.set_reuse_port(shared)?;
        socket.bind(&addr.into())?;
        Ok(socket)
    };
    let ready = |socket: &Socket| {
        // Accepted sockets inherit it: small responses must not wait for the acknowledgement of the one before.
        socket.set_tcp_nodelay(true)?;
        socket.listen(BACKLOG)
    };
    share_out(workers, given, socket, ready)
}

/// Opens one socket for each of `workers` workers, or more: those that are `given` are used first. `joins`: whether several
/// datagrams of one sender may come as one.
///
/// # Errors
/// As `bind(2)`. An address that another process has is in use, even if that process would share it.
pub fn udp(addr: SocketAddr, workers: usize, given: Vec<OwnedFd>, joins: bool) -> io::Result<Vec<Vec<ListenFd>>> {
    let socket = |shared: bool| -> io::Result<Socket> {
        let socket = open(addr)?;
        socket.set_reuse_port(shared)?;
        socket.bind(&addr.into())?;
        Ok(socket)
    };
    let ready = |socket: &Socket| {
        socket.set_recv_buffer_size(WAITING_MAX)?;
        // The process that had a given one before may have wanted it otherwise.
        join_segments(socket, joins);
        if addr.ip().is_unspecified() {
            // An answer must come from the address that was asked, which only the datagram tells.
            let (level, name) = match addr {
                SocketAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_PKTINFO),
                SocketAddr::V6(_) => (libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO),
            };
            turn_on(socket, level, name)?;
        }
        Ok(())
    };
    share_out(workers, given, socket, ready)
}

/// Accepts a connection that waits; `None`: that client has left already, or a signal came, and another may wait.
///
/// # Errors
/// As `accept(2)`: `AGAIN` if none waits.
#[inline]
pub fn accept(socket: &ListenFd) -> Result<Option<(OwnedFd, SocketAddr)>, Errno> {
    match rustix::net::acceptfrom_with(socket, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
        Ok((fd, peer)) => Ok(peer.and_then(|peer| Some((fd, SocketAddr::try_from(peer).ok()?)))),
        // Neither is about the next one.
        Err(Errno::CONNABORTED | Errno::INTR) => Ok(None),
        Err(error) => Err(error),
    }
}

/// With it the first read of an accepted connection finds its bytes there. An optimisation: a kernel without it is fine.
pub fn defer_accept(socket: &impl AsFd, defers: bool) {
    let seconds = if defers { DEFER_ACCEPT_S } else { 0 };
    let len = size_of_val(&seconds) as libc::socklen_t;
    // SAFETY: the descriptor is open for the call, and the pointer and length describe `seconds`, which outlives it.
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

/// For each of `workers` workers one socket at an address, or more: those that are `given` are used first, and each of them
/// later, as clients may wait there. `socket` binds one, alone or as one of several; `ready` makes of it what a worker
/// can use.
///
/// # Errors
/// Theirs. An address that another process listens on is in use, even if that process would share it: two balancers that
/// silently take half of the clients each are never wanted.
fn share_out(
    workers: usize,
    given: Vec<OwnedFd>,
    socket: impl Fn(bool) -> io::Result<Socket>,
    ready: impl Fn(&Socket) -> io::Result<()>,
) -> io::Result<Vec<Vec<ListenFd>>> {
    let another = || -> io::Result<ListenFd> {
        let socket = socket(true)?;
        ready(&socket)?;
        Ok(ListenFd::new(socket.into()))
    };
    if given.is_empty() {
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
        // One that came without SO_REUSEPORT cannot have others beside it: then it serves several workers.
        sockets.push(match (another(), given.is_empty()) {
            (Err(_), false) => given[index % given.len()].clone(),
            (another, _) => another?,
        });
    }
    Ok(by_worker)
}
