//! Truth of explanations, on every row, in random histories: the explained pick is the pick made, asked for or not, and
//! the stated rule leads from the stated loads to it. `World` checks that at each pick; here it is seen to happen.

use super::histories;
use crate::support::rows;
use crate::support::world::{World, weighted};
use evenkeel_balance::{EndpointSpec, Explanation, Instant, Pool, Request, Seat};

#[test]
fn the_stated_rule_leads_from_the_stated_loads_to_the_pick() {
    for row in rows::all() {
        let mut explained = 0;
        for script in 0..histories::seeds(&row, 12) {
            for workers in [1, 3] {
                for weights in [&[1, 2, 1][..], &[3; 7], &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]] {
                    let mut w = World::new(&row, workers, weighted(weights), script, format!("explained {script}"));
                    w.explain = true;
                    histories::run(&mut w, script);
                    explained += w.explained.get();
                }
            }
        }
        assert!(explained > 500, "row {row}: only {explained} picks were explained");
    }
}

#[test]
fn a_pick_that_is_only_asked_about_is_the_next_one_and_changes_none() {
    for row in rows::all() {
        let mut pool = Pool::new(1);
        pool.update(&weighted(&[1, 2, 3, 4]), Instant(0));
        let [mut asked, mut plain] = [0, 1].map(|_| row.balancer(&pool, Seat::default(), 5));
        for i in 0..200u64 {
            let (request, now) = (Request { key: Some(i % 7), tried: &[], beyond: false }, Instant(i * 1_000));
            let mut why = Explanation::default();
            let would = asked.would_pick(&request, now, &mut why).unwrap_or_else(|e| panic!("row {row}: {e}"));
            assert_eq!(why.by.decide(&why.candidates), Some(would), "row {row}, pick {i}: {why}");
            let did = asked.start(&request, now).unwrap_or_else(|e| panic!("row {row}: {e}"));
            assert_eq!(would, did.slot(), "row {row}, pick {i}");
            asked.end(did, evenkeel_balance::Outcome::Success, now);
            let other = plain.start(&request, now).unwrap_or_else(|e| panic!("row {row}: {e}"));
            assert_eq!(would, other.slot(), "row {row}, pick {i}: asking changed it");
            plain.end(other, evenkeel_balance::Outcome::Success, now);
        }
    }
}

#[test]
fn a_long_list_is_cut_and_says_so() {
    for row in rows::defaults() {
        let mut pool = Pool::new(1);
        let drained = |i: usize| EndpointSpec { drain: i >= 100, ..EndpointSpec::new(&format!("e{i}")) };
        pool.update(&(0..1000).map(drained).collect::<Vec<_>>(), Instant(0));
        let mut b = row.balancer(&pool, Seat::default(), 1);
        let mut why = Explanation::default();
        let request = Request { key: Some(1), tried: &[], beyond: false };
        b.would_pick(&request, Instant(1), &mut why).unwrap_or_else(|e| panic!("row {row}: {e}"));
        assert!(why.candidates.len() <= 64, "row {row}: {} candidates", why.candidates.len());
        assert_eq!(why.excluded.len() + why.excluded_more, 900, "row {row}");
        assert!(why.excluded.len() <= 256, "row {row}");
    }
}
