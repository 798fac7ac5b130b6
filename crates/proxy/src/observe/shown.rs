//! Numbers of the workers as operators see them: sums over the workers.

use super::numbers::{Moment, Numbers};
use super::route_stats::RouteStats;
use super::stats::{Counter, EndpointStats, Histogram};
use evenkeel_balance::Instant;
use evenkeel_config::plan::{self, Mode};
use evenkeel_view::latencies::Latencies;
use evenkeel_view::served::{Passed, Route};
use evenkeel_view::timeline::{Counts, Ledger, Timeline};
use evenkeel_view::{LatencyOfLate, Listener, LoadReport, Pool};
use std::collections::HashMap;
use std::sync::Arc;

impl Ledger for Moment<'_> {
    fn pools(&self) -> impl Iterator<Item = (&Arc<str>, impl Iterator<Item = &Arc<str>>)> {
        let pools = self.numbers.plan().pools.iter().zip(&self.members);
        pools.map(|(pool, members)| (&pool.name, members.endpoints.iter().map(|endpoint| &endpoint.name)))
    }

    fn endpoint(&self, pool: usize, endpoint: usize) -> (Counts, u32) {
        let (mut counts, mut in_flight) = (Counts::default(), 0u64);
        for stats in self.members[pool].stats(endpoint) {
            counts.add(of_stats(stats));
            in_flight = in_flight.wrapping_add(stats.active.get());
        }
        // Several threads count, so a sum may be of two moments.
        (counts, u32::try_from(in_flight).unwrap_or(0))
    }

    fn latencies(&self, pool: usize, endpoint: usize) -> Latencies {
        let mut sum = Latencies::default();
        self.members[pool].stats(endpoint).for_each(|stats| stats.latency.add_to(&mut sum));
        sum
    }

    fn listeners(&self) -> Counts {
        let mut sum = Counts::default();
        let tables = self.numbers.workers.iter().flat_map(|worker| &worker.routes);
        tables.flat_map(|table| table.all()).for_each(|route| sum.add(of(&route)));
        sum
    }

    fn routes(&self) -> HashMap<(Arc<str>, Arc<str>), Counts> {
        let mut all = HashMap::<_, Counts>::new();
        for (l, listener) in self.numbers.plan().listeners.iter().enumerate() {
            for (route, stats) in self.numbers.workers.iter().flat_map(|worker| worker.routes[l].named()) {
                all.entry((listener.name.clone(), route)).or_default().add(of(&stats));
            }
        }
        all
    }
}

impl Numbers {
    /// The listeners of the plan.
    pub fn shown_listeners(&self) -> Vec<Listener> {
        let one = |(at, plan): (usize, &Arc<plan::Listener>)| {
            let stats = || self.workers.iter().map(|worker| &worker.listeners[at]);
            Listener {
                name: plan.name.to_string(),
                mode: plan.mode.name().into(),
                addresses: plan.bind.iter().map(ToString::to_string).collect(),
                // Two threads count, so a sum may be of two moments.
                connections: stats().fold(0u64, |sum, listener| sum.wrapping_add(listener.active.get())),
                accepted: stats().map(|listener| listener.accepted.get()).sum(),
                bytes_in: stats().map(|listener| listener.bytes_in.get()).sum(),
                bytes_out: stats().map(|listener| listener.bytes_out.get()).sum(),
            }
        };
        self.plan().listeners.iter().enumerate().map(one).collect()
    }

    /// The routes of the plan, with what passed by them.
    pub fn shown_routes(&self, timeline: &Timeline) -> Vec<Route> {
        let belongs = |listener: &plan::Listener, route: &plan::Route| match route.listeners.is_empty() {
            true => listener.mode == Mode::Http,
            false => route.listeners.contains(&listener.name),
        };
        let passed = |listener: &plan::Listener, route: &plan::Route| {
            let (so_far, late, span) = timeline.passed(&listener.name, &route.name);
            let a_second = |count: u64| count as f64 / span.as_secs_f64();
            Passed {
                listener: listener.name.to_string(),
                requests: so_far.requests,
                errors: so_far.errors,
                rate: a_second(late.requests),
                error_rate: a_second(late.errors),
            }
        };
        let one = |route: &plan::Route| {
            let at = self.plan().listeners.iter().filter(|listener| belongs(listener, route));
            Route {
                name: route.name.to_string(),
                hosts: route.hosts.iter().map(ToString::to_string).collect(),
                path: route.path.to_string(),
                pool: route.pool.to_string(),
                at: at.map(|listener| passed(listener, route)).collect(),
            }
        };
        self.plan().routes.iter().map(one).collect()
    }
}

impl Moment<'_> {
    /// Adds to the pools of [`plan`](Self::plan) what workers counted of their endpoints. `now`: by the clock of the workers.
    pub fn add_to(&self, pools: &mut [Pool], timeline: &Timeline, now: Instant) {
        for (p, pool) in pools.iter_mut().enumerate() {
            let late = |(e, endpoint): (usize, &evenkeel_view::Endpoint)| {
                timeline.of_late(&pool.name, &endpoint.name, &self.latencies(p, e))
            };
            let late: Vec<Latencies> = pool.endpoints.iter().enumerate().map(late).collect();
            let responses: u64 = late.iter().map(Latencies::count).sum();
            for (e, (endpoint, late)) in pool.endpoints.iter_mut().zip(late).enumerate() {
                let (counts, _) = self.endpoint(p, e);
                (endpoint.requests, endpoint.failed) = (counts.requests, counts.errors);
                let percentiles = late.percentile_ms(0.5).zip(late.percentile_ms(0.99));
                let of = late.count();
                endpoint.latency = percentiles.map(|(p50_ms, p99_ms)| LatencyOfLate { responses: of, p50_ms, p99_ms });
                endpoint.share = (responses > 0).then(|| of as f64 / responses as f64);
                endpoint.report = self.report(p, e, now);
            }
        }
    }

    /// What an endpoint reported last of its load, to whichever worker.
    fn report(&self, pool: usize, endpoint: usize, now: Instant) -> Option<LoadReport> {
        let reports = self.members[pool].stats(endpoint).map(|stats| &stats.reported);
        let last = reports.max_by_key(|report| report.at_ns.get())?;
        let known = |counter: &Counter, unit: f64| Some(counter.get() as f64 * unit).filter(|value| *value > 0.0);
        (last.at_ns.get() > 0).then(|| LoadReport {
            age_ms: now.since(Instant(last.at_ns.get())) / 1_000_000,
            in_flight: last.in_flight.get(),
            latency_ms: known(&last.latency_ns, 1e-6),
            utilization: known(&last.utilization_ppm, 1e-6),
        })
    }
}

/// Tries of one worker at an endpoint. Errors are the endpoint's own: what it answered with 500 and above, and what it refused, cut,
/// or was late with. Clients that left, and connections that were upgraded and idle, are no failures of it.
fn of_stats(stats: &EndpointStats) -> Counts {
    let answered: u64 = stats.requests.iter().map(|counter| counter.get()).sum();
    // None of these has a class of status.
    let failed: u64 = stats.errors.iter().map(|counter| counter.get()).sum();
    let errors = stats.requests[4].get() + failed;
    // Sessions that are not HTTP are not in `requests`.
    Counts { requests: (answered + stats.unreached.get()).max(errors), errors }
}

fn of(route: &RouteStats) -> Counts {
    let count = |histogram: &Histogram| histogram.buckets.iter().map(|bucket| bucket.get()).sum::<u64>();
    let by_class = route.duration.each_ref().map(count);
    Counts { requests: by_class.iter().sum::<u64>() + count(&route.session), errors: by_class[4] }
}
