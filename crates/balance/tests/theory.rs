//! Do mean times in system agree with queueing theory? Servers serve one request at a time in order, work is
//! exponential with mean 1, arrivals are Poisson; results known in closed form or as limits.
//!
//! Tolerances. What a queue at load l holds is remembered for about 1 / (1 - l)^2 services, so a mean over a run has a
//! relative sd that shrinks with the square root of its length in those. Over 30 seeds the sd of one run was 0.3 to 0.7 %
//! at l = .5, 0.5 to 1.2 % at .7 and 1.1 to 2.8 % at .9; means of eight runs have a third of it, and three or more sd of
//! that are allowed. The means of those 30 seeds are all within 0.3 % of theory.

mod support;

use evenkeel_balance::params::Value;
use support::rows::Row;
use support::virtual_time::{Arrivals, Farm, MS, Queueing, exponential};

/// Mean time in system, in units of the mean service, with one worker.
fn mean_time(row: &Row, servers: usize, load: f64, requests: usize) -> f64 {
    mean_time_of(1, row, servers, load, requests)
}

fn mean_time_of(workers: u32, row: &Row, servers: usize, load: f64, requests: usize) -> f64 {
    // 10 ms of work, so that one run spans many times every time constant in the algorithms.
    let service = |_, _, rng: &mut _| exponential(10.0 * MS as f64, rng) as u64;
    let farm = Farm {
        weights: vec![1; servers],
        queueing: Queueing::Fifo,
        service,
        arrivals: Arrivals::Poisson { gap_ns: 10.0 * MS as f64 / (servers as f64 * load) },
        requests,
        warm_up: requests / 10,
        balancers: 1,
        workers,
        probe_ns: MS / 10,
    };
    let times: Vec<f64> = (1..=8).map(|seed| farm.run(row, seed).mean() / (10.0 * MS as f64)).collect();
    times.iter().sum::<f64>() / times.len() as f64
}

fn draws(n: u64) -> Row {
    Row::named("random").with("draws", Value::Int(n)).expect("random has draws")
}

fn assert_near(what: &str, got: f64, want: f64, percent: f64) {
    let off = (got / want - 1.0) * 100.0;
    println!("{what}: {got:.4}, theory {want:.4}, off {off:+.2} %");
    assert!(off.abs() <= percent, "{what}: {got:.4}, theory {want:.4}: off {off:+.2} %, allowed {percent} %");
}

/// The supermarket model, Mitzenmacher 1996: T = sum over i >= 1 of l^((d^i - d) / (d - 1)) for n to infinity. At
/// n = 100 it is a little higher, as measured by many (Mitzenmacher's own: 1.2673, 1.6202, 2.6454).
#[test]
fn two_draws_meet_the_supermarket_model() {
    for (load, want, percent) in [(0.5, 1.2673, 0.5), (0.7, 1.6190, 1.0), (0.9, 2.6470, 1.5)] {
        assert_near(&format!("2 draws at {load}"), mean_time(&draws(2), 100, load, 400_000), want, percent);
    }
}

#[test]
fn three_draws_meet_it_too() {
    for (load, want, percent) in [(0.7, 1.3640, 1.0), (0.9, 2.0620, 1.5)] {
        assert_near(&format!("3 draws at {load}"), mean_time(&draws(3), 100, load, 300_000), want, percent);
    }
}

/// One draw splits a Poisson stream into independent ones: M/M/1, T = 1 / (1 - l).
#[test]
fn one_draw_is_a_row_of_single_queues() {
    for (load, want, percent) in [(0.5, 2.0, 1.0), (0.7, 3.0 + 1.0 / 3.0, 2.0)] {
        assert_near(&format!("1 draw at {load}"), mean_time(&draws(1), 20, load, 300_000), want, percent);
    }
}

/// Turns of n make each server's gaps the sum of n exponential ones: E_n/M/1, T = 1 / (1 - s) with s the root in
/// (0, 1) of s = (n l / (n l + 1 - s))^n.
#[test]
fn round_robin_is_erlang_arrivals() {
    for (load, percent) in [(0.5, 1.0), (0.9, 3.0)] {
        let n: f64 = 6.0;
        let s = (0..10_000).fold(0.5, |s: f64, _| (n * load / (n * load + 1.0 - s)).powf(n));
        let got = mean_time(&Row::named("round_robin"), 6, load, 400_000);
        assert_near(&format!("round robin of 6 at {load}"), got, 1.0 / (1.0 - s), percent);
    }
}

/// Joining the shortest of ten queues has no closed form; 1.915 is simulated, between the central queue of M/M/10
/// (1.6687) and two draws (3.01).
#[test]
fn leastconn_of_one_balancer_joins_the_shortest_queue() {
    let got = mean_time(&Row::named("leastconn"), 10, 0.9, 500_000);
    assert_near("leastconn of 10 at 0.9", got, 1.915, 2.0);
}

/// Workers of one process read each other's counts: two draws lose nothing by them. leastconn knows its own requests
/// and samples the others': between the exact shortest queue (1.915) and two exact draws (3.01). Measured: 2.49.
#[test]
fn workers_of_one_process_see_what_is_in_flight_at_the_others() {
    assert_near("2 draws at 0.9, 8 workers", mean_time_of(8, &draws(2), 100, 0.9, 400_000), 2.6470, 1.5);
    let leastconn = mean_time_of(8, &Row::named("leastconn"), 10, 0.9, 400_000);
    println!("leastconn of 10 at 0.9, 8 workers: {leastconn:.4}");
    assert!((1.9..2.7).contains(&leastconn), "leastconn with 8 workers: {leastconn:.4}, not 1.9 to 2.7");
}
