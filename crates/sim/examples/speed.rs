//! Speed of the simulator in events per second of CPU time: with and without servers that share cores and answer
//! probes.

use evenkeel_sim::scenario::Balancing;
use evenkeel_sim::scenario::{
    Capacity, Deployment, Information, Load, Policy, Scenario, Server, Service, Serving, Step,
};
use evenkeel_sim::simulate;
use evenkeel_sim::work::Work;

const ROUNDS: u64 = 5;

fn main() {
    println!("events per second of processor time, median of {ROUNDS} rounds, lowest and highest");
    for (algorithm, what, scenario) in [
        ("random", "unlimited servers", unlimited()),
        ("leastconn", "unlimited servers", unlimited()),
        ("leastconn", "100 shared servers, 100 balancers, probes", fleet()),
        ("prequal", "100 shared servers, 100 balancers, probes", fleet()),
    ] {
        let policy = Policy::named(algorithm).expect("it is in the registry");
        let mut rates: Vec<f64> = (0..ROUNDS).map(|seed| rate(&scenario, &policy, seed)).collect();
        rates.sort_by(f64::total_cmp);
        let [low, median, high] = [0, rates.len() / 2, rates.len() - 1].map(|i| rates[i] / 1e6);
        println!("{what}, {algorithm}: {median:.1} M ({low:.1} to {high:.1})");
    }
}

fn rate(scenario: &Scenario, policy: &Policy, seed: u64) -> f64 {
    let before = processor_ns();
    let run = simulate(scenario, policy, seed);
    run.events as f64 * 1e9 / (processor_ns() - before) as f64
}

/// CPU time of this thread in nanoseconds, from `/proc/thread-self/schedstat`.
fn processor_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux has it");
    text.split(' ').next().and_then(|ns| ns.parse().ok()).expect("it begins with the time on a processor")
}

fn scenario(servers: Vec<Server>, work: Work, balancing: Balancing, load: Load, requests: u64) -> Scenario {
    let steps = vec![Step::Work];
    let service = Service { name: "farm".to_string(), servers, steps, work, response_bytes: 0, balancing };
    Scenario {
        services: vec![service],
        machines: Vec::new(),
        load,
        link_ns: 100_000,
        requests,
        warm_up: 0,
        until_ns: u64::MAX,
    }
}

/// The closed loop of tower's demonstration: ten servers that serve any number of requests at once, 50 users.
fn unlimited() -> Scenario {
    let server = |i: usize| Server { serving: Serving::Unlimited, ..Server::new(&i.to_string()) };
    let work = Work::Uniform { min: 0, max: 99, step_ns: 1_000_000, late_ns: 1_000_000 };
    let load = Load::Closed { users: 50, think: Work::Constant(0) };
    let scenario = scenario((0..10).map(server).collect(), work, Balancing::default(), load, 2_000_000);
    Scenario { link_ns: 0, ..scenario }
}

/// A hundred servers of changing capacity, behind a hundred balancers that probe.
fn fleet() -> Scenario {
    let capacity = Capacity::Antagonist { states: vec![(1.5, 0.25), (4.0, 0.5), (6.0, 0.25)], mean_ns: 2_000_000_000 };
    let server = |i: usize| Server {
        serving: Serving::Sharing { cores: 1.0 },
        capacity: vec![capacity.clone()],
        ..Server::new(&i.to_string())
    };
    let balancing = Balancing {
        deployment: Deployment::Central { balancers: 100 },
        information: Information { probes: true, ..Information::default() },
        ..Balancing::default()
    };
    let load = Load::Poisson { per_second: 0.9 * 387.5 * 100.0 };
    scenario((0..100).map(server).collect(), Work::Exponential { mean_ns: 10e6 }, balancing, load, 300_000)
}
