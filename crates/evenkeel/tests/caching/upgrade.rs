//! Stored responses over an upgrade, with real processes.

use super::Setup;
use crate::support::{Adopted, Endpoint, Running, eventually, get};
use rustix::process::{Pid, Signal};

/// Upgrades, and waits until the process that takes over has the stored responses. Its id, and what it says of them.
fn upgrade(running: &Running) -> (Pid, String) {
    running.signal(Signal::USR2);
    let pid = eventually("the other process", || running.successor());
    let said = eventually("a handover", || {
        running.said().lines().find(|line| line.contains("the cache took over")).map(str::to_owned)
    });
    (pid, said)
}

#[test]
fn an_upgrade_keeps_what_is_stored() {
    let endpoint = Endpoint::start("one");
    let mut setup = Setup::new("caching-upgrade", &endpoint, "cache = { ttl = { 200 = '10m' } }");
    for i in 0..40 {
        assert_eq!(get(&setup.listen, &format!("/{i}")).expect("an answer").0, 200);
    }
    let purged = setup.command(&["cache", "purge", "--url", "http://test/7"]);
    assert!(purged.contains("1 response removed"), "{purged}");
    setup.command(&["cache", "purge", "--url", "http://test/8", "--soft"]);
    let (pid, said) = upgrade(&setup.running);
    let _ended = Adopted(pid);
    assert!(said.contains("took over 39 responses"), "{said}");
    assert_eq!(setup.running.ends(), Some(0), "{}", setup.running.said());
    assert!(setup.command(&["events"]).contains("the cache took over 39 responses"));
    assert!(setup.command(&["cache"]).contains("39 responses under 39 keys"));
    let before = endpoint.served();
    for i in 0..40 {
        assert_eq!(get(&setup.listen, &format!("/{i}")).expect("an answer").0, 200);
    }
    assert_eq!(endpoint.served() - before, 2, "only what was purged is fetched again, and what was made stale");
    // Purges hold as ever.
    setup.command(&["cache", "purge", "--all"]);
    assert_eq!(get(&setup.listen, "/1").expect("an answer").0, 200);
    assert_eq!(endpoint.served() - before, 3);
}

/// The first process finishes a request as long as the endpoint holds it, and is the other one's partner meanwhile.
#[test]
fn a_purge_during_an_upgrade_holds_in_both_processes() {
    let endpoint = Endpoint::start("one");
    let mut setup = Setup::new("caching-upgrade-purge", &endpoint, "cache = { ttl = { 200 = '10m' } }");
    assert_eq!(get(&setup.listen, "/a").expect("an answer").0, 200);
    let (gate, listen) = (endpoint.hold(), setup.listen.clone());
    let held = std::thread::spawn(move || get(&listen, "/held"));
    eventually("a request at the endpoint", || (endpoint.began() == 2).then_some(()));
    let (pid, _) = upgrade(&setup.running);
    let _ended = Adopted(pid);
    let purged = setup.command(&["cache", "purge", "--all"]);
    assert!(purged.starts_with("everything: 1 response removed"), "{purged}");
    drop(gate);
    // Asked for before the purge, and answered by the first process.
    assert_eq!(held.join().expect("no panic").expect("an answer").0, 200);
    assert_eq!(setup.running.ends(), Some(0), "{}", setup.running.said());
    let before = endpoint.served();
    for path in ["/a", "/held"] {
        assert_eq!(get(&setup.listen, path).expect("an answer").0, 200);
    }
    assert_eq!(endpoint.served() - before, 2);
}
