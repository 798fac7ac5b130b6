//! Spread of requests by weight and load: idle and busy, by a single worker and by several.

use super::*;
use crate::{Balancer, EndpointSpec, Outcome, Params, Pool, Request, Rng, Ticket};

fn pool(workers: u32, weights: &[u32]) -> Pool {
    let mut pool = Pool::new(workers);
    let spec = |(i, &w): (usize, &u32)| EndpointSpec::new(&i.to_string()).weight(w);
    pool.update(&weights.iter().enumerate().map(spec).collect::<Vec<_>>(), Instant(0));
    pool
}

fn balancer(pool: &Pool, worker: u32, workers: u32) -> Balancer {
    pool.balancer(&ALGORITHM, &Params::defaults(params::ALL), Seat { worker, workers }, 1).unwrap()
}

fn start(b: &mut Balancer) -> Ticket {
    b.start(&Request::default(), Instant(0)).unwrap()
}

fn end(b: &mut Balancer, t: Ticket) {
    b.end(t, Outcome::Success, Instant(0));
}

/// Slots of `count` requests that never overlap.
fn one_at_a_time(b: &mut Balancer, count: usize) -> Vec<usize> {
    let mut pick = |_| {
        let t = start(b);
        let slot = t.slot().index();
        end(b, t);
        slot
    };
    (0..count).map(&mut pick).collect()
}

#[test]
fn the_interval_between_two_picks_of_one_endpoint_is_the_longest_possible() {
    let pool = pool(1, &[1; 7]);
    let mut b = balancer(&pool, 0, 1);
    let got = one_at_a_time(&mut b, 70);
    assert!(got[7..].iter().zip(&got).all(|(later, earlier)| later == earlier), "{got:?}");
    // The same holds if requests do not end in the order in which they began.
    let mut held: Vec<_> = (0..7).map(|_| start(&mut b)).collect();
    held.drain(..).rev().for_each(|t| end(&mut b, t));
    assert_eq!(one_at_a_time(&mut b, 7), got[..7]);
}

#[test]
fn weights_hold_exactly_when_all_are_idle() {
    let pool = pool(1, &[10, 1, 1, 1]);
    let got = one_at_a_time(&mut balancer(&pool, 0, 1), 13_000);
    let count = |slot| got.iter().filter(|&&s| s == slot).count();
    assert_eq!([0, 1, 2, 3].map(count), [10_000, 1000, 1000, 1000]);
}

#[test]
fn no_other_would_with_the_request_have_fewer_per_weight() {
    for weights in [vec![1; 5], vec![10, 1, 1, 1], vec![100, 100, 1], vec![7, 5, 3]] {
        let pool = pool(1, &weights);
        let (mut b, mut rng, mut held) = (balancer(&pool, 0, 1), Rng::new(8), Vec::new());
        for _ in 0..20_000 {
            if rng.below(100) < 52 || held.is_empty() {
                let load = |s: usize| b.loads().in_flight(Slot(s as u32));
                let loads: Vec<_> = (0..weights.len()).map(load).collect();
                let t = start(&mut b);
                let p = t.slot().index();
                let better = (0..weights.len()).find(|&i| (loads[i] + 1) * weights[p] <= loads[p] * weights[i]);
                assert_eq!(better, None, "weights {weights:?}, loads {loads:?}, picked {p}");
                held.push(t);
            } else {
                let t = held.swap_remove(rng.below(held.len() as u32) as usize);
                end(&mut b, t);
            }
        }
        held.into_iter().for_each(|t| end(&mut b, t));
    }
}

#[test]
fn many_different_weights_hold_too_when_idle_and_when_busy() {
    let weights: Vec<u32> = (1..=40).collect();
    for overlap in [1, 10, 400] {
        let pool = pool(1, &weights);
        let (mut b, mut held, mut got) = (balancer(&pool, 0, 1), std::collections::VecDeque::new(), [0u32; 40]);
        for _ in 0..82_000 {
            if held.len() == overlap {
                held.pop_front().into_iter().for_each(|t| end(&mut b, t));
            }
            let t = start(&mut b);
            got[t.slot().index()] += 1;
            held.push_back(t);
        }
        held.into_iter().for_each(|t| end(&mut b, t));
        for (&got, &w) in got.iter().zip(&weights) {
            // 100 rounds of 820 turns: 100 w picks. Off by a few turns at each end, and by 1 % at most.
            assert!(got.abs_diff(100 * w) <= 8 + w, "{overlap} overlap, weight {w}: {got} for {}", 100 * w);
        }
    }
}

#[test]
fn what_siblings_have_in_flight_is_known_and_forgotten_within_n_picks() {
    let pool = pool(2, &[1; 8]);
    let [mut us, mut them] = [0, 1].map(|worker| balancer(&pool, worker, 2));
    one_at_a_time(&mut us, 1);
    let theirs: Vec<_> = (0..50).map(|_| them.start_at(Slot(3), Instant(0)).unwrap()).collect();
    assert!(!one_at_a_time(&mut us, 50).contains(&3), "the one about to be picked is always read");
    theirs.into_iter().for_each(|t| end(&mut them, t));
    assert!(one_at_a_time(&mut us, 16).contains(&3));
}

#[test]
fn an_explanation_has_what_other_workers_and_reports_counted() {
    let pool = pool(2, &[1, 1]);
    let (mut here, mut sibling) = (balancer(&pool, 0, 2), balancer(&pool, 1, 2));
    let held: Vec<_> = (0..6).map(|_| start(&mut sibling)).collect();
    let own = start(&mut here);
    // So that each is read once.
    one_at_a_time(&mut here, 4);
    let mut why = crate::Explanation::default();
    let picked = here.start_explained(&Request::default(), Instant(0), &mut why).unwrap();
    for candidate in &why.candidates {
        let parts = candidate.parts.expect("leastconn adds up");
        let here = u32::from(candidate.slot == own.slot());
        assert_eq!((parts.here, parts.siblings, parts.others), (here, 3, None), "{why}");
        assert_eq!(candidate.load, Some(f64::from(here + 3)), "{why}");
    }
    assert!(why.to_string().contains("(1 by this worker, 3 by others)"), "{why}");
    end(&mut here, picked);
    end(&mut here, own);
    held.into_iter().for_each(|ticket| end(&mut sibling, ticket));
}

#[test]
fn workers_start_apart() {
    let pool = pool(4, &[1; 4]);
    let first = |worker| {
        let mut b = balancer(&pool, worker, 4);
        one_at_a_time(&mut b, 1)[0]
    };
    assert_eq!([0, 1, 2, 3].map(first), [0, 1, 2, 3]);
}

#[test]
fn room_made_by_a_sibling_is_found() {
    let mut pool = Pool::new(2);
    let spec = |i: usize| EndpointSpec::new(&i.to_string()).in_flight_max(if i == 0 { 1 } else { 0 });
    pool.update(&(0..4).map(spec).collect::<Vec<_>>(), Instant(0));
    let [mut us, mut them] = [0, 1].map(|worker| balancer(&pool, worker, 2));
    let theirs = them.start_at(Slot(0), Instant(0)).unwrap();
    // All have a request in flight; the full endpoint would be the first in order.
    let ours: Vec<_> = (0..6).map(|_| start(&mut us)).collect();
    assert!(ours.iter().all(|t| t.slot() != Slot(0)));
    end(&mut them, theirs);
    let next: Vec<_> = (0..4).map(|_| start(&mut us)).collect();
    assert!(next.iter().any(|t| t.slot() == Slot(0)));
    ours.into_iter().chain(next).for_each(|t| end(&mut us, t));
}
