//! Do shadows move nothing, and is the shadow of a pool's own algorithm that algorithm? On every row, in random histories.

use crate::histories;
use crate::support::rows::{self, Row};
use crate::support::world::{World, weighted};
use evenkeel_balance::Seat;
use evenkeel_balance::shadow::Cast;

/// A world whose balancers have these shadows.
fn shadowed<'r>(row: &'r Row, shadows: &[&Row], sample: f64, workers: u32, script: u64) -> World<'r> {
    let mut w = World::new(row, workers, weighted(&[1, 2, 1]), script, format!("shadows {script}, {workers} workers"));
    let shadows: Vec<_> = shadows.iter().map(|row| (row.algorithm, &row.params)).collect();
    let cast = Cast::new(&shadows, sample, workers);
    let balancer = |worker| {
        let seat = Seat { worker, workers };
        let shadowed = row.balancer(&w.pool, seat, script).shadowed(&cast, seat);
        shadowed.unwrap_or_else(|e| panic!("row {row}: {e}"))
    };
    w.balancers = (0..workers).map(balancer).collect();
    w
}

#[test]
fn the_shadow_of_the_own_algorithm_agrees_on_every_pick() {
    for row in rows::all() {
        let mut sampled = 0;
        for script in 0..histories::seeds(&row, 10) {
            for workers in [1, 3] {
                // Which siblings' counts it has read lately, is not told by starts and ends.
                if row.algorithm.asks && workers > 1 {
                    continue;
                }
                {
                    let mut w = shadowed(&row, &[&row], 1.0, workers, script);
                    histories::run(&mut w, script);
                    for shown in w.balancers.iter().flat_map(|b| b.shadows()) {
                        let (agreed, apart) = (shown.agreed, shown.apart);
                        w.ensure((agreed, apart) == (shown.sampled, 0), || format!("{shown:?}"));
                        w.ensure(shown.met == shown.met_real, || format!("other loads: {shown:?}"));
                        w.ensure(shown.endpoints.iter().all(|e| e.picks == e.real), || format!("{shown:?}"));
                        sampled += shown.sampled;
                    }
                }
            }
        }
        assert!(sampled > 500, "row {row}: only {sampled} picks were compared");
    }
}

#[test]
fn shadows_change_no_pick_and_their_counts_return_to_zero() {
    let all: Vec<Row> = rows::defaults().collect();
    for row in rows::defaults() {
        for script in 0..histories::seeds(&row, 6) {
            for shadow in all.chunks(3) {
                let shadows: Vec<&Row> = shadow.iter().collect();
                let mut plain = shadowed(&row, &[], 1.0, 2, script);
                let mut beside = shadowed(&row, &shadows, 0.5, 2, script);
                let (picks, others) = (histories::run(&mut plain, script), histories::run(&mut beside, script));
                assert!(picks == others, "row {row}, script {script}: another pick beside shadows");
                for shown in beside.balancers.iter().flat_map(|b| b.shadows()) {
                    let left: u32 = shown.endpoints.iter().map(|e| e.in_flight).sum();
                    beside.ensure(left == 0, || format!("in flight at the end: {shown:?}"));
                    beside.ensure(shown.sampled < shown.starts, || format!("all were sampled: {shown:?}"));
                }
            }
        }
    }
}

#[test]
fn a_shadow_sees_the_loads_of_its_own_picks() {
    let (first, spread) = (Row::named("first"), Row::named("round_robin"));
    let mut w = shadowed(&first, &[&spread], 1.0, 1, 1);
    for _ in 0..40 {
        w.start(0, None, &[]).expect("there is room");
    }
    let shown = &w.balancers[0].shadows()[0];
    // 1 : 2 : 1 of 40, and not all at the first.
    let picks: Vec<_> = shown.endpoints.iter().map(|e| (e.real, e.picks, e.in_flight)).collect();
    assert_eq!(picks, [(40, 10, 10), (0, 20, 20), (0, 10, 10)]);
    assert_eq!((shown.sampled, shown.agreed), (40, 10));
    // 0 + 1 + ... + 39 by the real picks.
    assert_eq!(shown.met_real, 780);
    assert!(shown.met < 400, "{shown:?}");
    w.end_all();
    assert!(w.balancers[0].shadows()[0].endpoints.iter().all(|e| e.in_flight == 0));
}
