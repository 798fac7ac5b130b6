//! Pools that follow a control plane, go-control-plane: what it serves, what it sees of acknowledgements and refusals, and what
//! becomes of the pools when it fails. Run by `make test-xds`.

mod control;
mod provider;
mod resources;

use crate::certificates::certify;
use crate::registries::{Follower, plan_of};
use control::{Control, PROGRAM, assignment, endpoint};
use evenkeel_peers::installed;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

const SOURCE: &str = "xds = { cluster = 'web' }";

const CACHES: [&str; 2] = ["snapshot", "linear"];

fn section(control: &Control) -> String {
    let node = "node_id = 'edge-1'\nnode_cluster = 'edge'\nzone = 'eu-1'\nping_after = '1s'\n";
    format!("[discovery.xds]\nurl = 'http://{}'\n{node}", control.addr)
}

async fn follower(control: &Control) -> Follower {
    Follower::in_plan(&plan_of(&section(control), &[SOURCE])).await
}

#[tokio::test]
#[ignore = "make test-xds"]
async fn pools_follow_what_is_assigned_over_one_stream() {
    if !installed(&[PROGRAM]) {
        return;
    }
    for cache in CACHES {
        let mut control = Control::started(cache);
        let all = [assignment("web", &["10.0.0.1"]), assignment("api", &["10.0.1.1"]), assignment("x", &["10.0.2.1"])];
        control.set("1", &all);
        let sources = [SOURCE, "xds = { cluster = 'api' }", "xds = { cluster = 'web' }, allow_empty = true"];
        let plan = plan_of(&section(&control), &sources);
        let mut follower = Follower::in_plan(&plan).await;
        assert_eq!(follower.names(), ["10.0.0.1:80"], "{cache}: the first answer is waited for");
        assert!(follower.discovery.lists().iter().all(|(_, endpoints)| endpoints.len() == 1));
        control.set("2", &[assignment("web", &["10.0.0.1", "10.0.0.2", "fd00::1"]), all[1].clone()]);
        follower.becomes(&["10.0.0.1:80", "10.0.0.2:80", "[fd00::1]:80"]).await;
        let lines = control.lines();
        let first = lines.iter().find(|line| line.get("names").is_some()).expect("a request");
        assert_eq!(first["node"], "edge-1");
        assert_eq!((&first["cluster"], &first["zone"]), (&json!("edge"), &json!("eu-1")));
        assert_eq!(first["version"], "", "everything is sent on a new stream");
        assert_eq!(lines.iter().filter(|line| line.get("opened").is_some()).count(), 1, "{cache}");
        // A pool that goes is not asked for any more.
        let following = follower.discovery.follow(&plan_of(&section(&control), &[SOURCE])).await;
        follower.discovery.keep(following);
        control.sees(|line| line["names"] == json!(["web"])).await;
        assert_eq!(follower.metric("failed"), 0.0);
    }
}

#[tokio::test]
#[ignore = "make test-xds"]
async fn health_weights_priorities_and_zones_come_with_endpoints() {
    if !installed(&[PROGRAM]) {
        return;
    }
    let mut control = Control::started("snapshot");
    let with = |host: &str, status: &str, weight: u64| {
        let mut one = endpoint(host, 80);
        (one["healthStatus"], one["loadBalancingWeight"]) = (json!(status), json!(weight));
        one
    };
    let all = json!({
        "clusterName": "web",
        "endpoints": [
            {
                "locality": { "region": "eu", "zone": "eu-1" },
                "loadBalancingWeight": 3,
                "lbEndpoints": [with("10.0.0.1", "HEALTHY", 7), with("10.0.0.2", "DRAINING", 1)],
            },
            {
                "locality": { "region": "eu" },
                "priority": 2,
                "lbEndpoints": [with("10.0.0.3", "DEGRADED", 1), with("10.0.0.4", "UNHEALTHY", 1), with("10.0.0.5", "TIMEOUT", 1)],
            },
            { "priority": 16, "lbEndpoints": [with("10.0.0.6", "UNKNOWN", 1)] },
        ],
        "policy": { "overprovisioningFactor": 140, "endpointStaleAfter": "60s" },
    });
    control.set("1", &[all]);
    let follower = follower(&control).await;
    let lists = follower.discovery.lists();
    let shown = |e: &evenkeel_config::plan::Endpoint| {
        format!("{} {} {} {} {}", e.name, e.weight, e.priority, e.zone.as_deref().unwrap_or("-"), e.drain)
    };
    let shown: Vec<String> = lists[0].1.iter().map(shown).collect();
    assert_eq!(shown, ["10.0.0.1:80 7 0 eu-1 false", "10.0.0.2:80 1 0 eu-1 true", "10.0.0.3:80 1 3 eu false"]);
    assert_eq!((follower.metric("skipped_entries"), follower.metric("list_ttl_seconds")), (1.0, 60.0));
}

#[tokio::test]
#[ignore = "make test-xds"]
async fn versions_are_acknowledged_or_refused_with_the_reason() {
    if !installed(&[PROGRAM]) {
        return;
    }
    let mut control = Control::started("snapshot");
    control.set("1", &[assignment("web", &["10.0.0.1"]), assignment("api", &["10.0.1.1"])]);
    let plan = plan_of(&section(&control), &[SOURCE, "xds = { cluster = 'api' }"]);
    let mut follower = Follower::in_plan(&plan).await;
    let ack = control.sees(|line| line["version"] == "1").await;
    assert_eq!((&ack["error"], &ack["names"]), (&json!(""), &json!(["api", "web"])));
    let wrong = json!({
        "clusterName": "web",
        "endpoints": [{ "lbEndpoints": [endpoint("10.0.0.2", 80), endpoint("web.inside", 80), endpoint("10.0.0.3", 0)] }],
    });
    control.set("2", &[wrong, assignment("api", &["10.0.1.2"])]);
    let nack = control.sees(|line| line["error"].as_str().is_some_and(|error| !error.is_empty())).await;
    let why = nack["error"].as_str().unwrap_or_default();
    assert!(why.contains("web: web.inside:80") && why.contains("10.0.0.3:0"), "{why}");
    assert_eq!(nack["version"], "1", "the last one that was accepted");
    follower.counts("failed", 1.0).await;
    assert_eq!(follower.names(), ["10.0.0.1:80"]);
    // A control plane may send what was refused again at once.
    tokio::time::sleep(Duration::from_secs(3)).await;
    let refusals =
        control.lines().iter().filter(|line| line["error"].as_str().is_some_and(|error| !error.is_empty())).count();
    assert!(refusals <= 10, "{refusals} refusals in three seconds");
    assert_eq!(follower.discovery.lists()[1].1[0].addr.to_string(), "10.0.1.2:80", "what is valid counts");
    control.set("3", &[assignment("web", &["10.0.0.2"]), assignment("api", &["10.0.1.2"])]);
    follower.becomes(&["10.0.0.2:80"]).await;
    control.sees(|line| line["version"] == "3" && line["error"] == "").await;
}

#[tokio::test]
#[ignore = "make test-xds"]
async fn a_control_plane_that_is_replaced_may_have_lower_versions_or_none() {
    if !installed(&[PROGRAM]) {
        return;
    }
    for cache in CACHES {
        let mut control = Control::new(cache, &[]);
        // It does not run yet.
        let mut follower = follower(&control).await;
        assert!(follower.names().is_empty());
        control.start();
        control.set("7", &[assignment("web", &["10.0.0.1"])]);
        follower.becomes(&["10.0.0.1:80"]).await;
        control.kill();
        let failed = follower.metric("failed");
        follower.counts("failed", failed + 1.0).await;
        assert_eq!(follower.names(), ["10.0.0.1:80"], "{cache}");
        // The same version has other endpoints.
        control.start();
        control.set("7", &[assignment("web", &["10.0.0.2"])]);
        follower.becomes(&["10.0.0.2:80"]).await;
        control.kill();
        control.start();
        control.set("1", &[assignment("web", &["10.0.0.3"])]);
        follower.becomes(&["10.0.0.3:80"]).await;
        // An empty cache, for longer than endpoints are waited for.
        control.kill();
        control.start();
        control.sees(|line| line["names"] == json!(["web"])).await;
        let failed = follower.metric("failed");
        follower.counts("failed", failed + 1.0).await;
        assert_eq!(follower.names(), ["10.0.0.3:80"], "{cache}");
        control.set("1", &[assignment("web", &["10.0.0.4"])]);
        follower.becomes(&["10.0.0.4:80"]).await;
    }
}

#[tokio::test]
#[ignore = "make test-xds"]
async fn endpoints_that_are_removed_or_empty_leave_the_last_list() {
    if !installed(&[PROGRAM]) {
        return;
    }
    let mut control = Control::started("linear");
    control.set("1", &[assignment("web", &["10.0.0.1"]), assignment("api", &["10.0.1.1"])]);
    let sources = [SOURCE, "xds = { cluster = 'web' }, allow_empty = true", "xds = { cluster = 'none' }"];
    let mut follower = Follower::in_plan(&plan_of(&section(&control), &sources)).await;
    follower.becomes(&["10.0.0.1:80"]).await;
    control.remove("2", "web");
    control.upsert("3", &assignment("api", &["10.0.1.2"]));
    control.upsert("4", &assignment("web", &["10.0.0.1", "10.0.0.2"]));
    follower.becomes(&["10.0.0.1:80", "10.0.0.2:80"]).await;
    control.upsert("5", &assignment("web", &[]));
    follower.counts("empty", 1.0).await;
    let sizes = |follower: &Follower| follower.discovery.lists().iter().map(|(_, all)| all.len()).collect::<Vec<_>>();
    let until = Instant::now() + Duration::from_secs(10);
    while sizes(&follower) != [2, 0, 0] {
        assert!(Instant::now() < until, "{:?}", sizes(&follower));
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
#[ignore = "make test-xds"]
async fn a_control_plane_that_hangs_is_noticed_and_found_again() {
    if !installed(&[PROGRAM]) {
        return;
    }
    let mut control = Control::started("snapshot");
    control.set("1", &[assignment("web", &["10.0.0.1"])]);
    let mut follower = follower(&control).await;
    follower.becomes(&["10.0.0.1:80"]).await;
    // Each PING that is answered confirms the list.
    follower.counts("unchanged", 1.0).await;
    let stopped = Instant::now();
    control.signal("STOP");
    follower.counts("failed", 1.0).await;
    let noticed = stopped.elapsed();
    assert!(noticed < Duration::from_secs(15), "{noticed:?}: a PING after 1 s has 10 s");
    assert_eq!(follower.names(), ["10.0.0.1:80"]);
    control.signal("CONT");
    control.set("2", &[assignment("web", &["10.0.0.2"])]);
    follower.becomes(&["10.0.0.2:80"]).await;
}

#[tokio::test]
#[ignore = "make test-xds"]
async fn a_cluster_that_does_not_exist_is_reported_and_found_when_it_does() {
    if !installed(&[PROGRAM]) {
        return;
    }
    let mut control = Control::started("snapshot");
    control.set("1", &[assignment("api", &["10.0.1.1"])]);
    let mut follower = follower(&control).await;
    let began = Instant::now();
    follower.counts("failed", 1.0).await;
    assert!(began.elapsed() < Duration::from_secs(20) && follower.names().is_empty());
    control.set("2", &[assignment("web", &["10.0.0.1"])]);
    follower.becomes(&["10.0.0.1:80"]).await;
}

#[tokio::test]
#[ignore = "make test-xds"]
async fn ten_thousand_endpoints_come_at_once_and_one_of_a_hundred_changes() {
    if !installed(&[PROGRAM]) {
        return;
    }
    let host = |n: u32, generation: u32| format!("10.{generation}.{}.{}", n >> 8, n & 255);
    let mut hosts: Vec<String> = (0..10_000).map(|n| host(n, 0)).collect();
    let all = |hosts: &[String]| assignment("web", &hosts.iter().map(String::as_str).collect::<Vec<_>>());
    let mut control = Control::started("snapshot");
    control.set("0", &[all(&hosts)]);
    let mut follower = follower(&control).await;
    for generation in 1..4 {
        let mut wanted: Vec<String> = hosts.iter().map(|host| format!("{host}:80")).collect();
        wanted.sort();
        follower.becomes(&wanted.iter().map(String::as_str).collect::<Vec<_>>()).await;
        (0..100).for_each(|n| hosts[n as usize * 100] = host(n * 100, generation));
        control.set(&generation.to_string(), &[all(&hosts)]);
    }
}

#[tokio::test]
#[ignore = "make test-xds"]
async fn a_token_and_an_authority_are_read_anew_for_each_stream() {
    if !installed(&[PROGRAM]) {
        return;
    }
    let folder = std::env::temp_dir().join(format!("evenkeel-xds-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("the temporary folder can be written");
    let file = |name: &str| folder.join(name).display().to_string();
    let token = |text: &str| std::fs::write(folder.join("token"), text).expect("it can be written");
    let mut control = Control::new("snapshot", &[file("server.pem"), file("server.key")]);
    certify(&folder, control.addr.ip(), "first");
    token("old\n");
    control.start();
    control.set("1", &[assignment("web", &["10.0.0.1"])]);
    let credentials = format!("ca = '{}'\ntoken_file = '{}'\n", file("ca.pem"), file("token"));
    let section = format!("[discovery.xds]\nurl = 'https://{}'\n{credentials}", control.addr);
    let mut follower = Follower::in_plan(&plan_of(&section, &[SOURCE])).await;
    follower.becomes(&["10.0.0.1:80"]).await;
    let bearer = |token: &'static str| move |line: &Value| line["authorization"] == json!([format!("Bearer {token}")]);
    control.sees(bearer("old")).await;
    control.kill();
    certify(&folder, control.addr.ip(), "second");
    token("new\n");
    control.start();
    control.set("2", &[assignment("web", &["10.0.0.2"])]);
    follower.becomes(&["10.0.0.2:80"]).await;
    control.sees(bearer("new")).await;
    let _ = std::fs::remove_dir_all(&folder);
}
