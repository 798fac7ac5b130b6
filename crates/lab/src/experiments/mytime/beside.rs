//! Predictions of the simulator for the same calls on the same CPU shares: requests per second and peaks of each way,
//! relative to leastconn in sidecars of the same program.

use super::balancer::Balancing;
use super::run::Run;
use super::system::{LEVELS, SERVICES};
use crate::balancers::Algorithm;
use crate::error::Result;
use crate::stats::Spread;
use crate::study::comparison::{Case, Figure, RATE};
use crate::study::prediction::{SEEDS, time, with};
use crate::study::{Claim, Comparison, Prediction, Rounds};

/// Scenario of the same system.
const SCENARIO: &str = include_str!("../../../scenarios/mytime.toml");
/// Executions of each of [`SERVICES`] per request.
const EXECUTIONS: [f64; 4] = [2.0, 2.0, 1.0, 1.0];
/// Way that each other way of its program is compared with.
const BASES: [&str; 2] = ["haproxy leastconn", "evenkeel leastconn"];

const OVER: Figure = Figure { name: "requests a second, over leastconn's", ..RATE };
const PEAKS: Figure = Figure {
    name: "peaks of all services, over leastconn's",
    metric: "peak_mean",
    scale: 1.0,
    claim: Claim::ours("Peaks are within 20 % of the simulator's prediction in every case, or the page states why"),
};
/// Calls of each of [`SERVICES`] to others in an execution.
const CALLS: [f64; 4] = [0.0, 0.0, 2.0, 3.0];
/// The external balancer and shared load, by program; HAProxy shares none.
const EXTERNAL: [&str; 2] = ["haproxy external", "evenkeel external"];
const SHARED: &str = "evenkeel shared load";
/// Endpoints that a balancer asks for their load before it picks, on average.
const PROBES: f64 = 2.0;
/// Explanation of a deviation.
const WHY: &str = "The simulator knows what services and sidecars cost, by the median of each, and that is all: no hop through the external \
balancer, no quota that is used up for the rest of its 20 ms, and no backlog of five connections, from which a dropped one comes \
back a second later. A service counts requests that it has accepted, so a backlog hides the peaks of those that know less.";

/// Name of the algorithm in the scenario.
fn simulated(way: &Balancing) -> &'static str {
    match way.algorithm {
        _ if way.external => "leastconn{samples=0.0}",
        Algorithm::LeastConn if way.shared => "leastconn",
        Algorithm::LeastConn => "leastconn{samples=0.0}",
        Algorithm::OneDraw => "random{draws=1}",
        // HAProxy may draw the same server twice, which the simulator has only as a yardstick with global knowledge.
        Algorithm::Random => "random",
        _ => "round_robin",
    }
}

/// Least work of a service in the simulator, in seconds.
const LEAST: f64 = 1e-9;

/// CPU seconds of an execution of a service, including its sidecar.
fn work(rounds: &Rounds<Run>, base: usize, kind: usize) -> f64 {
    let of =
        |run: &Run| run.kinds.of(SERVICES[kind]).as_secs_f64() / run.load.answered.max(1) as f64 / EXECUTIONS[kind];
    Spread::of(&rounds.figures(base, of)).map_or(0.0, |of| of.median)
}

/// CPU time of the sidecars relative to the services. A ratio, as the speed of the machine varies between runs.
fn beside_services(rounds: &Rounds<Run>, at: usize) -> f64 {
    let of = |run: &Run| {
        let [balancers, services] = ["balancers beside services", "services"].map(|who| run.used.of(who).as_secs_f64());
        balancers / services.max(f64::MIN_POSITIVE)
    };
    Spread::of(&rounds.figures(at, of)).map_or(0.0, |of| of.median)
}

/// Scenario with the measured costs of a program. Sidecars relay incoming and outgoing requests in every way; their
/// additional cost where they balance calls themselves is the work of an attempt.
fn measured(ways: &[Balancing], rounds: &Rounds<Run>, ours: bool) -> Option<String> {
    let find = |name: &str| ways.iter().position(|way| way.name == name);
    let base = find(BASES[usize::from(ours)])?;
    let spread = beside_services(rounds, base);
    let of_calls: f64 = CALLS.iter().zip(EXECUTIONS).map(|(calls, executions)| calls * executions).sum();
    let external = find(EXTERNAL[usize::from(ours)]).map_or(spread, |at| beside_services(rounds, at));
    let shared = find(SHARED).filter(|_| ours).map_or(spread, |at| beside_services(rounds, at));
    // Attempts are a part of the cost of a service with its sidecar. In a short run they may seem to exceed it by
    // chance, but the simulator needs services with work.
    let bound = SERVICES.iter().enumerate().filter(|(kind, _)| CALLS[*kind] > 0.0);
    let bound = bound.map(|(kind, _)| work(rounds, base, kind) / CALLS[kind] / 2.0).fold(f64::INFINITY, f64::min);
    let services = |run: &Run| run.work_ms() / 1e3;
    let services = Spread::of(&rounds.figures(base, services)).map_or(0.0, |of| of.median);
    let [a_try, a_probe] = costs(services, [spread, external, shared], of_calls, bound);
    let mut scenario = SCENARIO.to_owned();
    for (kind, name) in SERVICES.iter().enumerate() {
        let section = format!("service.{name}");
        let own = (work(rounds, base, kind) - CALLS[kind] * a_try).max(LEAST);
        scenario = with(&scenario, &section, "work.exponential", &time(own));
        scenario = with(&scenario, &section, "balancer_work", &time(a_try));
        scenario = with(&scenario, &section, "balancer_probe_work", &time(a_probe));
    }
    Some(scenario)
}

/// CPU seconds of an attempt, at most `bound`, and of a probe. `services`: CPU seconds of all services for a request.
/// `beside`: CPU time of the sidecars relative to it, where they balance calls, where an external balancer does, and
/// where they share load. `calls` of a request.
fn costs(services: f64, [spread, external, shared]: [f64; 3], calls: f64, bound: f64) -> [f64; 2] {
    let more = |of: f64, than: f64| services * (of - than).max(0.0) / calls;
    [more(spread, external).min(bound), (more(shared, spread) / PROBES).min(bound)]
}

/// Compares all ways except leastconn. `requests`: number of a run.
///
/// # Errors
/// The simulator cannot run.
pub fn beside(ways: &[Balancing], rounds: &Rounds<Run>, evenkeel: &str, requests: u64) -> Result<Comparison> {
    let find = |name: &str| ways.iter().position(|way| way.name == name);
    let predicted = |ours: bool| {
        let scenario = measured(ways, rounds, ours);
        scenario.map(|scenario| Prediction::of(evenkeel, &scenario, requests, SEEDS)).transpose()
    };
    let predictions = [predicted(false)?, predicted(true)?];
    let mut lines = Vec::new();
    for (at_level, (level, _)) in LEVELS.iter().enumerate() {
        for (at, way) in ways.iter().enumerate() {
            let Some(base) = find(BASES[usize::from(way.ours)]).filter(|base| *base != at) else { continue };
            let Some(prediction) = &predictions[usize::from(way.ours)] else { continue };
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
    fn costs_are_the_differences_in_processor_time_of_a_request() {
        // Services take 8 ms, sidecars 8 ms, with shared load 9 ms, and 7.5 ms if an external balancer picks.
        let [a_try, a_probe] = costs(0.008, [1.0, 7.5 / 8.0, 9.0 / 8.0], 5.0, 1.0);
        assert!((a_try - 0.0001).abs() < 1e-9 && (a_probe - 0.0001).abs() < 1e-9, "{a_try} {a_probe}");
        assert_eq!(costs(0.008, [1.0, 0.5, 3.0], 5.0, 0.0002), [0.0002; 2]);
    }

    #[test]
    fn the_scenario_is_the_same_system() {
        let points = read(SCENARIO);
        assert_eq!(points.len(), LEVELS.len() * 2);
        for (at, point) in points.iter().enumerate() {
            let ((level, groups), place) = (LEVELS[at / 2], ["sidecars", "external"][at % 2]);
            assert_eq!(point.label, format!("{level}, {place}"));
            assert!(matches!(point.scenario.load, Load::Closed { users, .. } if users == CLIENTS));
            // Executions of each service, from the steps of its callers.
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
            // CPU share of each service on a node, and the services that share it.
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
