//! Prequal experiment, its published claim: endpoints whose neighbours use their machine on and off, with and without
//! overload.

use crate::balancers::{self, Algorithm, Running};
use crate::child::Child;
use crate::error::{Error, Result};
use crate::experiment::Experiment;
use crate::hosts::Group;
use crate::hosts::antagonist::Antagonist;
use crate::load::generator::Plan;
use crate::origin;
use crate::scratch::Scratch;
use crate::setups::sidecars;
use crate::stats::{Interval, Spread};
use crate::study::comparison::{Case, Comparison};
use crate::study::figures::{Timed, raw, told};
use crate::study::prediction::SEEDS;
use crate::study::topology::{column, even, node};
use crate::study::{self, Claim, Finding, Found, Meter, Options, Prediction, Rounds, Versions};
use crate::worker;
use clap::{Args, FromArgMatches};
use std::net::SocketAddr;
use std::time::Duration;

pub static EXPERIMENT: Experiment = Experiment {
    name: "prequal",
    summary: "Round robin, two choices, leastconn and Prequal before endpoints whose neighbours come and go, with and without overload",
    docs: "Prequal (Wydrowski et al., NSDI 2024) was published with the claim that it beats weighted round robin and the power of two choices \
where machines have noisy neighbours, most of all when they are overloaded. Here eight endpoints have 18 % of a processor each, by a \
control group that each shares with an antagonist: a process with two threads that use all they can get for a second on average, and \
nothing for a second on average. Requests are 5 ms of processor time on average (exponential), and an endpoint works on up to 16 at a \
time. Requests come at moments drawn beforehand (Poisson), to one of two balancers at random: 110 a second, about half of what the \
endpoints can do, and 180, near all of it. All ways of a round meet the same moments and the same work.

Each endpoint has an evenkeel beside it, outside its group, that answers probes. Weights are equal: the machines are alike, so that \
weighted round robin is round robin.",
    args: Options::augment_args,
    run: |matches| Options::from_arg_matches(matches).map_err(|e| Error::Wrong(e.to_string())).and_then(|o| run(&o)),
};

const ENDPOINTS: usize = 8;
const BALANCERS: usize = 2;
const PLACES: usize = 16;
/// Quota of an endpoint, as a share of a CPU, per period.
const PART: f64 = 0.18;
const PERIOD: Duration = Duration::from_millis(20);
const WORK_US: f64 = 5000.0;
const WARM_UP: f64 = 1.0;
/// Scenario of the same system.
const SCENARIO: &str = include_str!("../../scenarios/prequal.toml");
const PATIENCE: Duration = Duration::from_secs(120);

/// Requests per second, and the name of the point in the scenario.
const LOADS: [(f64, &str); 2] = [(110.0, "without overload"), (180.0, "near overload")];

/// Name, algorithm, true if load is shared, and the policy in the scenario.
const WAYS: [(&str, (Algorithm, bool), &str); 5] = [
    ("round robin", (Algorithm::RoundRobin, false), "round_robin"),
    ("two choices", (Algorithm::Random, false), "random"),
    ("leastconn", (Algorithm::LeastConn, false), "leastconn{samples=0.0}"),
    ("leastconn, shared load", (Algorithm::LeastConn, true), "leastconn"),
    ("Prequal", (Algorithm::Prequal, true), "prequal"),
];
const PREQUAL: usize = 4;

const CLAIMS: [[Claim; 2]; 2] = [
    [
        Claim { text: "Without overload Prequal has a lower p99 than round robin", source: "NSDI 2024" },
        Claim { text: "Without overload Prequal has a lower p99 than two choices", source: "NSDI 2024" },
    ],
    [
        Claim { text: "Near overload Prequal has a lower p99 than round robin", source: "NSDI 2024" },
        Claim { text: "Near overload Prequal has a lower p99 than two choices", source: "NSDI 2024" },
    ],
];

/// Explanation of a deviation.
const WHY: &str = "The simulator's neighbour shares an endpoint's part of a processor by threads, as the kernel does. But the kernel has two \
processors, each with threads of its own, on which the balancers, the sidecars and the clients run too; and a part that is used up comes back \
only after 20 ms. So a request that is alone gets less than predicted, and waits longer.";

fn run(options: &Options) -> Result<()> {
    let evenkeel = balancers::find_evenkeel(options.evenkeel.as_deref())?;
    let versions = vec![evenkeel.named_version()];
    let seconds = if options.quick { 1.0 } else { options.seconds() as f64 * 4.0 };
    let requests = |(rate, _): &(f64, &str)| (rate * (seconds + WARM_UP)) as u64;
    // As many requests as a live run of each load.
    let simulated = LOADS.iter().map(|load| Prediction::of(evenkeel.program(), SCENARIO, requests(load), SEEDS));
    let predictions = simulated.collect::<Result<Vec<_>>>()?;
    let folder = Scratch::new()?;
    let groups =
        (0..ENDPOINTS).map(|n| Group::new(&format!("prequal-{n}"), PART, PERIOD)).collect::<Result<Vec<Group>>>()?;
    let mut endpoints: Vec<(SocketAddr, Child)> = Vec::new();
    for group in &groups {
        let bind = SocketAddr::from(([127, 0, 0, 1], origin::free_ports()?[0]));
        let worker = worker::Arguments { bind, places: PLACES, spin: true, below_ms: None };
        endpoints.push((bind, worker.start(group.within(), folder.path())?));
    }
    let sidecars =
        endpoints.iter().map(|(address, _)| sidecars::beside(&evenkeel, *address)).collect::<Result<Vec<Running>>>()?;
    let names: Vec<String> =
        LOADS.iter().flat_map(|(_, load)| WAYS.iter().map(move |(way, ..)| format!("{way}, {load}"))).collect();
    let rounds = Rounds::run(&names, options.rounds(), |at, round| {
        let ((rate, _), (_, pool, _)) = (LOADS[at / WAYS.len()], WAYS[at % WAYS.len()]);
        // All ways of a round have the same load and neighbours.
        let seed = round as u64;
        let start = |_| sidecars::in_front(&evenkeel, &sidecars, pool);
        let balancers = (0..BALANCERS).map(start).collect::<Result<Vec<_>>>()?;
        let neighbour = |(number, group): (usize, &Group)| {
            let antagonist = Antagonist { threads: 2, mean: 1.0, seed: seed * ENDPOINTS as u64 + number as u64 };
            antagonist.start(group.within(), folder.path())
        };
        let neighbours = groups.iter().enumerate().map(neighbour).collect::<Result<Vec<Child>>>()?;
        let targets = balancers.iter().map(|balancer| format!("127.0.0.1:{}/", balancer.port())).collect();
        let plan = Plan::open(targets, rate, seconds, WARM_UP).working(WORK_US, seed);
        let meter = Meter::start(vec![
            ("balancers", balancers.iter().map(Running::pid).collect()),
            ("sidecars", sidecars.iter().map(Running::pid).collect()),
            ("endpoints", endpoints.iter().map(|(_, worker)| worker.pid()).collect()),
            ("neighbours", neighbours.iter().map(Child::pid).collect()),
            ("lab", vec![std::process::id()]),
        ])?;
        let load = plan.start(Vec::new(), &folder.path().join("load"))?.end(PATIENCE)?;
        Timed::new(load, meter.used()?, WARM_UP)
    })?;
    // Processes end before their groups can go.
    drop(sidecars);
    drop(endpoints);
    drop(groups);
    let measured = Measured { names: &names, rounds: &rounds };
    study::present_beside(&measured.found(versions), &measured.beside(&predictions), options)
}

struct Measured<'m> {
    names: &'m [String],
    rounds: &'m Rounds<Timed>,
}

impl Measured<'_> {
    fn runs(&self, load: usize, way: usize, share: f64) -> Vec<f64> {
        self.rounds.figures(load * WAYS.len() + way, |run| run.load.quantile(share))
    }

    /// Compares predictions, by load, with the measurements.
    fn beside(&self, predictions: &[Prediction]) -> Comparison {
        let case = |at: usize| {
            let (load, way) = (at / WAYS.len(), at % WAYS.len());
            let ((rate, point), (name, _, simulated)) = (LOADS[load], WAYS[way]);
            let group = format!("{rate} requests/s, {point}");
            let case = Case { group: &group, name, simulated: (point, simulated), colour: way, why: WHY };
            case.latencies(&predictions[load], |share| self.runs(load, way, share))
        };
        (0..self.names.len()).flat_map(case).collect()
    }

    fn found(&self, versions: Versions) -> Found {
        let header =
            ["", "p50 ms", "p99 ms", "p99.9 ms", "balancers, CPU us/request", "CPU accounted for", "failed runs"];
        let mut figures = vec![header.map(str::to_owned).to_vec()];
        for load in 0..LOADS.len() {
            for way in 0..WAYS.len() {
                let at = load * WAYS.len() + way;
                figures.push(vec![
                    self.names[at].clone(),
                    told(&self.runs(load, way, 0.5), 0),
                    told(&self.runs(load, way, 0.99), 0),
                    told(&self.runs(load, way, 0.999), 0),
                    told(&self.rounds.figures(at, |run| run.us("balancers")), 0),
                    told(&self.rounds.figures(at, |run| run.used.accounted()), 2),
                    self.rounds.failed_of(at),
                ]);
            }
        }
        let finding = |(load, over): (usize, usize)| {
            let ratio = Interval::of_ratios(&self.runs(load, PREQUAL, 0.99), &self.runs(load, over, 0.99));
            Finding::at_most(CLAIMS[load][over], &format!("p99 with Prequal over {}", WAYS[over].0), ratio, 1.0)
        };
        let mut method: Vec<String> = EXPERIMENT.docs.split("\n\n").map(str::to_owned).collect();
        let of_all: Vec<f64> = (0..self.names.len())
            .flat_map(|at| self.rounds.figures(at, |run| run.used.of("neighbours").as_secs_f64() / run.load.seconds))
            .collect();
        if let Some(Spread { median, min, max }) = Spread::of(&of_all) {
            method.push(format!("All neighbours together used {median:.2} ({min:.2} to {max:.2}) of a processor."));
        }
        Found {
            title: "Does Prequal find the machines that have time?",
            topology: topology(),
            findings: (0..LOADS.len()).flat_map(|load| [(load, 0), (load, 1)]).map(finding).collect(),
            figures,
            plots: Vec::new(),
            lead: 3,
            method,
            versions,
            raw: raw(self.rounds),
            failed: self.rounds.failed(),
            ..Found::default()
        }
    }
}

fn topology() -> String {
    even(&[
        column("clients", [node("open loop", "Poisson")]),
        column("balancers", (1..=BALANCERS).map(|n| node(format!("evenkeel {n}"), ""))),
        column("endpoints", (1..=ENDPOINTS).map(|n| node(format!("endpoint {n}"), "with a neighbour"))),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::prediction::read;
    use evenkeel_sim::scenario::{Deployment, Load};

    #[test]
    fn the_scenario_is_the_same_system() {
        let points = read(SCENARIO);
        assert_eq!(points.len(), LOADS.len());
        for (point, (rate, name)) in points.iter().zip(LOADS) {
            let service = &point.scenario.services[0];
            assert_eq!(point.label, name);
            assert!(matches!(point.scenario.load, Load::Poisson { per_second } if per_second == rate));
            assert_eq!(service.servers.len(), ENDPOINTS);
            assert!(
                matches!(service.balancing.deployment, Deployment::Central { balancers } if balancers as usize == BALANCERS)
            );
            // Expected to 0.5 ms.
            assert!((service.work.mean_ns() - WORK_US * 1e3 / PART).abs() < 5e5);
            let labels: Vec<&str> = point.policies.iter().map(|policy| policy.label.as_str()).collect();
            assert!(WAYS.iter().all(|(.., simulated)| labels.contains(simulated)), "{labels:?}");
        }
    }
}
