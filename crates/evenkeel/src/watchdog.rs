//! Watchdog of the service manager, which gets its messages only while the event loop of every worker turns: a process that
//! answers signals but serves no client has to be started again.

use crate::notify::Notify;
use std::collections::HashMap;
use std::time::Duration;
use tokio::time::{Interval, MissedTickBehavior, interval};

/// Looks at the workers as often as the service manager wants.
#[derive(Debug)]
pub struct Watchdog {
    /// `None` without a watchdog.
    looks: Option<Interval>,
    /// Beats by worker, as they were at the last look.
    seen: HashMap<String, u64>,
}

impl Watchdog {
    /// Creates a watchdog that is due as often as the service manager demands.
    pub fn new(notify: &Notify) -> Watchdog {
        let looks = notify.watchdog().map(|limit| {
            // Three times within its limit, so that neither a late look nor a late message ends the process. Seldom
            // enough that each worker has a beat between two looks: a look triggers a beat.
            let mut looks = interval((limit / 3).max(Duration::from_millis(200)));
            looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            looks
        });
        Watchdog { looks, seen: HashMap::new() }
    }

    /// Waits until it is time to look.
    pub async fn due(&mut self) {
        match &mut self.looks {
            Some(looks) => _ = looks.tick().await,
            None => std::future::pending().await,
        }
    }

    /// Tells the service manager, if every worker has had a beat since the last look.
    pub fn look<'w>(&mut self, notify: &Notify, beats: impl Iterator<Item = (&'w str, u64)>) {
        let beats: HashMap<String, u64> = beats.map(|(worker, n)| (worker.to_string(), n)).collect();
        let stuck =
            beats.iter().find(|(worker, n)| self.seen.get(*worker) == Some(n)).map(|(worker, _)| worker.clone());
        self.seen = beats;
        match stuck {
            None => notify.alive(),
            Some(worker) => tracing::error!(worker, "a worker's event loop is stuck"),
        }
    }
}
