//! Where do clients come in? Each worker has a listening socket of its own at every address (`SO_REUSEPORT`), and takes
//! from it all that wait at once.

use crate::connection;
use crate::stats::Rejected;
use crate::worker::Worker;
use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::SocketFlags;
use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Connections taken before others get their turn.
const AT_ONCE: usize = 64;

/// Connections that may wait to be accepted; the kernel caps it at `net.core.somaxconn`.
const BACKLOG: i32 = 4096;

/// Pause when the process has run out of descriptors: accepting would fail again at once.
const PAUSE: Duration = Duration::from_millis(50);

/// Seconds that the kernel waits for a client's first bytes before it shows us the connection. The header timeout is
/// ours; this is only so that a client that sends at once is read at once.
const DEFER_ACCEPT_S: i32 = 1;

/// Opens one listening socket for each of `workers` workers.
///
/// # Errors
/// As `bind(2)` and `listen(2)`. An address that another process listens on is in use, even if that process would
/// share it: two balancers that silently take half of the clients each are nobody's wish.
pub fn listen(addr: SocketAddr, workers: usize) -> io::Result<Vec<OwnedFd>> {
    let socket = |shared: bool| -> io::Result<Socket> {
        let kind = Type::STREAM.nonblocking().cloexec();
        let socket = Socket::new(Domain::for_address(addr), kind, Some(Protocol::TCP))?;
        socket.set_reuse_address(true)?;
        socket.set_reuse_port(shared)?;
        socket.bind(&addr.into())?;
        Ok(socket)
    };
    socket(false)?;
    let listener = || {
        let socket = socket(true)?;
        // Accepted sockets inherit it: small responses must not wait for the acknowledgement of the one before.
        socket.set_tcp_nodelay(true)?;
        defer_accept(&socket);
        socket.listen(BACKLOG)?;
        Ok(socket.into())
    };
    (0..workers).map(|_| listener()).collect()
}

/// With it the first read of an accepted connection finds its bytes there. An optimisation: a kernel without it is fine.
fn defer_accept(socket: &impl AsFd) {
    let seconds = DEFER_ACCEPT_S;
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

/// Accepts until the task is dropped.
pub async fn run(worker: Rc<Worker>, listener: usize, socket: OwnedFd) {
    // SAFETY: the registration owns the descriptor, and nobody else closes it.
    let socket = match unsafe { AsyncFd::register_with_interest(socket, Interest::READABLE) } {
        Ok(socket) => socket,
        Err(error) => return tracing::error!(%error, "cannot watch a listening socket"),
    };
    loop {
        let Ok(mut ready) = socket.readable().await else { return };
        for _ in 0..AT_ONCE {
            match rustix::net::acceptfrom_with(socket.get_ref(), SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
                Ok((fd, peer)) => {
                    let peer = peer.and_then(|p| SocketAddr::try_from(p).ok());
                    take(&worker, listener, fd, peer);
                }
                Err(Errno::AGAIN) => {
                    ready.clear_ready();
                    break;
                }
                // The client left before it was accepted, or a signal came: neither is about the next one.
                Err(Errno::CONNABORTED | Errno::INTR) => {}
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection; pausing");
                    tokio::time::sleep(PAUSE).await;
                    break;
                }
            }
        }
        tokio::task::yield_now().await;
    }
}

fn take(worker: &Rc<Worker>, listener: usize, fd: OwnedFd, peer: Option<SocketAddr>) {
    let settings = &worker.listeners[listener];
    let stats = &worker.stats.listeners[listener];
    let Some(peer) = peer else { return };
    if settings.open.fetch_add(1, Relaxed) >= settings.connections_max {
        settings.open.fetch_sub(1, Relaxed);
        stats.rejected[Rejected::Connections as usize].add(1);
        return;
    }
    stats.accepted.add(1);
    worker.connection_opened();
    tokio::task::spawn_local(connection::serve(worker.clone(), listener, fd, peer));
}
