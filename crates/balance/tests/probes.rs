//! Are probes worth it, and does their seam work? Twenty servers whose speed changes under them, ten or more balancers that
//! know nothing of each other, 90 % load: each balancer sees a small part of what is in flight, and only probes tell the
//! rest.

mod support;

use evenkeel_balance::params::Value;
use evenkeel_balance::{Instant, Rng, algorithms, rng::mix};
use support::rows::Row;
use support::virtual_time::{Arrivals, Farm, MS, Queueing, exponential};

const SERVERS: usize = 20;
const WORK_MS: f64 = 10.0;

/// Redrawn every two seconds, apart for each server, with mean 1. All twenty together have a sd of 5 %, so that the farm
/// as a whole is overloaded once in fifty draws.
fn speed(server: usize, now: Instant) -> f64 {
    let phase = server as u64 * 100 * MS;
    let epoch = (now.0 + phase) / (2000 * MS);
    [0.7, 1.0, 1.0, 1.3][(mix(mix(epoch) ^ server as u64) % 4) as usize]
}

fn farm() -> Farm {
    Farm {
        weights: vec![1; SERVERS],
        queueing: Queueing::Fifo,
        service: |server, now, rng: &mut Rng| (exponential(WORK_MS, rng) / speed(server, now) * MS as f64) as u64,
        arrivals: Arrivals::Poisson { gap_ns: WORK_MS * MS as f64 / (SERVERS as f64 * 0.9) },
        requests: 200_000,
        warm_up: 20_000,
        balancers: 10,
        workers: 1,
        probe_ns: MS / 10,
    }
}

#[test]
fn probes_beat_what_each_balancer_sees_alone() {
    let p99_ms = |row: &Row, seed| farm().run(row, seed).quantile(0.99) as f64 / MS as f64;
    let probing = algorithms::ALL.iter().filter(|a| a.needs.probes);
    for row in probing.map(|a| Row::of(a)) {
        for seed in 1..=5 {
            let (with, without) = (p99_ms(&row, seed), p99_ms(&Row::named("random"), seed));
            println!("row {row}, seed {seed}: p99 {with:.0} ms, random {without:.0} ms");
            // Measured 0.51 to 0.56 over these seeds, sd 0.02: seven of them to the bound.
            assert!(with < 0.7 * without, "row {row}, seed {seed}: p99 {with:.0} ms, random {without:.0} ms");
        }
    }
}

#[test]
fn leastconn_of_many_balancers_does_not_herd_where_endpoints_say_their_load() {
    let row = Row::named("leastconn");
    let alone = row.with("samples", Value::Float(0.0)).expect("it may ask nobody");
    let p99_ms =
        |row: &Row, balancers, seed| Farm { balancers, ..farm() }.run(row, seed).quantile(0.99) as f64 / MS as f64;
    for seed in 1..=3 {
        let [with, without] = [&row, &alone].map(|row| p99_ms(row, 40, seed));
        let [one, one_alone] = [&row, &alone].map(|row| p99_ms(row, 1, seed));
        println!(
            "seed {seed}: p99 {with:.0} ms, alone {without:.0} ms; of one balancer {one:.0} and {one_alone:.0} ms"
        );
        assert!(with < 0.5 * without, "seed {seed}: p99 {with:.0} ms, alone {without:.0} ms");
        assert_eq!(one, one_alone, "seed {seed}: one balancer knows all by itself");
    }
}
