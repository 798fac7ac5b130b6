//! Listening sockets of a worker. Each worker has a separate socket at every address (`SO_REUSEPORT`), and accepts all
//! connections that wait there before it polls again.

use crate::core::handoff::Handoff;
use crate::listener::rules::Listener;
use crate::observe::stats::Rejected;
use crate::plan::installed::Worker;
use crate::serve::connection;
use evenkeel_net::accept_pause;
use evenkeel_net::event_loop::{Source, Task, budget, spawn_essential};
use evenkeel_net::listen::{self, BACKLOG, ListenFd};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;

/// Units of the turn's budget that an accepted connection costs.
const ACCEPTED: u32 = 3;

/// Sets `TCP_DEFER_ACCEPT`, unless the server may speak first: the kernel would wait for a client that waits for the
/// server.
fn defer(socket: &ListenFd, listener: &Listener) {
    listen::defer_accept(socket, listener.peek().clients_speak_first());
}

/// A listening socket and the task that accepts from it.
pub struct Accepting {
    /// Address that the socket is bound to.
    pub addr: SocketAddr,
    /// Listener that connections accepted from now on belong to.
    listener: Rc<RefCell<Rc<Listener>>>,
    socket: ListenFd,
    task: Task,
}

/// Starts to accept. `None`, with an error logged, if the kernel cannot watch the socket.
pub fn start(worker: &Rc<Worker>, addr: SocketAddr, listener: Rc<Listener>, socket: ListenFd) -> Option<Accepting> {
    let watched = match Source::new(socket.clone()) {
        Ok(watched) => watched,
        Err(error) => {
            tracing::error!(%error, %addr, "cannot poll a listening socket; this worker accepts no connections there");
            return None;
        }
    };
    defer(&socket, &listener);
    let listener = Rc::new(RefCell::new(listener));
    let task = spawn_essential(run(worker.clone(), listener.clone(), watched));
    Some(Accepting { addr, listener, socket, task })
}

impl Accepting {
    /// Assigns connections accepted from now on to `listener`.
    pub fn serve(&self, listener: Rc<Listener>) {
        defer(&self.socket, &listener);
        self.listener.replace(listener);
    }

    /// Stops accepting, but first accepts the connections in the backlog: closing the socket would reset them.
    pub fn close(&self, worker: &Rc<Worker>) {
        self.task.abort();
        // At most as many as the backlog holds: new connections may come faster than they are accepted.
        let wait = || accept(worker, &self.listener.borrow(), &self.socket, false).is_ok();
        (0..=BACKLOG).take_while(|_| wait()).for_each(drop);
    }
}

async fn run(worker: Rc<Worker>, listener: Rc<RefCell<Rc<Listener>>>, socket: Source<ListenFd>) {
    loop {
        socket.readable().await;
        let accepted = accept(&worker, &listener.borrow(), &socket, true);
        match accepted {
            Ok(()) => {}
            Err(Errno::AGAIN) => socket.note_empty(),
            Err(error) => accept_pause::pause(error).await,
        }
    }
}

/// Accepts a connection. `share`: it may be handed to a worker with less load.
fn accept(worker: &Rc<Worker>, listener: &Rc<Listener>, socket: &ListenFd, share: bool) -> Result<(), Errno> {
    if let Some((fd, peer)) = listen::accept(socket)? {
        budget::charge(ACCEPTED);
        take(worker, listener, fd, peer, share);
    }
    Ok(())
}

fn take(worker: &Rc<Worker>, listener: &Rc<Listener>, fd: OwnedFd, peer: SocketAddr, share: bool) {
    if listener.open.add() >= listener.plan().limits.connections {
        listener.open.sub();
        listener.stats.rejected[Rejected::Connections as usize].add(1);
        return;
    }
    listener.stats.accepted.add(1);
    let fd = match worker.core.less_loaded().filter(|_| share) {
        None => fd,
        Some(other) => {
            let generation = worker.installed.borrow().number.unwrap_or(0);
            let (name, open) = (listener.name.clone(), listener.open.clone());
            match worker.core.peers.hand(other, Handoff { fd, peer, listener: name, open, generation }) {
                Ok(()) => return,
                Err(Handoff { fd, .. }) => fd,
            }
        }
    };
    worker.core.connection_opened();
    connection::start(&worker.core, listener, fd, peer);
}

/// Serves a connection that another worker has accepted and counted. `Err` if the plan of its listener has not arrived
/// here yet.
pub fn take_over(worker: &Rc<Worker>, handed: Handoff) -> Result<(), Handoff> {
    let installed = worker.installed.borrow();
    match installed.listeners.iter().find(|listener| listener.name == handed.listener) {
        Some(listener) => {
            handed.count_among(&listener.open);
            connection::start(&worker.core, listener, handed.fd, handed.peer);
            Ok(())
        }
        None if installed.is_behind(handed.generation) => Err(handed),
        None => {
            // The listener has just left the plan. A moment later the client would be refused too: close the
            // connection.
            refuse(worker, &handed);
            Ok(())
        }
    }
}

/// Closes a connection that another worker has accepted, and takes it out of the counts.
pub fn refuse(worker: &Rc<Worker>, handed: &Handoff) {
    handed.open.sub();
    worker.core.connection_closed();
}
