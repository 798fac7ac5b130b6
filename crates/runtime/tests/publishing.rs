//! Order of publication: no worker of any plane picks an endpoint that it does not know.

use crate::plane::lock;
use crate::setup::{NAMES, Setup, WORKERS, can_pick, endpoints, plan, wait_until};
use evenkeel_config::Plan;
use evenkeel_runtime::{Control, Orders, Runtime};
use std::sync::atomic::Ordering::SeqCst;
use std::thread;

/// Ways to change the endpoints of the pool `web`: by a plan or by discovery.
const WAYS: [fn(&mut Runtime, &[&str]); 2] = [by_plan, by_discovery];

fn by_plan(runtime: &mut Runtime, list: &[&str]) {
    runtime.reload(web(list)).expect("nothing fails");
}

fn by_discovery(runtime: &mut Runtime, list: &[&str]) {
    runtime.apply_endpoints(vec![("web".into(), endpoints(list))]).expect("nothing interrupts");
}

fn web(list: &[&str]) -> Plan {
    plan(&[("web", list)], "")
}

/// Checks the order of calls: those in `before`, then `sent` to both planes and applied by all workers, then the
/// release.
fn in_order(asked: &[String], before: &[&str], sent: &str) {
    let workers = 2 * WORKERS;
    let (first, rest) = asked.split_at(before.len());
    assert_eq!(first, before, "{asked:?}");
    let (applying, last) = rest.split_at(2 + workers);
    let applied = applying.iter().filter(|line| line.ends_with("has applied")).count();
    let sent: Vec<String> = ["a", "b"].map(|plane| format!("{plane} {sent}")).into();
    let all: Vec<_> = applying.iter().filter(|line| !line.ends_with("has applied")).cloned().collect();
    assert_eq!((applied, all), (workers, sent), "{asked:?}");
    assert_eq!(last, ["a lets go", "b lets go"], "{asked:?}");
}

#[test]
fn every_plane_prepares_before_any_installs_and_lets_go_when_all_have_applied() {
    let mut setup = Setup::start(web(&NAMES[..1]));
    in_order(&setup.asked(), &["a prepares", "b prepares"], "installs");
    by_plan(&mut setup.runtime, &NAMES[..2]);
    in_order(&setup.asked(), &["a prepares", "b prepares"], "installs");
    by_discovery(&mut setup.runtime, &NAMES[..3]);
    in_order(&setup.asked(), &[], "gets endpoints of web");
}

/// Runs a change in another thread while one plane's workers are held up, and calls `middle` during it.
fn held_up(way: fn(&mut Runtime, &[&str]), plane: usize, list: &'static [&'static str], middle: impl FnOnce(&Control)) {
    let mut setup = Setup::start(web(&NAMES[..2]));
    setup.asked();
    let (seen, log, control) = (setup.planes[plane].clone(), setup.log.clone(), setup.runtime.control().clone());
    let gate = lock(&seen.gate);
    let changing = thread::spawn(move || {
        way(&mut setup.runtime, list);
        setup
    });
    // The workers of the other plane.
    wait_until("others have applied it", || {
        lock(&log).iter().filter(|line| line.ends_with("has applied")).count() == WORKERS
    });
    assert_eq!(can_pick(&control, "web"), NAMES[..2], "before all workers have applied it");
    middle(&control);
    drop(gate);
    let setup = changing.join().expect("nothing fails");
    assert_eq!(setup.can_pick("web"), list);
}

#[test]
fn endpoints_can_be_picked_when_every_worker_of_every_plane_knows_them_and_not_before() {
    for way in WAYS {
        for plane in [0, 1] {
            held_up(way, plane, &NAMES[1..4], |_| {});
        }
    }
}

#[test]
fn the_pools_are_looked_after_while_workers_apply_a_change() {
    for way in WAYS {
        held_up(way, 1, &NAMES[..3], |control| {
            let mut pools = control.pools();
            let web = pools.get_mut("web").expect("a pool of both plans");
            web.eject(NAMES[0], "test", control.now()).expect("it was not");
            drop(pools);
            assert_eq!(can_pick(control, "web"), NAMES[1..2], "what is ejected is at once");
            let mut pools = control.pools();
            pools.get_mut("web").expect("it is still there").restore(NAMES[0], "test", control.now()).expect("it was");
        });
    }
}

#[test]
fn a_pool_that_no_worker_knows_yet_has_its_endpoints_when_they_get_it() {
    let mut setup = Setup::start(web(&NAMES[..1]));
    for plane in &setup.planes {
        assert_eq!(lock(&plane.pickable)["web"], 1, "{}: the first plan", plane.name);
    }
    setup.runtime.reload(plan(&[("web", &NAMES[..3]), ("shop", &NAMES[..2])], "")).expect("nothing fails");
    for plane in &setup.planes {
        let pickable = lock(&plane.pickable);
        assert_eq!((pickable["web"], pickable["shop"]), (1, 2), "{}: the old set, and the first", plane.name);
    }
    assert_eq!((setup.can_pick("web").len(), setup.can_pick("shop").len()), (3, 2));
}

#[test]
fn no_worker_picks_what_it_does_not_know_whatever_changes() {
    let mut setup = Setup::with(web(&NAMES[..2]), Orders::default(), |planes| {
        planes.iter().for_each(|plane| plane.picks.store(true, SeqCst));
    })
    .expect("nothing fails");
    // Various transitions between lists, so that slots are freed and reused.
    let lists: [&[&str]; 5] = [&NAMES[..2], &NAMES[2..], &NAMES[1..3], &[], &NAMES];
    for round in 0..40 {
        let list = lists[(round * 3 + round / 5) % lists.len()];
        WAYS[round % 2](&mut setup.runtime, list);
        let seen = setup.planes.each_ref().map(|plane| plane.picked.load(SeqCst));
        if !list.is_empty() {
            wait_until("both planes pick", || {
                setup.planes.iter().zip(seen).all(|(plane, before)| plane.picked.load(SeqCst) > before)
            });
        }
    }
    for plane in &setup.planes {
        assert_eq!(plane.unknown.load(SeqCst), 0, "{}: of {}", plane.name, plane.picked.load(SeqCst));
    }
}

#[test]
fn what_runs_is_shown_when_it_does() {
    let mut setup = Setup::start(web(&NAMES[..1]));
    let (running, seen) = (setup.runtime.running(), setup.planes[1].clone());
    assert_eq!((running.borrow().number, running.borrow().plan.pools.len()), (0, 1));
    let gate = lock(&seen.gate);
    let changing = thread::spawn(move || {
        let summary = setup.runtime.reload(plan(&[("web", &NAMES[..1]), ("shop", &NAMES[..1])], ""));
        (setup, summary.expect("nothing fails"))
    });
    wait_until("it is sent", || lock(&seen.pickable).contains_key("shop"));
    assert_eq!(running.borrow().number, 0, "while a worker has not applied it");
    drop(gate);
    let (mut setup, summary) = changing.join().expect("nothing fails");
    assert_eq!((summary.generation, &summary.added[..]), (1, &["pool shop".to_owned()][..]));
    assert_eq!((running.borrow().number, running.borrow().plan.pools.len()), (1, 2));
    setup.find("shop", &NAMES[..2]);
    assert_eq!(running.borrow().number, 1, "endpoints make no generation");
}

#[test]
fn an_earlier_generation_drains_as_long_as_something_holds_it() {
    let mut setup = Setup::start(web(&NAMES[..1]));
    let held = setup.runtime.now().in_use();
    setup.find("web", &NAMES[..2]);
    assert_eq!(setup.runtime.now().draining(), 0, "endpoints make no generation");
    by_plan(&mut setup.runtime, &NAMES[..3]);
    by_plan(&mut setup.runtime, &NAMES[..1]);
    assert_eq!(setup.runtime.now().draining(), 1, "the first one");
    drop(held);
    assert_eq!(setup.runtime.now().draining(), 0);
}
