//! Answers of `choose_k`: different endpoints, as many as exist, nothing counted, and the first of them by weight. For
//! a part of a pool, the answers of a pool with only these endpoints.

use crate::support::rows;
use crate::support::world::weighted;
use evenkeel_balance::balancer::part::Part;
use evenkeel_balance::{Balancer, Instant, NoPick, Pool, Request, Seat, Slot};

const KEYS: u64 = 6_000;

fn pool(weights: &[u32]) -> Pool {
    let mut pool = Pool::new(1);
    pool.update(&weighted(weights), Instant(0));
    pool
}

#[test]
fn an_answer_names_different_endpoints_and_all_when_asked_for_more() {
    for row in rows::all() {
        let pool = pool(&[1, 2, 3, 4, 5]);
        let mut b = row.balancer(&pool, Seat::default(), 7);
        let mut out = Vec::new();
        for (k, want) in [(1, 1), (2, 2), (4, 4), (5, 5), (6, 5), (100, 5)] {
            for key in 0..50 {
                let request = Request { key: Some(key), ..Request::default() };
                b.choose_k(&request, k, Instant(key), &mut out).unwrap_or_else(|e| panic!("row {row}, k {k}: {e}"));
                let mut different = out.clone();
                different.sort_unstable();
                different.dedup();
                assert_eq!((out.len(), different.len()), (want, want), "row {row}, k {k}: {out:?}");
            }
        }
    }
}

#[test]
fn an_answer_counts_nothing_and_leaves_out_what_was_tried() {
    for row in rows::all() {
        let pool = pool(&[3, 1, 1]);
        let mut b = row.balancer(&pool, Seat::default(), 7);
        let (tried, mut out) = (pool.view().set.members()[0].slot, Vec::new());
        for key in 0..100 {
            let request = Request { key: Some(key), tried: &[tried], beyond: false };
            b.choose_k(&request, 2, Instant(key), &mut out).unwrap();
            assert!(out.len() == 2 && !out.contains(&tried), "row {row}: {out:?}");
        }
        let none = (0..3).all(|i| pool.in_flight(pool.view().set.members()[i].slot) == 0);
        assert!(none && b.loads().in_flight_total() == 0, "row {row}");
        let all: Vec<Slot> = pool.view().set.members().iter().map(|m| m.slot).collect();
        let request = Request { key: None, tried: &all, beyond: false };
        assert_eq!(b.choose_k(&request, 2, Instant(0), &mut out), Err(NoPick::AllTried), "row {row}");
        assert!(out.is_empty(), "row {row}");
    }
}

#[test]
fn the_first_of_an_answer_follows_the_weights_where_the_row_serves_answers() {
    for row in rows::defaults().filter(|row| !row.algorithm.needs.ends && row.algorithm.promises.shares_when_idle) {
        let weights = [1, 2, 3, 4];
        let pool = pool(&weights);
        for k in 1..=4 {
            let mut b = row.balancer(&pool, Seat::default(), 11);
            let (mut out, mut seen) = (Vec::new(), [0u32; 4]);
            for key in 0..KEYS {
                b.choose_k(&Request { key: Some(key), ..Request::default() }, k, Instant(key), &mut out).unwrap();
                seen[out[0].index()] += 1;
            }
            for (i, w) in weights.iter().enumerate() {
                let want = KEYS as f64 * f64::from(*w) / 10.0;
                // A random draw, or keys spread by a hash, is binomial: a standard deviation below 38 at p = 0.4, of
                // which five are allowed.
                let off = (f64::from(seen[i]) - want).abs();
                assert!(off < 190.0, "row {row}, k {k}: {seen:?}, want {want} at {i}");
            }
        }
    }
}

#[test]
fn a_part_of_a_pool_is_named_as_a_pool_of_these_endpoints_would_be() {
    for row in rows::defaults().filter(|row| !row.algorithm.needs.ends && row.algorithm.promises.shares_when_idle) {
        // The endpoints of the part have the weights 1 to 4, with others of more weight between them.
        let pool = pool(&[1, 9, 2, 9, 3, 9, 4, 9]);
        let slots: Vec<Slot> = pool.view().set.members().iter().map(|m| m.slot).collect();
        let mut part = Part::new(slots.iter().copied().step_by(2));
        let mut b = row.balancer(&pool, Seat::default(), 11);
        let (mut out, mut seen) = (Vec::new(), [0u32; 4]);
        for key in 0..KEYS {
            let request = Request { key: Some(key), ..Request::default() };
            b.choose_k_of(&mut part, &request, 2, Instant(key), &mut out).unwrap();
            assert!(out.len() == 2 && out[0] != out[1], "row {row}: {out:?}");
            assert!(out.iter().all(|slot| slot.index() % 2 == 0), "row {row}: {out:?}");
            seen[out[0].index() / 2] += 1;
        }
        for (i, &got) in seen.iter().enumerate() {
            let off = (f64::from(got) - KEYS as f64 * (i + 1) as f64 / 10.0).abs();
            assert!(off < 190.0, "row {row}: {seen:?} at {i}, by the same bound as above");
        }
    }
}

#[test]
fn a_part_follows_its_pool_and_what_it_is_told_to_be() {
    for row in rows::all() {
        let mut pool = pool(&[1, 1, 1, 1]);
        let mut b = row.balancer(&pool, Seat::default(), 7);
        let slots: Vec<Slot> = pool.view().set.members().iter().map(|m| m.slot).collect();
        let mut part = Part::new(slots[..2].iter().copied());
        let named = |b: &mut Balancer, part: &mut Part| {
            let mut out = Vec::new();
            let named =
                b.choose_k_of(part, &Request { key: Some(1), tried: &[], beyond: false }, 9, Instant(1), &mut out);
            out.sort_unstable();
            named.map(|()| out)
        };
        assert_eq!(named(&mut b, &mut part), Ok(slots[..2].to_vec()), "row {row}");
        part.change(slots[1..].iter().copied());
        assert_eq!(named(&mut b, &mut part), Ok(slots[1..].to_vec()), "row {row}: other endpoints");
        pool.update(&weighted(&[1, 1, 0, 0]), Instant(0));
        assert_eq!(named(&mut b, &mut part), Ok(vec![slots[1]]), "row {row}: another set");
        pool.update(&weighted(&[1, 0, 0, 0]), Instant(0));
        assert_eq!(named(&mut b, &mut part), Err(NoPick::Empty), "row {row}: none of them");
        pool.update(&weighted(&[1, 1, 1, 1]), Instant(0));
        assert_eq!(named(&mut b, &mut part), Ok(slots[1..].to_vec()), "row {row}: all again");
    }
}

#[test]
fn round_robin_names_each_endpoint_equally_often() {
    let pool = pool(&[1, 1, 1, 1, 1]);
    let mut b = rows::Row::named("round_robin").balancer(&pool, Seat::default(), 1);
    let (mut out, mut seen) = (Vec::new(), [0u32; 5]);
    for _ in 0..1000 {
        b.choose_k(&Request::default(), 2, Instant(0), &mut out).unwrap();
        out.iter().for_each(|slot| seen[slot.index()] += 1);
    }
    assert_eq!(seen, [400; 5]);
}

#[test]
fn first_names_endpoints_in_the_order_of_the_list() {
    let pool = pool(&[1, 1, 1]);
    let mut b = rows::Row::named("first").balancer(&pool, Seat::default(), 1);
    let mut out = Vec::new();
    b.choose_k(&Request::default(), 2, Instant(0), &mut out).unwrap();
    assert_eq!(out.iter().map(|s| s.index()).collect::<Vec<_>>(), [0, 1]);
}
