//! What does a worker's thread do? It follows commands, applies updates, moves deadlines on, and ends when nothing is left to
//! serve.

use super::accept;
use super::install::apply;
use super::installed::Worker;
use super::parts::Update;
use crate::core::handoff::{Handoff, Peers};
use crate::core::{Command, Core};
use crate::load::probe::{self, Prober};
use crate::observe::stats::{Counter, ProbingStats};
use crate::udp::Serving;
use evenkeel_net::clock::Base;
use evenkeel_net::deadline::TICK;
use evenkeel_net::event_loop::{self, alarm};
use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, watch};

/// Ticks between two looks at idle connections and the log.
const TICKS_PER_SWEEP: u32 = 20;

/// What a worker thread starts with.
pub struct WorkerConfig {
    /// Plans to take up, and endpoints that are new in them.
    pub plans: mpsc::UnboundedReceiver<Update>,
    /// The other workers, and what they hand over.
    pub peers: Arc<Peers>,
    pub handed: mpsc::UnboundedReceiver<Handoff>,
    /// Whether to serve at all.
    pub commands: watch::Receiver<Command>,
    /// Counted up while the event loop turns.
    pub beats: Arc<Counter>,
    /// What asking endpoints for their load costs.
    pub probing: Arc<ProbingStats>,
}

/// Runs worker number `index` on this thread until a command ends it. It serves nothing until it gets a plan. `base`:
/// the instant that all workers' clocks count from.
///
/// # Errors
/// The event loop cannot be made.
pub fn run(index: usize, base: Base, config: WorkerConfig) -> io::Result<()> {
    event_loop::run(serve(index, base, config))
}

async fn serve(index: usize, base: Base, mut config: WorkerConfig) {
    let core = Rc::new(Core::new(index, base, config.peers));
    let prober = Rc::new(Prober::new(core.clone(), config.probing));
    let worker = Rc::new(Worker { core, installed: RefCell::default(), prober });
    let ticking = event_loop::spawn_essential(tick(worker.clone(), config.beats));
    let probing = event_loop::spawn(probe::run(worker.prober.clone()));
    // From listeners of a plan that has not come here yet.
    let mut early: Vec<Handoff> = Vec::new();
    while *config.commands.borrow_and_update() == Command::Run {
        tokio::select! {
            changed = config.commands.changed() => if changed.is_err() { break },
            Some(update) = config.plans.recv() => {
                apply(&worker, update);
                early = early.into_iter().filter_map(|handed| accept::take_over(&worker, handed).err()).collect();
            }
            Some(handed) = config.handed.recv() => early.extend(accept::take_over(&worker, handed).err()),
        }
    }
    // The server waits until a plan is in use, and must not wait for a worker that ends.
    drop(config.plans);
    config.handed.close();
    while let Ok(handed) = config.handed.try_recv() {
        early.extend(accept::take_over(&worker, handed).err());
    }
    early.iter().for_each(|_| worker.core.connection_closed());
    worker.stop_accepting();
    loop {
        let command = *config.commands.borrow_and_update();
        worker.core.command.set(command);
        match command {
            Command::Stop => break,
            Command::Drain => worker.close_idle(),
            Command::Retire => worker.installed.borrow().datagrams.iter().for_each(Serving::retire),
            Command::Run => {}
        }
        if worker.core.serves_none() {
            break;
        }
        tokio::select! {
            () = worker.core.closed.notified() => {}
            changed = config.commands.changed() => if changed.is_err() { break },
        }
    }
    worker.installed.borrow().datagrams.iter().for_each(|serving| serving.close(&worker.core));
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
        let now = worker.core.clock.read();
        worker.core.wheel.advance(Duration::from_nanos(now.0));
        worker.prober.sweep(now);
        worker.installed.borrow().datagrams.iter().for_each(|serving| serving.expire(&worker.core, now));
        until_sweep -= 1;
        if until_sweep == 0 {
            until_sweep = TICKS_PER_SWEEP;
            worker.installed.borrow().pools.iter().for_each(|pool| pool.sweep(now));
            worker.installed.borrow().datagrams.iter().for_each(|serving| serving.look(now));
            worker.core.flush_log();
        }
    }
}
