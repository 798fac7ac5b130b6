//! How do datagrams get there and back? Read the files in this order:
//!
//! 1. A [`listener`] is one worker's socket at one address, and the [`flow`]s that come in there, found in a [`table`].
//! 2. What has come is in a batch, and so is what goes on ([`evenkeel_net::datagrams`]).
//!
//! The kernel spreads clients over the workers' sockets by a hash of both addresses, so a flow stays with its worker as
//! long as no socket joins or leaves. That is why a change of the configuration keeps them.

mod flow;
mod listener;
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

/// A socket that is served, and the tasks that do.
pub struct Serving {
    udp: Rc<UdpListener>,
    taking: Task,
    answering: Task,
}

/// Relays datagrams from now on. `None` if the kernel cannot watch the socket.
pub fn start(core: &Rc<Core>, addr: SocketAddr, listener: Rc<Listener>, socket: ListenFd) -> Option<Serving> {
    let watched = || {
        let flows: Arc<OwnedFd> = epoll::create(epoll::CreateFlags::CLOEXEC)?.into();
        Ok::<_, std::io::Error>((Source::new(socket.clone())?, Source::new(flows.clone())?, flows))
    };
    let (clients, endpoints, flows) = match watched() {
        Ok(watched) => watched,
        Err(error) => {
            tracing::error!(%error, %addr, "cannot poll a UDP socket");
            return None;
        }
    };
    let udp = Rc::new(UdpListener::new(addr, RefCell::new(listener), socket, flows));
    let taking = spawn_essential(run(core.clone(), udp.clone(), clients, UdpListener::take));
    let answering = spawn_essential(run(core.clone(), udp.clone(), endpoints, UdpListener::answer));
    Some(Serving { udp, taking, answering })
}

/// Passes on what comes, until nothing is left; others get their turn after each batch.
async fn run(core: Rc<Core>, udp: Rc<UdpListener>, fd: Source<Arc<OwnedFd>>, batch: fn(&UdpListener, &Core) -> bool) {
    loop {
        fd.readable().await;
        if batch(&udp, &core) {
            yield_now().await;
        } else {
            // Without a turn for others, which would ask the kernel once more for what has come: nothing is left to do.
            fd.note_empty();
        }
    }
}

impl Serving {
    /// Where it is.
    pub fn addr(&self) -> SocketAddr {
        self.udp.addr
    }

    /// Datagrams go by the rules of this listener from now on.
    pub fn change(&self, listener: Rc<Listener>) {
        self.udp.listener.replace(listener);
    }

    /// Ends the flows that are idle.
    pub fn expire(&self, core: &Core, now: Instant) {
        self.udp.expire(core, now);
    }

    /// Returns the time at which the first flow is idle for too long, if there is one.
    pub fn expires_at(&self) -> Option<Instant> {
        self.udp.expires_at()
    }

    /// Takes flows away from endpoints that have left or are down.
    pub fn look(&self, now: Instant) {
        self.udp.look(now);
    }

    /// No new flows; those that there are go on.
    pub fn take_no_more(&self) {
        self.udp.is_draining.set(true);
    }

    /// Leaves all datagrams from clients to another process; what comes back still reaches them.
    pub fn retire(&self) {
        self.taking.abort();
    }

    /// Ends all flows. There is no end of a flow that one could wait for.
    pub fn close(&self, core: &Core) {
        self.taking.abort();
        self.answering.abort();
        self.udp.close(core);
    }
}
