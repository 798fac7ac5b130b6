//! Ledger: counts cover all planes and survive changes of plans and endpoints.

use crate::setup::{NAMES, Setup, endpoints, plan};
use evenkeel_view::Pool;
use evenkeel_view::timeline::{Counted, PoolCounted, Timeline};
use std::sync::Arc;

/// Requests of each endpoint of a pool, over all planes.
fn requests(setup: &Setup, pool: &str) -> Vec<u64> {
    let now = setup.runtime.now();
    let (plan, endpoints) = now.pool(pool).expect("it is in the plan");
    let pool = setup.runtime.ledger().pool(&plan.name, endpoints);
    (0..pool.endpoints().count()).map(|endpoint| pool.endpoint(endpoint).0.requests).collect()
}

#[test]
fn requests_of_an_endpoint_are_those_of_all_planes() {
    let setup = Setup::start(plan(&[("web", &NAMES[..2]), ("shop", &NAMES[..1])], ""));
    let [a, b] = &setup.planes;
    a.count("web", NAMES[0], 3);
    b.count("web", NAMES[0], 4);
    b.count("web", NAMES[1], 1);
    a.count("shop", NAMES[0], 5);
    assert_eq!((requests(&setup, "web"), requests(&setup, "shop")), (vec![7, 1], vec![5]));
    let ledger = setup.runtime.ledger();
    let names: Vec<Arc<str>> = ledger.pools().map(|pool| pool.name().clone()).collect();
    assert_eq!(names, ["web", "shop"].map(Arc::from), "in the order of the plan");
    assert_eq!(ledger.listeners().requests, 2, "one of each plane");
}

#[test]
fn counts_stay_with_their_endpoint_through_changes_of_endpoints_and_plans() {
    let mut setup = Setup::start(plan(&[("web", &NAMES[..3])], ""));
    setup.planes[0].count("web", NAMES[1], 2);
    setup.planes[1].count("web", NAMES[2], 3);
    setup.find("web", &[NAMES[2], NAMES[3], NAMES[1]]);
    assert_eq!(requests(&setup, "web"), [3, 0, 2]);
    setup.planes[1].count("web", NAMES[3], 1);
    setup.runtime.reload(plan(&[("shop", &NAMES[..1]), ("web", &NAMES[1..4])], "")).expect("nothing fails");
    assert_eq!((requests(&setup, "web"), requests(&setup, "shop")), (vec![2, 3, 1], vec![0]));
    setup.find("web", &NAMES[..1]);
    setup.find("web", &NAMES[1..3]);
    assert_eq!(requests(&setup, "web"), [0, 0], "what left and came back counts from zero");
}

#[test]
fn one_that_planes_do_not_know_yet_has_no_requests_and_moves_none() {
    let setup = Setup::start(plan(&[("web", &NAMES[..2])], ""));
    setup.planes[0].count("web", NAMES[1], 2);
    // As during a change, when the endpoints of planes and membership differ.
    let next = endpoints(&[NAMES[3], NAMES[1]]);
    let pool = setup.runtime.ledger().pool(&"web".into(), next.into());
    assert_eq!([0, 1].map(|endpoint| pool.endpoint(endpoint).0.requests), [0, 2]);
    let unknown = setup.runtime.ledger().pool(&"shop".into(), endpoints(&NAMES[..1]).into());
    assert_eq!(unknown.endpoint(0).0.requests, 0, "of no plane");
}

#[test]
fn history_and_shares_are_of_all_planes() {
    let setup = Setup::start(plan(&[("web", &NAMES[..2])], ""));
    let (timeline, ledger) = (Timeline::default(), setup.runtime.ledger());
    for second in 1..=5 {
        setup.planes[0].count("web", NAMES[0], 1);
        setup.planes[1].count("web", NAMES[1], 3);
        timeline.count(&ledger, second * 1000);
    }
    let spans = timeline.shown(Some(("web", None))).expect("of the pool").spans;
    assert_eq!(spans.iter().map(|span| span.requests).collect::<Vec<_>>(), [20]);
    let now = setup.runtime.now();
    let (plan, endpoints) = now.pool("web").expect("it is in the plan");
    let mut pool: Pool = setup.runtime.control().shown(plan, &endpoints);
    ledger.pool(&plan.name, endpoints).add_to(&mut pool, &timeline, evenkeel_balance::Instant(0));
    let shown: Vec<_> = pool.endpoints.iter().map(|endpoint| (endpoint.requests, endpoint.share)).collect();
    assert_eq!(shown, [(5, Some(0.25)), (15, Some(0.75))]);
}
