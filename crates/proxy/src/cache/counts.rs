//! Counts of the cache's results for the requests of a route: a separate set for each worker, which alone writes it.

#![expect(clippy::disallowed_types, reason = "taken when a worker builds the filters of a route, and by metrics")]

use super::reasons::REASONS;
use evenkeel_net::counter::Counter;
use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Result of a request at the cache of its route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheResult {
    /// Answered with a fresh response.
    Hit,
    /// Answered with a stale response.
    Stale,
    /// Answered with a stored response that the endpoint has validated.
    Renewed,
    /// Answered by the endpoint, and stored.
    Stored,
    /// Answered by the endpoint, and not stored.
    NotStored,
    /// Not for the cache, by its method or its head.
    Passed,
}

impl CacheResult {
    /// Labels, in the order of the counters.
    pub const LABELS: [&str; 6] = ["hit", "stale", "renewed", "stored", "not_stored", "passed"];
}

/// Counts of a route on a worker.
#[derive(Debug)]
pub struct CacheCounts {
    /// Requests by [`CacheResult`].
    pub results: [Counter; CacheResult::LABELS.len()],
    /// Responses that were not stored, by [`super::reasons::reasons`].
    pub refused: [Counter; REASONS],
    /// Requests that have waited for the response to another request.
    pub collapsed: Counter,
    /// Bytes of bodies served from the cache.
    pub bytes: Counter,
    /// Fetches of whole responses behind requests for a part, by [`WholeFetch`].
    pub whole: [Counter; WholeFetch::LABELS.len()],
}

impl Default for CacheCounts {
    fn default() -> CacheCounts {
        CacheCounts {
            results: Default::default(),
            refused: std::array::from_fn(|_| Counter::default()),
            collapsed: Counter::default(),
            bytes: Counter::default(),
            whole: Default::default(),
        }
    }
}

/// End of the fetch of a whole response behind a request for a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WholeFetch {
    Stored,
    /// Answered by the endpoint otherwise than its part promised, or not at all.
    NotStored,
    /// Not begun: too many were under way, or there was no room for the body.
    Skipped,
}

impl WholeFetch {
    /// Labels, in the order of the counters.
    pub const LABELS: [&str; 3] = ["stored", "not_stored", "skipped"];
}

/// Reason why clients that read a growing body do not get all of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CutBy {
    /// The endpoint ended the response early, or it is malformed.
    Endpoint,
    /// The endpoint was silent for too long, or the time of the request is over.
    Timeout,
    /// Others waited for a client that took almost nothing of a body that is not stored.
    Slow,
    /// The task that reads the body ended early: its worker has stopped, or it panicked.
    #[default]
    Stopped,
}

impl CutBy {
    /// Labels, in the order of the counters.
    pub const LABELS: [&str; 4] = ["endpoint", "timeout", "slow_client", "stopped"];
}

/// Reason why a body that was to be stored is only passed to the clients that read it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PassedFor {
    TooLarge,
    NoRoom,
}

impl PassedFor {
    /// Labels, in the order of the counters.
    pub const LABELS: [&str; 2] = ["body_too_large", "no_room"];
}

/// Counts of arriving bodies, over all routes and workers.
#[derive(Debug, Default)]
pub struct FillCounts {
    /// Clients that were cut off, by [`CutBy`].
    pub cut: [AtomicU64; CutBy::LABELS.len()],
    /// Bodies that were passed, by [`PassedFor`].
    pub passed: [AtomicU64; PassedFor::LABELS.len()],
}

/// Counts of all routes by name, a set for each worker.
#[derive(Debug, Default)]
pub struct AllCounts {
    routes: Mutex<BTreeMap<Arc<str>, Vec<Arc<CacheCounts>>>>,
    pub fills: FillCounts,
}

impl AllCounts {
    /// Counts of a route on a worker.
    pub fn of(&self, route: &Arc<str>, worker: usize) -> Arc<CacheCounts> {
        let mut all = self.lock();
        let of_route = all.entry(route.clone()).or_default();
        if of_route.len() <= worker {
            of_route.resize_with(worker + 1, Arc::default);
        }
        of_route[worker].clone()
    }

    /// Counts of a route on all workers that have had its requests.
    pub fn of_route(&self, route: &str) -> Vec<Arc<CacheCounts>> {
        self.lock().get(route).cloned().unwrap_or_default()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Arc<str>, Vec<Arc<CacheCounts>>>> {
        self.routes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
