//! How many requests were there until now, and how long did they take? Sums over the workers.

use evenkeel_proxy::Numbers;
use evenkeel_proxy::latency::Latencies;
use evenkeel_proxy::stats::{EndpointStats, Histogram, RouteStats};
use std::collections::HashMap;
use std::sync::Arc;

/// Requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// All of them.
    pub requests: u64,
    /// Requests answered with 500 and above; of an endpoint, all that failed by its fault.
    pub errors: u64,
}

impl Counts {
    /// Adds more.
    pub fn add(&mut self, more: Counts) {
        self.requests += more.requests;
        self.errors += more.errors;
    }

    /// What is new since then. What left and came back counts from zero.
    pub fn since(self, before: Counts) -> Counts {
        if self.requests < before.requests {
            return self;
        }
        Counts { requests: self.requests - before.requests, errors: self.errors.saturating_sub(before.errors) }
    }
}

/// What an endpoint was sent, and requests under way there.
pub fn of_endpoint(now: &Numbers, pool: usize, endpoint: usize) -> (Counts, u32) {
    let (mut counts, mut in_flight) = (Counts::default(), 0u64);
    for stats in now.workers.iter().map(|worker| &worker.endpoints[pool][endpoint]) {
        counts.add(of_stats(stats));
        in_flight = in_flight.wrapping_add(stats.active.get());
    }
    // Several threads count, so a sum may be of two moments.
    (counts, u32::try_from(in_flight).unwrap_or(0))
}

/// Tries of one worker at an endpoint. Errors are the endpoint's own: what it answered with 500 and above, and what it refused, cut,
/// or was late with. Clients that left, and connections that were upgraded and idle, are no failures of it.
pub fn of_stats(stats: &EndpointStats) -> Counts {
    let answered: u64 = stats.requests.iter().map(|counter| counter.get()).sum();
    // None of these has a class of status.
    let failed: u64 = stats.errors.iter().map(|counter| counter.get()).sum();
    let errors = stats.requests[4].get() + failed;
    // Sessions that are not HTTP are not in `requests`.
    Counts { requests: (answered + stats.unreached.get()).max(errors), errors }
}

/// How long its responses took to begin.
pub fn latencies(now: &Numbers, pool: usize, endpoint: usize) -> Latencies {
    let mut sum = Latencies::default();
    now.workers.iter().for_each(|worker| worker.endpoints[pool][endpoint].latency.add_to(&mut sum));
    sum
}

/// What clients of all listeners asked for.
pub fn of_listeners(now: &Numbers) -> Counts {
    let mut sum = Counts::default();
    let tables = now.workers.iter().flat_map(|worker| &worker.routes);
    tables.flat_map(|table| table.all()).for_each(|route| sum.add(of(&route)));
    sum
}

/// What passed by each route that had requests, by the names of listener and route.
pub fn of_routes(now: &Numbers) -> HashMap<(Arc<str>, Arc<str>), Counts> {
    let mut all = HashMap::<_, Counts>::new();
    for (l, listener) in now.plan().listeners.iter().enumerate() {
        for (route, stats) in now.workers.iter().flat_map(|worker| worker.routes[l].named()) {
            all.entry((listener.name.clone(), route)).or_default().add(of(&stats));
        }
    }
    all
}

fn of(route: &RouteStats) -> Counts {
    let count = |histogram: &Histogram| histogram.buckets.iter().map(|bucket| bucket.get()).sum::<u64>();
    let by_class = route.duration.each_ref().map(count);
    Counts { requests: by_class.iter().sum::<u64>() + count(&route.session), errors: by_class[4] }
}
