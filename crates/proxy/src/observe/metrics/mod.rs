//! Prometheus metrics: sums over all workers, computed at each scrape; the workers only count.
//!
//! With `unused`, every series exists from the start, at zero, so that a rate over its first event is correct. Without, the series
//! of a pool, an endpoint or a route all begin with its first event ([`used`]). The exception is requests by method and status:
//! they start with `GET` and `200` (`404` for requests without a route), and others appear once they occur. Listeners and pools
//! have no series for events that their mode cannot have.

mod compression;
mod endpoints;
mod listeners;
mod modes;
mod pools;
mod reports;
#[cfg(test)]
mod tests;
mod udp;
mod used;

use crate::encoder_memory::EncoderMemory;
use crate::observe::numbers::{Members, Numbers};
use crate::observe::stats::{CLASSES, Counter, EndpointStats, Histogram, WorkerStats};
use crate::observe::taps;
use evenkeel_config::Plan;
use evenkeel_config::plan::Mode;
use evenkeel_net::accept_pause;
use modes::Speaks;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use tokio::sync::watch;

/// Labels of the classes of a status, in the order of the counters.
const CLASS_LABELS: [&str; CLASSES] = ["1xx", "2xx", "3xx", "4xx", "5xx", "none"];

/// The metrics of a running proxy, to be registered without a prefix.
#[derive(Debug)]
pub struct Metrics {
    running: watch::Receiver<Arc<Numbers>>,
}

/// Inputs of a scrape: the running plan and its statistics.
struct Shown<'g> {
    plan: &'g Plan,
    /// Modes of the listeners that lead to each pool.
    modes: Vec<Vec<Mode>>,
    workers: &'g [Arc<WorkerStats>],
    encoder_memory: &'g EncoderMemory,
    /// The endpoints of each pool.
    members: Vec<Arc<Members>>,
    /// True for each pool that the metrics show, by index.
    used: Vec<bool>,
}

type Labels<'a> = Vec<(&'static str, &'a str)>;

/// Name, help, and accessor of the value in the statistics `S`.
type Family<S, N> = (&'static str, &'static str, fn(&S) -> &N);

/// Endpoints of a pool that share a series: index of the pool, labels, indices of the endpoints.
type Row<'a> = (usize, Labels<'a>, Range<usize>);

impl Metrics {
    /// Creates metrics of whichever plan runs at the time of a scrape.
    pub fn new(running: watch::Receiver<Arc<Numbers>>) -> Metrics {
        Metrics { running }
    }
}

impl Shown<'_> {
    /// Sums a counter over the workers. Wrapping, as a gauge may be incremented and decremented by different workers.
    fn sum<'w>(&'w self, counter: impl Fn(&'w WorkerStats) -> &'w Counter) -> u64 {
        self.workers.iter().fold(0, |sum, worker| sum.wrapping_add(counter(worker).get()))
    }

    /// Sums a counter of an endpoint over the workers; wrapping, like [`sum`](Self::sum).
    fn sum_of(&self, pool: usize, endpoint: usize, counter: impl Fn(&EndpointStats) -> &Counter) -> u64 {
        self.members[pool].stats(endpoint).fold(0, |sum, stats| sum.wrapping_add(counter(stats).get()))
    }

    /// Writes the sum of the workers' histograms.
    fn histogram<'h>(
        &self,
        family: &mut MetricEncoder<'_>,
        labels: &Labels<'_>,
        of_workers: impl Iterator<Item = &'h Histogram> + Clone,
    ) -> fmt::Result {
        let bounds = self.plan.telemetry.metrics.buckets.iter().copied().chain([f64::INFINITY]);
        let added = |counter: fn(&Histogram, usize) -> &Counter, i| {
            of_workers.clone().fold(0, |sum: u64, histogram| sum.wrapping_add(counter(histogram, i).get()))
        };
        let counts: Vec<(f64, u64)> =
            bounds.enumerate().map(|(i, bound)| (bound, added(|h, i| &h.buckets[i], i))).collect();
        // The count is the sum of the buckets read above: a scrape is consistent although workers keep counting.
        let count = counts.iter().map(|(_, n)| n).sum();
        let sum = added(|h, _| &h.sum_ns, 0) as f64 / 1e9;
        family.encode_family(labels)?.encode_histogram::<NoLabelSet>(sum, count, &counts, None)
    }

    /// Rows of the matching pools: a row per endpoint, or per pool if `per_endpoint` is off.
    fn rows(&self, speaks: Speaks) -> Vec<Row<'_>> {
        let mut rows = Vec::new();
        for (p, pool) in self.pools_of(speaks) {
            let endpoints = &self.members[p].endpoints;
            if self.plan.telemetry.metrics.per_endpoint {
                let shown = |(e, _): &(usize, _)| self.shows_endpoint(p, *e);
                rows.extend(
                    endpoints
                        .iter()
                        .enumerate()
                        .filter(shown)
                        .map(|(e, it)| (p, vec![("pool", &*pool.name), ("endpoint", &*it.name)], e..e + 1)),
                );
            } else {
                rows.push((p, vec![("pool", &*pool.name)], 0..endpoints.len()));
            }
        }
        rows
    }

    /// Writes a value for each [row](Self::rows) and each value of `label`: the sum of the results of `value` for the
    /// pool, the endpoint and the label with these indices. Rows for which it returns `None` are omitted.
    fn by_endpoint<V: Into<Option<u64>>>(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        (name, help, kind): (&str, &str, MetricType),
        speaks: Speaks,
        (label, values): (&'static str, &[&'static str]),
        value: impl Fn(usize, usize, usize) -> V,
    ) -> fmt::Result {
        let mut family = encoder.encode_descriptor(name, help, None, kind)?;
        for (p, of, endpoints) in self.rows(speaks) {
            for (i, text) in values.iter().enumerate() {
                let mut labels = of.clone();
                // An empty name means no label.
                labels.extend((!label.is_empty()).then_some((label, *text)));
                let mut said = endpoints.clone().filter_map(|e| value(p, e, i).into()).peekable();
                if said.peek().is_none() && !endpoints.is_empty() {
                    continue;
                }
                let n = said.fold(0, u64::wrapping_add);
                let family = family.encode_family(&labels)?;
                match kind {
                    MetricType::Gauge => ConstGauge::new(n).encode(family)?,
                    _ => ConstCounter::new(n).encode(family)?,
                }
            }
        }
        Ok(())
    }
}

/// No label in addition to the pool and the endpoint.
const NO_LABEL: (&str, &[&str]) = ("", &[""]);

impl Collector for Metrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let running = self.running.borrow().clone();
        let members = running.all_members();
        let (plan, modes) = (running.plan(), running.plan().modes());
        let workers = &*running.workers;
        let shown = Shown { plan, modes, workers, encoder_memory: &running.encoder_memory, members, used: Vec::new() };
        let shown = Shown { used: shown.used_pools(), ..shown };
        shown.listeners(&mut encoder)?;
        shown.compression(&mut encoder)?;
        running.resources.collect(plan, &mut encoder)?;
        shown.sessions(&mut encoder)?;
        shown.connections(&mut encoder)?;
        shown.handshakes(&mut encoder)?;
        shown.udp(&mut encoder)?;
        shown.endpoints(&mut encoder)?;
        shown.pool_times(&mut encoder)?;
        shown.pools(&mut encoder)?;
        shown.reports(&mut encoder)?;
        let name = "evenkeel_access_log_lines_dropped";
        let help = "Access log lines dropped because the disk was full or too slow";
        let family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        let dropped: u64 = shown.workers.iter().map(|w| w.log_lines_dropped.load(Relaxed)).sum();
        ConstCounter::new(dropped).encode(family)?;
        let help = "Open taps";
        let family = encoder.encode_descriptor("evenkeel_taps_open", help, None, MetricType::Gauge)?;
        ConstGauge::new(taps::open()).encode(family)?;
        let help = "Requests that taps dropped because their readers were too slow";
        let family = encoder.encode_descriptor("evenkeel_tap_requests_dropped", help, None, MetricType::Counter)?;
        ConstCounter::new(taps::dropped()).encode(family)?;
        let name = "evenkeel_accept_pauses";
        let help = "Pauses in accepting connections because the process had no descriptor or no memory for another \
            connection";
        let family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        ConstCounter::new(accept_pause::count()).encode(family)
    }
}
