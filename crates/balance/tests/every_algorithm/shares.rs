//! Shares by weight, for rows that promise them: when requests come one at a time at any rate, when they overlap, at
//! any load, and with several workers.
//!
//! The bound: an algorithm that drew each of N picks by weight would give an endpoint with share p a binomial count,
//! with a standard deviation of sqrt(N p (1 - p)); one that takes turns or evens out its earlier picks has less. Five
//! standard deviations are exceeded once in 1.7 million cases, and some thousand shares are checked. Algorithms that
//! take turns are off by up to one turn per worker, and one that evens out forgets half a turn at each end.

use crate::support::rows::{self, Row};
use crate::support::world::{World, weighted};
use evenkeel_balance::{EndpointId, EndpointSpec, FailureKind, Outcome};
use std::collections::BTreeMap;

const PICKS: usize = 20_000;

fn weight_lists() -> [Vec<u32>; 5] {
    [vec![1; 4], vec![10, 1, 1, 1], vec![5, 3, 2], (1..=10).collect(), vec![300, 1, 100]]
}

type Got = BTreeMap<EndpointId, u32>;

/// Makes one pick for a random key, by a random worker.
fn pick(w: &mut World<'_>, got: &mut Got) {
    let worker = w.rng.below(w.balancers.len() as u32) as usize;
    let key = Some(w.rng.next_u64());
    match w.start(worker, key, &[]) {
        Ok(id) => *got.entry(id).or_default() += 1,
        Err(e) => w.fail(&e.to_string()),
    }
}

fn check(w: &World<'_>, got: &Got) {
    let n: u32 = got.values().sum();
    let total: u32 = w.specs.iter().map(|s| s.weight).sum();
    for (i, spec) in w.specs.iter().enumerate() {
        let (n, p) = (f64::from(n), f64::from(spec.weight) / f64::from(total));
        let bound = 5.0 * (n * p * (1.0 - p)).sqrt() + w.balancers.len() as f64 + 1.0;
        let (count, want) = (f64::from(got.get(&spec.id).copied().unwrap_or(0)), n * p);
        w.ensure((count - want).abs() <= bound, || {
            let weights: Vec<_> = w.specs.iter().map(|s| s.weight).collect();
            let shares: Vec<_> = w.specs.iter().map(|s| got.get(&s.id).copied().unwrap_or(0)).collect();
            format!("weights {weights:?} got {shares:?}; endpoint {i} is off {want:.0} by more than {bound:.0}")
        });
    }
}

/// Runs the scenario with every row that promises this, and every list of weights.
fn for_each(promises: impl Fn(&Row) -> bool, scenario: impl Fn(&Row, &[u32])) {
    for row in rows::all().iter().filter(|r| promises(r)) {
        weight_lists().iter().for_each(|weights| scenario(row, weights));
    }
}

#[test]
fn shares_follow_weights_when_requests_come_one_at_a_time_at_any_rate() {
    for_each(
        |row| row.algorithm.promises.shares_when_idle,
        |row, weights| {
            for (gap, workers) in
                [("0", 0, 1), ("1 ms", 1_000_000, 1), ("1 ms", 1_000_000, 3), ("200 ms", 200_000_000, 1)]
                    .into_iter()
                    .chain([("2 s", 2_000_000_000, 1), ("1 h", 3_600_000_000_000, 1), ("2 s", 2_000_000_000, 3)])
                    .map(|(name, ns, workers)| ((name, ns), workers))
            {
                let scenario = format!("one at a time, {} apart, {workers} workers", gap.0);
                let mut w = World::new(row, workers, weighted(weights), 11, scenario);
                let mut got = Got::new();
                for _ in 0..PICKS {
                    w.advance(gap.1);
                    pick(&mut w, &mut got);
                    w.end(0, Outcome::Success);
                }
                check(&w, &got);
            }
        },
    );
}

#[test]
fn shares_follow_weights_when_requests_overlap_and_take_equally_long() {
    for_each(
        |row| row.algorithm.promises.shares_when_busy,
        |row, weights| {
            let total: u32 = weights.iter().sum();
            for (overlap, workers) in [(2, 1), (total / 2, 1), (total, 1), (4 * total, 1), (4 * total, 3)] {
                let scenario = format!("{overlap} in flight, {workers} workers");
                let mut w = World::new(row, workers, weighted(weights), 12, scenario);
                let mut got = Got::new();
                for i in 0..PICKS {
                    w.advance(1_000_000);
                    if i >= overlap as usize {
                        w.end(0, Outcome::Success);
                    }
                    pick(&mut w, &mut got);
                }
                check(&w, &got);
            }
        },
    );
}

#[test]
fn shares_follow_weights_whatever_the_loads_where_a_row_does_not_look() {
    for_each(
        |row| row.algorithm.promises.shares_whatever_the_load,
        |row, weights| {
            for workers in [1, 3] {
                let mut w = World::new(row, workers, weighted(weights), 13, "the first endpoint hardly ever ends one");
                let mut got = Got::new();
                let slow = w.specs[0].id;
                for i in 0..PICKS {
                    w.advance(1_000_000);
                    pick(&mut w, &mut got);
                    let ends = w.running.back().is_some_and(|r| r.id != slow);
                    if ends {
                        let last = w.running.len() - 1;
                        w.end(last, Outcome::Success);
                    } else if i % 50 == 0 {
                        w.end(0, Outcome::failed(FailureKind::Gateway));
                    }
                }
                check(&w, &got);
            }
        },
    );
}

#[test]
fn an_endpoint_that_was_full_for_long_gets_no_burst_of_what_it_missed() {
    for_each(
        |row| row.algorithm.promises.shares_whatever_the_load,
        |row, weights| {
            let mut specs = weighted(weights);
            specs[0].in_flight_max = 1;
            let mut w = World::new(row, 1, specs, 14, "the first is full for long, then free");
            let first = w.specs[0].id;
            w.start_at(0, first).unwrap_or_else(|e| panic!("row {row}: {e}"));
            let mut got = Got::new();
            for _ in 0..PICKS {
                w.advance(1_000_000);
                pick(&mut w, &mut got);
                w.end(1, Outcome::Success);
            }
            w.end(0, Outcome::Success);
            got.clear();
            for _ in 0..PICKS / 100 {
                w.advance(1_000_000);
                pick(&mut w, &mut got);
                w.end(0, Outcome::Success);
            }
            // Its share of 200 picks, five standard deviations of a draw, and one whole round that it may be behind.
            let (n, weight) = (PICKS as f64 / 100.0, f64::from(weights[0]));
            let p = weight / f64::from(weights.iter().sum::<u32>());
            let most = n * p + 5.0 * (n * p * (1.0 - p)).sqrt() + weight + 1.0;
            let count = f64::from(got.get(&first).copied().unwrap_or(0));
            w.ensure(count <= most, || {
                format!("weights {weights:?}: {count} of {n} picks, at most {most:.0} are fair")
            });
        },
    );
}

#[test]
fn shares_follow_a_change_of_weights_and_a_join() {
    for_each(
        |row| row.algorithm.promises.shares_when_idle,
        |row, weights| {
            let mut w = World::new(row, 1, weighted(&vec![3; weights.len()]), 15, "new weights while it runs");
            let one_at_a_time = |w: &mut World<'_>, picks: usize| {
                let mut got = Got::new();
                for _ in 0..picks {
                    w.advance(1_000_000);
                    pick(w, &mut got);
                    w.end(0, Outcome::Success);
                }
                got
            };
            one_at_a_time(&mut w, 1000);
            let mut specs = weighted(weights);
            specs.push(EndpointSpec::new("joins").weight(2));
            specs.reverse();
            w.reload(specs);
            // The effect of the old weights decays with the 1 s window of recent picks; 20 of them are enough.
            one_at_a_time(&mut w, PICKS);
            let got = one_at_a_time(&mut w, PICKS);
            check(&w, &got);
        },
    );
}

#[test]
fn every_endpoint_with_weight_gets_something() {
    let some_promise = |row: &Row| row.algorithm.promises.shares_when_idle || row.algorithm.promises.shares_when_busy;
    for_each(some_promise, |row, weights| {
        for seed in 0..5 {
            let mut w = World::new(row, 2, weighted(weights), seed, "requests of random lengths overlap");
            let mut got = Got::new();
            for _ in 0..2000 {
                w.advance(1_000_000);
                pick(&mut w, &mut got);
                while w.rng.below(10) > 0 && w.running.len() > 4 {
                    let any = w.rng.below(w.running.len() as u32) as usize;
                    w.end(any, Outcome::Success);
                }
            }
            w.ensure(got.len() == weights.len(), || format!("weights {weights:?}: only {got:?} got something"));
        }
    });
}
