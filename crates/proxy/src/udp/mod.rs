//! UDP load balancing. Read the files in this order:
//!
//! 1. A [`listener`] is a worker's socket at an address, with its [`flow`]s in a [`table`].
//! 2. The [`quic_id`] in its first datagram may lead a flow to its endpoint.
//! 3. Datagrams are received and sent in batches ([`evenkeel_net::datagrams`]).
//!
//! The kernel distributes clients over the workers' sockets by a hash of both addresses, so a flow stays with its
//! worker as long as no socket joins or leaves. A change of the configuration therefore keeps the sockets.

mod flow;
mod listener;
mod quic_id;
mod table;

use crate::core::Core;
use crate::listener::rules::Listener;
use evenkeel_balance::Instant;
use evenkeel_net::event_loop::{Source, Task, spawn_essential, yield_now};
use evenkeel_net::listen::ListenFd;
use listener::UdpListener;
use rustix::event::epoll;
use rustix::fd::OwnedFd;
use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

/// A socket that is served, and its two tasks: a task for clients, and a task for endpoints.
pub struct Serving {
    udp: Rc<UdpListener>,
    taking: Task,
    answering: Task,
}

/// Starts to relay datagrams. `None`, with an error logged, if the kernel cannot watch the socket.
pub fn start(core: &Rc<Core>, addr: SocketAddr, listener: Rc<Listener>, socket: ListenFd) -> Option<Serving> {
    let watched = || {
        let flows: Arc<OwnedFd> = epoll::create(epoll::CreateFlags::CLOEXEC)?.into();
        Ok::<_, std::io::Error>((Source::new(socket.clone())?, Source::new(flows.clone())?, flows))
    };
    let (clients, endpoints, flows) = match watched() {
        Ok(watched) => watched,
        Err(error) => {
            tracing::error!(%error, %addr, "cannot poll a UDP socket; this worker receives no datagrams there");
            return None;
        }
    };
    let udp = Rc::new(UdpListener::new(addr, RefCell::new(listener), socket, flows));
    let taking = spawn_essential(run(core.clone(), udp.clone(), clients, UdpListener::take));
    let answering = spawn_essential(run(core.clone(), udp.clone(), endpoints, UdpListener::answer));
    Some(Serving { udp, taking, answering })
}

/// Relays in batches whenever `fd` is readable. Other tasks get a turn after each batch.
async fn run(core: Rc<Core>, udp: Rc<UdpListener>, fd: Source<Arc<OwnedFd>>, batch: fn(&UdpListener, &Core) -> bool) {
    loop {
        fd.readable().await;
        if batch(&udp, &core) {
            yield_now().await;
        } else {
            // Without a yield, after which the kernel would be asked once more: the batch was the last.
            fd.note_empty();
        }
    }
}

impl Serving {
    /// Address that the socket is bound to.
    pub fn addr(&self) -> SocketAddr {
        self.udp.addr
    }

    /// Applies the rules of `listener` to datagrams from now on.
    pub fn change(&self, listener: Rc<Listener>) {
        self.udp.listener.replace(listener);
    }

    /// Ends the flows that are idle.
    pub fn expire(&self, core: &Core, now: Instant) {
        self.udp.expire(core, now);
    }

    /// Time at which the next flow expires; `None` without flows.
    pub fn expires_at(&self) -> Option<Instant> {
        self.udp.expires_at()
    }

    /// Takes flows away from endpoints that have left or are down.
    pub fn look(&self, now: Instant) {
        self.udp.look(now);
    }

    /// Starts no new flows; those that exist continue.
    pub fn take_no_more(&self) {
        self.udp.is_draining.set(true);
    }

    /// Leaves datagrams from clients to the process that takes over. Answers of endpoints are still forwarded.
    pub fn retire(&self) {
        self.taking.abort();
    }

    /// Ends all flows, and returns the socket for another use.
    pub fn into_socket(self, core: &Core) -> ListenFd {
        self.close(core);
        self.udp.socket.clone()
    }

    /// Ends all flows at once: nothing marks the end of a flow, so there is nothing to wait for.
    pub fn close(&self, core: &Core) {
        self.taking.abort();
        self.answering.abort();
        self.udp.close(core);
    }
}
