//! Farm of equal servers with Poisson arrivals and work of mean 1 (a millisecond).

use evenkeel_balance::params::Value;
use evenkeel_sim::scenario::{
    Balancing, Chooser, Deployment, Information, Load, Policy, Scenario, Server, Service, Serving, Step,
};
use evenkeel_sim::work::Work;
use evenkeel_sim::{Run, simulate};

/// Mean work in nanoseconds: the unit of all times here.
pub const ONE: f64 = 1e6;

pub fn exponential() -> Work {
    Work::Exponential { mean_ns: ONE }
}

/// Farm of `servers` with one core each; `load` is the offered work as a share of their capacity.
pub fn farm(servers: usize, serving: Serving, work: Work, load: f64, requests: u64) -> Scenario {
    let server = |i: usize| Server { serving, ..Server::new(&i.to_string()) };
    let balancing = Balancing { deployment: Deployment::Central { balancers: 1 }, ..Balancing::default() };
    let service = Service {
        name: "farm".to_string(),
        servers: (0..servers).map(server).collect(),
        steps: vec![Step::Work],
        work,
        response_bytes: 0,
        balancing,
    };
    let per_second = load * servers as f64 * 1e9 / work.mean_ns();
    Scenario {
        services: vec![service],
        machines: Vec::new(),
        load: Load::Poisson { per_second },
        link_ns: 0,
        requests,
        warm_up: requests / 5,
        until_ns: u64::MAX,
    }
}

/// Farm of single-core servers, first come, first served, with exponential work.
pub fn queues(servers: usize, load: f64, requests: u64) -> Scenario {
    farm(servers, Serving::Fifo { cores: 1 }, exponential(), load, requests)
}

/// Adds a board that is updated every `units` of the mean work.
pub fn with_board(mut scenario: Scenario, units: f64) -> Scenario {
    let board_ns = (units * ONE) as u64;
    scenario.services[0].balancing.information = Information { board_ns, ..Information::default() };
    scenario
}

pub fn draws(d: u64) -> Policy {
    let mut policy = Policy::named("random").unwrap();
    let Chooser::Algorithm(_, params) = &mut policy.chooser else { unreachable!("it is in the registry") };
    params.set("draws", Value::Int(d)).unwrap();
    policy
}

/// Runs of these seeds, on one thread per core.
pub fn runs(scenario: &Scenario, policy: &Policy, seeds: u64) -> Vec<Run> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    let mut all: Vec<(u64, Run)> = std::thread::scope(|scope| {
        let of = |thread| {
            move || {
                (0..seeds)
                    .filter(move |s| s % threads == thread)
                    .map(|s| (s, simulate(scenario, policy, s)))
                    .collect::<Vec<_>>()
            }
        };
        let running: Vec<_> = (0..threads).map(|thread| scope.spawn(of(thread))).collect();
        running.into_iter().flat_map(|t| t.join().unwrap()).collect()
    });
    all.sort_by_key(|(seed, _)| *seed);
    all.into_iter().map(|(_, run)| run).collect()
}

/// Mean time in system over the seeds, in units of the mean work. Checks Little's law on each run.
pub fn mean_time(scenario: &Scenario, policy: &Policy, seeds: u64) -> f64 {
    let runs = runs(scenario, policy, seeds);
    for run in &runs {
        assert!((run.little - 1.0).abs() < 1e-3, "Little's law is off: {}", run.little);
    }
    runs.iter().map(|r| r.mean_ns() / ONE).sum::<f64>() / runs.len() as f64
}

pub fn assert_near(what: &str, got: f64, want: f64, percent: f64) {
    let off = (got / want - 1.0) * 100.0;
    println!("{what}: {got:.4}, theory {want:.4}, off {off:+.2} %, allowed {percent} %");
    assert!(off.abs() <= percent, "{what}: {got:.4}, theory {want:.4}: off {off:+.2} %, allowed {percent} %");
}
