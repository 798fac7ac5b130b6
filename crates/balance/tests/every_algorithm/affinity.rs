//! Affinity of keys to endpoints, for rows that promise it: at every worker and every instance, in any order of the
//! configuration, and again after the endpoint was away.

use crate::support::rows::{self, Row};
use crate::support::world::{World, weighted};
use evenkeel_balance::{EndpointId, EndpointSpec, Outcome};

const KEYS: u64 = 2000;

fn keyed_rows() -> Vec<Row> {
    rows::all().into_iter().filter(|r| r.algorithm.promises.affinity).collect()
}

/// Returns the endpoint of each key, one request at a time, so that no bound is hit.
fn homes(w: &mut World<'_>) -> Vec<EndpointId> {
    let home = |key: u64| {
        let worker = w.rng.below(w.balancers.len() as u32) as usize;
        let id = w.start(worker, Some(key.wrapping_mul(0x9e37_79b9_7f4a_7c15)), &[]);
        w.advance(1_000_000);
        w.end(0, Outcome::Success);
        id.unwrap_or_else(|e| w.fail(&e.to_string()))
    };
    (0..KEYS).map(home).collect()
}

#[test]
fn a_key_has_one_home_at_every_worker_and_every_instance_in_any_order() {
    for row in keyed_rows() {
        let specs = weighted(&[1, 5, 2, 1, 1, 3]);
        let first = homes(&mut World::new(&row, 1, specs.clone(), 1, "one instance"));
        let mut turned = specs.clone();
        turned.rotate_left(2);
        turned.insert(1, EndpointSpec::new("drains").drain(true));
        let mut other = World::new(&row, 3, turned, 2, "another instance with another order and seed");
        assert!(first == homes(&mut other), "row {row}: instances disagree");
        assert!(first == homes(&mut other), "row {row}: a key moved");
    }
}

#[test]
fn only_the_keys_of_an_endpoint_that_leaves_move_and_they_come_back() {
    for row in keyed_rows() {
        let specs = weighted(&[1; 20]);
        let mut w = World::new(&row, 1, specs.clone(), 1, "one of 20 leaves");
        let before = homes(&mut w);
        let gone = specs[7].id;
        w.reload(specs.iter().filter(|s| s.id != gone).cloned().collect());
        let during = homes(&mut w);
        let moved = before.iter().zip(&during).filter(|(a, b)| a != b && **a != gone).count();
        // 95 of 100 keys need not move. A Maglev table moves some of them (its paper: a few percent; small tables
        // more), a modulus would move 95 %.
        assert!(moved < KEYS as usize / 8, "row {row}: {moved} of {KEYS} keys moved without need");
        w.reload(specs);
        assert!(before == homes(&mut w), "row {row}: keys did not come back");
    }
}

#[test]
fn a_retry_goes_elsewhere_and_always_to_the_same_place() {
    for row in keyed_rows() {
        let mut w = World::new(&row, 2, weighted(&[1; 6]), 3, "retries of a key");
        for key in 0..200u64 {
            let key = Some(key.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            let mut second = |worker| {
                let first = w.start(worker, key, &[]).unwrap_or_else(|e| w.fail(&e.to_string()));
                let tried = [w.slot(first)];
                w.end(0, Outcome::Cancelled);
                let second = w.start(worker, key, &tried).unwrap_or_else(|e| w.fail(&e.to_string()));
                w.end(0, Outcome::Cancelled);
                (first, second)
            };
            assert_eq!(second(0), second(1), "row {row}, key {key:?}");
        }
    }
}
