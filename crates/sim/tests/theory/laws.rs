//! Laws that hold for every policy.

use super::farm::{assert_near, exponential, farm, queues};
use evenkeel_balance::algorithms;
use evenkeel_sim::scenario::{Load, Policy, Serving};
use evenkeel_sim::simulate;
use evenkeel_sim::work::Work;

/// With N users, think time Z and work D spread over n servers: X <= min(N / (Z + D), n / D), and close to it where
/// only one of the two binds.
#[test]
fn a_closed_loop_is_bounded_by_users_and_by_servers() {
    for (users, bound) in [(4, 4.0 / 3.0), (400, 10.0)] {
        let mut scenario = farm(10, Serving::Fifo { cores: 1 }, Work::Constant(1_000_000), 0.5, 200_000);
        scenario.load = Load::Closed { users, think: Work::Exponential { mean_ns: 2e6 } };
        let run = simulate(&scenario, &Policy::named("leastconn").unwrap(), 1);
        let per_unit = run.throughput() / 1000.0;
        assert!(per_unit <= bound * 1.01, "{users} users: {per_unit} a unit, at most {bound}");
        assert_near(&format!("{users} users"), per_unit, bound, 2.0);
    }
}

#[test]
fn littles_law_holds_for_every_algorithm_and_a_seed_is_all() {
    for algorithm in algorithms::ALL {
        let policy = Policy::named(algorithm.name).unwrap();
        let scenario = farm(20, Serving::Sharing { cores: 1.0 }, exponential(), 0.6, 30_000);
        let (run, again) = (simulate(&scenario, &policy, 7), simulate(&scenario, &policy, 7));
        assert!((run.little - 1.0).abs() < 1e-3, "{}: {}", algorithm.name, run.little);
        assert_eq!((run.latency_sum_ns, run.wall_ns, run.events), (again.latency_sum_ns, again.wall_ns, again.events));
        assert_ne!(run.latency_sum_ns, simulate(&scenario, &policy, 8).latency_sum_ns);
        assert_eq!(run.latency.len() + run.failed.iter().sum::<u64>(), 24_000, "{}", algorithm.name);
    }
}

#[test]
fn above_capacity_there_is_no_steady_state() {
    let policy = Policy::named("leastconn").unwrap();
    let run = simulate(&queues(10, 1.02, 100_000), &policy, 1);
    assert!(!run.steady && run.offered > 1.0);
    let run = simulate(&queues(10, 0.9, 100_000), &policy, 1);
    assert!(run.steady && (run.offered - 0.9).abs() < 1e-9);
}
