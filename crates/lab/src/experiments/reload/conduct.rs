//! Reloads and an upgrade of a balancer under load, and their observation.

use super::traffic::{Clients, Count, KINDS};
use crate::balancers::{Balancer, Reload, Running};
use crate::certificates::Certificates;
use crate::child::{self, Adopted};
use crate::endpoint::Endpoint;
use crate::error::{Error, Result};
use crate::procfs;
use crate::progress::Progress;
use crate::scratch::Scratch;
use crate::setups::mixed;
use rustix::process::Signal;
use std::time::{Duration, Instant};

/// Minimum time between two reloads.
const BETWEEN: Duration = Duration::from_millis(120);
/// Maximum time for a change to take effect; long, as the machine may be busy.
const PATIENCE: Duration = Duration::from_secs(60);
/// Time after which a signal without effect is sent again: a HAProxy master that has just reloaded misses the next
/// signal. Doubled each time, as another signal restarts a slow reload.
const LOST: Duration = Duration::from_millis(500);
/// Pause before the first reload, after the last, and after an upgrade.
const SETTLE: Duration = Duration::from_secs(2);
/// Interval of checks whether a change took effect: fine enough for reloads of a few milliseconds.
const GLANCE: Duration = Duration::from_millis(1);

/// Results of a balancer's clients.
pub struct Went {
    /// Counts during the reloads, by row of `KINDS`.
    pub reloads: [Count; KINDS.len()],
    /// Times from the last signal (or the new file) until the new configuration was in use, ascending.
    pub took: Vec<Duration>,
    /// Signals that had no effect and were sent again.
    pub lost: usize,
    /// Counts while its binary was replaced; `None` if it cannot do that here.
    pub upgrade: Option<[Count; KINDS.len()]>,
    /// Number of processes and their resident memory in bytes, after the last reload.
    pub left: (usize, u64),
    /// Number of processes and their resident memory in bytes, before the first reload.
    pub before: (usize, u64),
}

/// Runs a balancer through `reloads` reloads and an upgrade.
///
/// # Errors
/// If something does not start, or a reload does not take effect.
pub fn conduct(balancer: &Balancer, reloads: u32) -> Result<Went> {
    let folder = Scratch::new()?;
    let endpoints = (0..3).map(|number| Endpoint::start(number, folder.path())).collect::<Result<Vec<_>>>()?;
    let addresses: Vec<_> = endpoints.iter().map(|endpoint| endpoint.address).collect();
    let certificates = Certificates::make()?;
    let (mut running, ports) = mixed::start_with_http3(balancer, &addresses, &certificates)?;
    let clients = Clients::start(ports)?;
    let progress = Progress::new();
    let tell = |done: u32| progress.tell(f64::from(done), f64::from(reloads), &format!("{} reloads", balancer.name));
    child::pause(SETTLE)?;
    let before = processes(&running);
    let (mut took, mut lost) = (Vec::new(), 0);
    for number in 0..reloads {
        tell(number);
        let began = Instant::now();
        took.push(reload(&mut running, 2 + number % 99, &mut lost)?);
        child::pause(BETWEEN.saturating_sub(began.elapsed()))?;
    }
    child::pause(SETTLE)?;
    let left = processes(&running);
    let counted = clients.counts();
    let mut successor = None;
    if running.kind.upgrades {
        progress.tell(1.0, 1.0, &format!("{}: a new binary", balancer.name));
        successor = Some(upgrade(&running)?);
        child::pause(SETTLE)?;
    }
    let whole = clients.stop();
    // The old process first: only then is the lab the parent of its successor.
    drop(running);
    let upgrade = successor.map(|_| std::array::from_fn(|row| whole[row].since(&counted[row])));
    took.sort_unstable();
    Ok(Went { reloads: counted, took, lost, upgrade, left, before })
}

/// Reloads once. Returns the time since the last signal, and counts signals without effect.
fn reload(running: &mut Running, weight: u32, lost: &mut usize) -> Result<Duration> {
    let before = running.generation()?;
    let (mut asked, mut patience) = (Instant::now(), LOST);
    running.rewrite(|setup| mixed::set_weight(setup, weight))?;
    running.reload();
    let signals = running.kind.reload != Reload::Files;
    await_change(
        || {
            if signals && asked.elapsed() > patience {
                *lost += 1;
                patience *= 2;
                asked = Instant::now();
                running.reload();
            }
            Ok(running.generation()? != before)
        },
        || format!("{} did not reload", running.name),
    )?;
    Ok(asked.elapsed())
}

/// Makes the process replace itself by a child; it ends by itself afterwards.
fn upgrade(running: &Running) -> Result<Adopted> {
    let before = procfs::children_of(running.pid());
    running.signal(Signal::USR2);
    let mut successor = None;
    await_change(
        || {
            let new = procfs::children_of(running.pid()).into_iter().find(|pid| !before.contains(pid));
            successor = new.map(Adopted::new);
            Ok(successor.is_some())
        },
        || format!("{} started no successor", running.name),
    )?;
    successor.ok_or_else(|| Error::Wrong("a change that was seen is gone".into()))
}

fn await_change(mut changed: impl FnMut() -> Result<bool>, otherwise: impl Fn() -> String) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    while !changed()? {
        if Instant::now() > deadline {
            return Err(Error::Wrong(format!("{} within {PATIENCE:?}", otherwise())));
        }
        child::pause(GLANCE)?;
    }
    Ok(())
}

/// Number of processes of a balancer, and their resident memory in bytes. Processes that end meanwhile do not count.
fn processes(running: &Running) -> (usize, u64) {
    let mut pids = procfs::children_of(running.pid());
    pids.push(running.pid());
    let resident: Vec<u64> = pids.iter().filter_map(|&pid| procfs::resident_bytes(pid).ok()).collect();
    (resident.len(), resident.iter().sum())
}
