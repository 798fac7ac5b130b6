//! Answers to UDP load probes at a listener's own addresses and ports, with a socket per worker.

use crate::core::Core;
use crate::listener::rules::Listener;
use crate::load::probe::datagram::{self, Datagram};
use evenkeel_balance::Clock;
use evenkeel_net::event_loop::{Source, Task, spawn};
use socket2::{Domain, Protocol, Socket, Type};
use std::cell::RefCell;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::rc::Rc;

/// Opens a UDP socket for each worker, all bound to `addr`.
///
/// # Errors
/// Errors of `socket(2)` and `bind(2)`.
pub fn open(addr: SocketAddr, workers: usize) -> io::Result<Vec<UdpSocket>> {
    let socket = |_| -> io::Result<UdpSocket> {
        let kind = Type::DGRAM.nonblocking().cloexec();
        let socket = Socket::new(Domain::for_address(addr), kind, Some(Protocol::UDP))?;
        // The kernel spreads senders over the workers, and during an upgrade the new process can bind too.
        socket.set_reuse_port(true)?;
        socket.bind(&addr.into())?;
        Ok(socket.into())
    };
    (0..workers).map(socket).collect()
}

/// A socket on which a worker answers probes, until dropped.
pub struct Answering {
    /// Address that the socket is bound to.
    pub addr: SocketAddr,
    /// Listener whose load it reports.
    pub listener: Rc<RefCell<Rc<Listener>>>,
    task: Task,
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Starts to answer probes. `None` if the socket cannot be polled.
pub fn start(core: &Rc<Core>, addr: SocketAddr, listener: Rc<Listener>, socket: UdpSocket) -> Option<Answering> {
    let socket = match Source::new(socket) {
        Ok(socket) => socket,
        Err(error) => {
            tracing::warn!(%error, %addr, "cannot poll the socket for load probes; probes to this address get no response");
            return None;
        }
    };
    let listener = Rc::new(RefCell::new(listener));
    let task = spawn(run(core.clone(), listener.clone(), socket));
    Some(Answering { addr, listener, task })
}

async fn run(core: Rc<Core>, listener: Rc<RefCell<Rc<Listener>>>, socket: Source<UdpSocket>) {
    // A byte more than a datagram has, so that a longer datagram is not mistaken for a valid datagram.
    let mut bytes = [0; datagram::LEN + 1];
    loop {
        socket.readable().await;
        match socket.recv_from(&mut bytes) {
            Ok((n, from)) => {
                if let Some(answer) = answer(&core, &listener.borrow(), &bytes[..n]) {
                    // An answer that cannot be sent is treated as lost.
                    let _ = socket.send_to(&answer, from);
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => socket.note_empty(),
            // An error about an earlier answer (ICMP). Reading cleared it, so the loop ends.
            Err(_) => {}
        }
    }
}

fn answer(core: &Core, listener: &Listener, bytes: &[u8]) -> Option<[u8; datagram::LEN]> {
    let rules = listener.rules();
    match (datagram::read(bytes), &rules.reporter) {
        (Some(Datagram::Question(nonce)), Some(reporter)) => {
            listener.stats.reports_given[1].add(1);
            Some(datagram::write(&Datagram::Answer(nonce, reporter.load(core.clock.now()))))
        }
        _ => {
            listener.stats.no_probes.add(1);
            None
        }
    }
}
