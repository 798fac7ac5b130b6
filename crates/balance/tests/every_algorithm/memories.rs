//! Recording of the latest requests changes no pick and misses none, on every row, in random histories.

use super::histories;
use crate::support::rows::{self, Row};
use crate::support::world::{World, weighted};
use evenkeel_balance::Seat;
use evenkeel_balance::recent;

fn world(row: &Row, remembering: bool, script: u64) -> World<'_> {
    let mut w = World::new(row, 2, weighted(&[1, 2, 1]), script, format!("memory, script {script}"));
    let balancer = |worker| {
        let balancer = row.balancer(&w.pool, Seat { worker, workers: 2 }, script);
        if remembering { balancer.remembering() } else { balancer }
    };
    w.balancers = (0..2).map(balancer).collect();
    w
}

#[test]
fn remembering_changes_no_pick_and_forgets_no_end() {
    for row in rows::defaults() {
        let mut ended = 0;
        for script in 0..histories::seeds(&row, 6) {
            let (mut plain, mut beside) = (world(&row, false, script), world(&row, true, script));
            let (picks, others) = (histories::run(&mut plain, script), histories::run(&mut beside, script));
            assert!(picks == others, "row {row}, script {script}: another pick where requests are remembered");
            let recent: Vec<_> = beside.balancers.iter().filter_map(|b| b.recent()).collect();
            let open = |row: &&recent::Row| row.held_ns == recent::Row::OPEN;
            let left = recent.iter().flat_map(|of| &of.rows).filter(open).count();
            assert_eq!(left, 0, "row {row}, script {script}: rows of requests that have ended");
            assert!(plain.balancers.iter().all(|b| b.recent().is_none()));
            ended += recent.iter().map(|of| of.rows.len()).sum::<usize>();
        }
        assert!(ended > 30, "row {row}: only {ended} requests are remembered");
    }
}
