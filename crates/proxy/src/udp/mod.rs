//! How do datagrams get there and back? Read the files in this order:
//!
//! 1. A [`door`] is one worker's socket at one address, and the [`flow`]s that come in there, found in a [`table`].
//! 2. What has come is in an [`inbox`]; an [`outbox`] says where it goes on.
//! 3. [`socket`] opens what all of it goes through.
//!
//! The kernel spreads clients over the workers' sockets by a hash of both addresses, so a flow stays with its worker as
//! long as no socket joins or leaves. That is why a change of the configuration keeps them.

mod door;
mod flow;
mod inbox;
mod outbox;
mod socket;
mod table;

pub use socket::listen;

use crate::event_loop::{Source, Task, spawn_essential, yield_now};
use crate::parts::ListenFd;
use crate::rules::Listener;
use crate::worker::Worker;
use door::Door;
use evenkeel_balance::Instant;
use rustix::event::epoll;
use rustix::fd::OwnedFd;
use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

macro_rules! reasons {
    ($(#[$doc:meta])* $of:ident: $($name:ident $label:literal $text:literal,)*) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $of { $(#[doc = $text] $name,)* }

        impl $of {
            /// Labels of the metrics, in the order of the counters.
            pub const LABELS: [&str; [$($label,)*].len()] = [$($label,)*];
        }
    };
}

reasons! {
    /// Why a flow ended.
    Ended:
    Idle "idle" "No datagram came for as long as it may be idle.",
    Answered "answered" "Each datagram had its answers.",
    Evicted "evicted" "There were too many flows, and it was idle longest.",
    Closed "closed" "Its listener left, or the process ended.",
}

reasons! {
    /// Why a datagram went nowhere.
    Lost:
    NoEndpoint "no_endpoint" "The pool had no endpoint for a new flow.",
    Unreachable "unreachable" "The endpoints that were tried cannot be reached.",
    Connections "connections" "There are too many flows, and none to evict.",
    PerAddress "connections_per_address" "The client's address has as many flows as it may.",
    Rate "requests_per_address" "The client's address begins more flows than it may.",
    Draining "draining" "The process ends, and takes no new flow.",
    NoSocket "no_socket" "No descriptor or port was left for its flow.",
    Unsent "unsent" "The kernel did not take it: too long for its way, or no room.",
}

/// A door that is open, and the tasks that go through it.
pub struct Serving {
    door: Rc<Door>,
    taking: Task,
    answering: Task,
}

/// Relays datagrams from now on. `None` if the kernel cannot watch the socket.
pub fn start(worker: &Rc<Worker>, addr: SocketAddr, listener: Rc<Listener>, socket: ListenFd) -> Option<Serving> {
    let watched = || {
        let flows: Arc<OwnedFd> = epoll::create(epoll::CreateFlags::CLOEXEC)?.into();
        Ok::<_, std::io::Error>((Source::new(socket.clone())?, Source::new(flows.clone())?, flows))
    };
    let (clients, endpoints, flows) = match watched() {
        Ok(watched) => watched,
        Err(error) => {
            tracing::error!(%error, %addr, "cannot watch a socket for datagrams");
            return None;
        }
    };
    let door = Rc::new(Door::new(addr, RefCell::new(listener), socket, flows));
    let taking = spawn_essential(run(worker.clone(), door.clone(), clients, Door::take));
    let answering = spawn_essential(run(worker.clone(), door.clone(), endpoints, Door::answer));
    Some(Serving { door, taking, answering })
}

/// Passes on what comes, until nothing is left; others get their turn after each batch.
async fn run(worker: Rc<Worker>, door: Rc<Door>, fd: Source<Arc<OwnedFd>>, batch: fn(&Door, &Worker) -> bool) {
    loop {
        fd.readable().await;
        if batch(&door, &worker) {
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
        self.door.addr
    }

    /// Datagrams go by the rules of this listener from now on.
    pub fn change(&self, listener: Rc<Listener>) {
        self.door.listener.replace(listener);
    }

    /// Ends the flows that are idle.
    pub fn expire(&self, worker: &Worker, now: Instant) {
        self.door.expire(worker, now);
    }

    /// Takes flows away from endpoints that have left or are down.
    pub fn look(&self, now: Instant) {
        self.door.look(now);
    }

    /// No new flows; those that there are go on.
    pub fn take_no_more(&self) {
        self.door.is_draining.set(true);
    }

    /// Leaves all datagrams from clients to another process; what comes back still reaches them.
    pub fn retire(&self) {
        self.taking.abort();
    }

    /// Ends all flows. There is no end of a flow that one could wait for.
    pub fn close(&self, worker: &Worker) {
        self.taking.abort();
        self.answering.abort();
        self.door.close(worker);
    }
}
