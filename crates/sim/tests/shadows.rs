//! Does a shadow rank two algorithms as they really rank? What a shadow sees is compared with runs of the same seed in which its
//! algorithm really picks. It does not where what it cannot know decides: whether answers come sooner from where it would
//! send requests.

use evenkeel_sim::run::Run;
use evenkeel_sim::scenario::{Load, Policy, Scenario};
use evenkeel_sim::{builtin, file, simulate, simulate_shadowed};

const ALGORITHMS: [&str; 3] = ["leastconn", "random", "round_robin"];

/// The points of a built-in scenario, with so many requests, and so long at most.
fn points(name: &str, requests: u64, until_ns: u64) -> Vec<(String, Scenario)> {
    let text = builtin::find(name).expect("it comes along").text;
    let mut experiment = file::read("test.toml", text).experiment.expect("it is clean");
    experiment.set_requests(requests);
    let point = |point: &evenkeel_sim::experiment::Point| {
        let scenario = point.scenario.clone();
        let until_ns = until_ns.min(scenario.until_ns);
        (point.label.clone(), Scenario { until_ns, ..scenario })
    };
    experiment.points.iter().map(point).collect()
}

/// How bad a run was: the mean time of a request, or where clients wait for each other the time for each answer.
fn cost(scenario: &Scenario, run: &Run) -> f64 {
    let answers = run.latency.len().max(1) as f64;
    match scenario.load {
        Load::Closed { .. } => run.wall_ns as f64 / answers,
        _ => run.latency_sum_ns as f64 / answers,
    }
}

/// By algorithm, the time of a request when it really picks, and what its shadow beside each other one predicts: requests in
/// flight at the endpoint that it picks, over the same of the one that really picks.
fn table(scenario: &Scenario, seed: u64) -> Vec<(f64, Vec<f64>)> {
    let policies = ALGORITHMS.map(|name| Policy::named(name).expect("it is there"));
    let truth: Vec<f64> = policies.iter().map(|policy| cost(scenario, &simulate(scenario, policy, seed))).collect();
    let predicted = policies.iter().map(|real| {
        let (run, shown) = simulate_shadowed(scenario, real, &policies, seed);
        assert_eq!(cost(scenario, &run), cost(scenario, &simulate(scenario, real, seed)), "shadows moved something");
        (0..policies.len())
            .map(|at| {
                let sum = shown.iter().fold((0, 0), |sum, of| (sum.0 + of[at].met, sum.1 + of[at].met_real));
                sum.0 as f64 / (sum.1 as f64).max(1.0)
            })
            .collect()
    });
    truth.into_iter().zip(predicted.collect::<Vec<Vec<f64>>>()).collect()
}

/// Of all pairs of algorithms that really differ by a tenth: how many a shadow of one beside the other ranks right, and of how
/// many.
fn right(name: &str, label: &str, scenario: &Scenario, seeds: u64) -> (u32, u32) {
    let (mut right, mut all) = (0, 0);
    for seed in 1..=seeds {
        let table = table(scenario, seed);
        for (real, (truth, predicted)) in table.iter().enumerate() {
            for shadow in (0..ALGORITHMS.len()).filter(|&shadow| shadow != real) {
                let ratio = table[shadow].0 / truth;
                let says = predicted[shadow];
                println!(
                    "{name} {label}, seed {seed}: beside {} the shadow of {} says {says:.2}, it is {ratio:.2}",
                    ALGORITHMS[real], ALGORITHMS[shadow]
                );
                if !(0.9..=1.1).contains(&ratio) {
                    all += 1;
                    right += u32::from((says < 1.0) == (ratio < 1.0));
                }
            }
        }
    }
    println!("{name} {label}: {right} of {all} right");
    (right, all)
}

#[test]
fn a_shadow_of_the_own_algorithm_says_what_is() {
    for (label, scenario) in points("dispatchers", 3_000, u64::MAX) {
        for (real, (_, predicted)) in table(&scenario, 1).iter().enumerate() {
            // Neither met any, or both the same.
            assert!(
                predicted[real] == 0.0 || (predicted[real] - 1.0).abs() < 1e-9,
                "{label}, {}: {predicted:?}",
                ALGORITHMS[real]
            );
        }
    }
}

#[test]
fn shadows_rank_two_algorithms_right_where_their_balancer_sees_all_and_else_often_do_not() {
    let mut counts = Vec::new();
    for (label, scenario) in points("dispatchers", 20_000, u64::MAX) {
        counts.push(right("dispatchers", &label, &scenario, 2));
    }
    // Measured 10, 8 and 6 of 12: with ten balancers and more each knows only what it sent itself.
    let [one, _, hundred] = counts[..] else { panic!("{counts:?}") };
    assert!(one.0 * 4 >= one.1 * 3 && one.1 == 12, "one balancer: {one:?}");
    assert!(hundred.0 * 3 <= hundred.1 * 2, "a hundred are ranked better than the guide says: {hundred:?}");
    let mut sum = (0, 0);
    for (label, scenario) in points("degraded-link", 1_000_000, 3_000_000_000) {
        let (of, all) = right("degraded-link", &label, &scenario, 2);
        sum = (sum.0 + of, sum.1 + all);
    }
    // Measured 26 of 32; the others are round robin beside leastconn, below.
    assert!(sum.0 * 4 >= sum.1 * 3 && sum.1 >= 24, "{sum:?}");
}

#[test]
fn a_shadow_does_not_see_that_its_picks_would_slow_an_endpoint_down() {
    for (label, scenario) in points("degraded-link", 1_000_000, 3_000_000_000).into_iter().take(3) {
        let table = table(&scenario, 1);
        let (leastconn, round_robin) = (&table[0], &table[2]);
        let really = round_robin.0 / leastconn.0;
        // Its requests to the slow endpoint end when leastconn's do, which went to a good one.
        assert!(leastconn.1[2] < 1.0 && really > 2.0, "{label}: says {}, is {really}", leastconn.1[2]);
    }
}
