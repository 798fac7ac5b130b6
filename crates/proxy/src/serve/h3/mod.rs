//! The client's side of HTTP/3. Read the files in this order:
//!
//! 1. This one: a worker's UDP socket at an address of a listener. Its [`clients`] are let in or not.
//! 2. The [`worker`] has the keys, and exchanges datagrams with other workers and processes.
//! 3. A [`session`] is a connection. It reads heads, and passes each [`stream`] to the task of its [`request`].

// Order: clients, worker, request, session & stream, early, cause, proving, turned_away, by_stream
mod by_stream;
mod cause;
mod clients;
mod early;
mod proving;
mod request;
mod session;
mod stream;
mod turned_away;
mod worker;

pub use worker::Quic;

use crate::core::{Command, Core};
use crate::listener::rules::Listener;
use clients::Clients;
use evenkeel_net::event_loop::{Task, spawn, spawn_essential};
use evenkeel_net::listen::ListenFd;
use evenkeel_net::quic::endpoint::Endpoint;
use evenkeel_net::quic::steer;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;

/// A socket that is served, and its tasks.
pub struct Serving {
    pub addr: SocketAddr,
    endpoint: Rc<Endpoint<Clients>>,
    serving: Task,
    watching: Task,
}

/// Starts to serve HTTP/3. `None`, with an error logged, if the listener has no TLS.
pub fn start(
    core: &Rc<Core>,
    quic: &Rc<Quic>,
    addr: SocketAddr,
    listener: Rc<Listener>,
    socket: ListenFd,
) -> Option<Serving> {
    let clients = Clients::new(core, quic, addr, listener);
    let config = clients.config()?;
    let endpoint = Endpoint::new(clients, socket, quic.owner, &quic.keys, config);
    quic.add(addr, endpoint.clone());
    let served = endpoint.clone();
    let serving = spawn_essential(async move {
        if let Err(error) = served.run().await {
            tracing::error!(%error, %addr, "cannot poll a UDP socket; this worker serves no HTTP/3 there");
        }
    });
    let watching = spawn(watch(core.clone(), endpoint.clone()));
    Some(Serving { addr, endpoint, serving, watching })
}

/// Has the kernel pass datagrams to the worker of their connection. All workers' sockets are in the group of `socket`, in the
/// order of the workers.
pub fn steer(socket: &ListenFd, addr: SocketAddr) {
    if let Err(error) = steer::by_id(socket) {
        tracing::info!(%error, %addr, "HTTP/3: the kernel does not look at connection ids; workers hand datagrams over");
    }
}

/// Ends the connections once the worker or the listener ends: those of a listener after its drain time at the latest.
async fn watch(core: Rc<Core>, endpoint: Rc<Endpoint<Clients>>) {
    let timer = core.wheel.timer();
    let until = async |is_so: &dyn Fn() -> bool| {
        let mut waiting = pin!(poll_fn(|_| if is_so() { Poll::Ready(()) } else { Poll::Pending }));
        // Without a deadline: the wheel wakes all tasks when something ends.
        let _ = timer.limit(waiting.as_mut()).await;
    };
    let listener = || endpoint.service().listener();
    until(&|| core.command.get() != Command::Run || listener().gone.get()).await;
    endpoint.take_no_more();
    endpoint.each(|session| session.begin_drain());
    until(&|| listener().cut.get()).await;
    endpoint.each(|session| session.cut());
}

impl Serving {
    /// Applies the rules of `listener` to connections that begin from now on.
    pub fn change(&self, listener: Rc<Listener>) {
        self.endpoint.service().change(listener);
    }

    /// Lets clients begin no more connections, and drains those that are there.
    pub fn take_no_more(&self) {
        self.endpoint.take_no_more();
        self.endpoint.each(|session| session.begin_drain());
    }

    /// Leaves new datagrams of the socket to the process that takes over.
    pub fn retire(&self) {
        self.endpoint.retire();
    }

    /// Ends with the last connection, or at the drain time of the listener.
    pub fn end(self) {
        // The tasks hold the endpoint.
        self.take_no_more();
    }

    /// Closes all connections, and returns the socket for another use.
    pub fn into_socket(self) -> ListenFd {
        self.close();
        self.endpoint.socket().clone()
    }

    /// Closes all connections, for a worker that ends.
    pub fn close(&self) {
        self.endpoint.each(|session| session.cut());
        self.endpoint.send_now();
        self.serving.abort();
        self.watching.abort();
    }
}
