//! Planes show themselves and look after their files; the runtime knows none of them by name.

use crate::plane::lock;
use crate::setup::{NAMES, Setup, plan, wait_until};
use evenkeel_balance::Instant;
use evenkeel_view::Status;
use evenkeel_view::timeline::Timeline;
use std::sync::atomic::Ordering::SeqCst;

#[test]
fn every_plane_adds_to_the_state_and_to_endpoints() {
    let setup = Setup::start(plan(&[("web", &NAMES[..2])], ""));
    let mut status = Status::default();
    setup.runtime.views().for_each(|view| view.add_to(&mut status));
    assert_eq!(status.workers, 2, "one of each plane");
    setup.planes[0].count("web", NAMES[1], 3);
    setup.planes[1].count("web", NAMES[1], 4);
    let now = setup.runtime.now();
    let (plan, endpoints) = now.pool("web").expect("it is in the plan");
    let mut pool = setup.runtime.control().shown(plan, &endpoints);
    let ledger = setup.runtime.ledger();
    ledger.pool(&plan.name, endpoints).add_to(&mut pool, &Timeline::default(), Instant(10));
    assert_eq!(pool.endpoints.iter().map(|endpoint| endpoint.bytes_in).collect::<Vec<_>>(), [0, 70]);
}

#[test]
fn a_plane_may_have_a_reason_not_to_be_ready() {
    let setup = Setup::start(plan(&[("web", &NAMES[..2])], ""));
    let reasons = || setup.runtime.views().filter_map(|view| view.not_ready()).collect::<Vec<_>>();
    assert!(reasons().is_empty());
    setup.planes[1].picks.store(true, SeqCst);
    assert_eq!(reasons(), ["it picks"]);
}

#[tokio::test]
async fn each_second_every_plane_looks_after_itself_and_its_longer_work_is_done_on_other_threads() {
    let mut setup = Setup::start(plan(&[("web", &NAMES[..2])], ""));
    setup.asked();
    setup.runtime.tick();
    assert_eq!(setup.asked(), ["a ticks", "b ticks"]);
    wait_until("the work is done", || setup.planes.iter().all(|plane| lock(&plane.worked).len() == 1));
    let here = std::thread::current().id();
    assert!(setup.planes.iter().all(|plane| !lock(&plane.worked).contains(&here)));
}
