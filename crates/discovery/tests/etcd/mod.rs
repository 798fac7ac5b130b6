//! Pools that follow keys of a real etcd, which is killed, stopped, wiped and compacted meanwhile.

mod server;

use crate::certificates::certify;
use crate::registries::{Follower, plan_of};
use crate::relay::Relay;
use evenkeel_peers::installed;
use server::Etcd;
use std::fs;
use std::time::{Duration, Instant};

const SOURCE: &str = "etcd = { prefix = '/web/' }";

fn is_there() -> bool {
    installed(&["etcd", "etcdctl"])
}

fn section(urls: &[String]) -> String {
    format!("[discovery.etcd]\nurls = {urls:?}\n")
}

async fn follower(urls: &[String]) -> Follower {
    Follower::in_plan(&plan_of(&section(urls), &[SOURCE])).await
}

#[tokio::test]
async fn keys_are_followed_and_go_with_their_lease() {
    if !is_there() {
        return;
    }
    let mut etcd = Etcd::new(&[]);
    // It does not run yet.
    let mut follower = follower(&[etcd.url()]).await;
    assert!(follower.names().is_empty());
    etcd.start();
    etcd.put("/web/a", "10.0.0.1:80");
    etcd.put("/website/a", "10.0.9.9:80");
    follower.becomes(&["10.0.0.1:80"]).await;
    etcd.put("/web/b", r#"{"addr": "10.0.0.2:80", "weight": 3, "zone": "eu-1", "drain": true}"#);
    follower.becomes(&["10.0.0.1:80", "10.0.0.2:80"]).await;
    let endpoints = &follower.discovery.lists()[0].1;
    let b = endpoints.iter().find(|e| &*e.name == "b").expect("it is named by its key");
    assert_eq!((b.weight, b.zone.as_deref(), b.drain), (3, Some("eu-1"), true));
    let lease = etcd.ctl(&["lease", "grant", "2"]);
    let lease = lease.split(' ').nth(1).expect("lease ID granted");
    etcd.ctl(&["put", "/web/c", "10.0.0.3:80", "--lease", lease]);
    follower.becomes(&["10.0.0.1:80", "10.0.0.2:80", "10.0.0.3:80"]).await;
    follower.becomes(&["10.0.0.1:80", "10.0.0.2:80"]).await;
    etcd.put("/web/a", "[fd00::1]:81");
    follower.becomes(&["10.0.0.2:80", "[fd00::1]:81"]).await;
    etcd.ctl(&["del", "/web/b"]);
    follower.becomes(&["[fd00::1]:81"]).await;
    etcd.ctl(&["del", "/web/a"]);
    follower.counts("empty", 1.0).await;
    assert_eq!(follower.names(), ["[fd00::1]:81"]);
}

#[tokio::test]
async fn an_etcd_that_is_killed_wiped_or_replaced_takes_no_endpoint_away() {
    if !is_there() {
        return;
    }
    let mut etcd = Etcd::started(&[]);
    (0..20).for_each(|_| etcd.put("/web/a", "10.0.0.1:80"));
    let mut follower = follower(&[etcd.url()]).await;
    follower.becomes(&["10.0.0.1:80"]).await;
    etcd.kill();
    follower.counts("failed", 1.0).await;
    assert_eq!(follower.names(), ["10.0.0.1:80"]);
    etcd.start();
    etcd.put("/web/b", "10.0.0.2:80");
    follower.becomes(&["10.0.0.1:80", "10.0.0.2:80"]).await;
    // It loses all keys, and begins with an older revision.
    etcd.kill();
    etcd.wipe();
    let empty = follower.metric("empty");
    etcd.start();
    follower.counts("empty", empty + 1.0).await;
    assert_eq!(follower.names(), ["10.0.0.1:80", "10.0.0.2:80"]);
    etcd.put("/web/c", "10.0.0.3:80");
    follower.becomes(&["10.0.0.3:80"]).await;
}

#[tokio::test]
async fn an_etcd_that_hangs_is_noticed_and_found_again() {
    if !is_there() {
        return;
    }
    let etcd = Etcd::started(&[]);
    etcd.put("/web/a", "10.0.0.1:80");
    let mut follower = follower(&[etcd.url()]).await;
    follower.becomes(&["10.0.0.1:80"]).await;
    let stopped = Instant::now();
    etcd.signal("STOP");
    follower.counts("failed", 1.0).await;
    let noticed = stopped.elapsed();
    assert!(noticed < Duration::from_secs(25), "{noticed:?}: a PING after 10 s has 10 s");
    assert_eq!(follower.names(), ["10.0.0.1:80"]);
    etcd.signal("CONT");
    etcd.put("/web/b", "10.0.0.2:80");
    follower.becomes(&["10.0.0.1:80", "10.0.0.2:80"]).await;
}

#[tokio::test]
async fn changes_that_were_compacted_meanwhile_are_read_anew_by_all_pools_over_one_connection() {
    if !is_there() {
        return;
    }
    let etcd = Etcd::started(&[]);
    etcd.put("/web/a", "10.0.0.1:80");
    etcd.put("/api/a", "10.0.1.1:80");
    let relay = Relay::start(etcd.addr).await;
    let sources = [SOURCE, "etcd = { prefix = '/api/' }", SOURCE];
    let mut follower = Follower::in_plan(&plan_of(&section(&[format!("http://{}", relay.addr)]), &sources)).await;
    follower.becomes(&["10.0.0.1:80"]).await;
    assert!(follower.discovery.lists().iter().all(|(_, endpoints)| endpoints.len() == 1));
    assert_eq!(relay.connections(), 1);
    relay.cut();
    etcd.put("/web/b", "10.0.0.2:80");
    etcd.ctl(&["del", "/web/a"]);
    let got = etcd.ctl(&["get", "/web/b", "-w", "json"]);
    let revision = got.split("\"revision\":").nth(1).and_then(|rest| rest.split(',').next()).expect("a revision");
    etcd.ctl(&["compact", revision]);
    follower.counts("failed", 1.0).await;
    relay.join();
    follower.becomes(&["10.0.0.2:80"]).await;
    etcd.put("/web/c", "10.0.0.3:80");
    follower.becomes(&["10.0.0.2:80", "10.0.0.3:80"]).await;
    assert_eq!(relay.connections(), 2);
}

#[tokio::test]
async fn the_next_member_is_asked_when_one_fails() {
    if !is_there() {
        return;
    }
    let (mut first, second) = (Etcd::started(&[]), Etcd::started(&[]));
    first.put("/web/a", "10.0.0.1:80");
    second.put("/web/b", "10.0.0.2:80");
    let nowhere = format!("http://{}", evenkeel_peers::own_addr());
    let mut follower = follower(&[nowhere, first.url(), second.url()]).await;
    follower.becomes(&["10.0.0.1:80"]).await;
    first.kill();
    follower.becomes(&["10.0.0.2:80"]).await;
}

#[tokio::test]
async fn keys_that_are_no_endpoints_are_left_out_and_the_others_count() {
    if !is_there() {
        return;
    }
    let etcd = Etcd::started(&[]);
    let values = ["10.0.0.1:80", "", "a.inside:80", "{\"addr\": 7}", "10.0.0.2:0", "10.0.0.3:80", "10.0.0.1:80"];
    values.iter().enumerate().for_each(|(n, value)| etcd.put(&format!("/web/{n}"), value));
    let mut follower = follower(&[etcd.url()]).await;
    follower.becomes(&["10.0.0.1:80", "10.0.0.3:80"]).await;
    assert_eq!(follower.metric("skipped_entries"), 4.0);
    (1..5).for_each(|n| etcd.put(&format!("/web/{n}"), &format!("10.0.1.{n}:80")));
    follower.becomes(&["10.0.0.1:80", "10.0.0.3:80", "10.0.1.1:80", "10.0.1.2:80", "10.0.1.3:80", "10.0.1.4:80"]).await;
    assert_eq!(follower.metric("skipped_entries"), 0.0);
}

#[tokio::test]
async fn ten_thousand_keys_come_at_once_and_one_of_a_hundred_changes() {
    if !is_there() {
        return;
    }
    let etcd = Etcd::started(&["--max-txn-ops", "20000", "--max-request-bytes", "10000000"]);
    let entry = |n: u32, generation: u32| (format!("/web/{n}"), format!("10.{generation}.{}.{}:80", n >> 8, n & 255));
    let mut entries: Vec<(String, String)> = (0..10_000).map(|n| entry(n, 0)).collect();
    etcd.put_all(&entries);
    let mut follower = follower(&[etcd.url()]).await;
    for generation in 1..4 {
        let mut wanted: Vec<&str> = entries.iter().map(|(_, addr)| &**addr).collect();
        wanted.sort_unstable();
        follower.becomes(&wanted).await;
        let changed: Vec<(String, String)> = (0..100).map(|n| entry(n * 100, generation)).collect();
        (0..100).for_each(|n| entries[n * 100] = changed[n].clone());
        etcd.put_all(&changed);
    }
    assert_eq!(follower.metric("failed"), 0.0);
}

#[tokio::test]
async fn a_user_authenticates_again_when_the_token_has_expired() {
    if !is_there() {
        return;
    }
    let mut etcd = Etcd::started(&["--auth-token-ttl", "1"]);
    etcd.put("/web/a", "10.0.0.1:80");
    etcd.put("/api/a", "10.0.1.1:80");
    for args in [
        &["user", "add", "root:secret"][..],
        &["user", "grant-role", "root", "root"],
        &["role", "add", "reader"],
        &["role", "grant-permission", "reader", "--prefix=true", "read", "/web/"],
        &["user", "add", "evenkeel:password"],
        &["user", "grant-role", "evenkeel", "reader"],
        &["auth", "enable"],
    ] {
        etcd.ctl(args);
    }
    etcd.as_user = vec!["--user".into(), "root:secret".into()];
    let password = etcd.folder.join("password");
    fs::write(&password, "wrong\n").expect("it can be written");
    let section = format!("{}user = 'evenkeel'\npassword_file = '{}'\n", section(&[etcd.url()]), password.display());
    let mut follower = Follower::in_plan(&plan_of(&section, &[SOURCE])).await;
    follower.counts("failed", 1.0).await;
    fs::write(&password, "password\n").expect("it can be written");
    follower.becomes(&["10.0.0.1:80"]).await;
    // The token expires a second after its last use; another pool then meets it, and one that may not read its keys.
    tokio::time::sleep(Duration::from_secs(3)).await;
    let failed = follower.metric("failed");
    let sources = [SOURCE, "etcd = { prefix = '/web/' }, allow_empty = true", "etcd = { prefix = '/api/' }"];
    let following = follower.discovery.follow(&plan_of(&section, &sources)).await;
    follower.discovery.keep(following);
    let lists = follower.discovery.lists();
    assert_eq!([lists[0].1.len(), lists[1].1.len(), lists[2].1.len()], [1, 1, 0]);
    etcd.put("/web/b", "10.0.0.2:80");
    follower.becomes(&["10.0.0.1:80", "10.0.0.2:80"]).await;
    assert_eq!(follower.metric("failed"), failed, "an expired token does not count as a failure");
}

#[tokio::test]
async fn an_authority_that_is_replaced_in_its_file_is_trusted_without_a_reload() {
    if !is_there() {
        return;
    }
    let mut etcd = Etcd::over_tls();
    certify(&etcd.folder, etcd.addr.ip(), "first");
    etcd.start();
    etcd.put("/web/a", "10.0.0.1:80");
    let section = format!("{}ca = '{}'\n", section(&[etcd.url()]), etcd.folder.join("ca.pem").display());
    let mut follower = Follower::in_plan(&plan_of(&section, &[SOURCE])).await;
    follower.becomes(&["10.0.0.1:80"]).await;
    etcd.kill();
    certify(&etcd.folder, etcd.addr.ip(), "second");
    etcd.start();
    etcd.put("/web/b", "10.0.0.2:80");
    follower.becomes(&["10.0.0.1:80", "10.0.0.2:80"]).await;
}
