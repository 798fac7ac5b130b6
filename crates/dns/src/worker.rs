//! What runs on one core? A worker: its event loop, its sockets at each address, its answers. Nothing in it is shared with
//! another worker but counters that others read, so nothing is locked.

use crate::answer::Answerer;
use crate::binding::{Binding, Listener};
use crate::core::Core;
use crate::pools::Found;
use crate::{tcp, udp};
use evenkeel_config::plan;
use evenkeel_net::clock::Base;
use evenkeel_net::event_loop;
use evenkeel_net::listen::ListenFd;
use evenkeel_net::workers::{Command, ControlLink, tick};
use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// Time between two looks at the sets of pools that no client asks for.
const REFRESH_EVERY: Duration = Duration::from_secs(1);

/// What changes for a worker.
pub enum ZoneUpdate {
    /// Another plan: its listeners.
    Plan(Vec<ListenerParts>),
    /// Other endpoints of some pools; all else stays as it is.
    Endpoints(Found),
}

/// A listener of a plan, for one worker.
pub struct ListenerParts {
    pub plan: Arc<plan::Listener>,
    pub answerer: Answerer,
    /// Its addresses; sockets where there were none yet.
    pub binds: Vec<(SocketAddr, Option<Sockets>)>,
    /// Open connections of this worker.
    pub connections_max: usize,
}

/// Sockets at one address, one or more of each kind.
#[derive(Debug)]
pub struct Sockets {
    pub udp: Vec<ListenFd>,
    pub tcp: Vec<ListenFd>,
}

/// What is served at one address.
struct Served {
    binding: Rc<Binding>,
    datagrams: Vec<udp::Serving>,
    accepting: Vec<tcp::Accepting>,
}

impl Served {
    fn start(core: &Rc<Core>, listener: Listener, sockets: Sockets) -> io::Result<Served> {
        let binding = Binding::new(core.clone(), listener);
        Ok(Served {
            datagrams: sockets.udp.into_iter().map(|fd| udp::start(&binding, fd)).collect::<io::Result<_>>()?,
            accepting: sockets.tcp.into_iter().map(|fd| tcp::start(&binding, fd)).collect::<io::Result<_>>()?,
            binding,
        })
    }

    /// Takes no more but what waits. Connections go on.
    fn leave(&mut self) {
        self.datagrams.drain(..).for_each(|serving| serving.close());
        self.accepting.drain(..).for_each(|accepting| accepting.close());
    }
}

struct Worker {
    core: Rc<Core>,
    served: RefCell<HashMap<SocketAddr, Served>>,
}

/// Serves as a worker until it is told to end; nothing before it gets a plan. `base`: the instant that all workers' clocks
/// count from.
///
/// # Errors
/// A socket cannot be served: without it the worker would go on and answer less than comes, so it ends.
pub async fn serve(base: Base, link: ControlLink<ZoneUpdate>) -> io::Result<()> {
    let ControlLink { mut updates, mut commands } = link;
    let worker = Rc::new(Worker { core: Core::new(base), served: RefCell::default() });
    let ticking = event_loop::spawn_essential(tick(base, on_tick(worker.clone())));
    while *commands.borrow_and_update() == Command::Run {
        tokio::select! {
            changed = commands.changed() => if changed.is_err() { break },
            update = updates.recv() => match update {
                Some((update, _applied)) => worker.apply(update)?,
                None => break,
            },
        }
    }
    // A plan that waits must not be waited for.
    drop(updates);
    worker.served.borrow_mut().values_mut().for_each(Served::leave);
    loop {
        match *commands.borrow_and_update() {
            Command::Stop => break,
            Command::Retire => {}
            Command::Drain | Command::Run => worker.served.borrow().values().for_each(|served| served.binding.close()),
        }
        if worker.core.open() == 0 {
            break;
        }
        tokio::select! {
            () = worker.core.closed.notified() => {}
            changed = commands.changed() => if changed.is_err() { break },
        }
    }
    ticking.abort();
    Ok(())
}

/// Advances the deadlines, and looks after pools that no client asks for. Returns when it is due again, if nothing happens before.
fn on_tick(worker: Rc<Worker>) -> impl FnMut(Duration) -> Option<Duration> {
    let mut refresh_at = REFRESH_EVERY;
    move |at| {
        let now = worker.core.advance(at);
        // While nothing happens an old set of a pool is kept; an update of the endpoints comes here, and is something.
        if at >= refresh_at {
            refresh_at = at + REFRESH_EVERY;
            let served = worker.served.borrow();
            served.values().for_each(|served| served.binding.answerer().borrow_mut().refresh(now));
        }
        worker.core.wheel.next_due()
    }
}

impl Worker {
    fn apply(&self, update: ZoneUpdate) -> io::Result<()> {
        match update {
            ZoneUpdate::Plan(listeners) => return self.install(listeners),
            ZoneUpdate::Endpoints(found) => {
                let served = self.served.borrow();
                served.values().for_each(|served| served.binding.answerer().borrow_mut().apply_endpoints(&found));
            }
        }
        Ok(())
    }

    /// Takes up a plan: what is answered changes between two messages; sockets of addresses that stay go on.
    fn install(&self, listeners: Vec<ListenerParts>) -> io::Result<()> {
        let mut served = self.served.borrow_mut();
        let mut before = std::mem::take(&mut *served);
        for ListenerParts { plan, answerer, binds, connections_max } in listeners {
            let listener = Listener { plan, answerer: Rc::new(RefCell::new(answerer)), connections_max };
            for (addr, sockets) in binds {
                let here = match (sockets, before.remove(&addr)) {
                    (None, Some(stays)) => {
                        stays.binding.change(listener.clone());
                        stays
                    }
                    (Some(sockets), _) => Served::start(&self.core, listener.clone(), sockets)?,
                    (None, None) => unreachable!("a new address comes with sockets"),
                };
                served.insert(addr, here);
            }
        }
        for left in before.values_mut() {
            left.leave();
            left.binding.close();
        }
        Ok(())
    }
}
