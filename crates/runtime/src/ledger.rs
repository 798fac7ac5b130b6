//! Ledger of requests per endpoint over all planes, for history, dashboard and metrics. Each plane counts on its own
//! threads; the ledger adds up when read, so it costs requests nothing.
#![expect(clippy::disallowed_types, reason = "workers never take the lock of a tally")]

use crate::generation::Generation;
use crate::membership::Endpoints;
use evenkeel_balance::Instant;
use evenkeel_config::plan::Endpoint;
use evenkeel_view::latencies::Latencies;
use evenkeel_view::timeline::{Counted, Counts, OfLate, PoolCounted, RouteCounts, Timeline};
use evenkeel_view::{self as view, LatencyOfLate, Pool};
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::watch;

/// Counts of a plane, read by the [`Ledger`].
pub trait PlaneCounts: Send + Sync {
    /// Requests of a pool, in the order of these endpoints; `None` if no client of this plane can reach the pool.
    fn pool(&self, name: &str, endpoints: &Endpoints) -> Option<Arc<dyn PoolCounts>>;

    /// Requests of clients, over all listeners of the plane.
    fn listeners(&self) -> Counts;

    /// Requests by names of listener and route, for routes that had any; for DNS listeners, queries by name of the
    /// zone.
    fn routes(&self) -> HashMap<(Arc<str>, Arc<str>), RouteCounts> {
        HashMap::new()
    }
}

/// Counts of one plane for the endpoints of a pool.
pub trait PoolCounts: Send + Sync {
    /// Totals of an endpoint's requests, and its requests in flight. The latter wraps around zero, as threads count
    /// while it is read.
    fn endpoint(&self, endpoint: usize) -> (Counts, u64);

    /// Adds the times to first byte of an endpoint's responses.
    fn add_latencies(&self, endpoint: usize, to: &mut Latencies);

    /// Adds to an endpoint as operators see it. `now` is on the workers' clock.
    fn add_to(&self, endpoint: usize, now: Instant, to: &mut view::Endpoint);
}

/// Counts of a worker for an endpoint.
pub trait EndpointCounts: fmt::Debug + Default + Send + Sync + 'static {
    /// Returns the counts of requests so far.
    fn counts(&self) -> Counts;

    /// Requests in flight; wraps around zero, as a request may end on another worker than it started on.
    fn in_flight(&self) -> u64 {
        0
    }

    /// Adds the times to first byte of responses.
    fn add_latencies(&self, _: &mut Latencies) {}

    /// Adds the counts of all workers to an endpoint as operators see it. `now` is on the workers' clock.
    fn add_to<'s>(_all: impl Iterator<Item = &'s Self> + Clone, _now: Instant, _to: &mut view::Endpoint) {}
}

/// Endpoints of a pool, with the counts of each worker of a plane.
#[derive(Debug)]
pub struct Members<S> {
    pub endpoints: Endpoints,
    /// Counts by worker, then by endpoint.
    pub workers: Vec<Vec<Arc<S>>>,
}

impl<S: Default> Members<S> {
    fn first(endpoints: Endpoints, workers: usize) -> Members<S> {
        let new = || endpoints.iter().map(|_| Arc::default()).collect();
        Members { workers: (0..workers).map(|_| new()).collect(), endpoints }
    }

    /// Returns the members for other endpoints; those that stay keep their counts.
    pub fn next(&self, endpoints: Endpoints) -> Members<S> {
        let before: HashMap<&str, usize> = self.endpoints.iter().enumerate().map(|(e, it)| (&*it.name, e)).collect();
        let of = |worker: &Vec<Arc<S>>| {
            let kept = |endpoint: &Endpoint| Some(worker[*before.get(&*endpoint.name)?].clone());
            endpoints.iter().map(|endpoint| kept(endpoint).unwrap_or_default()).collect()
        };
        Members { workers: self.workers.iter().map(of).collect(), endpoints }
    }

    /// Returns the counts of each worker for an endpoint.
    pub fn stats(&self, endpoint: usize) -> impl Iterator<Item = &S> + Clone {
        self.workers.iter().map(move |worker| &*worker[endpoint])
    }
}

impl<S: EndpointCounts> PoolCounts for Members<S> {
    fn endpoint(&self, endpoint: usize) -> (Counts, u64) {
        let (mut counts, mut in_flight) = (Counts::default(), 0u64);
        for stats in self.stats(endpoint) {
            counts.add(stats.counts());
            in_flight = in_flight.wrapping_add(stats.in_flight());
        }
        (counts, in_flight)
    }

    fn add_latencies(&self, endpoint: usize, to: &mut Latencies) {
        self.stats(endpoint).for_each(|stats| stats.add_latencies(to));
    }

    fn add_to(&self, endpoint: usize, now: Instant, to: &mut view::Endpoint) {
        S::add_to(self.stats(endpoint), now, to);
    }
}

/// Counts of a plane's workers for a pool, whose endpoints may change while the plan stays.
#[derive(Debug)]
pub struct Tally<S>(Mutex<Arc<Members<S>>>);

impl<S: Default> Tally<S> {
    /// Creates the counts of a new pool for this number of workers.
    pub fn first(endpoints: Endpoints, workers: usize) -> Tally<S> {
        Tally(Mutex::new(Arc::new(Members::first(endpoints, workers))))
    }

    /// Creates the counts for the next plan; endpoints that stay keep theirs.
    pub fn next(&self, endpoints: Endpoints) -> Tally<S> {
        Tally(Mutex::new(Arc::new(self.members().next(endpoints))))
    }

    /// Returns the current endpoints with their counts.
    pub fn members(&self) -> Arc<Members<S>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Counts in the order of these endpoints, which equal the current endpoints except while a change is applied.
    pub fn over(&self, endpoints: &Endpoints) -> Arc<Members<S>> {
        let members = self.members();
        if Arc::ptr_eq(&members.endpoints, endpoints) { members } else { Arc::new(members.next(endpoints.clone())) }
    }

    /// Switches to the endpoints that every worker knows now.
    pub fn change(&self, members: Arc<Members<S>>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = members;
    }
}

/// Requests over all planes.
#[derive(Clone)]
pub struct Ledger {
    running: watch::Receiver<Arc<Generation>>,
    planes: Arc<[Arc<dyn PlaneCounts>]>,
}

/// Requests of a pool over all planes.
pub struct PoolLedger {
    name: Arc<str>,
    endpoints: Endpoints,
    planes: Vec<Arc<dyn PoolCounts>>,
}

impl Ledger {
    /// Creates a ledger over planes, for the pools of the generation that runs when it is read.
    pub fn new(
        running: watch::Receiver<Arc<Generation>>,
        planes: impl Iterator<Item = Arc<dyn PlaneCounts>>,
    ) -> Ledger {
        Ledger { running, planes: planes.collect() }
    }

    /// Requests of a pool with these endpoints.
    pub fn pool(&self, name: &Arc<str>, endpoints: Endpoints) -> PoolLedger {
        let planes = self.planes.iter().filter_map(|plane| plane.pool(name, &endpoints)).collect();
        PoolLedger { name: name.clone(), endpoints, planes }
    }
}

impl Counted for Ledger {
    fn pools(&self) -> impl Iterator<Item = impl PoolCounted> {
        let running = self.running.borrow().clone();
        (0..running.plan.pools.len())
            .map(move |at| self.pool(&running.plan.pools[at].name, running.membership.endpoints(at)))
    }

    fn listeners(&self) -> Counts {
        let mut sum = Counts::default();
        self.planes.iter().for_each(|plane| sum.add(plane.listeners()));
        sum
    }

    fn routes(&self) -> HashMap<(Arc<str>, Arc<str>), RouteCounts> {
        // A listener belongs to a single plane, so keys do not collide.
        self.planes.iter().flat_map(|plane| plane.routes()).collect()
    }
}

impl PoolCounted for PoolLedger {
    fn name(&self) -> &Arc<str> {
        &self.name
    }

    fn endpoints(&self) -> impl Iterator<Item = &Arc<str>> {
        self.endpoints.iter().map(|endpoint| &endpoint.name)
    }

    fn endpoint(&self, endpoint: usize) -> (Counts, u32) {
        let (mut counts, mut in_flight) = (Counts::default(), 0u64);
        for (more, under_way) in self.planes.iter().map(|plane| plane.endpoint(endpoint)) {
            counts.add(more);
            in_flight = in_flight.wrapping_add(under_way);
        }
        // Threads count while the sum is built, so it may be off and even negative.
        (counts, u32::try_from(in_flight).unwrap_or(0))
    }

    fn latencies(&self, endpoint: usize) -> Latencies {
        let mut sum = Latencies::default();
        self.planes.iter().for_each(|plane| plane.add_latencies(endpoint, &mut sum));
        sum
    }
}

impl PoolLedger {
    /// Adds the counts of planes to a pool as shown to operators, which must have the same endpoints. `now` is on the workers'
    /// clock.
    pub fn add_to(&self, pool: &mut Pool, timeline: &Timeline, now: Instant) {
        let late = |e: usize, name: &str| {
            let (counts, _) = self.endpoint(e);
            (counts, timeline.of_late(&pool.name, name, counts, &self.latencies(e)))
        };
        let all: Vec<_> = pool.endpoints.iter().enumerate().map(|(e, endpoint)| late(e, &endpoint.name)).collect();
        // An endpoint that refuses connections would have a large share, as it fails faster than others answer.
        let part = |late: &OfLate| late.counts.requests.saturating_sub(late.counts.unreached);
        let whole: u64 = all.iter().map(|(_, late)| part(late)).sum();
        for (endpoint, (counts, late)) in pool.endpoints.iter_mut().zip(&all) {
            (endpoint.requests, endpoint.failed) = (counts.requests, counts.errors);
            let percentiles = late.latencies.percentile_ms(0.5).zip(late.latencies.percentile_ms(0.99));
            let of = late.latencies.count();
            endpoint.latency = percentiles.map(|(p50_ms, p99_ms)| LatencyOfLate { responses: of, p50_ms, p99_ms });
            endpoint.share = (whole > 0).then(|| part(late) as f64 / whole as f64);
        }
        for (e, endpoint) in pool.endpoints.iter_mut().enumerate() {
            self.planes.iter().for_each(|plane| plane.add_to(e, now, endpoint));
        }
    }
}
