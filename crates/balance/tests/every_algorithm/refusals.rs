//! Endpoints that must never get a request, and the refusal if no endpoint can. The checks are in `World::start`:
//! inside the set, never tried, never over a limit, and the one refusal that the model gives.

use crate::support::rows;
use crate::support::world::{World, weighted};
use evenkeel_balance::{EndpointSpec, FailureKind, Instant, NoPick, Outcome};

#[test]
fn an_empty_pool_says_so() {
    for row in rows::all() {
        for specs in [vec![], vec![EndpointSpec::new("a").weight(0), EndpointSpec::new("b").drain(true)]] {
            let mut w = World::new(&row, 2, specs, 1, "no endpoint eligible");
            w.explain = true;
            for i in 0..10 {
                assert_eq!(w.start(i % 2, Some(7), &[]), Err(NoPick::Empty), "row {row}");
                w.advance(1_000_000);
            }
        }
    }
}

#[test]
fn each_endpoint_is_tried_once_and_then_it_says_all_tried() {
    for row in rows::all() {
        for seed in 0..20 {
            let mut w = World::new(&row, 1, weighted(&[1, 1000, 1, 7, 65_535]), seed, "retries");
            w.explain = seed % 2 == 0;
            let mut tried = Vec::new();
            for _ in 0..5 {
                let id = w.start(0, Some(seed), &tried).unwrap_or_else(|e| panic!("row {row}, seed {seed}: {e}"));
                tried.push(w.slot(id));
                w.advance(300_000);
                w.end(0, Outcome::failed(FailureKind::Gateway));
            }
            assert_eq!(w.start(0, Some(seed), &tried), Err(NoPick::AllTried), "row {row}, seed {seed}");
        }
    }
}

#[test]
fn no_limit_is_passed_by_one_worker_or_several() {
    for row in rows::all() {
        for workers in [1, 3, 11] {
            let specs = [3, 1, 5].iter().enumerate();
            let specs: Vec<_> =
                specs.map(|(i, &max)| EndpointSpec::new(&i.to_string()).weight(4).in_flight_max(max)).collect();
            let mut w = World::new(&row, workers, specs, 3, format!("limits 3, 1, 5 with {workers} workers"));
            w.explain = true;
            for round in 0..50u64 {
                for i in 0..12usize {
                    w.advance(70_000);
                    let started = w.start((i * 7) % workers as usize, Some(round), &[]);
                    assert_eq!(started.is_ok(), i < 9, "row {row}: request {i} of round {round}: {started:?}");
                }
                // With one place free and everything else tried or full, that place is found.
                let freed = w.running[4].id;
                w.end(4, Outcome::Cancelled);
                assert_eq!(w.start(0, Some(round), &[]), Ok(freed), "row {row}, round {round}");
                w.end_all();
            }
        }
    }
}

#[test]
fn a_limit_set_or_lowered_while_requests_run_counts_them() {
    for row in rows::all() {
        let specs = |max| vec![EndpointSpec::new("a").in_flight_max(max)];
        for before in [0, 6] {
            let mut w = World::new(&row, 2, specs(before), 1, format!("limit {before}, then 2"));
            (0..4).for_each(|i| assert!(w.start(i % 2, None, &[]).is_ok(), "row {row}"));
            w.reload(specs(2));
            assert_eq!(w.start(0, None, &[]), Err(NoPick::AllFull), "row {row}");
            (0..3).for_each(|_| w.end(0, Outcome::Success));
            assert!(w.start(1, None, &[]).is_ok(), "row {row}");
            assert_eq!(w.start(0, None, &[]), Err(NoPick::AllFull), "row {row}");
            w.end_all();
        }
    }
}

#[test]
fn weight_zero_draining_and_lower_tiers_get_nothing() {
    let specs = || {
        let mut specs = weighted(&[2, 1, 0, 3, 1]);
        specs[1].drain = true;
        specs[3].priority = 1;
        specs[4].in_flight_max = 2;
        specs
    };
    for row in rows::all() {
        let mut w = World::new(&row, 1, specs(), 5, "weight 0, drain and tiers");
        w.explain = true;
        for i in 0..300 {
            w.advance(150_000);
            let _refused_when_full = w.start(0, Some(i), &[]);
            if i % 3 == 0 {
                w.end(0, Outcome::Success);
            }
        }
        // The first tier leaves while its requests run, and the next one takes over.
        let mut later = specs();
        later[0].drain = true;
        later[4].weight = 0;
        w.reload(later.clone());
        let backup = later[3].id;
        (0..20).for_each(|i| assert_eq!(w.start(0, Some(i), &[]), Ok(backup), "row {row}"));
        // And back again.
        w.reload(specs());
        assert!((0..20).all(|i| w.start(0, Some(i), &[]) != Ok(backup)), "row {row}");
        w.end_all();
    }
}

#[test]
fn of_two_specs_with_one_identity_the_first_counts() {
    for row in rows::all() {
        let mut w = World::new(&row, 1, weighted(&[1, 1]), 1, "a double");
        let mut twice = w.specs.clone();
        twice.push(EndpointSpec { weight: 0, ..twice[0].clone() });
        w.pool.update(&twice, Instant(0));
        for i in 0..50 {
            let got = w.start(0, Some(i), &[]);
            assert!(got.is_ok(), "row {row}: {got:?}");
            w.advance(100_000);
        }
        w.end_all();
    }
}
