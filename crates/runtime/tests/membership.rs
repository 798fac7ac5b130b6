//! Changes of endpoints affect their pools and nothing else.

use crate::setup::{NAMES, Setup, endpoints, plan};
use evenkeel_balance::EndpointId;
use evenkeel_balance::state::State;
use evenkeel_config::Plan;
use std::sync::Arc;

#[test]
fn only_pools_that_have_others_now_are_told_to_planes() {
    let mut setup = Setup::start(plan(&[("web", &NAMES[..2]), ("shop", &NAMES[..1])], ""));
    setup.asked();
    let found = [("web", &NAMES[..2]), ("shop", &NAMES[..2]), ("unknown", &NAMES[..1])];
    let found = found.map(|(pool, list)| (pool.into(), endpoints(list)));
    setup.runtime.apply_endpoints(found.into()).expect("nothing interrupts");
    let asked = setup.asked();
    assert_eq!(
        asked.iter().filter(|line| line.contains("endpoints of")).collect::<Vec<_>>(),
        ["a gets endpoints of shop", "b gets endpoints of shop"]
    );
    setup.find("shop", &NAMES[..2]);
    assert_eq!(setup.asked(), [""; 0], "what is so already costs nothing");
}

#[test]
fn those_that_stay_keep_their_slots_and_their_history() {
    let mut setup = Setup::start(plan(&[("web", &NAMES[..3])], ""));
    let slot_of = |setup: &Setup, name: &str| setup.runtime.control().pools()["web"].pool.slot_of(EndpointId::of(name));
    let control = setup.runtime.control().clone();
    control.pools().get_mut("web").expect("it is there").eject(NAMES[1], "test", control.now()).expect("it was not");
    let (before, changes) = (slot_of(&setup, NAMES[1]), |setup: &Setup| {
        let pools = setup.runtime.control().pools();
        pools["web"].history().endpoint(EndpointId::of(NAMES[1])).map(|endpoint| endpoint.counts.changes)
    });
    assert_eq!(changes(&setup), Some(1));
    setup.find("web", &NAMES[1..5]);
    setup.runtime.reload(plan(&[("shop", &NAMES[..1]), ("web", &NAMES[1..2])], "")).expect("nothing fails");
    assert_eq!((slot_of(&setup, NAMES[1]), changes(&setup)), (before, Some(1)));
    let state = setup.runtime.control().pools()["web"].state_of(NAMES[1]);
    assert!(matches!(state, Some(State::Ejected(_))), "{state:?}");
}

#[test]
fn a_pool_that_left_is_gone_and_comes_back_as_a_new_one() {
    let mut setup = Setup::start(plan(&[("web", &NAMES[..2]), ("shop", &NAMES[..2])], ""));
    let control = setup.runtime.control().clone();
    control.pools().get_mut("shop").expect("it is there").eject(NAMES[0], "test", control.now()).expect("it was not");
    setup.runtime.reload(plan(&[("web", &NAMES[..2])], "")).expect("nothing fails");
    assert_eq!(control.pools().keys().map(|name| &**name).collect::<Vec<_>>(), ["web"]);
    setup.runtime.reload(plan(&[("web", &NAMES[..2]), ("shop", &NAMES[..2])], "")).expect("nothing fails");
    assert_eq!(setup.can_pick("shop"), NAMES[..2]);
}

#[test]
fn a_pool_may_lose_all_its_endpoints_and_get_others() {
    let mut setup = Setup::start(plan(&[("web", &NAMES[..2])], ""));
    setup.find("web", &[]);
    assert_eq!(setup.can_pick("web"), [""; 0]);
    setup.find("web", &NAMES[3..]);
    assert_eq!(setup.can_pick("web"), NAMES[3..]);
}

fn owned(names: &[&str]) -> Vec<String> {
    names.iter().map(ToString::to_string).collect()
}

#[test]
fn a_plan_stays_as_it_was_wanted_and_its_membership_is_what_was_found() {
    let mut setup = Setup::start(plan(&[("web", &NAMES[..2]), ("shop", &NAMES[..1])], ""));
    let before = setup.runtime.now();
    setup.find("web", &NAMES[2..4]);
    let now = setup.runtime.now();
    assert!(Arc::ptr_eq(&before, &now), "no plan and no generation is made for it");
    let members = |at| now.membership.endpoints(at).iter().map(|e| e.name.to_string()).collect::<Vec<_>>();
    assert_eq!((members(0), members(1)), (owned(&NAMES[2..4]), owned(&NAMES[..1])));
    let names = |plan: &Plan| plan.pools[0].endpoints.iter().map(|e| e.name.to_string()).collect::<Vec<_>>();
    assert_eq!((names(&now.plan), names(&now.plan_as_found())), (owned(&NAMES[..2]), owned(&NAMES[2..4])));
    let found = vec![("shop".into(), endpoints(&NAMES[..3]))];
    setup.runtime.reload_found(Plan::clone(&now.plan), found).expect("nothing fails");
    assert_eq!((setup.can_pick("web"), setup.can_pick("shop")), (NAMES[..2].to_vec(), NAMES[..3].to_vec()));
}
