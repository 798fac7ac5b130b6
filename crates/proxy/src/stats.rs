//! What happened, in numbers? Counters that one worker writes and anybody may read: a plain load and store each, on
//! memory that no other worker writes.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

/// A number that one thread adds to.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds. Only the worker that owns the counter may call it; Relaxed, as the number stands for itself.
    #[inline]
    pub fn add(&self, n: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_add(n), Relaxed);
    }

    /// Takes away, for numbers that go up and down.
    #[inline]
    pub fn sub(&self, n: u64) {
        self.add(n.wrapping_neg());
    }

    /// The number.
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// Durations by upper bound.
#[derive(Debug)]
pub struct Histogram {
    bounds_ns: Arc<[u64]>,
    /// One more than bounds: the last has no upper bound.
    pub buckets: Box<[Counter]>,
    /// All durations together, nanoseconds.
    pub sum_ns: Counter,
}

impl Histogram {
    fn new(bounds_ns: &Arc<[u64]>) -> Histogram {
        let buckets = (0..=bounds_ns.len()).map(|_| Counter::default()).collect();
        Histogram { bounds_ns: bounds_ns.clone(), buckets, sum_ns: Counter::default() }
    }

    /// Counts one duration.
    #[inline]
    pub fn record(&self, ns: u64) {
        let bucket = self.bounds_ns.iter().position(|&b| ns <= b).unwrap_or(self.bounds_ns.len());
        self.buckets[bucket].add(1);
        self.sum_ns.add(ns);
    }
}

/// The methods that have a label of their own; others share `OTHER`, so that clients cannot make series up.
pub const METHODS: [&str; 9] = ["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "OTHER"];

/// The index of a method in [`METHODS`].
#[inline]
pub fn method_index(method: &str) -> usize {
    METHODS.iter().position(|m| *m == method).unwrap_or(METHODS.len() - 1)
}

/// Status classes `1xx` to `5xx`, then none: no response.
pub const CLASSES: usize = 6;

/// The class of a status: 0 for 1xx to 4 for 5xx, 5 for none.
#[inline]
pub fn class(status: u16) -> usize {
    match status {
        100..=599 => usize::from(status / 100 - 1),
        _ => CLASSES - 1,
    }
}

/// What went wrong with an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum ErrorKind {
    Connect,
    Reset,
    Timeout,
    Protocol,
}

/// Labels of [`ErrorKind`], in its order.
pub const ERROR_KINDS: [&str; 4] = ["connect", "reset", "timeout", "protocol"];

/// The statuses with a counter of their own. One more counter is for all others: 0, where no response was sent, and what
/// an endpoint may have made up.
const STATUS: std::ops::Range<u16> = 100..600;

/// Responses by status; made when the first is counted.
#[derive(Debug, Default)]
pub struct ByStatus(OnceLock<Box<[Counter]>>);

impl ByStatus {
    #[inline]
    fn count(&self, status: u16) {
        let counters = self.0.get_or_init(|| (0..=STATUS.len()).map(|_| Counter::default()).collect());
        let index = if STATUS.contains(&status) { usize::from(status - STATUS.start) } else { STATUS.len() };
        counters[index].add(1);
    }

    /// Each status that was sent, with its number; 0 stands for none and for any that is no HTTP status.
    pub fn iter(&self) -> impl Iterator<Item = (u16, u64)> + '_ {
        let counters = self.0.get().into_iter().flatten();
        STATUS.chain([0]).zip(counters).map(|(status, c)| (status, c.get())).filter(|(_, n)| *n > 0)
    }
}

/// The numbers of one worker. All vectors follow the order of the plan.
#[derive(Debug)]
pub struct WorkerStats {
    /// By listener.
    pub listeners: Vec<ListenerStats>,
    /// By listener, then by route; the entry after the last route is for requests that no route took.
    pub routes: Vec<Vec<RouteStats>>,
    /// By pool.
    pub pools: Vec<PoolStats>,
    /// Access-log lines that were dropped since the disk did not keep up.
    pub log_lines_dropped: Counter,
}

/// The numbers of one listener.
#[derive(Debug, Default)]
pub struct ListenerStats {
    /// Connections accepted.
    pub accepted: Counter,
    /// Connections open.
    pub active: Counter,
    /// Connections refused at the limit.
    pub rejected: Counter,
    /// Malformed requests.
    pub malformed: Counter,
    /// Bytes from clients.
    pub bytes_in: Counter,
    /// Bytes to clients.
    pub bytes_out: Counter,
}

/// The numbers of one route at one listener.
#[derive(Debug)]
pub struct RouteStats {
    /// Requests by method ([`METHODS`]) and status.
    pub requests: [ByStatus; METHODS.len()],
    /// From the head of the request to the last byte of the response, by class.
    pub duration: [Histogram; CLASSES],
}

impl RouteStats {
    /// Counts one request.
    #[inline]
    pub fn count(&self, method: usize, status: u16, duration_ns: u64) {
        self.requests[method].count(status);
        self.duration[class(status)].record(duration_ns);
    }
}

/// The numbers of one pool.
#[derive(Debug)]
pub struct PoolStats {
    /// By endpoint, in the order of the plan.
    pub endpoints: Vec<EndpointStats>,
    /// To the last byte of the response.
    pub duration: Histogram,
    /// To the first byte of the response.
    pub ttfb: Histogram,
    /// To an established connection.
    pub connect: Histogram,
    /// Requests that no endpoint could be picked for: empty, all tried, all full, unchecked.
    pub no_pick: [Counter; 4],
    /// Requests that went to another endpoint after a failed connect.
    pub retries: Counter,
}

/// The numbers of one endpoint.
#[derive(Debug, Default)]
pub struct EndpointStats {
    /// Responses by class.
    pub requests: [Counter; CLASSES],
    /// Errors by [`ErrorKind`].
    pub errors: [Counter; ERROR_KINDS.len()],
    /// Requests under way.
    pub active: Counter,
    /// Connections opened.
    pub connects: Counter,
    /// Idle connections kept.
    pub idle: Counter,
}

impl WorkerStats {
    /// All zero, for a plan.
    pub fn new(plan: &evenkeel_config::Plan) -> WorkerStats {
        let bounds = plan.telemetry.metrics.buckets.iter().map(|s| (s * 1e9) as u64);
        let bounds: Arc<[u64]> = bounds.collect();
        let histogram = || Histogram::new(&bounds);
        let route = || RouteStats {
            requests: std::array::from_fn(|_| ByStatus::default()),
            duration: std::array::from_fn(|_| histogram()),
        };
        let pool = |pool: &evenkeel_config::plan::Pool| PoolStats {
            endpoints: pool.endpoints.iter().map(|_| EndpointStats::default()).collect(),
            duration: histogram(),
            ttfb: histogram(),
            connect: histogram(),
            no_pick: Default::default(),
            retries: Counter::default(),
        };
        WorkerStats {
            listeners: plan.listeners.iter().map(|_| ListenerStats::default()).collect(),
            routes: plan.listeners.iter().map(|_| (0..=plan.routes.len()).map(|_| route()).collect()).collect(),
            pools: plan.pools.iter().map(pool).collect(),
            log_lines_dropped: Counter::default(),
        }
    }
}
