//! Ends of a runtime: by a command, by a worker that ended unexpectedly, or in the middle of a change.

use crate::plane::lock;
use crate::setup::{NAMES, Setup, WORKERS, plan, wait_until};
use evenkeel_net::workers::Command;
use std::collections::BTreeSet;
use std::sync::atomic::Ordering::SeqCst;
use std::thread;

fn start() -> Setup {
    Setup::start(plan(&[("web", &NAMES[..2])], ""))
}

#[test]
fn a_command_reaches_the_workers_of_every_plane_and_none_is_left() {
    let Setup { runtime, log, .. } = start();
    let all: Vec<String> = ["a-0", "a-1", "b-0", "b-1"].map(String::from).into();
    assert_eq!(runtime.still_running().collect::<Vec<_>>(), all);
    assert!(!runtime.has_ended());
    runtime.command(Command::Stop);
    wait_until("they end", || runtime.has_ended());
    assert_eq!(runtime.still_running().count(), 0);
    lock(&log).clear();
    runtime.join();
    assert_eq!(*lock(&log), ["a has ended", "b has ended"]);
}

#[test]
fn every_worker_of_every_plane_beats_when_it_is_asked() {
    let setup = start();
    let beats = || setup.runtime.beats().map(|(name, n)| (name.to_owned(), n)).collect::<Vec<_>>();
    assert_eq!(beats().len(), 2 * WORKERS);
    wait_until("all have beaten", || beats().iter().all(|(_, n)| *n > 0));
}

#[test]
fn sockets_and_connections_are_those_of_all_planes() {
    let setup = start();
    let names: Vec<String> = setup.runtime.sockets().into_iter().map(|(name, _)| name).collect();
    assert_eq!((names, setup.runtime.open()), (vec!["a".to_owned(), "b".to_owned()], 4));
    // And one collector for the shared state.
    assert_eq!((setup.runtime.collectors().count(), setup.runtime.instance()), (3, 7));
}

#[tokio::test]
async fn a_worker_of_any_plane_that_ends_on_its_own_is_told_with_its_reason() {
    for plane in [0, 1] {
        let mut setup = start();
        let seen = setup.planes[plane].clone();
        seen.breaks.store(true, SeqCst);
        // A change does not wait for a worker that has ended.
        setup.runtime.reload(plan(&[("web", &NAMES[..3])], "")).expect("nothing fails");
        let mut lost = BTreeSet::new();
        for _ in 0..WORKERS {
            lost.insert(setup.runtime.worker_lost().await);
        }
        let name = seen.name;
        let told = [0, 1].map(|index| format!("{name}-{index} stopped unexpectedly: no room"));
        assert_eq!(lost, BTreeSet::from(told));
        assert_eq!(setup.runtime.still_running().count(), WORKERS, "those of the other plane go on");
    }
}

#[test]
fn a_change_that_a_stuck_worker_does_not_apply_can_be_interrupted_and_publishes_nothing() {
    let mut setup = start();
    let (seen, interrupt, control) =
        (setup.planes[0].clone(), setup.runtime.interrupt(), setup.runtime.control().clone());
    let gate = lock(&seen.gate);
    let changing = thread::spawn(move || {
        let refused = setup.runtime.reload(plan(&[("web", &NAMES[..4])], ""));
        (setup, refused.map_err(|error| error.to_string()))
    });
    wait_until("it is sent", || lock(&seen.pickable).contains_key("web"));
    interrupt.raise();
    let (setup, refused) = changing.join().expect("it returns");
    assert_eq!(refused.err().as_deref(), Some("interrupted while a worker had not applied the plan"));
    assert_eq!((setup.runtime.now().number, setup.can_pick("web")), (0, NAMES[..2].into()));
    drop((gate, control));
}
