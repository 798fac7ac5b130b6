//! Where do clients come in? Each worker has a listening socket of its own at every address (`SO_REUSEPORT`), and takes
//! from it all that wait at once.

use crate::connection;
use crate::event_loop::{Source, Task, alarm, spawn_essential};
use crate::inherit;
use crate::parts::ListenFd;
use crate::rules::Listener;
use crate::share::Handed;
use crate::stats::Rejected;
use crate::worker::Worker;
use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::SocketFlags;
use socket2::{Domain, Protocol, Socket, Type};
use std::cell::RefCell;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

/// Connections that may wait to be accepted; the kernel caps it at `net.core.somaxconn`.
const BACKLOG: i32 = 4096;

/// Pause when the process has run out of descriptors: accepting would fail again at once.
const PAUSE: Duration = Duration::from_millis(50);

/// Seconds that the kernel waits for a client's first bytes before it shows us the connection. The header timeout is
/// ours; this is only so that a client that sends at once is read at once.
const DEFER_ACCEPT_S: i32 = 1;

/// Opens one listening socket for each of `workers` workers, or more: those that are `given` are used first, and each
/// of them by somebody, as clients may wait there.
///
/// # Errors
/// As `bind(2)` and `listen(2)`. An address that another process listens on is in use, even if that process would
/// share it: two balancers that silently take half of the clients each are nobody's wish.
pub fn listen(addr: SocketAddr, workers: usize, given: Vec<OwnedFd>) -> io::Result<Vec<Vec<ListenFd>>> {
    let socket = |shared: bool| -> io::Result<Socket> {
        let kind = Type::STREAM.nonblocking().cloexec();
        let socket = Socket::new(Domain::for_address(addr), kind, Some(Protocol::TCP))?;
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
    inherit::share_out(workers, given, socket, ready)
}

/// With it the first read of an accepted connection finds its bytes there. An optimisation: a kernel without it is fine.
/// Not where the server may be the one to speak first.
fn defer_accept(socket: &impl AsFd, listener: &Listener) {
    let seconds = if listener.peek().clients_speak_first() { DEFER_ACCEPT_S } else { 0 };
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

/// A socket at which a worker accepts.
pub struct Accepting {
    /// Its address.
    pub addr: SocketAddr,
    /// Whose clients come in there.
    listener: Rc<RefCell<Rc<Listener>>>,
    socket: ListenFd,
    task: Task,
}

/// Accepts from now on. `None` if the kernel cannot watch the socket.
pub fn start(worker: &Rc<Worker>, addr: SocketAddr, listener: Rc<Listener>, socket: ListenFd) -> Option<Accepting> {
    let watched = match Source::new(socket.clone()) {
        Ok(watched) => watched,
        Err(error) => {
            tracing::error!(%error, %addr, "cannot watch a listening socket");
            return None;
        }
    };
    defer_accept(&*socket, &listener);
    let listener = Rc::new(RefCell::new(listener));
    let task = spawn_essential(run(worker.clone(), listener.clone(), watched));
    Some(Accepting { addr, listener, socket, task })
}

impl Accepting {
    /// Clients that come from now on are this listener's.
    pub fn serve(&self, listener: Rc<Listener>) {
        defer_accept(&*self.socket, &listener);
        self.listener.replace(listener);
    }

    /// Accepts no more, but for those that wait: closing the socket would reset them.
    pub fn close(&self, worker: &Rc<Worker>) {
        self.task.abort();
        while let Accepted::One = accept(worker, &self.listener.borrow(), &self.socket, false) {}
    }
}

async fn run(worker: Rc<Worker>, listener: Rc<RefCell<Rc<Listener>>>, socket: Source<ListenFd>) {
    loop {
        socket.readable().await;
        let accepted = accept(&worker, &listener.borrow(), &socket, true);
        match accepted {
            Accepted::One => {}
            Accepted::NoMore => socket.note_empty(),
            Accepted::Failed(error) => {
                tracing::warn!(%error, "cannot accept a connection; pausing");
                alarm::sleep(PAUSE).await;
            }
        }
    }
}

/// What waited at a socket.
enum Accepted {
    /// A connection, or one that is gone already.
    One,
    /// Nothing.
    NoMore,
    /// Whatever waits cannot be had now.
    Failed(Errno),
}

/// Accepts one. `share`: another worker may serve it.
fn accept(worker: &Rc<Worker>, listener: &Rc<Listener>, socket: &ListenFd, share: bool) -> Accepted {
    match rustix::net::acceptfrom_with(socket, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
        Ok((fd, peer)) => {
            if let Some(peer) = peer.and_then(|p| SocketAddr::try_from(p).ok()) {
                take(worker, listener, fd, peer, share);
            }
            Accepted::One
        }
        Err(Errno::AGAIN) => Accepted::NoMore,
        // The client left before it was accepted, or a signal came: neither is about the next one.
        Err(Errno::CONNABORTED | Errno::INTR) => Accepted::One,
        Err(error) => Accepted::Failed(error),
    }
}

fn take(worker: &Rc<Worker>, listener: &Rc<Listener>, fd: OwnedFd, peer: SocketAddr, share: bool) {
    if listener.open.add() >= listener.connections_max() {
        listener.open.sub();
        listener.stats.rejected[Rejected::Connections as usize].add(1);
        return;
    }
    listener.stats.accepted.add(1);
    let fd = match worker.rather().filter(|_| share) {
        None => fd,
        Some(other) => {
            let generation = worker.installed.borrow().number;
            match worker.peers.hand(other, Handed { fd, peer, listener: listener.name.clone(), generation }) {
                Ok(()) => return,
                Err(Handed { fd, .. }) => fd,
            }
        }
    };
    worker.connection_opened();
    connection::start(worker, listener, fd, peer);
}

/// Serves a connection that another worker accepted, which has counted it; `Err` with it if its listener is still to come.
pub fn take_over(worker: &Rc<Worker>, handed: Handed) -> Result<(), Handed> {
    let installed = worker.installed.borrow();
    match installed.listeners.iter().find(|listener| listener.name == handed.listener) {
        Some(listener) => {
            connection::start(worker, listener, handed.fd, handed.peer);
            Ok(())
        }
        None if handed.generation > installed.number => Err(handed),
        None => {
            // The listener has just left the plan: this client came as late as one that is refused.
            worker.connection_closed();
            Ok(())
        }
    }
}
