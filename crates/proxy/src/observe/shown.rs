//! Statistics as operators see them: sums over the workers.

use super::numbers::Numbers;
use super::route_stats::RouteStats;
use super::stats::{Counter, EndpointStats, FAILED, Histogram, Http3Stats, ListenerStats, UdpStats};
use crate::encoder_memory::Lack;
use evenkeel_balance::Instant;
use evenkeel_config::plan::Mode;
use evenkeel_runtime::View;
use evenkeel_runtime::ledger::{EndpointCounts, PlaneCounts, PoolCounts};
use evenkeel_runtime::membership::Endpoints;
use evenkeel_view::latencies::Latencies;
use evenkeel_view::served::Route;
use evenkeel_view::timeline::{Counts, RouteCounts, Timeline};
use evenkeel_view::{CompressionMemory, Endpoint, Http3, Listener, LoadReport, Status};
use std::collections::HashMap;
use std::sync::Arc;
use tokio::sync::watch;

/// The proxy as operators see it: the workers' counts under the running plan.
pub struct Shown(pub watch::Receiver<Arc<Numbers>>);

impl PlaneCounts for Shown {
    fn pool(&self, name: &str, endpoints: &Endpoints) -> Option<Arc<dyn PoolCounts>> {
        let numbers = self.0.borrow();
        Some(numbers.tally(name)?.over(endpoints))
    }

    fn listeners(&self) -> Counts {
        let mut sum = Counts::default();
        let numbers = self.0.borrow().clone();
        let tables = numbers.workers.iter().flat_map(|worker| &worker.routes);
        tables.flat_map(|table| table.all()).for_each(|route| sum.add(of(&route)));
        sum
    }

    fn routes(&self) -> HashMap<(Arc<str>, Arc<str>), RouteCounts> {
        let mut all = HashMap::<_, RouteCounts>::new();
        let numbers = self.0.borrow().clone();
        for (l, listener) in numbers.plan().listeners.iter().enumerate() {
            for (route, stats) in numbers.workers.iter().flat_map(|worker| worker.routes[l].named()) {
                let sum = all.entry((listener.name.clone(), route)).or_default();
                sum.counts.add(of(&stats));
                sum.sent.add(sent(&stats));
                let durations = stats.duration.iter().chain([&stats.session]);
                durations.for_each(|histogram| histogram.add_to(&mut sum.durations));
            }
        }
        all
    }
}

impl View for Shown {
    fn add_to(&self, status: &mut Status) {
        let numbers = self.0.borrow().clone();
        numbers.add_to_listeners(&mut status.listeners);
        status.compression = numbers.shown_compression();
        status.cache_disk = numbers.shown_cache_disk();
        status.maps = numbers.shown_maps();
    }

    fn shown_routes(&self, timeline: &Timeline) -> Vec<Route> {
        self.0.borrow().clone().shown_routes(timeline)
    }
}

/// Counts of tries at an endpoint, and of sessions and flows. Errors are the endpoint's own: statuses of 500 and above, refused and cut
/// connections, and timeouts. Clients that left and upgraded connections that went idle are not errors of the endpoint.
impl EndpointCounts for EndpointStats {
    fn counts(&self) -> Counts {
        let answered: u64 = self.requests.iter().map(|counter| counter.get()).sum();
        // None of these is in a status class of `requests`, so nothing is counted twice.
        let failed: u64 = self.errors.iter().map(|counter| counter.get()).sum();
        let errors = self.requests[FAILED].get() + failed;
        let unreached = self.unreached.get();
        // A flow has an error for each endpoint that refused it, and a session may end in an error after it was
        // counted.
        let requests = (answered + self.sessions.get() + unreached).max(errors);
        Counts { requests, errors, unreached }
    }

    fn in_flight(&self) -> u64 {
        self.active.get()
    }

    fn add_latencies(&self, to: &mut Latencies) {
        self.latency.add_to(to);
    }

    fn add_to<'s>(all: impl Iterator<Item = &'s EndpointStats> + Clone, now: Instant, to: &mut Endpoint) {
        to.report = report(all.clone(), now);
        to.bytes_in = all.clone().map(|stats| stats.sent.get()).sum();
        to.bytes_out = all.map(|stats| stats.received.get()).sum();
    }
}

impl Numbers {
    /// Adds the connections and bytes of listeners, which are in the order of the plan.
    fn add_to_listeners(&self, listeners: &mut [Listener]) {
        for ((at, plan), shown) in self.plan().listeners.iter().enumerate().zip(listeners) {
            // Another plan may run by now.
            if *shown.name != *plan.name {
                continue;
            }
            let stats = || self.workers.iter().map(|worker| &worker.listeners[at]);
            let is_udp = plan.mode == Mode::Udp;
            // Wrapping: connections may be counted up and down by different workers, and the counters are not read at
            // the same instant.
            let sum = |of: fn(&ListenerStats) -> &Counter, of_flows: fn(&UdpStats) -> &Counter| {
                let one = |listener: &ListenerStats| match is_udp {
                    true => of_flows(&listener.udp).get(),
                    false => of(listener).get(),
                };
                stats().fold(0u64, |sum, listener| sum.wrapping_add(one(listener)))
            };
            shown.connections += sum(|listener| &listener.active, |udp| &udp.active);
            shown.accepted += sum(|listener| &listener.accepted, |udp| &udp.flows);
            shown.bytes_in += sum(|listener| &listener.bytes_in, |udp| &udp.bytes_in);
            shown.bytes_out += sum(|listener| &listener.bytes_out, |udp| &udp.bytes_out);
            shown.http3 = plan.http3.as_ref().map(|_| {
                let sum = |of: fn(&Http3Stats) -> &Counter| {
                    stats().fold(0u64, |sum, listener| sum.wrapping_add(of(&listener.http3).get()))
                };
                Http3 {
                    connections: sum(|http3| &http3.active),
                    handshakes: sum(|http3| &http3.connections),
                    requests: sum(|http3| &http3.streams),
                    migrations: sum(|http3| &http3.migrations),
                    packets_sent: sum(|http3| &http3.packets_sent),
                    packets_lost: sum(|http3| &http3.packets_lost),
                    retries: sum(|http3| &http3.retries),
                }
            });
        }
    }

    /// Memory of compressors. `None` if no route compresses.
    fn shown_compression(&self) -> Option<CompressionMemory> {
        let is_used = self.plan().routes.iter().any(|route| route.filters.compress.is_some());
        let (memory, lacks) = (&self.encoder_memory, |lack: Lack| self.encoder_memory.counted(lack as usize));
        is_used.then(|| CompressionMemory {
            bytes: memory.in_use(),
            limit: memory.limit(),
            small_window: lacks(Lack::Small),
            identity: lacks(Lack::Identity),
            stored: lacks(Lack::Stored),
            given_up: lacks(Lack::GivenUp),
        })
    }
}

/// Returns the latest load report of an endpoint to any worker. `now` is on the workers' clock.
fn report<'s>(all: impl Iterator<Item = &'s EndpointStats>, now: Instant) -> Option<LoadReport> {
    let reports = all.map(|stats| &stats.reported);
    let last = reports.max_by_key(|report| report.at_ns.get())?;
    let known = |counter: &Counter, unit: f64| Some(counter.get() as f64 * unit).filter(|value| *value > 0.0);
    (last.at_ns.get() > 0).then(|| LoadReport {
        age_ms: now.since(Instant(last.at_ns.get())) / 1_000_000,
        in_flight: last.in_flight.get(),
        latency_ms: known(&last.latency_ns, 1e-6),
        utilization: known(&last.utilization_ppm, 1e-6),
    })
}

fn of(route: &RouteStats) -> Counts {
    let count = |histogram: &Histogram| histogram.buckets.iter().map(|bucket| bucket.get()).sum::<u64>();
    let by_class = route.duration.each_ref().map(count);
    let requests = by_class.iter().sum::<u64>() + route.sessions.get();
    Counts { requests, errors: by_class[FAILED] + route.sessions_failed.get(), ..Counts::default() }
}

/// Counts of a route's requests that went on to a pool, and of its sessions.
fn sent(route: &RouteStats) -> Counts {
    let requests = route.sent.get() + route.sessions.get();
    Counts { requests, errors: route.sent_failed.get() + route.sessions_failed.get(), ..Counts::default() }
}
