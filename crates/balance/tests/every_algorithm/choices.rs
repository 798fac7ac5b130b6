//! Choices count nothing. A shell may choose and discard the choice, so the same draws must lead to the same choice
//! again, until something starts or ends.

use crate::support::rows;
use crate::support::world::weighted;
use evenkeel_balance::{Explanation, Instant, LoadReport, Loads, PickContext, Pool, Rng, Seat, Tried};

#[test]
fn a_choice_that_is_thrown_away_changes_nothing() {
    for row in rows::all() {
        for seed in 0..20 {
            let mut pool = Pool::new(1);
            pool.update(&weighted(&[1, 2, 3, 4, 5, 6, 7, 8]), Instant(0));
            let view = pool.view();
            let loads = Loads::new(view.counts.clone(), 0);
            let mut picker = (row.algorithm.new)(&row.params, Seat::default()).unwrap_or_else(|e| panic!("{row}: {e}"));
            let now = Instant(1_000_000);
            picker.on_set(&view.set, &loads, now);
            for (i, m) in view.set.members().iter().enumerate() {
                let load = LoadReport::new(i as u32 % 3, 1_000_000 * (i as u64 + 1));
                picker.on_report(m.slot, &load, now);
            }
            let mut choose = |explain: bool| {
                let (mut rng, mut why) = (Rng::new(seed), Explanation::default());
                let trace = explain.then_some(&mut why);
                let (set, loads, rng) = (&view.set, &loads, &mut rng);
                picker.choose(&mut PickContext { set, loads, now, rng, key: Some(seed), tried: Tried::NONE, trace })
            };
            let first = choose(false);
            assert!(first.is_ok(), "row {row}, seed {seed}: {first:?}");
            for again in 0..50 {
                assert_eq!(choose(again % 2 == 0), first, "row {row}, seed {seed}: choice {again} differs");
            }
        }
    }
}
