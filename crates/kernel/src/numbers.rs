//! Counts of endpoints and drivers: the kernel's readings, converted, and their metrics.

use crate::blueprint::Blueprint;
use crate::driver::Reading;
use evenkeel_config::plan::Plane;
use evenkeel_net::counter::Counter;
use evenkeel_runtime::Generation;
use evenkeel_runtime::ledger::{EndpointCounts, Members, Tally};
use evenkeel_runtime::membership::Endpoints;
use evenkeel_view::timeline::Counts;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::watch;

/// Counts of an endpoint, as the kernel reported them last.
#[derive(Debug, Default)]
pub struct EndpointStats {
    active: AtomicU64,
    started: AtomicU64,
    failed: AtomicU64,
}

impl EndpointStats {
    // Relaxed everywhere: each number is read on its own.
    pub fn set(&self, reading: &Reading) {
        self.active.store(reading.active.into(), Relaxed);
        self.started.store(reading.started, Relaxed);
        self.failed.store(reading.failed, Relaxed);
    }

    /// Open flows at the latest reading.
    pub fn active(&self) -> u64 {
        self.active.load(Relaxed)
    }
}

impl EndpointCounts for EndpointStats {
    fn counts(&self) -> Counts {
        Counts { requests: self.started.load(Relaxed), errors: self.failed.load(Relaxed), unreached: 0 }
    }

    fn in_flight(&self) -> u64 {
        self.active()
    }
}

/// Outcomes of a driver's changes and readings.
#[derive(Debug, Default)]
pub struct DriverStats {
    /// Changes that the kernel has accepted.
    pub applied: Counter,
    /// Changes that the kernel has refused, and readings that failed.
    pub failed: Counter,
    /// 1 while the kernel matches the pools, else 0.
    pub in_sync: AtomicU64,
    /// Counts of unusual events, by reason.
    totals: Mutex<Vec<(&'static str, u64)>>,
}

impl DriverStats {
    /// Replaces the counts of unusual events.
    pub fn set_totals(&self, totals: Vec<(&'static str, u64)>) {
        *self.totals.lock().unwrap_or_else(PoisonError::into_inner) = totals;
    }
}

/// Statistics under a plan, which later statistics continue.
#[derive(Debug, Default)]
pub struct Numbers {
    pub drivers: BTreeMap<Plane, Arc<DriverStats>>,
    /// Services: name of the listener, and pool.
    pub(crate) services: Vec<(Plane, Arc<str>, Arc<str>)>,
    pub(crate) tallies: HashMap<Arc<str>, Tally<EndpointStats>>,
}

impl Numbers {
    /// Counts for a generation without an earlier generation.
    pub fn first(generation: &Generation) -> Numbers {
        let services = Blueprint::all(&generation.plan);
        let services = services.iter().map(|it| (it.plane, it.name().clone(), it.pool.clone())).collect();
        Numbers::next(generation, services, &Numbers::default())
    }

    /// Counts for a generation. Names that stay keep their counts. `services`: plane, listener and pool of each.
    pub fn next(generation: &Generation, services: Vec<(Plane, Arc<str>, Arc<str>)>, before: &Numbers) -> Numbers {
        let mut numbers = Numbers::default();
        for (plane, _, name) in &services {
            numbers.drivers.entry(*plane).or_insert_with(|| before.drivers.get(plane).cloned().unwrap_or_default());
            let Some((pool, endpoints)) = generation.pool(name) else { continue };
            numbers.tallies.entry(pool.name.clone()).or_insert_with(|| match before.tallies.get(&pool.name) {
                Some(before) => before.next(endpoints),
                None => Tally::first(endpoints, 1),
            });
        }
        numbers.services = services;
        numbers
    }

    /// True if each mechanism matched its pools, once.
    pub fn has_applied(&self) -> bool {
        self.drivers.values().all(|driver| driver.applied.get() > 0)
    }

    /// True if the kernel forwards to the pool.
    pub fn has(&self, pool: &str) -> bool {
        self.tallies.contains_key(pool)
    }

    /// Endpoints of each pool that the kernel forwards to.
    pub fn members(&self) -> impl Iterator<Item = (&Arc<str>, Arc<Members<EndpointStats>>)> {
        self.tallies.iter().map(|(name, tally)| (name, tally.members()))
    }

    /// Counts of a pool for other endpoints.
    pub fn members_for(&self, pool: &str, endpoints: &Endpoints) -> Option<Arc<Members<EndpointStats>>> {
        Some(Arc::new(self.tallies.get(pool)?.members().next(endpoints.clone())))
    }

    /// Replaces the endpoints of a pool.
    pub fn change(&self, pool: &str, members: Arc<Members<EndpointStats>>) {
        if let Some(tally) = self.tallies.get(pool) {
            tally.change(members);
        }
    }

    /// Open flows over all endpoints.
    pub fn active(&self) -> u64 {
        let of = |members: Arc<Members<EndpointStats>>| -> u64 {
            (0..members.endpoints.len()).flat_map(|e| members.stats(e)).map(EndpointStats::active).sum()
        };
        self.members().map(|(_, members)| of(members)).sum()
    }

    /// Open flows, and flows so far, of a listener that the kernel forwards for: the flows of its pool, as the kernel
    /// counts by endpoint.
    pub fn of_listener(&self, listener: &str) -> Option<(u64, u64)> {
        let (.., pool) = self.services.iter().find(|(_, name, _)| &**name == listener)?;
        let members = self.tallies.get(pool)?.members();
        let open = (0..members.endpoints.len()).flat_map(|e| members.stats(e)).map(EndpointStats::active).sum();
        Some((open, self.counts(pool).requests))
    }

    pub(crate) fn counts(&self, pool: &str) -> Counts {
        let mut sum = Counts::default();
        if let Some(tally) = self.tallies.get(pool) {
            let members = tally.members();
            (0..members.endpoints.len()).flat_map(|e| members.stats(e)).for_each(|stats| sum.add(stats.counts()));
        }
        sum
    }
}

/// Metrics of kernel planes.
#[derive(Debug)]
pub struct Metrics(pub watch::Receiver<Arc<Numbers>>);

impl Collector for Metrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let numbers = self.0.borrow().clone();
        if numbers.drivers.is_empty() {
            return Ok(());
        }
        let mut drivers = |name: &str, help: &str, of: fn(&DriverStats) -> &Counter| {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            for (plane, stats) in &numbers.drivers {
                let value = ConstCounter::new(of(stats).get());
                value.encode(family.encode_family(&[("plane", plane.name())])?)?;
            }
            Ok::<(), fmt::Error>(())
        };
        drivers("evenkeel_kernel_changes", "Changes of rules and maps that the kernel accepted", |stats| {
            &stats.applied
        })?;
        drivers("evenkeel_kernel_failures", "Changes that the kernel refused, and failed reads", |stats| {
            &stats.failed
        })?;
        let help = "1 while the kernel is in sync with the pools, else 0";
        let mut family = encoder.encode_descriptor("evenkeel_kernel_in_sync", help, None, MetricType::Gauge)?;
        for (plane, stats) in &numbers.drivers {
            let value = ConstGauge::new(stats.in_sync.load(Relaxed) as i64);
            value.encode(family.encode_family(&[("plane", plane.name())])?)?;
        }
        let help = "Packets and flows that the kernel could not forward as usual, by reason";
        let mut family = encoder.encode_descriptor("evenkeel_kernel_events", help, None, MetricType::Counter)?;
        for (plane, stats) in &numbers.drivers {
            let totals = stats.totals.lock().unwrap_or_else(PoisonError::into_inner).clone();
            for (reason, count) in totals {
                let labels = [("plane", plane.name()), ("reason", reason)];
                ConstCounter::new(count).encode(family.encode_family(&labels)?)?;
            }
        }
        let mut endpoints = |name: &str, help: &str, kind: MetricType, of: fn(&EndpointStats) -> u64| {
            let mut family = encoder.encode_descriptor(name, help, None, kind)?;
            for (pool, members) in numbers.members() {
                for (e, endpoint) in members.endpoints.iter().enumerate() {
                    let value: u64 = members.stats(e).map(of).sum();
                    let labels = [("pool", &**pool), ("endpoint", &*endpoint.name)];
                    let at = family.encode_family(&labels)?;
                    match kind {
                        MetricType::Gauge => ConstGauge::new(value as i64).encode(at)?,
                        _ => ConstCounter::new(value).encode(at)?,
                    }
                }
            }
            Ok::<(), fmt::Error>(())
        };
        endpoints(
            "evenkeel_kernel_connections_open",
            "Open flows that the kernel forwards",
            MetricType::Gauge,
            EndpointStats::active,
        )?;
        let help = "Flows that the kernel directed to the endpoint";
        endpoints("evenkeel_kernel_connections", help, MetricType::Counter, |stats| stats.started.load(Relaxed))?;
        let help = "Flows that the endpoint refused or did not answer, as far as the kernel knows";
        endpoints("evenkeel_kernel_connections_failed", help, MetricType::Counter, |stats| stats.failed.load(Relaxed))
    }
}
