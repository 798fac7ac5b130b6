//! What runs on one core? A worker: its event loop, its share of every listener, its balancers, its idle connections.
//! Nothing in it is shared with another worker but counters that others read, so nothing is locked.

use crate::accept;
use crate::access_log::Batch;
use crate::clock::{self, CachedClock};
use crate::deadline::{TICK, Wheel};
use crate::edge::Edge;
use crate::http1::Limits;
use crate::route::Router;
use crate::stats::WorkerStats;
use crate::upstream::WorkerPool;
use evenkeel_balance::rng::mix;
use evenkeel_config::Plan;
use evenkeel_config::plan::ListenerTimeouts;
use rustix::fd::OwnedFd;
use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;
use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::{Notify, watch};

/// Small vectors that a worker keeps for the next request.
const SCRATCH_KEPT: usize = 64;

/// Ticks between two looks at idle connections and the log.
const TICKS_PER_SWEEP: u32 = 20;

/// What workers are to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Serve.
    Run,
    /// Accept no more, finish what runs, and end.
    Drain,
    /// End.
    Stop,
}

/// Everything that one worker needs; see [`Parts`] for how it is made.
pub struct Worker {
    pub plan: Arc<Plan>,
    pub listeners: Vec<WorkerListener>,
    pub pools: Vec<WorkerPool>,
    /// By route.
    pub pool_of_route: Vec<usize>,
    pub routes_count: usize,
    pub clock: CachedClock,
    pub wheel: Rc<Wheel>,
    pub stats: Arc<WorkerStats>,
    pub log: Option<RefCell<Batch>>,
    pub draining: Cell<bool>,
    scratch: RefCell<Vec<Vec<u8>>>,
    request_id: Cell<u64>,
    open: Cell<usize>,
    closed: Notify,
}

/// One listener as one worker sees it.
pub struct WorkerListener {
    pub router: Router,
    pub limits: Limits,
    pub timeouts: ListenerTimeouts,
    pub edge: Edge,
    /// Requests on one connection; `u64::MAX` for no limit.
    pub requests_max: u64,
    /// Open connections over all workers.
    pub connections_max: usize,
    /// How many there are.
    pub open: Arc<AtomicUsize>,
}

/// What a worker thread is given: all that may be made elsewhere and sent to it.
pub struct Parts {
    pub index: usize,
    pub plan: Arc<Plan>,
    pub sockets: Vec<(usize, OwnedFd)>,
    pub listeners: Vec<WorkerListener>,
    pub pools: Vec<WorkerPool>,
    pub stats: Arc<WorkerStats>,
    pub log: Option<Batch>,
    pub base: std::time::Instant,
    pub commands: watch::Receiver<Command>,
}

/// Runs a worker on this thread until it is told to end.
///
/// # Errors
/// The event loop cannot be made.
pub fn run(parts: Parts) -> io::Result<()> {
    let runtime = Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .on_thread_unpark(clock::expire)
        .build_local(LocalOptions::default())?;
    runtime.block_on(serve(parts));
    Ok(())
}

async fn serve(parts: Parts) {
    let Parts { index, plan, sockets, listeners, pools, stats, log, base, mut commands } = parts;
    let pool_index = |name: &str| plan.pools.iter().position(|p| &*p.name == name);
    let pool_of_route = plan.routes.iter().map(|r| pool_index(&r.pool).expect("a plan's routes name its pools"));
    let worker = Rc::new(Worker {
        pool_of_route: pool_of_route.collect(),
        routes_count: plan.routes.len(),
        listeners,
        pools,
        clock: CachedClock::new(base),
        wheel: Wheel::new(),
        stats,
        log: log.map(RefCell::new),
        draining: Cell::new(false),
        scratch: RefCell::default(),
        request_id: Cell::new(mix(std::process::id() as u64) ^ mix(!(index as u64)).rotate_left(20)),
        open: Cell::new(0),
        closed: Notify::new(),
        plan,
    });
    let accepting: Vec<_> = sockets
        .into_iter()
        .map(|(listener, socket)| tokio::task::spawn_local(accept::run(worker.clone(), listener, socket)))
        .collect();
    let ticking = tokio::task::spawn_local(tick(worker.clone()));
    while *commands.borrow_and_update() == Command::Run {
        if commands.changed().await.is_err() {
            break;
        }
    }
    accepting.iter().for_each(|task| task.abort());
    if *commands.borrow() == Command::Drain {
        worker.drain();
        while worker.open.get() > 0 && *commands.borrow_and_update() == Command::Drain {
            tokio::select! {
                () = worker.closed.notified() => {}
                changed = commands.changed() => if changed.is_err() { break },
            }
        }
    }
    ticking.abort();
}

/// Moves the worker's deadlines on, and looks after what is idle.
async fn tick(worker: Rc<Worker>) {
    let mut interval = tokio::time::interval(TICK);
    let mut until_sweep = TICKS_PER_SWEEP;
    loop {
        interval.tick().await;
        let now = worker.clock.read();
        worker.wheel.advance(Duration::from_nanos(now.0));
        until_sweep -= 1;
        if until_sweep == 0 {
            until_sweep = TICKS_PER_SWEEP;
            for (pool, stats) in worker.pools.iter().zip(&worker.stats.pools) {
                pool.sweep_idle(now, stats);
            }
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

    /// A connection was accepted.
    pub fn connection_opened(&self) {
        self.open.set(self.open.get() + 1);
    }

    /// A connection was closed.
    pub fn connection_closed(&self) {
        self.open.set(self.open.get() - 1);
        if self.draining.get() && self.open.get() == 0 {
            self.closed.notify_one();
        }
    }

    /// From now on connections close after their request, and idle ones at once.
    fn drain(&self) {
        self.draining.set(true);
        self.wheel.wake_all();
        for (pool, stats) in self.pools.iter().zip(&self.stats.pools) {
            pool.close_idle(stats);
        }
    }

    fn flush_log(&self) {
        if let Some(log) = &self.log {
            log.borrow_mut().hand_over(&self.stats.log_lines_dropped);
        }
    }
}

/// The last to go are requests that were stopped, each with its line.
impl Drop for Worker {
    fn drop(&mut self) {
        self.flush_log();
    }
}
