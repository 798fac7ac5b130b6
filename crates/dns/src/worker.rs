//! A worker of the DNS plane: an event loop with its sockets and answers. Workers share only counters,
//! so nothing is locked.

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

/// Interval at which pools that no client asks for switch to their newest sets.
const REFRESH_EVERY: Duration = Duration::from_secs(1);

/// Update from the control side to a worker.
pub enum ZoneUpdate {
    /// Listeners of a new plan; all others end.
    Plan(Vec<ListenerParts>),
    /// Endpoints of some pools; everything else is unchanged.
    Endpoints(Found),
}

/// A listener of a plan, for a worker.
pub struct ListenerParts {
    pub plan: Arc<plan::Listener>,
    pub answerer: Answerer,
    /// Addresses, with sockets for new addresses.
    pub binds: Vec<(SocketAddr, Option<Sockets>)>,
    /// Most open connections of this worker.
    pub connections_max: usize,
}

/// Sockets at one address, at least one of each kind.
#[derive(Debug)]
pub struct Sockets {
    pub udp: Vec<ListenFd>,
    pub tcp: Vec<ListenFd>,
}

/// Sockets and tasks of an address.
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

    /// Stops after the queries that already wait. Open connections continue.
    fn leave(&mut self) {
        self.datagrams.drain(..).for_each(|serving| serving.close());
        self.accepting.drain(..).for_each(|accepting| accepting.close());
    }
}

struct Worker {
    core: Rc<Core>,
    served: RefCell<HashMap<SocketAddr, Served>>,
}

/// Runs a worker until it is commanded to end. It serves nothing before it gets a plan. `base` is the origin
/// of all workers' clocks.
///
/// # Errors
/// If a socket cannot be served: the worker ends, because without it queries would go unanswered.
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
    // Dropped, so that no thread waits for a plan to be applied.
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

/// Advances the timers, and refreshes pools that no client asks for. Returns when it is due again, if nothing
/// happens before.
fn on_tick(worker: Rc<Worker>) -> impl FnMut(Duration) -> Option<Duration> {
    let mut refresh_at = REFRESH_EVERY;
    move |at| {
        let now = worker.core.advance(at);
        // Old sets are kept only while nothing happens: an update of endpoints wakes this.
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

    /// Switches to a plan between two messages. Sockets of unchanged addresses are kept.
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
