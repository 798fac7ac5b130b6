//! What runs on one core? A worker: its event loop, its share of every listener, its balancers, its idle connections.
//! Nothing in it is shared with another worker but counters that others read, so nothing is locked.

use crate::accept;
use crate::access_log::Batch;
use crate::clock::{Base, CachedClock};
use crate::deadline::{TICK, Wheel};
use crate::event_loop::{self, alarm};
use crate::http1::Room;
use crate::install::{Installed, take_up};
use crate::parts::News;
use crate::probe::{self, Prober};
use crate::share::{Handed, Peers};
use crate::stats::{Counter, ProbingStats};
use crate::udp::Serving;
use evenkeel_balance::rng::mix;
use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, mpsc, watch};

/// Small vectors that a worker keeps for the next request.
const SCRATCH_KEPT: usize = 64;

/// Ticks between two looks at idle connections and the log.
const TICKS_PER_SWEEP: u32 = 20;

/// What workers are to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Serve.
    Run,
    /// Accept no more and finish what runs, as another process accepts now: connections close after their next request,
    /// as one that is idle may be about to send it.
    Retire,
    /// Accept no more, finish what runs, close what is idle, and end.
    Drain,
    /// End.
    Stop,
}

/// What a worker keeps whatever the plan says, and what it has of the plan.
pub struct Worker {
    pub installed: RefCell<Installed>,
    /// Which of the workers.
    pub index: usize,
    pub clock: CachedClock,
    pub wheel: Rc<Wheel>,
    pub log: RefCell<Option<Batch>>,
    pub command: Cell<Command>,
    scratch: RefCell<Vec<Vec<u8>>>,
    /// For the head at hand.
    pub room: RefCell<Room>,
    request_id: Cell<u64>,
    pub peers: Arc<Peers>,
    /// Asks endpoints for their load.
    pub prober: Prober,
    closed: Notify,
    /// Flows of datagrams that have not ended.
    flows: Cell<usize>,
}

/// How a worker thread is told what to do.
pub struct Orders {
    /// Plans to take up, and endpoints that are new in them.
    pub plans: mpsc::UnboundedReceiver<News>,
    /// The other workers, and what they hand over.
    pub peers: Arc<Peers>,
    pub handed: mpsc::UnboundedReceiver<Handed>,
    /// Whether to serve at all.
    pub commands: watch::Receiver<Command>,
    /// Counted up while the event loop turns.
    pub beats: Arc<Counter>,
    /// What asking endpoints for their load costs.
    pub probing: Arc<ProbingStats>,
}

/// Runs worker number `index` on this thread until it is told to end. It serves nothing until it gets a plan. `base`:
/// the instant that all workers' clocks count from.
///
/// # Errors
/// The event loop cannot be made.
pub fn run(index: usize, base: Base, orders: Orders) -> io::Result<()> {
    event_loop::run(serve(index, base, orders))
}

async fn serve(index: usize, base: Base, mut orders: Orders) {
    let worker = Rc::new(Worker {
        installed: RefCell::default(),
        index,
        clock: CachedClock::new(base),
        wheel: Wheel::new(),
        log: RefCell::default(),
        command: Cell::new(Command::Run),
        scratch: RefCell::default(),
        room: RefCell::default(),
        request_id: Cell::new(mix(std::process::id() as u64) ^ mix(!(index as u64)).rotate_left(20)),
        peers: orders.peers,
        prober: Prober::new(orders.probing),
        closed: Notify::new(),
        flows: Cell::new(0),
    });
    let ticking = event_loop::spawn_essential(tick(worker.clone(), orders.beats));
    let probing = event_loop::spawn(probe::run(worker.clone()));
    // From listeners of a plan that has not come here yet.
    let mut early: Vec<Handed> = Vec::new();
    while *orders.commands.borrow_and_update() == Command::Run {
        tokio::select! {
            changed = orders.commands.changed() => if changed.is_err() { break },
            Some(news) = orders.plans.recv() => {
                take_up(&worker, news);
                early = early.into_iter().filter_map(|handed| accept::take_over(&worker, handed).err()).collect();
            }
            Some(handed) = orders.handed.recv() => early.extend(accept::take_over(&worker, handed).err()),
        }
    }
    // Whoever waits for a plan to be in use must not wait for a worker that ends.
    drop(orders.plans);
    orders.handed.close();
    while let Ok(handed) = orders.handed.try_recv() {
        early.extend(accept::take_over(&worker, handed).err());
    }
    early.iter().for_each(|_| worker.connection_closed());
    worker.stop_accepting();
    loop {
        let command = *orders.commands.borrow_and_update();
        worker.command.set(command);
        match command {
            Command::Stop => break,
            Command::Drain => worker.close_idle(),
            Command::Retire => worker.installed.borrow().datagrams.iter().for_each(Serving::retire),
            Command::Run => {}
        }
        if worker.peers.open(index) == 0 && worker.flows.get() == 0 {
            break;
        }
        tokio::select! {
            () = worker.closed.notified() => {}
            changed = orders.commands.changed() => if changed.is_err() { break },
        }
    }
    worker.installed.borrow().datagrams.iter().for_each(|serving| serving.close(&worker));
    ticking.abort();
    probing.abort();
}

/// Moves the worker's deadlines on, and looks after what is idle.
async fn tick(worker: Rc<Worker>, beats: Arc<Counter>) {
    let mut next = std::time::Instant::now();
    let mut until_sweep = TICKS_PER_SWEEP;
    loop {
        alarm::sleep_until(next).await;
        // Ticks that were missed are made up by the next.
        next = std::time::Instant::now().max(next + TICK);
        beats.add(1);
        let now = worker.clock.read();
        worker.wheel.advance(Duration::from_nanos(now.0));
        worker.prober.sweep(now);
        worker.installed.borrow().datagrams.iter().for_each(|serving| serving.expire(&worker, now));
        until_sweep -= 1;
        if until_sweep == 0 {
            until_sweep = TICKS_PER_SWEEP;
            worker.installed.borrow().pools.iter().for_each(|pool| pool.sweep(now));
            worker.installed.borrow().datagrams.iter().for_each(|serving| serving.look(now));
            worker.flush_log();
        }
    }
}

impl Worker {
    /// An empty vector with some room; to be given back.
    #[inline]
    pub fn scratch(&self) -> Vec<u8> {
        self.scratch.borrow_mut().pop().unwrap_or_else(|| Vec::with_capacity(1024))
    }

    /// Takes a vector back.
    #[inline]
    pub fn give_back(&self, mut vec: Vec<u8>) {
        let mut scratch = self.scratch.borrow_mut();
        // One that has grown large would keep its memory for ever.
        if scratch.len() < SCRATCH_KEPT && vec.capacity() <= 16 * 1024 && vec.capacity() > 0 {
            vec.clear();
            scratch.push(vec);
        }
    }

    /// An id for a request: unique in this process, and very likely among others.
    #[inline]
    pub fn next_request_id(&self) -> u64 {
        let id = self.request_id.get();
        self.request_id.set(id.wrapping_add(1));
        id
    }

    /// A connection was accepted here.
    pub fn connection_opened(&self) {
        self.peers.opened(self.index);
    }

    /// A connection was closed.
    pub fn connection_closed(&self) {
        if self.peers.closed(self.index) && self.command.get() != Command::Run {
            self.closed.notify_one();
        }
    }

    /// A flow of datagrams has begun here.
    pub fn flow_opened(&self) {
        self.flows.set(self.flows.get() + 1);
    }

    /// A flow has ended.
    pub fn flow_closed(&self) {
        self.flows.set(self.flows.get() - 1);
        if self.flows.get() == 0 && self.command.get() != Command::Run {
            self.closed.notify_one();
        }
    }

    /// The worker that should rather serve another connection.
    pub fn rather(&self) -> Option<usize> {
        self.peers.rather(self.index)
    }

    /// Accepts no more, but for those that wait.
    fn stop_accepting(self: &Rc<Worker>) {
        let accepting = std::mem::take(&mut self.installed.borrow_mut().accepting);
        accepting.iter().for_each(|accepting| accepting.close(self));
        // Whoever asks how busy we are is about to send something.
        self.installed.borrow_mut().answering.clear();
        self.installed.borrow().datagrams.iter().for_each(Serving::take_no_more);
    }

    /// Has idle connections end, to clients and to endpoints.
    fn close_idle(&self) {
        self.wheel.wake_all();
        self.installed.borrow().pools.iter().for_each(|pool| pool.close_idle());
    }

    fn flush_log(&self) {
        if let Some(log) = &mut *self.log.borrow_mut() {
            log.hand_over();
        }
    }
}
