//! State that requests, purges and the threads of the tier share.

use crate::counts::Counters;
use crate::failure::Failure;
use crate::file::Ring;
use crate::index::Index;
use crate::purges::Purges;
use crate::queue::{Queue, Work};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// Stage in the life of the tier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Another process has the file.
    Waiting,
    /// The file is searched. New responses are written meanwhile, but no response is found.
    Searching,
    Open,
    /// The file cannot be used, with the reason. The cache continues in memory until it can.
    Off(Failure),
    /// This process has released the file.
    Closed,
}

/// State of the tier, behind locks that are held for moments.
#[derive(Debug)]
pub struct Shared {
    pub index: Index,
    pub purges: Purges,
    pub queue: Queue,
    /// Counters, which stay when the tier restarts after a failure.
    pub counts: Arc<Counters>,
    /// The file, once it is open.
    pub ring: OnceLock<Ring>,
    /// True while responses can be found.
    pub is_open: AtomicBool,
    /// True if the file has responses that the search has left out of the index.
    pub has_left_out: AtomicBool,
    /// True if a response more costs another one its place: the last segment that was reclaimed had responses.
    pub is_full: AtomicBool,
    stage: Mutex<Stage>,
    changed: Condvar,
    /// True if the disk has failed, and still holds responses that purges can no longer reach.
    pub has_relics: AtomicBool,
}

impl Shared {
    /// Creates the state. `point`: start of the order of purges.
    pub fn new(entries_max: usize, queue_max: u64, counts: Arc<Counters>, point: u64) -> Arc<Shared> {
        Arc::new(Shared {
            index: Index::new(entries_max),
            purges: Purges::default(),
            queue: Queue::new(queue_max, point),
            counts,
            ring: OnceLock::new(),
            is_open: AtomicBool::new(false),
            has_left_out: AtomicBool::new(false),
            is_full: AtomicBool::new(false),
            stage: Mutex::new(Stage::Waiting),
            changed: Condvar::new(),
            has_relics: AtomicBool::new(false),
        })
    }

    pub fn stage(&self) -> Stage {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Enters the next stage, unless the tier is off or closed.
    pub fn enter(&self, next: Stage) {
        let mut stage = self.stage.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(*stage, Stage::Off(_) | Stage::Closed) {
            return;
        }
        // A lookup that sees it finds the whole index.
        self.is_open.store(next == Stage::Open, Ordering::SeqCst);
        *stage = next;
        drop(stage);
        self.changed.notify_all();
    }

    /// Waits for a stage, at most this long. True if it is reached.
    pub fn wait_for(&self, longest: Duration, is_it: impl Fn(&Stage) -> bool) -> bool {
        let until = Instant::now() + longest;
        let mut stage = self.stage.lock().unwrap_or_else(PoisonError::into_inner);
        while !is_it(&stage) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            stage = self.changed.wait_timeout(stage, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    /// Turns the tier off. Erases the file, since purges could not reach it any more.
    pub fn fail(&self, failure: &Failure) {
        if matches!(self.stage(), Stage::Off(_) | Stage::Closed) {
            return;
        }
        self.counts.errors.add(1);
        tracing::error!("the cache continues in memory only: {failure}");
        self.enter(Stage::Off(failure.clone()));
        self.index.each(|shard| shard.clear());
        if self.ring.get().is_some_and(|ring| ring.erase().is_err()) {
            self.has_relics.store(true, Ordering::SeqCst);
        }
        self.queue.close();
        while let Some(work) = self.queue.take() {
            let tickets = work.into_iter().filter_map(|work| match work {
                Work::Purge(_, _, ticket) => ticket,
                _ => None,
            });
            tickets.for_each(|ticket| ticket.end(self.erased(failure)));
        }
    }

    /// Result of a purge while the tier is off.
    pub fn erased(&self, failure: &Failure) -> Result<(), Failure> {
        if self.has_relics.load(Ordering::SeqCst) { Err(failure.clone()) } else { Ok(()) }
    }
}
