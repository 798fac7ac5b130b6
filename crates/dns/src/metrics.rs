//! Export of the workers' counters to Prometheus: sums over the workers, computed at each scrape.

use crate::stats::{CODES, EndpointStats, ListenerStats, PoolStats, TYPES};
use domain::base::iana::OptRcode;
use evenkeel_config::Plan;
use evenkeel_config::plan::{self, Mode};
use evenkeel_net::counter::Counter;
use evenkeel_runtime::Generation;
use evenkeel_runtime::View;
use evenkeel_runtime::ledger::{Members, PlaneCounts, PoolCounts, Tally};
use evenkeel_runtime::membership::Endpoints;
use evenkeel_view::served::{Answered, Record, Zone};
use evenkeel_view::timeline::{Counts, RouteCounts, Timeline};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;
use tokio::sync::watch;

/// Counters of a plan: by name, then by worker.
#[derive(Debug, Default)]
pub struct Numbers {
    listeners: BTreeMap<Arc<str>, Vec<Arc<ListenerStats>>>,
    pools: BTreeMap<Arc<str>, Vec<Arc<PoolStats>>>,
    /// Names of zones by listener.
    zone_names: HashMap<Arc<str>, Arc<str>>,
    /// Counters per endpoint, by pool.
    tallies: HashMap<Arc<str>, Tally<EndpointStats>>,
}

impl Numbers {
    /// Counters of a plan for `workers` workers. Listeners, pools and endpoints that keep their names keep
    /// their counters.
    pub fn next(generation: &Generation, workers: usize, before: &Numbers) -> Numbers {
        let mut numbers = Numbers::default();
        for listener in generation.plan.listeners.iter().filter(|l| l.mode == Mode::Dns) {
            numbers.listeners.insert(listener.name.clone(), stays(&before.listeners, &listener.name, workers));
            let zone = listener.zone.iter().map(|zone| (listener.name.clone(), zone.name.to_string().into()));
            numbers.zone_names.extend(zone);
            for record in listener.zone.iter().flat_map(|zone| &zone.records) {
                numbers.pools.insert(record.pool.clone(), stays(&before.pools, &record.pool, workers));
                let (pool, endpoints) = generation.pool(&record.pool).expect("a record's pool is in its plan");
                let tally = match before.tallies.get(&pool.name) {
                    Some(before) => before.next(endpoints),
                    None => Tally::first(endpoints, workers),
                };
                numbers.tallies.insert(pool.name.clone(), tally);
            }
        }
        numbers
    }

    /// Zones of the plan, with counts of queries and responses.
    fn zones(&self, plan: &Plan, timeline: &Timeline) -> Vec<Zone> {
        let one = |listener: &Arc<plan::Listener>| {
            let zone = listener.zone.as_ref()?;
            let workers = || self.listeners.get(&listener.name).into_iter().flatten();
            let passed = timeline.passed(&listener.name, &zone.name.to_string().into());
            let answered = |(at, (_, code)): (usize, &(_, &str))| {
                let responses = workers().map(|worker| worker.responses[at].get()).sum();
                Answered { code: (*code).to_owned(), responses }
            };
            let record =
                |record: &plan::Record| Record { name: record.name.to_string(), pool: record.pool.to_string() };
            Some(Zone {
                listener: listener.name.to_string(),
                name: zone.name.to_string(),
                queries: workers().flat_map(|worker| &worker.queries).map(Counter::get).sum(),
                rate: passed.per_second(passed.late.counts.requests),
                error_rate: passed.per_second(passed.late.counts.errors),
                responses: CODES.iter().enumerate().map(answered).filter(|of| of.responses > 0).collect(),
                records: zone.records.iter().map(record).collect(),
            })
        };
        plan.listeners.iter().filter_map(one).collect()
    }

    /// Counters of a listener of the plan on a worker.
    pub(crate) fn listener(&self, name: &str, worker: usize) -> Arc<ListenerStats> {
        self.listeners[name][worker].clone()
    }

    /// True if a zone of the plan names the pool.
    pub(crate) fn has(&self, pool: &str) -> bool {
        self.tallies.contains_key(pool)
    }

    /// Endpoints of a pool of the plan, with their counters.
    pub(crate) fn members(&self, pool: &str) -> Arc<Members<EndpointStats>> {
        self.tallies[pool].members()
    }

    /// Replaces the endpoints of a pool of the plan.
    pub(crate) fn change(&self, pool: &str, members: Arc<Members<EndpointStats>>) {
        self.tallies[pool].change(members);
    }

    /// Counters of a pool of the plan on a worker.
    pub(crate) fn pool(&self, name: &str, worker: usize) -> Arc<PoolStats> {
        self.pools[name][worker].clone()
    }
}

/// The plane as operators see it: counters of the workers under the current plan.
pub struct Counted(pub watch::Receiver<Arc<Numbers>>);

impl PlaneCounts for Counted {
    fn pool(&self, name: &str, endpoints: &Endpoints) -> Option<Arc<dyn PoolCounts>> {
        let numbers = self.0.borrow();
        Some(numbers.tallies.get(name)?.over(endpoints))
    }

    fn listeners(&self) -> Counts {
        let mut sum = Counts::default();
        self.0.borrow().listeners.values().flatten().for_each(|worker| sum.add(queries(worker)));
        sum
    }

    fn routes(&self) -> HashMap<(Arc<str>, Arc<str>), RouteCounts> {
        let numbers = self.0.borrow();
        let of = |(listener, workers): (&Arc<str>, &Vec<Arc<ListenerStats>>)| {
            let zone = numbers.zone_names.get(listener)?.clone();
            let mut counts = Counts::default();
            workers.iter().for_each(|worker| counts.add(queries(worker)));
            (counts.requests > 0).then(|| ((listener.clone(), zone), RouteCounts { counts, ..RouteCounts::default() }))
        };
        numbers.listeners.iter().filter_map(of).collect()
    }
}

impl View for Counted {
    fn shown_zones(&self, plan: &Plan, timeline: &Timeline) -> Vec<Zone> {
        self.0.borrow().clone().zones(plan, timeline)
    }
}

/// Queries of a listener on a worker, and queries answered with SERVFAIL.
fn queries(worker: &ListenerStats) -> Counts {
    let requests = worker.queries.iter().map(Counter::get).sum();
    let failed = CODES.iter().zip(&worker.responses).filter(|((code, _), _)| *code == OptRcode::SERVFAIL);
    Counts { requests, errors: failed.map(|(_, responses)| responses.get()).sum(), unreached: 0 }
}

fn stays<T: Default>(before: &BTreeMap<Arc<str>, Vec<Arc<T>>>, name: &Arc<str>, workers: usize) -> Vec<Arc<T>> {
    before.get(name).cloned().unwrap_or_else(|| (0..workers).map(|_| Arc::default()).collect())
}

/// Metrics of the DNS plane, to be registered without a prefix.
#[derive(Debug)]
pub struct Metrics(watch::Receiver<Arc<Numbers>>);

impl Metrics {
    /// Metrics of the plan that is current at each scrape.
    pub fn new(numbers: watch::Receiver<Arc<Numbers>>) -> Metrics {
        Metrics(numbers)
    }
}

/// A counter of `S`, with the values of its labels other than the name of the listener or pool.
type Row<S> = (&'static [(&'static str, &'static str)], fn(&S) -> &Counter);

/// Counters of a listener that have no label but its name: name, help, and accessor.
const OF_LISTENER: &[(&str, &str, &[Row<ListenerStats>])] = &[
    ("evenkeel_dns_tcp_queries", "DNS queries received over TCP", &[(&[], |s| &s.over_tcp)]),
    (
        "evenkeel_dns_truncated",
        "DNS responses truncated because they did not fit in a datagram",
        &[(&[], |s| &s.truncated)],
    ),
    (
        "evenkeel_dns_rate_limited",
        "DNS responses over the rate limit of the client network; \"short\": sent truncated, so that the client retries over TCP",
        &[(&[("how", "dropped")], |s| &s.limited[0]), (&[("how", "short")], |s| &s.limited[1])],
    ),
    ("evenkeel_dns_dropped", "Messages ignored because they are not DNS queries", &[(&[], |s| &s.dropped)]),
    ("evenkeel_dns_unsent", "DNS responses that the kernel rejected", &[(&[], |s| &s.unsent)]),
    ("evenkeel_dns_connections", "TCP connections of DNS clients", &[(&[], |s| &s.connections)]),
    (
        "evenkeel_dns_connections_refused",
        "TCP connections of DNS clients closed immediately because there were too many",
        &[(&[], |s| &s.refused_connections)],
    ),
];

/// Counters of a pool: name, help, and accessor.
const OF_POOL: &[(&str, &str, &[Row<PoolStats>])] = &[
    ("evenkeel_dns_answers", "DNS answers that name endpoints of the pool", &[(&[], |s| &s.answers)]),
    (
        "evenkeel_dns_failed_open",
        "DNS answers in panic mode, when too few endpoints of the pool are healthy",
        &[(&[], |s| &s.failed_open)],
    ),
];

impl Collector for Metrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let numbers = self.0.borrow().clone();
        let listeners = &numbers.listeners;
        let labels = TYPES.iter().map(|(_, label)| *label).chain(["other"]);
        by_label(&mut encoder, ("evenkeel_dns_queries", "DNS queries by type"), "type", labels, listeners, |s| {
            &s.queries
        })?;
        let labels = CODES.iter().map(|(_, label)| *label);
        let family = ("evenkeel_dns_responses", "DNS responses by code");
        by_label(&mut encoder, family, "code", labels, listeners, |s| &s.responses)?;
        OF_LISTENER.iter().try_for_each(|family| one(&mut encoder, *family, "listener", listeners))?;
        OF_POOL.iter().try_for_each(|family| one(&mut encoder, *family, "pool", &numbers.pools))
    }
}

fn by_label(
    encoder: &mut DescriptorEncoder<'_>,
    (name, help): (&str, &str),
    label: &'static str,
    values: impl Iterator<Item = &'static str> + Clone,
    listeners: &BTreeMap<Arc<str>, Vec<Arc<ListenerStats>>>,
    counters: fn(&ListenerStats) -> &[Counter],
) -> fmt::Result {
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
    for (listener, workers) in listeners {
        for (index, value) in values.clone().enumerate() {
            let n: u64 = workers.iter().map(|stats| counters(stats)[index].get()).sum();
            ConstCounter::new(n).encode(family.encode_family(&[("listener", &**listener), (label, value)])?)?;
        }
    }
    Ok(())
}

fn one<S>(
    encoder: &mut DescriptorEncoder<'_>,
    (name, help, rows): (&str, &str, &[Row<S>]),
    of: &'static str,
    all: &BTreeMap<Arc<str>, Vec<Arc<S>>>,
) -> fmt::Result {
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
    for (whose, workers) in all {
        for (labels, counter) in rows {
            let labels: Vec<_> = [(of, &**whose)].into_iter().chain(labels.iter().copied()).collect();
            let n: u64 = workers.iter().map(|stats| counter(stats).get()).sum();
            ConstCounter::new(n).encode(family.encode_family(&labels)?)?;
        }
    }
    Ok(())
}
