//! Stored responses on disk, with real processes: over restarts, kills and upgrades, and with disks that cannot be used.

use super::Setup;
use crate::support::{Adopted, Endpoint, Folder, Running, ends, eventually, get};
use rustix::process::Signal;
use serde_json::Value;
use std::fs;
use std::process::Command;

/// A route with a cache, and a disk of 8 MiB in a folder that is made.
fn on_disk(folder: &Folder) -> String {
    let path = folder.0.join("cache");
    format!("cache = {{ ttl = {{ 200 = '10m' }} }}\n[cache]\ndisk = {{ path = '{}', size = '8MiB' }}", path.display())
}

impl Setup {
    /// Disk of the cache as the API shows it.
    fn disk(&self) -> Value {
        let cache: Value = serde_json::from_str(&self.command(&["cache", "--json"])).expect("JSON");
        cache["disk"].clone()
    }

    /// Starts the process again after its end, and waits until its disk is searched.
    fn restart(&mut self) {
        self.running = Running::start(&["run", "-c", &self.file]);
        self.is_open();
    }

    fn is_open(&self) {
        eventually("an open disk", || (self.disk()["is_open"] == true).then_some(()));
    }

    /// Ends the process in order.
    fn end(&mut self) {
        self.running.signal(Signal::TERM);
        assert_eq!(self.running.code(), Some(0), "{}", self.running.said());
    }

    /// Ends the process as a crash does.
    fn kill(&mut self) {
        self.running.signal(Signal::KILL);
        self.running.ends();
    }

    /// Requests paths, and returns how many of them the endpoint has answered.
    fn fetched(&self, endpoint: &Endpoint, paths: std::ops::Range<usize>) -> usize {
        let before = endpoint.served();
        for i in paths {
            assert_eq!(get(&self.listen, &format!("/{i}")).expect("an answer").0, 200);
        }
        endpoint.served() - before
    }
}

#[test]
fn a_restart_keeps_what_is_stored_and_what_is_purged() {
    let (endpoint, folder) = (Endpoint::start("one"), Folder::new("caching-disk"));
    let mut setup = Setup::new("caching-restart", &endpoint, &on_disk(&folder));
    setup.is_open();
    assert_eq!(setup.fetched(&endpoint, 0..40), 40);
    setup.command(&["cache", "purge", "--url", "http://test/7"]);
    setup.end();
    setup.restart();
    let said = setup.command(&["cache"]);
    assert!(said.contains("on disk: ") && said.contains(": 39 responses in "), "{said}");
    // Before it is read again: the purge is for the disk alone.
    setup.command(&["cache", "purge", "--url", "http://test/8"]);
    assert_eq!(setup.fetched(&endpoint, 0..40), 2);
    assert_eq!(setup.disk()["hits"], 38);
    assert_eq!(setup.fetched(&endpoint, 0..40), 0);
    assert_eq!(setup.disk()["hits"], 38, "it is in memory again");
    let page = get(&setup.admin, "/ui/cache").expect("an answer").1;
    assert!(page.contains("Disk") && page.contains("8.39 MB"), "{page}");
    let metrics = get(&setup.admin, "/metrics").expect("an answer").1;
    assert!(metrics.contains("evenkeel_cache_disk_open 1") && metrics.contains("evenkeel_cache_disk_hits_total 38"));
    // Purges hold over a crash, those by prefix too, and made stale is stale.
    setup.command(&["cache", "purge", "--prefix", "http://test/1"]);
    setup.command(&["cache", "purge", "--url", "http://test/20", "--soft"]);
    setup.kill();
    setup.restart();
    // 1 and 10 to 19, the stale one, and the two that no disk had when the process was killed.
    assert_eq!(setup.fetched(&endpoint, 0..40), 11 + 1 + 2);
    setup.command(&["cache", "purge", "--all"]);
    setup.kill();
    setup.restart();
    assert_eq!(setup.disk()["objects"], 0);
    assert_eq!(setup.fetched(&endpoint, 0..40), 40);
}

#[test]
fn what_memory_has_no_room_for_comes_from_the_disk() {
    let (endpoint, folder) = (Endpoint::start("x".repeat(60_000).leak()), Folder::new("caching-disk"));
    let route = format!("{}\nmemory = '1MiB'\nobject_max = '64KiB'", on_disk(&folder));
    let setup = Setup::new("caching-evicts", &endpoint, &route);
    setup.is_open();
    // What is asked for once is for the endpoint alone, if memory has no room; from the second request on it is on disk.
    for i in 0..60 {
        let fetched: usize = (0..2).map(|_| setup.fetched(&endpoint, i..i + 1)).sum();
        assert!((1..=2).contains(&fetched), "/{i} was fetched {fetched} times");
    }
    eventually("written responses", || (setup.disk()["writes"].as_u64()? >= 40).then_some(()));
    let again = setup.fetched(&endpoint, 0..60);
    assert!(again < 10, "{again} of 60 were fetched again");
    assert!(setup.disk()["hits"].as_u64().expect("a number") >= 30, "{}", setup.disk());
}

#[test]
fn an_upgrade_leaves_the_disk_to_the_process_that_takes_over() {
    let (endpoint, folder) = (Endpoint::start("one"), Folder::new("caching-disk"));
    let mut setup = Setup::new("caching-disk-upgrade", &endpoint, &on_disk(&folder));
    setup.is_open();
    assert_eq!(setup.fetched(&endpoint, 0..40), 40);
    setup.end();
    setup.restart();
    // Half of it is in memory, and handed over; the other half on disk alone.
    assert_eq!(setup.fetched(&endpoint, 0..20), 0);
    setup.running.signal(Signal::USR2);
    let pid = eventually("the other process", || setup.running.successor());
    let _ended = Adopted(pid);
    // Without waiting to see which process has the disk.
    setup.command(&["cache", "purge", "--url", "http://test/30"]);
    setup.command(&["cache", "purge", "--url", "http://test/3"]);
    assert_eq!(setup.running.ends(), Some(0), "{}", setup.running.said());
    setup.is_open();
    assert_eq!(setup.fetched(&endpoint, 0..40), 2);
    assert!(setup.disk()["hits"].as_u64().expect("a number") >= 19, "{}", setup.disk());
}

#[test]
fn two_processes_do_not_share_a_disk() {
    let (endpoint, folder) = (Endpoint::start("one"), Folder::new("caching-disk"));
    let mut first = Setup::new("caching-disk-first", &endpoint, &on_disk(&folder));
    first.is_open();
    let second = Setup::new("caching-disk-second", &endpoint, &on_disk(&folder));
    assert_eq!(second.disk()["state"], "used by another process");
    for setup in [&first, &second] {
        assert_eq!((setup.fetched(&endpoint, 0..5), setup.fetched(&endpoint, 0..5)), (5, 0));
    }
    second.command(&["cache", "purge", "--url", "http://test/1"]);
    assert_eq!((second.fetched(&endpoint, 0..5), first.fetched(&endpoint, 0..5)), (1, 0));
    first.end();
    second.is_open();
    assert_eq!(second.fetched(&endpoint, 0..5), 0);
}

#[test]
fn a_broken_file_or_one_of_another_size_begins_anew() {
    let (endpoint, folder) = (Endpoint::start("one"), Folder::new("caching-disk"));
    let mut setup = Setup::new("caching-disk-broken", &endpoint, &on_disk(&folder));
    setup.is_open();
    assert_eq!(setup.fetched(&endpoint, 0..5), 5);
    setup.end();
    let file = folder.0.join("cache/responses");
    for broken in [&b"noise"[..], &[0xff; 9 << 20]] {
        fs::write(&file, broken).expect("it can be written");
        setup.restart();
        assert_eq!((setup.fetched(&endpoint, 0..5), setup.fetched(&endpoint, 0..5)), (5, 0));
        setup.end();
    }
    setup.restart();
    assert_eq!(setup.fetched(&endpoint, 0..5), 0);
}

#[test]
fn a_disk_that_cannot_be_used_is_named_and_the_cache_continues_in_memory() {
    let (endpoint, folder) = (Endpoint::start("one"), Folder::new("caching-disk"));
    let route = on_disk(&folder).replace("/cache'", "/nowhere/cache'");
    let mut setup = Setup::new("caching-disk-missing", &endpoint, &route);
    let why = "create the folder";
    eventually("a state", || setup.disk()["state"].as_str()?.contains(why).then_some(()));
    assert!(
        setup.running.said().contains("the cache continues in memory only: cannot create "),
        "{}",
        setup.running.said()
    );
    assert_eq!((setup.fetched(&endpoint, 0..5), setup.fetched(&endpoint, 0..5)), (5, 0));
    setup.command(&["cache", "purge", "--all"]);
    assert_eq!(setup.fetched(&endpoint, 0..5), 5);
    ends(&["check", &setup.file], 78, &["no such folder: ", "nowhere"]);
    // A file as large as that may not be written.
    setup.kill();
    let text = fs::read_to_string(&setup.file).expect("it is there").replace("/nowhere/cache'", "/cache'");
    let other = folder.file("limited.toml", &text);
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -f 1000; exec \"$0\" run -c \"$1\"", env!("CARGO_BIN_EXE_evenkeel"), &other]);
    let admin =
        text.lines().find_map(|line| line.strip_prefix("http = { bind = '")).and_then(|rest| rest.split('\'').next());
    let limited = Running::from(command);
    eventually("a reason", || limited.said().contains("cannot allocate space for ").then_some(()));
    assert!(limited.said().contains("ulimit -f"), "{}", limited.said());
    let cache = get(admin.expect("an address"), "/v1/cache").expect("an answer").1;
    let cache: Value = serde_json::from_str(&cache).expect("JSON");
    assert_eq!((&cache["disk"]["is_open"], &cache["disk"]["errors"]), (&false.into(), &1.into()));
}
