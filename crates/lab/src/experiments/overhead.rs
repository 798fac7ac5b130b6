//! Overhead experiment, the latency that a balancer adds: compared with the same requests without it, at 10, 50 and 90
//! % of the endpoint's capacity.

use crate::balancers::{self, Algorithm, Balancer, OTHER, Running, Setup};
use crate::child;
use crate::error::{Error, Result};
use crate::experiment::Experiment;
use crate::http;
use crate::load::generator::Plan;
use crate::machine::Cores;
use crate::origin;
use crate::scratch::Scratch;
use crate::stats::{Interval, Spread};
use crate::study::comparison::{Case, Comparison};
use crate::study::figures::{Timed, raw, row};
use crate::study::prediction::{SEEDS, time, with};
use crate::study::topology::{column, even, node};
use crate::study::{self, Claim, Finding, Found, Meter, Options, Plot, Prediction, Rounds, Versions};
use crate::worker;
use clap::{Args, FromArgMatches};
use evenkeel_draw::intervals::Row;
use serde_json::json;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

pub static EXPERIMENT: Experiment = Experiment {
    name: "overhead",
    summary: "Latency that a balancer adds at 10, 50 and 90 % of what the endpoint can take, beside none at all",
    docs: "One endpoint works 200 us on each request, first come first served, on a core of its own. How many requests a second it can \
take is measured first, with clients that always have one more. Requests come at moments drawn beforehand (Poisson), whatever becomes of the ones before, and latency counts from the moment \
meant. The moments are the same without a balancer and with each, so what differs is the balancer; each round is measured through \
all, in turns. Client and balancer share the other cores.

At 90 % most of the latency is the queue at the endpoint. A balancer that smooths arrivals makes it shorter, so what it adds can be \
negative there.

The simulator predicts the figures without a balancer, from two figures that are measured first: what the endpoint can take, and \
how long a request takes that meets no other. It has no balancer's hop.",
    args: |command| Options::with_envoy(Options::augment_args(command)),
    run: |matches| Options::from_arg_matches(matches).map_err(|e| Error::Wrong(e.to_string())).and_then(|o| run(&o)),
};

/// Work of a request, in microseconds.
const WORK_US: u32 = 200;
/// Loads as shares of the endpoint's capacity.
const LOADS: [f64; 3] = [0.1, 0.5, 0.9];
const WARM_UP: f64 = 0.5;
const PATIENCE: Duration = Duration::from_secs(60);
/// Name of the way without a balancer.
const DIRECT: &str = "direct";
/// Scenario of the endpoint without a balancer.
const SCENARIO: &str = include_str!("../../scenarios/overhead.toml");
/// Load at which requests meet no other, as a share of the endpoint's capacity.
const ALONE: f64 = 0.05;

const LIKE_THE_BEST: [Claim; 3] = [
    Claim::ours("At 10 % the median through evenkeel is at most that through the best of the others"),
    Claim::ours("At 50 % the median through evenkeel is at most that through the best of the others"),
    Claim::ours("At 90 % the median through evenkeel is at most that through the best of the others"),
];
const TAIL: [Claim; 3] = [
    Claim::ours("At 10 % so is the 99th percentile"),
    Claim::ours("At 50 % so is the 99th percentile"),
    Claim::ours("At 90 % so is the 99th percentile"),
];

/// Explanation of a deviation.
const WHY: &str = "The simulator's core has nothing else to do: no other program, no interrupt and no host takes it away for a moment, which \
a queue near its limit feels most, and it does not fall asleep between requests.";

fn run(options: &Options) -> Result<()> {
    let (found, versions) = balancers::find(options, &["haproxy", OTHER, "nginx", "envoy"])?;
    let cores = Cores::divide()?;
    let folder = Scratch::new()?;
    let [endpoint_port, port] = origin::free_ports()?;
    let bind = http::local(endpoint_port);
    let arguments = worker::Arguments { bind, places: 1, spin: true, below_ms: None };
    let endpoint = arguments.start(child::on_core(cores.proxy)?, folder.path())?;
    let capacity = capacity(bind, folder.path())?;
    let prediction = predict(&found[0], options, capacity, alone(bind, capacity, folder.path())?)?;
    let ways: Vec<Option<&Balancer>> = std::iter::once(None).chain(found.iter().map(Some)).collect();
    let name = |way: &Option<&Balancer>| way.map_or(DIRECT, |balancer| balancer.name);
    let names: Vec<String> = LOADS
        .iter()
        .flat_map(|load| ways.iter().map(move |way| format!("{} at {:.0} %", name(way), load * 100.0)))
        .collect();
    let rounds = Rounds::run(&names, options.rounds(), |at, _| {
        let (load, way) = (LOADS[at / ways.len()], ways[at % ways.len()]);
        let setup = Setup::of_algorithm(Algorithm::Random, &[bind], http::local(port));
        let running = way.map(|balancer| balancer.start(Vec::new(), setup)).transpose()?;
        let target = if running.is_some() { http::local(port) } else { bind };
        let plan = Plan::open(vec![format!("{target}/{WORK_US}")], load * capacity, options.seconds() as f64, WARM_UP);
        let groups = vec![
            ("balancer", running.as_ref().map(Running::pids).unwrap_or_default()),
            ("endpoint", vec![endpoint.pid()]),
            ("lab", vec![std::process::id()]),
        ];
        let meter = Meter::start(groups)?;
        let load = plan.start(Vec::new(), &folder.path().join("load"))?.end(PATIENCE)?;
        Timed::new(load, meter.used()?, WARM_UP)
    })?;
    let ways: Vec<&str> = ways.iter().map(name).collect();
    let measured = Measured { ways: &ways, rounds: &rounds, capacity };
    study::present_beside(&measured.found(versions), &measured.beside(&prediction), options)
}

/// Measures the endpoint's capacity in requests per second.
fn capacity(endpoint: SocketAddr, folder: &Path) -> Result<f64> {
    // More clients than needed to keep it busy: a single request is served, the others wait.
    let plan = Plan::closed(vec![format!("{endpoint}/{WORK_US}")], 8, 1000);
    Ok(plan.start(Vec::new(), &folder.join("load"))?.end(PATIENCE)?.rate)
}

/// Measures the latency in seconds of a request that meets no other: median of three runs.
fn alone(endpoint: SocketAddr, capacity: f64, folder: &Path) -> Result<f64> {
    let plan = Plan::open(vec![format!("{endpoint}/{WORK_US}")], ALONE * capacity, 1.0, WARM_UP);
    let once = |_| Ok(plan.start(Vec::new(), &folder.join("load"))?.end(PATIENCE)?.quantile(0.5) / 1e3);
    let runs = (0..3).map(once).collect::<Result<Vec<f64>>>()?;
    Ok(Spread::of(&runs).map_or(0.0, |of| of.median))
}

/// Simulates the endpoint. The latency beyond the work is attributed to the link, half each way.
fn predict(evenkeel: &Balancer, options: &Options, capacity: f64, alone: f64) -> Result<Prediction> {
    let work = 1.0 / capacity;
    let scenario = with(SCENARIO, "service.endpoint", "work", &time(work));
    let scenario = with(&scenario, "", "link", &time((alone - work) / 2.0));
    // As many requests as a run at the middle load.
    let requests = LOADS[1] * capacity * (options.seconds() as f64 + WARM_UP);
    Prediction::of(evenkeel.program(), &scenario, requests as u64, SEEDS)
}

/// Measurements of all rounds.
struct Measured<'m> {
    ways: &'m [&'static str],
    rounds: &'m Rounds<Timed>,
    /// Capacity in requests per second.
    capacity: f64,
}

impl Measured<'_> {
    /// Latency quantile in milliseconds, by round.
    fn runs(&self, load: usize, way: usize, share: f64) -> Vec<f64> {
        self.rounds.figures(load * self.ways.len() + way, |run| run.load.quantile(share))
    }

    /// Latency added by a balancer, in microseconds, by round.
    fn added(&self, load: usize, way: usize, share: f64) -> Vec<f64> {
        let (with, without) = (self.runs(load, way, share), self.runs(load, 0, share));
        with.iter().zip(without).map(|(with, without)| (with - without) * 1e3).collect()
    }

    /// Compares the prediction with the measurements without a balancer.
    fn beside(&self, prediction: &Prediction) -> Comparison {
        let case = |(load, part): (usize, &f64)| {
            let name = format!("{:.0} %", part * 100.0);
            let case = Case { group: DIRECT, name: &name, simulated: (&name, "random"), colour: load, why: WHY };
            case.latencies(prediction, |share| self.runs(load, 0, share))
        };
        LOADS.iter().enumerate().flat_map(case).collect()
    }

    fn finding(&self, claim: Claim, load: usize, share: f64) -> Finding {
        let ours = self.ways.iter().position(|name| *name == "evenkeel").unwrap_or(0);
        let rivals = (1..self.ways.len()).filter(|way| *way != ours);
        let median = |way: usize| Spread::of(&self.runs(load, way, share)).map_or(f64::INFINITY, |of| of.median);
        let Some(best) = rivals.min_by(|a, b| median(*a).total_cmp(&median(*b))) else {
            return Finding::not_shown(claim, "no other balancer ran".into());
        };
        let ratio = Interval::of_ratios(&self.runs(load, ours, share), &self.runs(load, best, share));
        let what = format!("the latency through evenkeel over that through {}", self.ways[best]);
        Finding::at_most(claim, &what, ratio, 1.05)
    }

    fn found(&self, versions: Versions) -> Found {
        let header = [
            "",
            "p50 us",
            "p90 us",
            "p99 us",
            "p50 added us",
            "p99 added us",
            "CPU us/request",
            "CPU accounted for",
            "failed runs",
        ];
        let mut figures = vec![header.map(str::to_owned).to_vec()];
        for (load, part) in LOADS.iter().enumerate() {
            for (way, name) in self.ways.iter().enumerate() {
                let index = load * self.ways.len() + way;
                let of = |runs: &[f64], digits: usize| {
                    Spread::of(runs).map_or_else(String::new, |spread| format!("{:.digits$}", spread.median))
                };
                let mut row = vec![format!("{:.0} %: {name}", part * 100.0)];
                row.extend([0.5, 0.9, 0.99].map(|share| {
                    let us: Vec<f64> = self.runs(load, way, share).iter().map(|ms| ms * 1e3).collect();
                    of(&us, 0)
                }));
                row.extend([0.5, 0.99].map(|share| of(&self.added(load, way, share), 0)));
                row.push(of(&self.rounds.figures(index, |run| run.us("balancer")), 1));
                row.push(of(&self.rounds.figures(index, |run| run.used.accounted()), 2));
                row.push(self.rounds.failed_of(index));
                figures.push(row);
            }
        }
        let plot = |(load, share): (usize, f64)| {
            let row = |way: usize| row(self.ways[way], &self.added(load, way, share), None, way);
            let rows: Vec<Row> = (1..self.ways.len()).map(row).collect();
            let title = format!(
                "At {:.0} % of the endpoint's capacity: increase of the {:.0}th percentile",
                LOADS[load] * 100.0,
                share * 100.0
            );
            Plot::of_rows(title, "microseconds more than without a balancer", &rows)
        };
        let claims = |load: usize| [self.finding(LIKE_THE_BEST[load], load, 0.5), self.finding(TAIL[load], load, 0.99)];
        Found {
            title: "How much longer does a request take through a balancer?",
            topology: topology(),
            findings: (0..LOADS.len()).flat_map(claims).collect(),
            figures,
            plots: (0..LOADS.len()).flat_map(|load| [(load, 0.5), (load, 0.99)]).map(plot).collect(),
            method: EXPERIMENT.docs.split("\n\n").map(str::to_owned).collect(),
            versions,
            raw: json!({
                "capacity": self.capacity,
                "runs": raw(self.rounds)
            }),
            failed: self.rounds.failed(),
            ..Found::default()
        }
    }
}

fn topology() -> String {
    even(&[
        column("client", [node("open loop", "Poisson")]),
        column("balancer", [node("one of several, or none", "one worker")]),
        column("endpoint", [node("one core", "200 us each")]),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::prediction::read;
    use evenkeel_sim::scenario::{Load, Serving};

    #[test]
    fn the_scenario_is_the_same_endpoint_with_what_was_measured() {
        let scenario = with(SCENARIO, "service.endpoint", "work", &time(250e-6));
        let points = read(&with(&scenario, "", "link", &time(12e-6)));
        assert_eq!(points.len(), LOADS.len());
        for (point, part) in points.iter().zip(LOADS) {
            let service = &point.scenario.services[0];
            assert_eq!(point.label, format!("{:.0} %", part * 100.0));
            assert_eq!((service.work.mean_ns(), point.scenario.link_ns), (250e3, 12_000));
            assert_eq!((service.servers.len(), service.servers[0].serving), (1, Serving::Fifo { cores: 1 }));
            let Load::Poisson { per_second } = point.scenario.load else { panic!("{:?}", point.scenario.load) };
            assert!((per_second - part * 4000.0).abs() < 1e-6, "{per_second}");
        }
        assert_eq!(read(SCENARIO)[0].scenario.services[0].work.mean_ns(), f64::from(WORK_US) * 1e3);
    }
}
