//! Failed changes: a plan that one plane cannot run changes nothing in any plane, and all reasons are reported.

use crate::plane::{Seen, lock};
use crate::setup::{NAMES, Setup, plan};
use evenkeel_config::plan::{OnExit, Plane};
use evenkeel_net::listen::CannotListen;
use evenkeel_runtime::{Diagnostic, Orders};
use std::io::{Error, ErrorKind};
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

fn refuses(plane: &Arc<Seen>, why: &[&str]) {
    lock(&plane.refuses).extend(why.iter().map(|why| Diagnostic::machine(*why)));
}

#[test]
fn a_plan_that_one_plane_refuses_changes_none_of_them() {
    let mut setup = Setup::start(plan(&[("web", &NAMES[..2])], ""));
    for refusing in [0, 1] {
        setup.asked();
        let before = setup.runtime.now();
        refuses(&setup.planes[refusing], &["no more sockets"]);
        let refused = setup.runtime.reload(plan(&[("shop", &NAMES[..1]), ("web", &NAMES[1..3])], ""));
        assert_eq!(refused.expect_err("a plane refuses").to_string(), "no more sockets");
        assert_eq!(setup.asked(), ["a prepares", "b prepares"], "nothing else is asked of them");
        for plane in &setup.planes {
            assert_eq!(plane.prepared.load(SeqCst), 0, "{}: what it prepared is dropped", plane.name);
        }
        assert!(Arc::ptr_eq(&before, &setup.runtime.now()));
        assert_eq!(setup.can_pick("web"), NAMES[..2]);
        assert!(!setup.runtime.control().pools().contains_key("shop"), "no pool of it stays");
    }
    // The next good plan is the next generation.
    let summary = setup.runtime.reload(plan(&[("shop", &NAMES[..1]), ("web", &NAMES[1..3])], ""));
    assert_eq!(summary.expect("nothing fails").generation, 1);
    assert_eq!((setup.can_pick("web"), setup.can_pick("shop")), (NAMES[1..3].into(), NAMES[..1].into()));
}

#[test]
fn all_that_stands_in_its_way_is_told_in_the_order_of_the_planes_and_once() {
    let mut setup = Setup::start(plan(&[("web", &NAMES[..2])], ""));
    refuses(&setup.planes[0], &["no more sockets", "no key"]);
    refuses(&setup.planes[1], &["no key", "no more threads"]);
    let refused = setup.runtime.reload(plan(&[("web", &NAMES[..1])], "")).expect_err("both refuse");
    let told: Vec<String> = refused.0.iter().map(ToString::to_string).collect();
    assert_eq!(told, ["no more sockets", "no key", "no more threads"]);
}

#[test]
fn a_start_that_one_plane_refuses_starts_none_of_them() {
    let in_use = || CannotListen {
        listener: "web".into(),
        addr: "127.0.0.1:1".parse().expect("an address"),
        error: Error::from(ErrorKind::AddrInUse),
    };
    let started = Setup::with(plan(&[("web", &NAMES[..2])], ""), Orders::default(), |planes| {
        lock(&planes[1].refuses).push(Diagnostic::Listen(in_use()));
    });
    let refused = started.err().expect("it is refused");
    assert!(matches!(&refused.0[..], [Diagnostic::Listen(cannot)] if *cannot.listener == *"web"), "{refused}");
}

#[test]
fn what_the_kernel_has_keeps_the_keys_that_it_was_made_by() {
    let with = |plane, name: &str, on_exit| {
        let mut plan = plan(&[("web", &NAMES[..2])], "");
        Arc::make_mut(&mut plan.listeners[0]).plane = plane;
        (plan.kernel.name, plan.kernel.on_exit) = (name.into(), on_exit);
        plan
    };
    let mut setup = Setup::start(with(Plane::Proxy, "a", OnExit::Remove));
    let summary = setup.runtime.reload(with(Plane::Nftables, "b", OnExit::Remove)).expect("nothing fails");
    assert_eq!((&summary.at_restart[..], &*setup.runtime.plan().kernel.name), (&[][..], "b"));
    let summary = setup.runtime.reload(with(Plane::Nftables, "c", OnExit::Keep)).expect("nothing fails");
    assert_eq!((&summary.at_restart[..], &*setup.runtime.plan().kernel.name), (&["kernel.name"][..], "b"));
    assert_eq!(setup.runtime.plan().kernel.on_exit, OnExit::Keep);
}

#[test]
fn keys_that_only_a_restart_changes_stay_and_are_named() {
    let mut setup = Setup::start(plan(&[("web", &NAMES[..2])], ""));
    let mut next = plan(&[("web", &NAMES[..2])], "");
    next.runtime.workers = evenkeel_config::plan::Workers::Count(7);
    next.telemetry.metrics.path = "/elsewhere".into();
    let summary = setup.runtime.reload(next).expect("nothing fails");
    assert_eq!(summary.at_restart, ["runtime.workers", "telemetry.metrics.path"]);
    let now = setup.runtime.plan();
    assert_eq!((now.runtime.workers, setup.runtime.workers()), (evenkeel_config::plan::Workers::Count(2), 2));
    assert_eq!(&*now.telemetry.metrics.path, "/metrics");
}
