//! Single queues, central queues and joining the shortest queue.

use super::farm::{assert_near, draws, exponential, farm, mean_time, queues};
use evenkeel_sim::scenario::{Policy, Reference, Serving};
use evenkeel_sim::work::Work;

/// Erlang C: probability that all of `n` servers are busy.
fn erlang_c(n: u32, load: f64) -> f64 {
    let a = f64::from(n) * load;
    // Erlang B by recursion, then C from B.
    let b = (1..=n).fold(1.0, |b, k| a * b / (f64::from(k) + a * b));
    b / (1.0 - load * (1.0 - b))
}

/// M/M/n queue: T = 1 + C / (n (1 - l)).
fn central(n: u32, load: f64) -> f64 {
    1.0 + erlang_c(n, load) / (f64::from(n) * (1.0 - load))
}

#[test]
fn erlang_c_is_as_tabled() {
    assert_near("C(10, .9)", erlang_c(10, 0.9), 0.66873, 0.01);
    for (n, load, want) in [(6, 0.9, 2.2335), (10, 0.9, 1.6687), (100, 0.99, 1.8828)] {
        assert_near("central queue", central(n, load), want, 0.01);
    }
}

#[test]
fn a_central_queue_is_erlang_c() {
    for (n, load, percent) in [(6, 0.7, 1.0), (10, 0.9, 2.0)] {
        let got = mean_time(&queues(n as usize, load, 500_000), &Policy::reference(Reference::CentralQueue), 6);
        assert_near(&format!("M/M/{n} at {load}"), got, central(n, load), percent);
    }
}

/// Joining the shortest queue has no closed form. Published simulations: 2.477 +- .02 (n = 6, .9), 1.915 (10, .9),
/// 1.158 (10, .7).
#[test]
fn the_shortest_queue_lies_between_the_central_one_and_two_draws() {
    for (n, load, want, percent) in [(6, 0.9, 2.477, 3.0), (10, 0.7, 1.158, 1.0), (10, 0.9, 1.915, 2.0)] {
        let scenario = queues(n, load, 500_000);
        let [shortest, production, two] =
            [&Policy::reference(Reference::ShortestQueue), &Policy::named("leastconn").unwrap(), &draws(2)]
                .map(|policy| mean_time(&scenario, policy, 6));
        assert_near(&format!("shortest of {n} at {load}"), shortest, want, percent);
        assert!(central(n as u32, load) < shortest && shortest < two, "{shortest} of {n} at {load}; two draws {two}");
        // A single balancer has exact counts, so production `leastconn` is the shortest queue.
        assert_near(&format!("leastconn of {n} at {load}"), production, shortest, percent);
        assert_near(&format!("leastconn of {n} at {load}"), production, want, percent);
    }
}

#[test]
#[ignore = "long: make theory"]
fn the_shortest_of_many() {
    for (n, load, want, percent) in [
        (6, 0.95, 4.22, 4.0),
        (10, 0.95, 3.00, 3.0),
        (30, 0.9, 1.310, 1.5),
        (100, 0.9, 1.066, 1.0),
        (100, 0.95, 1.226, 2.0),
        (100, 0.99, 2.22, 6.0),
    ] {
        let requests = if load > 0.95 { 20_000_000 } else { 4_000_000 };
        let got = mean_time(&queues(n, load, requests), &Policy::named("leastconn").unwrap(), 4);
        assert_near(&format!("leastconn of {n} at {load}"), got, want, percent);
        assert!(central(n as u32, load) < got);
    }
}

/// Pollaczek-Khinchine formula: T = S + l E[S^2] / (2 (1 - load)) for first come first served.
#[test]
fn pollaczek_khinchine() {
    let load = 0.7;
    // Second moment over squared mean: 2 for exponential work, 1 for constant, 1.9 for this Pareto.
    let works = [
        ("constant", Work::Constant(1_000_000), 1.0),
        ("exponential", exponential(), 2.0),
        ("lognormal", Work::Lognormal { mean_ns: 1e6, sigma: 1.0 }, 1f64.exp()),
    ];
    for (name, work, second) in works {
        let got = mean_time(&farm(1, Serving::Fifo { cores: 1 }, work, load, 1_000_000), &draws(1), 6);
        assert_near(&format!("M/G/1, {name}"), got, 1.0 + load * second / (2.0 * (1.0 - load)), 3.0);
    }
}

/// Processor sharing is insensitive to the distribution of work: T = 1 / (1 - load) for any.
#[test]
fn processor_sharing_is_insensitive() {
    let load = 0.7;
    let works = [
        ("constant", Work::Constant(1_000_000)),
        ("exponential", exponential()),
        ("lognormal", Work::Lognormal { mean_ns: 1e6, sigma: 1.0 }),
        ("bounded Pareto", Work::BoundedPareto { alpha: 1.5, min_ns: 0.36e6, max_ns: 36e6 }),
    ];
    for (name, work) in works {
        let scenario = farm(1, Serving::Sharing { cores: 1.0 }, work, load, 1_000_000);
        let got = mean_time(&scenario, &draws(1), 6) * 1e6 / work.mean_ns();
        assert_near(&format!("M/G/1-PS, {name}"), got, 1.0 / (1.0 - load), 3.0);
    }
}
