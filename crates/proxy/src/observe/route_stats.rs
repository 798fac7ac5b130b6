//! Statistics of routes. A route's entry at a listener is created when a worker counts the
//! first request there: of a large plan's routes, most see none at most listeners.

#![expect(clippy::disallowed_types, reason = "taken at a route's first request only, see below")]

use super::stats::{ByStatus, CLASSES, Counter, FAILED, Histogram, METHODS, class};
use evenkeel_compress::coding::Coding;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Statistics of a route at a listener.
#[derive(Debug)]
pub struct RouteStats {
    /// Requests by method ([`METHODS`]) and status.
    pub requests: [ByStatus; METHODS.len()],
    /// Durations from the request head to the last byte of the response, by status class.
    pub duration: [Histogram; CLASSES],
    /// Requests that went on to a pool: neither a filter nor the cache answered them.
    pub sent: Counter,
    /// Requests of `sent` that were answered with 500 and above.
    pub sent_failed: Counter,
    /// Requests that another route answered instead, by [`Redirected`].
    pub redirected: [Counter; Redirected::LABELS.len()],
    /// Responses that were compressed.
    pub compression: CompressionStats,
    /// Sessions and flows that have begun, where requests are not read.
    pub sessions: Counter,
    /// Sessions and flows that reached no endpoint, or failed by its fault.
    pub sessions_failed: Counter,
    /// Durations of sessions and flows that have ended.
    pub session: Histogram,
}

impl RouteStats {
    fn new(bounds_ns: &Arc<[u64]>) -> RouteStats {
        RouteStats {
            requests: std::array::from_fn(|_| ByStatus::default()),
            duration: std::array::from_fn(|_| Histogram::new(bounds_ns)),
            sent: Counter::default(),
            sent_failed: Counter::default(),
            redirected: Default::default(),
            compression: CompressionStats::default(),
            sessions: Counter::default(),
            sessions_failed: Counter::default(),
            session: Histogram::new(bounds_ns),
        }
    }

    /// Counts a request and its duration. `is_sent`: it went on to a pool.
    pub fn count(&self, method: usize, status: u16, duration_ns: u64, is_sent: bool) {
        let class = class(status);
        self.requests[method].count(status);
        self.duration[class].record(duration_ns);
        if is_sent {
            self.sent.add(1);
            self.sent_failed.add(u64::from(class == FAILED));
        }
    }
}

/// Reason for which another route answers a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Redirected {
    /// An error has a page from that route.
    Page,
    /// An endpoint names a path of that route, by a field of `internal_redirects`.
    Path,
}

impl Redirected {
    /// Labels of the metric, in the order of the variants.
    pub const LABELS: [&str; 2] = ["error_page", "internal_redirect"];
}

/// Response that was compressed, and has passed.
pub struct Compressed {
    pub coding: Coding,
    /// Bytes of its body as received.
    pub before: u64,
    /// Bytes of its body as it was sent.
    pub after: u64,
    /// True if it was stored so, and not compressed for this request.
    pub is_stored: bool,
}

/// Statistics of the compressed responses of a route.
#[derive(Debug, Default)]
pub struct CompressionStats {
    /// Responses by coding, in the order of [`Coding::ALL`].
    pub responses: [Counter; Coding::ALL.len()],
    /// Responses of any coding that were stored compressed.
    pub stored: Counter,
    /// Bytes of their bodies as received.
    pub before: Counter,
    /// Bytes of their bodies as they were sent.
    pub after: Counter,
}

impl CompressionStats {
    /// Counts a compressed response.
    pub fn count(&self, response: &Compressed) {
        let Compressed { coding, before, after, is_stored } = *response;
        self.responses[coding as usize].add(1);
        self.stored.add(u64::from(is_stored));
        self.before.add(before);
        self.after.add(after);
    }
}

/// Statistics of the routes of a listener on a worker, by route name; kept across plans. The worker takes the lock at
/// the first request of a route under a plan and caches the entry; metrics take it to read.
#[derive(Debug)]
pub struct RouteTable {
    bounds_ns: Arc<[u64]>,
    unrouted: Arc<RouteStats>,
    routes: Mutex<HashMap<Arc<str>, Arc<RouteStats>>>,
}

impl RouteTable {
    pub(super) fn new(bounds_ns: &Arc<[u64]>) -> RouteTable {
        let unrouted = Arc::new(RouteStats::new(bounds_ns));
        RouteTable { bounds_ns: bounds_ns.clone(), unrouted, routes: Mutex::default() }
    }

    /// Statistics of requests that no route matched.
    pub fn unrouted(&self) -> &Arc<RouteStats> {
        &self.unrouted
    }

    /// Returns the statistics of a route, creating them at the first use.
    #[cold]
    pub fn of(&self, route: &Arc<str>) -> Arc<RouteStats> {
        let new = || Arc::new(RouteStats::new(&self.bounds_ns));
        self.lock().entry(route.clone()).or_insert_with(new).clone()
    }

    /// Statistics of a route, if it ever had a request.
    pub fn get(&self, route: &str) -> Option<Arc<RouteStats>> {
        self.lock().get(route).cloned()
    }

    /// Statistics of all routes that had requests, and of requests without a route.
    pub fn all(&self) -> Vec<Arc<RouteStats>> {
        self.lock().values().chain([&self.unrouted]).cloned().collect()
    }

    /// Statistics of all routes that had requests, by name.
    pub fn named(&self) -> Vec<(Arc<str>, Arc<RouteStats>)> {
        self.lock().iter().map(|(name, stats)| (name.clone(), stats.clone())).collect()
    }

    /// Removes routes whose names are not in `names`.
    pub(super) fn retain(&self, names: &HashSet<&str>) {
        self.lock().retain(|name, _| names.contains(&**name));
    }

    /// Locks the map. Poisoning is ignored: nothing done under the lock can panic.
    fn lock(&self) -> MutexGuard<'_, HashMap<Arc<str>, Arc<RouteStats>>> {
        self.routes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_route_has_numbers_from_its_first_request_on() {
        let table = RouteTable::new(&Arc::from([1, 2]));
        let name: Arc<str> = "a".into();
        assert!(table.get("a").is_none());
        table.of(&name).count(0, 200, 1, true);
        table.of(&name).count(0, 200, 1, false);
        table.of(&name).count(0, 503, 1, true);
        let numbers = table.get("a").expect("it had requests");
        assert_eq!(numbers.requests[0].iter().collect::<Vec<_>>(), [(200, 2), (503, 1)]);
        assert_eq!((numbers.sent.get(), numbers.sent_failed.get()), (2, 1));
        assert_eq!(table.all().len(), 2);
        table.retain(&HashSet::new());
        assert!(table.get("a").is_none());
    }
}
