//! Predictions compared with runs. For every pair of algorithms, one picks and the other is predicted from the requests
//! that the workers remember; then the other one runs on the same load. Every figure given must be right, and the rest
//! withheld with a reason.

use evenkeel_balance::algorithms;
use evenkeel_sim::scenario::{Chooser, Policy, Scenario};
use evenkeel_sim::shadow::{self, Known, Prediction, SHARE_WITHIN};
use evenkeel_sim::{file, simulate, simulate_remembered};

/// Number of requests of a run, all of which are remembered.
const REQUESTS: u64 = 20_000;

/// Largest error of a p99: predictions agree on it to 20 %, and a run of 20,000 requests measures it to 10 %.
const P99_WITHIN: f64 = 0.3;

fn scenario(load: &str, service: &str) -> Scenario {
    let text = format!(
        "summary = 'test'\nalgorithms = ['leastconn']\nrequests = {REQUESTS}\nwarm_up = 0\n{load}\n[service.web]\n{service}"
    );
    let read = file::read("test.toml", &text);
    let mut experiment = read.experiment.unwrap_or_else(|| panic!("{text}\n{:?}", read.diagnostics));
    experiment.points.remove(0).scenario
}

fn policies() -> Vec<Policy> {
    algorithms::ALL.iter().map(|algorithm| Policy::named(algorithm.name).expect("it is registered")).collect()
}

fn choice(policy: &Policy) -> shadow::Choice<'_> {
    let Chooser::Algorithm(algorithm, params) = &policy.chooser else { panic!("an algorithm") };
    (algorithm, params)
}

fn predict(scenario: &Scenario, real: &Policy, shadows: &[Policy], seed: u64) -> Prediction {
    let (_, recent) = simulate_remembered(scenario, real, seed);
    let answers_probes = scenario.services[0].balancing.information.probes;
    let known = Known { recent, balance: choice(real), answers_probes };
    let names: Vec<_> = scenario.services[0].servers.iter().map(|s| s.name.clone()).collect();
    let name = |id| names.iter().find(|name| evenkeel_balance::EndpointId::of(name) == id).cloned().unwrap_or_default();
    shadow::predict(&known, &shadows.iter().map(choice).collect::<Vec<_>>(), name)
}

/// Compares all pairs. Returns the number of pairs with predicted shares, and with a predicted p99.
fn compare(label: &str, scenario: &Scenario) -> (usize, usize) {
    let policies = policies();
    let truth: Vec<_> = policies.iter().map(|policy| simulate(scenario, policy, 1)).collect();
    let (mut shares_given, mut p99_given, mut pairs, mut wrong) = (0, 0, 0, Vec::new());
    for real in &policies {
        let predicted = predict(scenario, real, &policies, 1);
        assert_eq!(predicted.nothing, None);
        for (at, (shadow, run)) in predicted.shadows.iter().zip(&truth).enumerate() {
            pairs += 1;
            let pair = format!("{label}: beside {} the shadow of {}", real.label, policies[at].label);
            let servers = &run.services[0].servers;
            let all: u64 = servers.iter().map(|s| s.requests).sum();
            let shares: Vec<f64> = servers.iter().map(|s| s.requests as f64 / all as f64).collect();
            let p99 = run.quantile(0.99) as f64;
            if let Some(given) = &shadow.figures.shares {
                shares_given += 1;
                let off = given.iter().zip(&shares).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
                if off > SHARE_WITHIN {
                    wrong.push(format!("{pair} predicts {given:.3?}, measured {shares:.3?}"));
                }
            }
            if let Some(given) = shadow.figures.p99_ns {
                p99_given += 1;
                if (given / p99).ln().abs() > P99_WITHIN.ln_1p() {
                    wrong.push(format!("{pair} predicts a p99 of {:.1} ms, measured {:.1}", given / 1e6, p99 / 1e6));
                }
            }
            let complete = shadow.figures.shares.is_some() && shadow.figures.p99_ns.is_some();
            assert!(complete || !shadow.withheld.is_empty(), "{pair} withholds without a reason");
        }
    }
    println!("{label}: of {pairs} pairs {shares_given} with shares, {p99_given} with p99");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(pairs, 49);
    (shares_given, p99_given)
}

const SLOW: &str = "server = [{ name = 'a', work.constant = '8ms' }, { name = 'b', work.constant = '8ms' }, \
                    { name = 'c', work.constant = '120ms' }]\nprobes = false\n";

// 49 pairs each. In seven, an algorithm is paired with itself, and the prediction is the measurement. From a run of
// `first`, only algorithms that ignore load can be predicted.
#[test]
fn every_pair_in_front_of_delays() {
    let (shares, p99) = compare("delays", &scenario("load.rate = 100", SLOW));
    assert!(shares >= 30 && p99 >= 15, "{shares}, {p99}");
}

#[test]
fn every_pair_with_clients_that_wait_for_their_answers() {
    let (shares, p99) = compare("clients that wait", &scenario("load.users = 16", SLOW));
    assert!(shares >= 28 && p99 >= 20, "{shares}, {p99}");
}

#[test]
fn every_pair_in_front_of_queues() {
    let service = "work.exponential = '8ms'\nprobes = false\nserver = [{ name = 'a', fifo = 1 }, { name = 'b', fifo = 1 }, \
                   { name = 'c', fifo = 1, work.exponential = '24ms' }]";
    let (shares, p99) = compare("queues", &scenario("load.rate = 120", service));
    assert!(shares >= 36 && p99 >= 18, "{shares}, {p99}");
}

#[test]
fn every_pair_in_front_of_shared_cores_with_three_workers_and_probes() {
    let service = "work.lognormal = { mean = '10ms', sigma = 1.0 }\nprobes = true\nworkers = 3\n\
                   server = [{ name = 'new', count = 4, sharing = 4 }, { name = 'old', count = 2, sharing = 2 }]";
    let (shares, p99) = compare("shared cores", &scenario("load.rate = 1400", service));
    assert!(shares >= 30 && p99 >= 14, "{shares}, {p99}");
}

#[test]
fn failures_withhold_all_but_what_does_not_depend_on_them() {
    let service = "probes = false\nserver = [{ name = 'a', work.constant = '8ms' }, { name = 'b', work.constant = '8ms', \
                   faults = [{ mode = 'fail-fast' }] }]";
    let [real, others @ ..] =
        ["leastconn", "random", "round_robin"].map(|name| Policy::named(name).expect("it is registered"));
    let predicted = predict(&scenario("load.rate = 100", service), &real, &others, 1);
    let [random, round_robin] = &predicted.shadows[..] else { panic!("{predicted:?}") };
    assert!(random.figures.shares.is_none() && random.withheld[0].contains("failed"), "{random:?}");
    assert!(round_robin.exact && round_robin.figures.p99_ns.is_none(), "{round_robin:?}");
}

#[test]
fn few_requests_are_no_ground_for_a_prediction() {
    let policies = [Policy::named("leastconn").expect("it is registered")];
    let mut few = scenario("load.rate = 100", SLOW);
    few.requests = 60;
    let predicted = predict(&few, &policies[0], &policies, 1);
    assert!(predicted.nothing.is_some_and(|why| why.starts_with("60 requests since")), "{:?}", predicted.requests);
}
