//! The disk behind the memory: the settings of a plan for it, and waits for its reads and purges.

use super::clock::CacheClock;
use evenkeel_config::Plan;
use evenkeel_config::plan::CacheAdmit;
use evenkeel_disk::{Admit, Disk, Loaded, Options, READ_MAX, Read, Stage, Ticket};
use evenkeel_net::event_loop::alarm::timeout;
use evenkeel_net::memory::pages;
use std::sync::Arc;
use std::time::Duration;

/// Bytes of responses that may wait to be written: a quarter of the memory between these bounds. A slow disk writes the
/// upper bound in half a second.
const QUEUE: [u64; 2] = [4 << 20, 64 << 20];

/// Time in which a purge has to be on the disk for good.
const PURGE_MAX: Duration = Duration::from_secs(5);

/// Shorter limit while another process holds the disk. After an upgrade it releases the disk quickly.
const WAITING_MAX: Duration = Duration::from_secs(1);

/// Disk of a plan, if a route may use it.
pub fn options(plan: &Plan) -> Option<Options> {
    let disk = plan.cache.disk.as_ref().filter(|_| plan.routes.iter().any(|route| route.filters.cache.is_some()))?;
    Some(Options {
        path: disk.path.clone(),
        size: disk.size,
        object_max: plan.cache.object_max,
        queue_max: (plan.cache.memory / 4).clamp(QUEUE[0], QUEUE[1]).max(2 * plan.cache.object_max),
        admit: match disk.admit {
            CacheAdmit::Reused => Admit::Reused,
            CacheAdmit::All => Admit::All,
        },
    })
}

pub fn open(options: Options, clock: &Arc<CacheClock>) -> Disk {
    Disk::open(options, clock.of_disk(), pages::shared)
}

/// Waits for a read, for a limited time.
pub async fn loaded(read: Read) -> Option<Loaded> {
    timeout(READ_MAX, read).await
}

/// Waits until a purge is on the disk for good. Not for a thread that serves requests.
///
/// # Errors
/// Responses that were purged may come back after a restart, with the reason.
pub fn wait(disk: &Disk, ticket: &Ticket) -> Result<(), String> {
    let is_elsewhere = disk.stage() == Stage::Waiting;
    let path = disk.options().path.display();
    match ticket.wait(if is_elsewhere { WAITING_MAX } else { PURGE_MAX }) {
        Some(Ok(())) => Ok(()),
        Some(Err(failure)) => Err(format!(
            "the purge holds, but the disk of the cache has failed with responses on it ({failure}): remove what is in {path} \
             before the next start"
        )),
        None if is_elsewhere => Ok(()),
        None => Err(format!(
            "the purge holds, but {path} is slow and has not noted it: repeat it, or a crash undoes it there"
        )),
    }
}
