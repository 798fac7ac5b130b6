//! Table of the figures of a run; result tables, JSON, claims and published cells use its rows.

use crate::run::{Failure, Run, ServiceRun};

/// Figure of a run, with its unit and direction.
#[derive(Debug)]
pub struct Metric {
    pub name: &'static str,
    pub unit: Unit,
    /// True if lower is better, otherwise higher.
    pub less_is_better: bool,
    /// True if it is meaningless without a steady state.
    pub settled: bool,
    /// Computes the value from a run; times in seconds.
    pub of: fn(&Run) -> f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    Time,
    Rate,
    /// Plain number, without a unit.
    Number,
    /// Share, 0 to 1.
    Share,
}

macro_rules! metrics {
    ($($name:literal $unit:ident $less:literal $settled:literal $of:expr;)*) => {
        /// All metrics, in the order of their columns.
        pub static ALL: &[Metric] = &[$(Metric {
            name: $name, unit: Unit::$unit, less_is_better: $less, settled: $settled, of: $of,
        },)*];

        /// Names of all metrics, in the order of [`ALL`].
        pub const NAMES: &[&str] = &[$($name),*];

        /// Names of all metrics, and `share`, for a group of servers.
        pub const NAMES_AND_SHARE: &[&str] = &[$($name,)* "share"];
    };
}

// Name, unit, less_is_better, settled, value.
metrics! {
    "wall"       Time   true  false |r| r.wall_ns as f64 / 1e9;
    "mean"       Time   true  true  |r| r.mean_ns() / 1e9;
    "p50"        Time   true  true  |r| seconds(r, 0.5);
    "p90"        Time   true  true  |r| seconds(r, 0.9);
    "p95"        Time   true  true  |r| seconds(r, 0.95);
    "p99"        Time   true  true  |r| seconds(r, 0.99);
    "p999"       Time   true  true  |r| seconds(r, 0.999);
    "p9999"      Time   true  true  |r| seconds(r, 0.9999);
    "throughput" Rate   false false |r| r.throughput();
    "failed"     Share  true  false |r| failed(r, &[0, 1, 2, 3]);
    "refused"    Share  true  false |r| failed(r, &[Failure::Refused as usize]);
    "errors"     Share  true  false |r| failed(r, &[Failure::Failed as usize]);
    "timed_out"  Share  true  false |r| failed(r, &[Failure::TimedOut as usize]);
    "no_pick"    Share  true  false |r| failed(r, &[Failure::NoPick as usize]);
    "peak"       Number true  false |r| peaks(r).max().unwrap_or(0).into();
    "peak_mean"  Number true  false |r| peaks(r).map(f64::from).sum::<f64>() / peaks(r).count().max(1) as f64;
    "in_system"  Number true  false |r| r.in_system_max as f64;
    "jain"       Number false false |r| r.services.first().map_or(1.0, jain);
    "probes"     Number true  false |r| per_request(r, |s| s.probes);
    "retries"    Number true  false |r| per_request(r, |s| s.retries);
}

pub fn find(name: &str) -> Option<&'static Metric> {
    ALL.iter().find(|m| m.name == name)
}

/// Index of a metric in [`ALL`].
pub fn index(metric: &Metric) -> usize {
    NAMES.iter().position(|name| *name == metric.name).unwrap_or(0)
}

fn seconds(run: &Run, q: f64) -> f64 {
    run.quantile(q) as f64 / 1e9
}

/// Share of requests with failures of these kinds.
fn failed(run: &Run, kinds: &[usize]) -> f64 {
    let all = run.latency.len() + run.failed.iter().sum::<u64>();
    kinds.iter().map(|kind| run.failed[*kind]).sum::<u64>() as f64 / all.max(1) as f64
}

fn peaks(run: &Run) -> impl Iterator<Item = u32> {
    run.services.iter().flat_map(|s| &s.servers).map(|s| s.in_flight_max)
}

/// Fairness index of requests over capacity (Jain, Chiu and Hawe 1984): 1 if each server gets its due, 1 / n if a
/// single server gets all.
fn jain(service: &ServiceRun) -> f64 {
    let unlimited = service.servers.iter().any(|s| s.capacity <= 0.0);
    let due = |s: &crate::run::ServerRun| s.requests as f64 / if unlimited { 1.0 } else { s.capacity };
    let (sum, squares) = service.servers.iter().map(due).fold((0.0, 0.0), |(a, b), x| (a + x, b + x * x));
    if squares > 0.0 { sum * sum / (service.servers.len() as f64 * squares) } else { 1.0 }
}

fn per_request(run: &Run, count: fn(&ServiceRun) -> u64) -> f64 {
    let all: u64 = run.services.iter().map(count).sum();
    all as f64 / run.services.first().map_or(1, |s| s.requests).max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::ServerRun;

    #[test]
    fn fairness_goes_by_capacity() {
        let server = |requests, capacity| ServerRun { requests, capacity, ..ServerRun::default() };
        let service = |servers| ServiceRun {
            name: String::new(),
            servers,
            requests: 0,
            probes: 0,
            retries: 0,
            series: crate::run::Series::default(),
        };
        assert!((jain(&service(vec![server(30, 3.0), server(10, 1.0)])) - 1.0).abs() < 1e-12);
        assert!((jain(&service(vec![server(40, 0.0), server(0, 0.0)])) - 0.5).abs() < 1e-12);
    }
}
