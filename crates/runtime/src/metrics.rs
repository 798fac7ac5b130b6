//! Metrics of the state that planes share: generation, and states, weights, checks, ejections and panic of pools.
//! Collected at each scrape.

use crate::control::Control;
use crate::generation::Generation;
use crate::history::Counts;
use crate::snapshot::{EndpointSnapshot, PoolSnapshot};
use evenkeel_balance::state::State;
use evenkeel_config::plan::Mode;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use std::fmt;
use std::sync::Arc;
use tokio::sync::watch;

/// Metrics of a runtime, to be registered without a prefix.
#[derive(Debug)]
pub struct Metrics {
    running: watch::Receiver<Arc<Generation>>,
    control: Control,
}

/// Group of endpoints with the same labels: a single endpoint, or all of a pool if metrics are per pool.
struct Row<'s> {
    labels: Labels<'s>,
    endpoints: &'s [EndpointSnapshot],
}

type Labels<'s> = Vec<(&'static str, &'s str)>;

impl Metrics {
    /// Creates metrics of the generation that runs at each scrape, and of the pools of `control`.
    pub fn new(running: watch::Receiver<Arc<Generation>>, control: Control) -> Metrics {
        Metrics { running, control }
    }
}

impl Collector for Metrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let encoder = &mut encoder;
        let running = self.running.borrow().clone();
        let pools = self.control.snapshot(&running);
        let modes = running.plan.modes();
        let queues = |p: &usize| modes[*p].is_empty() || modes[*p].iter().any(|m| matches!(m, Mode::Http | Mode::Tcp));
        let with_queue: Vec<&PoolSnapshot> = (0..pools.len()).filter(queues).map(|p| &pools[p]).collect();
        let help = "Requests waiting in the queue for an endpoint";
        by_pool(encoder, ("evenkeel_queue_depth", help), with_queue.into_iter(), |pool| u64::from(pool.waiting))?;
        let help = "1 while so few endpoints are healthy that panic.mode applies";
        by_pool(encoder, ("evenkeel_pool_panic", help), pools.iter(), |pool| u64::from(pool.in_panic))?;
        let metrics = &running.plan.telemetry.metrics;
        let rows = rows(&pools, metrics.per_endpoint);
        states(encoder, &rows, metrics.unused)?;
        weights(encoder, &rows)?;
        let rows = rows.into_iter().filter(|row| metrics.unused || row.has_counted()).collect::<Vec<_>>();
        checks(encoder, &rows)?;
        let help = "State changes of endpoints, with the states of evenkeel_endpoint_state";
        counter(encoder, ("evenkeel_endpoint_transitions", help), &rows, |counts| counts.changes)?;
        let help = "Ejections of endpoints by outlier detection, by cause";
        counter(encoder, ("evenkeel_outlier_ejections", help), &rows, |counts| counts.ejections)?;
        splits(encoder, &running)?;
        let help = "Number of the active configuration, counted from the start";
        let family = encoder.encode_descriptor("evenkeel_config_generation", help, None, MetricType::Gauge)?;
        ConstGauge::new(running.number).encode(family)?;
        let help = "Earlier configurations still in use by running requests";
        let family = encoder.encode_descriptor("evenkeel_generations_draining", help, None, MetricType::Gauge)?;
        ConstGauge::new(running.draining()).encode(family)
    }
}

fn rows(pools: &[PoolSnapshot], per_endpoint: bool) -> Vec<Row<'_>> {
    let mut rows = Vec::new();
    for pool in pools {
        if per_endpoint {
            rows.extend(pool.endpoints.iter().map(|endpoint| Row {
                labels: vec![("pool", &*pool.name), ("endpoint", &*endpoint.name)],
                endpoints: std::slice::from_ref(endpoint),
            }));
        } else {
            rows.push(Row { labels: vec![("pool", &*pool.name)], endpoints: &pool.endpoints });
        }
    }
    rows
}

impl Row<'_> {
    fn with(&self, label: &'static str, value: &'static str) -> Labels<'_> {
        [&self.labels[..], &[(label, value)]].concat()
    }

    /// True if an endpoint was checked, ejected, or changed its state.
    fn has_counted(&self) -> bool {
        self.sum(|counts| counts.passed + counts.failed + counts.changes + counts.ejections) > 0
    }

    fn sum(&self, of: impl Fn(&Counts) -> u64) -> u64 {
        self.endpoints.iter().map(|endpoint| of(&endpoint.counts)).sum()
    }
}

/// States of endpoints. Of an endpoint whose state has not changed yet, `up` and its state, unless unused series are shown.
fn states(encoder: &mut DescriptorEncoder<'_>, rows: &[Row<'_>], unused: bool) -> fmt::Result {
    let help = "State of an endpoint: 1 for the current state, 0 for the others";
    let mut family = encoder.encode_descriptor("evenkeel_endpoint_state", help, None, MetricType::Gauge)?;
    for row in rows {
        let all = unused || row.sum(|counts| counts.changes) > 0;
        for name in State::NAMES {
            let is = |endpoint: &&EndpointSnapshot| endpoint.state.is_some_and(|state| state.name() == name);
            let n = row.endpoints.iter().filter(is).count() as u64;
            if n == 0 && name != State::Up.name() && !all {
                continue;
            }
            ConstGauge::new(n).encode(family.encode_family(&row.with("state", name))?)?;
        }
    }
    Ok(())
}

fn weights(encoder: &mut DescriptorEncoder<'_>, rows: &[Row<'_>]) -> fmt::Result {
    let help = "Weight of an endpoint: configured, and currently effective; 0 while the endpoint gets no requests";
    let mut family = encoder.encode_descriptor("evenkeel_endpoint_weight", help, None, MetricType::Gauge)?;
    for row in rows {
        let configured: f64 = row.endpoints.iter().map(|endpoint| f64::from(endpoint.weight_configured)).sum();
        let effective: f64 = row.endpoints.iter().map(|endpoint| endpoint.weight).sum();
        for (kind, sum) in [("configured", configured), ("effective", effective)] {
            ConstGauge::new(sum).encode(family.encode_family(&row.with("kind", kind))?)?;
        }
    }
    Ok(())
}

fn splits(encoder: &mut DescriptorEncoder<'_>, running: &Generation) -> fmt::Result {
    let help = "Weight of a pool in the split of a route: configured, and effective now; 0 while all endpoints of the pool are \
                drained and others serve";
    let mut family = encoder.encode_descriptor("evenkeel_split_weight", help, None, MetricType::Gauge)?;
    for split in running.splits.all() {
        for pool in &split.pools {
            for (kind, weight) in
                [("configured", pool.configured), ("effective", if pool.drained { 0 } else { pool.weight })]
            {
                let labels = [("route", &*split.route), ("pool", &*pool.pool), ("kind", kind)];
                ConstGauge::new(u64::from(weight)).encode(family.encode_family(&labels)?)?;
            }
        }
    }
    Ok(())
}

fn checks(encoder: &mut DescriptorEncoder<'_>, rows: &[Row<'_>]) -> fmt::Result {
    let help = "Health checks by result";
    let mut family = encoder.encode_descriptor("evenkeel_health_checks", help, None, MetricType::Counter)?;
    for row in rows {
        for (result, n) in [("passed", row.sum(|counts| counts.passed)), ("failed", row.sum(|counts| counts.failed))] {
            ConstCounter::new(n).encode(family.encode_family(&row.with("result", result))?)?;
        }
    }
    let (name, help) = ("evenkeel_health_check_duration_seconds", "Duration of health checks");
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Histogram)?;
    for row in rows {
        let n = row.sum(|counts| counts.passed + counts.failed);
        let sum = row.endpoints.iter().map(|endpoint| endpoint.counts.checking.as_secs_f64()).sum();
        family.encode_family(&row.labels)?.encode_histogram::<NoLabelSet>(sum, n, &[(f64::INFINITY, n)], None)?;
    }
    Ok(())
}

fn counter(
    encoder: &mut DescriptorEncoder<'_>,
    (name, help): (&str, &str),
    rows: &[Row<'_>],
    of: fn(&Counts) -> u64,
) -> fmt::Result {
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
    for row in rows {
        ConstCounter::new(row.sum(of)).encode(family.encode_family(&row.labels)?)?;
    }
    Ok(())
}

fn by_pool<'s>(
    encoder: &mut DescriptorEncoder<'_>,
    (name, help): (&str, &str),
    pools: impl Iterator<Item = &'s PoolSnapshot>,
    value: fn(&PoolSnapshot) -> u64,
) -> fmt::Result {
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    for pool in pools {
        ConstGauge::new(value(pool)).encode(family.encode_family(&[("pool", &*pool.name)])?)?;
    }
    Ok(())
}
