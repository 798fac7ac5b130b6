//! Orders of operators survive changes of plans and endpoints, and never publish an endpoint early.

use crate::plane::lock;
use crate::setup::{NAMES, Setup, WORKERS, can_pick, endpoints, plan, wait_until};
use evenkeel_runtime::Orders;
use evenkeel_runtime::orders::{Change, Given, Order};
use evenkeel_runtime::pool::Refused;
use evenkeel_view::{Drain, Health};
use std::thread;

fn order(setup: &Setup, endpoint: &str, change: Change) -> Result<(), Refused> {
    let control = setup.runtime.control();
    control.pools().get_mut("web").expect("it is there").order(endpoint, change, "test", control.now())
}

#[test]
fn an_order_stays_over_plans_and_found_endpoints() {
    let mut setup = Setup::start(plan(&[("web", &NAMES[..3])], ""));
    order(&setup, NAMES[1], Change::Drain(Some(Drain::Now))).expect("it is there");
    assert_eq!(setup.can_pick("web"), [NAMES[0], NAMES[2]]);
    setup.find("web", &NAMES[..4]);
    assert_eq!(setup.can_pick("web"), [NAMES[0], NAMES[2], NAMES[3]]);
    setup.runtime.reload(plan(&[("web", &NAMES[..2])], "")).expect("nothing fails");
    assert_eq!(setup.can_pick("web"), NAMES[..1]);
    // The order still applies to an endpoint that left and came back.
    setup.find("web", &NAMES[..1]);
    setup.find("web", &NAMES[..2]);
    assert_eq!(setup.can_pick("web"), NAMES[..1]);
    order(&setup, NAMES[1], Change::Clear).expect("it is there");
    assert_eq!(setup.can_pick("web"), NAMES[..2]);
}

#[test]
fn orders_that_were_kept_count_from_the_first_plan_on() {
    let orders = Orders::default();
    let down = Order { health: Some(Health::Down), by: "test".into(), ..Order::default() };
    let endpoints = [("web".into(), [(NAMES[0].into(), down)].into())].into();
    orders.set(Given { endpoints, ..Given::default() });
    let setup = Setup::with(plan(&[("web", &NAMES[..2])], ""), orders, |planes| {
        // Filled only when the first plan is sent.
        assert!(planes.iter().all(|plane| lock(&plane.pickable).is_empty()));
    });
    let setup = setup.expect("nothing fails");
    assert_eq!(setup.can_pick("web"), NAMES[1..2]);
    assert!(setup.planes.iter().all(|plane| lock(&plane.pickable)["web"] == 1));
}

#[test]
fn an_order_for_an_endpoint_that_is_not_there_names_those_that_are() {
    let setup = Setup::start(plan(&[("web", &NAMES[..2])], ""));
    let refused = order(&setup, NAMES[4], Change::Weight(Some(3)));
    assert_eq!(refused, Err(Refused::Unknown(NAMES[..2].iter().map(|name| (*name).into()).collect())));
    assert!(setup.runtime.control().orders().all().is_empty());
}

#[test]
fn an_order_is_an_event_with_its_author() {
    let setup = Setup::start(plan(&[("web", &NAMES[..2])], ""));
    order(&setup, NAMES[0], Change::Weight(Some(3))).expect("it is there");
    let events = setup.runtime.control().events().since(0);
    let told = events.iter().find(|event| event.kind == "operator").expect("it is told");
    assert_eq!((told.by.as_deref(), &*told.text), (Some("test"), "has weight 3"));
    assert_eq!((told.pool.as_deref(), told.endpoint.as_deref()), (Some("web"), Some(NAMES[0])));
}

/// Regression guard: an order must not publish endpoints that are only reserved, as workers may not know them yet.
#[test]
fn an_order_while_workers_apply_a_change_counts_and_publishes_nothing_of_it() {
    let mut setup = Setup::start(plan(&[("web", &NAMES[..2])], ""));
    setup.asked();
    let (seen, log, control) = (setup.planes[1].clone(), setup.log.clone(), setup.runtime.control().clone());
    let gate = lock(&seen.gate);
    let changing = thread::spawn(move || {
        let found = vec![("web".into(), endpoints(&NAMES[..4]))];
        setup.runtime.apply_endpoints(found).expect("nothing interrupts");
        setup
    });
    wait_until("the other plane has applied it", || {
        lock(&log).iter().filter(|line| line.ends_with("has applied")).count() == WORKERS
    });
    for endpoint in [NAMES[0], NAMES[3]] {
        let mut pools = control.pools();
        let web = pools.get_mut("web").expect("it is there");
        web.order(endpoint, Change::Drain(Some(Drain::Now)), "test", control.now()).expect("old or new, it is known");
    }
    assert_eq!(can_pick(&control, "web"), NAMES[1..2], "the one that is drained left, and none has joined");
    drop(gate);
    let setup = changing.join().expect("nothing fails");
    assert_eq!(setup.can_pick("web"), NAMES[1..3], "both orders count");
}
