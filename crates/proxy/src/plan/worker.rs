//! The main loop of a worker's thread: follows commands, applies updates, advances deadlines, and ends when nothing is
//! left to serve.

use super::accept;
use super::install::apply;
use super::installed::Worker;
use super::parts::Update;
use crate::core::handoff::{Handoff, Peers};
use crate::core::{Command, Core};
use crate::filters::policies::compress_body;
use crate::load::probe::{self, Prober};
use crate::observe::stats::ProbingStats;
use crate::serve::h3;
use crate::udp::Serving;
use evenkeel_net::clock::Base;
use evenkeel_net::deadline::TICK;
use evenkeel_net::event_loop::{self, budget};
use evenkeel_net::workers::{ControlLink, tick};
use std::cell::{OnceCell, RefCell};
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

/// Interval between sweeps of idle connections, and between flushes of the log.
const SWEEP_EVERY: Duration = Duration::from_secs(1);

/// Number of sweeps over which every pool gets a refresh, even an empty pool.
const REFRESH_SWEEPS: usize = 60;

/// Arguments of a worker's thread.
pub struct WorkerConfig {
    /// Channel for updates, and the command that all workers follow.
    pub link: ControlLink<Update>,
    /// The other workers, to hand connections to. `handed` receives theirs.
    pub peers: Arc<Peers>,
    pub handed: mpsc::UnboundedReceiver<Handoff>,
    /// Counters of the load probes that the worker sends.
    pub probing: Arc<ProbingStats>,
}

/// Runs worker `index` until a command ends it. It serves nothing before its first plan. All workers' clocks count from
/// `base`.
///
/// # Errors
/// Never: a socket that cannot be watched is logged, and the worker serves the others.
pub async fn serve(index: usize, base: Base, config: WorkerConfig) -> io::Result<()> {
    let WorkerConfig { link: ControlLink { mut updates, mut commands }, peers, mut handed, probing } = config;
    let core = Rc::new(Core::new(index, base, peers));
    let prober = Rc::new(Prober::new(core.clone(), probing));
    let worker =
        Rc::new(Worker { core, installed: RefCell::default(), quic: OnceCell::new(), marked: Rc::default(), prober });
    let ticking = event_loop::spawn_essential(tick(base, on_tick(worker.clone())));
    let probing = event_loop::spawn(probe::run(worker.prober.clone()));
    // Connections handed over for a plan that has not arrived here yet.
    let mut early: Vec<Handoff> = Vec::new();
    while *commands.borrow_and_update() == Command::Run {
        tokio::select! {
            changed = commands.changed() => if changed.is_err() { break },
            update = updates.recv() => {
                let Some((update, applied)) = update else { break };
                apply(&worker, update, applied);
                early = early.into_iter().filter_map(|one| accept::take_over(&worker, one).err()).collect();
            }
            Some(one) = handed.recv() => {
                early.extend(accept::take_over(&worker, one).err());
                budget::proceed().await;
            }
        }
    }
    // The server waits until all workers have applied an update, and must not wait for a worker that ends.
    drop(updates);
    handed.close();
    while let Ok(one) = handed.try_recv() {
        early.extend(accept::take_over(&worker, one).err());
    }
    early.iter().for_each(|one| accept::refuse(&worker, one));
    worker.stop_accepting();
    loop {
        let command = *commands.borrow_and_update();
        worker.core.command.set(command);
        match command {
            Command::Stop => break,
            Command::Drain => worker.close_idle(),
            Command::Retire => {
                worker.installed.borrow().datagrams.iter().for_each(Serving::retire);
                worker.installed.borrow().quic.iter().for_each(h3::Serving::retire);
            }
            Command::Run => {}
        }
        if worker.core.serves_none() {
            break;
        }
        tokio::select! {
            () = worker.core.closed.notified() => {}
            changed = commands.changed() => if changed.is_err() { break },
        }
    }
    worker.installed.borrow().datagrams.iter().for_each(|serving| serving.close(&worker.core));
    worker.installed.borrow().quic.iter().for_each(h3::Serving::close);
    ticking.abort();
    probing.abort();
    Ok(())
}

/// The tick: advances deadlines and sweeps idle state. Returns the time at which it is due again, if anything is.
fn on_tick(worker: Rc<Worker>) -> impl FnMut(Duration) -> Option<Duration> {
    let mut sweep_at = SWEEP_EVERY;
    let mut refreshed = 0;
    move |at| {
        let now = worker.core.clock.read();
        worker.core.wheel.advance(at);
        worker.prober.sweep(now);
        let installed = worker.installed.borrow();
        installed.datagrams.iter().for_each(|serving| serving.expire(&worker.core, now));
        if at >= sweep_at {
            sweep_at = at + SWEEP_EVERY;
            worker.marked.sweep(now);
            compress_body::sweep();
            // All pools take turns, so that thousands of idle pools cost little.
            let pools = installed.pools.len();
            let turn = refreshed..pools.min(refreshed + pools.div_ceil(REFRESH_SWEEPS));
            refreshed = if turn.end == pools { 0 } else { turn.end };
            installed.pools.get(turn).into_iter().flatten().for_each(|pool| pool.refresh(now));
            installed.datagrams.iter().for_each(|serving| serving.look(now));
            worker.core.flush_log();
        }
        let probes = worker.prober.is_asking().then_some(at + TICK);
        let holds = compress_body::any() || worker.marked.any() || worker.core.has_flows() || worker.core.holds_lines();
        let sweep = holds.then_some(sweep_at);
        let flows = installed.datagrams.iter().filter_map(Serving::expires_at).min();
        let flows = flows.map(|at| Duration::from_nanos(at.0));
        [worker.core.wheel.next_due(), probes, sweep, flows].into_iter().flatten().min()
    }
}

#[cfg(test)]
#[path = "worker_tests.rs"]
mod tests;
