//! What does the simulator say of the same calls on the same shares of processors? Each way over leastconn in sidecars of the same program:
//! requests a second, and peaks.

use super::balancer::Balancing;
use super::run::Run;
use super::system::{LEVELS, SERVICES};
use crate::error::Result;
use crate::stats::Spread;
use crate::study::comparison::{Case, Figure, RATE};
use crate::study::prediction::{SEEDS, time, with};
use crate::study::{Claim, Comparison, Prediction, Rounds};

/// The same system, to simulate.
const SCENARIO: &str = include_str!("../../../scenarios/mytime.toml");
/// How often a request has each of [`SERVICES`] work.
const EXECUTIONS: [f64; 4] = [2.0, 2.0, 1.0, 1.0];
/// Each way is compared with this one of its program.
const BASES: [&str; 2] = ["haproxy leastconn", "evenkeel leastconn"];

const OVER: Figure = Figure { name: "requests a second, over leastconn's", ..RATE };
const PEAKS: Figure = Figure {
    name: "peaks of all services, over leastconn's",
    metric: "peak_mean",
    scale: 1.0,
    claim: Claim {
        text: "Peaks are within 20 % of what the simulator said, in every case, or the page says why not",
        source: "evenkeel",
    },
};
/// What is off when it is off.
const WHY: &str = "The simulator knows what services and leastconn's sidecars cost, and that is all: no probes of those that share load, no hop \
through an external balancer that has processors of its own, no quota that is used up for the rest of its 20 ms, and no backlog of five \
connections, from which a dropped one comes back a second later.";

/// What the simulator calls the algorithm.
fn simulated(way: &Balancing) -> &'static str {
    match way.algorithm {
        _ if way.external => "leastconn{samples=0.0}",
        "leastconn" if way.shared => "leastconn",
        "leastconn" => "leastconn{samples=0.0}",
        "random(1)" => "random{draws=1}",
        // HAProxy's draws may be of the same server, which the simulator has only for balancers that know all of them.
        "random" | "random(2)" => "random",
        _ => "round_robin",
    }
}

/// Seconds of processor that one execution of a service takes, with its sidecar.
fn work(rounds: &Rounds<Run>, base: usize, kind: usize) -> f64 {
    let of =
        |run: &Run| run.kinds.of(SERVICES[kind]).as_secs_f64() / run.load.answered.max(1) as f64 / EXECUTIONS[kind];
    Spread::of(&rounds.figures(base, of)).map_or(0.0, |of| of.median)
}

/// All ways but leastconn. `requests`: of a run.
///
/// # Errors
/// The simulator cannot run.
pub fn beside(ways: &[Balancing], rounds: &Rounds<Run>, evenkeel: &str, requests: u64) -> Result<Comparison> {
    let find = |name: &str| ways.iter().position(|way| way.name == name);
    let mut scenario = SCENARIO.to_owned();
    if let Some(base) = find(BASES[1]) {
        for (kind, name) in SERVICES.iter().enumerate() {
            let mean = time(work(rounds, base, kind));
            scenario = with(&scenario, &format!("service.{name}"), "work.exponential", &mean);
        }
    }
    let prediction = Prediction::of(evenkeel, &scenario, requests, SEEDS)?;
    let mut lines = Vec::new();
    for (at_level, (level, _)) in LEVELS.iter().enumerate() {
        for (at, way) in ways.iter().enumerate() {
            let Some(base) = find(BASES[usize::from(way.ours)]).filter(|base| *base != at) else { continue };
            let place = if way.external { "external" } else { "sidecars" };
            let (point, sidecars) = (format!("{level}, {place}"), format!("{level}, sidecars"));
            let of = (point.as_str(), simulated(way));
            let over = (sidecars.as_str(), simulated(&ways[base]));
            let case = Case { group: level, name: way.name, simulated: of, colour: usize::from(!way.ours), why: WHY };
            let measured = |figure: &dyn Fn(&Run) -> f64| {
                let of = |at: usize| rounds.figures(at_level * ways.len() + at, figure);
                of(at).iter().zip(of(base)).map(|(of, over)| of / over).collect::<Vec<_>>()
            };
            let peaks = |run: &Run| run.peaks.iter().sum::<f64>();
            let ratio = |figure: Figure| prediction.ratio(of, over, figure.metric);
            lines.push(case.line(OVER, ratio(OVER), measured(&Run::rate_at_equal_speed)));
            lines.push(case.line(PEAKS, ratio(PEAKS), measured(&peaks)));
        }
    }
    Ok(lines.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::super::system::{CLIENTS, NODE, NODES};
    use super::*;
    use crate::study::prediction::read;
    use evenkeel_sim::scenario::{Load, Serving, Step};

    #[test]
    fn the_scenario_is_the_same_system() {
        let points = read(SCENARIO);
        assert_eq!(points.len(), LEVELS.len() * 2);
        for (at, point) in points.iter().enumerate() {
            let ((level, groups), place) = (LEVELS[at / 2], ["sidecars", "external"][at % 2]);
            assert_eq!(point.label, format!("{level}, {place}"));
            assert!(matches!(point.scenario.load, Load::Closed { users, .. } if users == CLIENTS));
            // Executions of each, by the steps of those who call.
            let services = &point.scenario.services;
            let calls = |from: usize, to: usize| {
                services[from].steps.iter().filter(|step| matches!(step, Step::Call(other) if *other == to)).count()
            };
            let find = |name: &str| services.iter().position(|service| service.name == name).expect("it is there");
            let (first, log) = (find("mytime"), find("log"));
            assert_eq!((first, calls(first, log)), (0, 1));
            for (kind, name) in SERVICES.iter().enumerate().take(2) {
                let executions = calls(first, find(name)) + calls(log, find(name));
                assert_eq!(executions as f64, EXECUTIONS[kind]);
            }
            // What a node has of processors, and who shares it.
            for (kind, name) in SERVICES.iter().enumerate() {
                let service = &services[find(name)];
                assert_eq!(service.servers.len(), NODES);
                for (node, server) in service.servers.iter().enumerate() {
                    let cores = match (server.serving, server.machine) {
                        (_, Some(machine)) => point.scenario.machines[machine],
                        (Serving::Sharing { cores }, None) => cores,
                        other => panic!("{other:?}"),
                    };
                    assert!((cores - NODE / groups as f64).abs() < 1e-9, "{name} {level}");
                    for (other, sibling) in SERVICES.iter().enumerate() {
                        let shares = services[find(sibling)].servers[node].machine == server.machine;
                        assert_eq!(shares && groups < 4, kind % groups == other % groups && groups < 4);
                    }
                }
            }
        }
    }
}
