//! Lists of registries: empty, half invalid, large, and changing all the time.

use super::fake::{KINDS, Kind, Registry};
use super::{Follower, plan_of};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

#[tokio::test]
async fn pools_follow_what_comes_and_goes() {
    for kind in KINDS {
        let registry = Registry::start(kind, &["10.0.0.1:80"]).await;
        let mut follower = Follower::of(&registry, &[""]).await;
        assert_eq!(follower.names(), ["10.0.0.1:80"], "{kind:?}: the first answer is waited for");
        registry.set(&["10.0.0.2:80", "10.0.0.1:80"]);
        follower.becomes(&["10.0.0.1:80", "10.0.0.2:80"]).await;
        registry.set(&["10.0.0.2:80"]);
        follower.becomes(&["10.0.0.2:80"]).await;
        registry.set(&["[fd00::1]:80"]);
        if kind != Kind::Docker {
            follower.becomes(&["[fd00::1]:80"]).await;
        }
    }
}

#[tokio::test]
async fn an_empty_list_counts_only_where_it_may() {
    for kind in KINDS {
        let registry = Registry::start(kind, &["10.0.0.1:80"]).await;
        let (follower, mut other) =
            (Follower::of(&registry, &[""]).await, Follower::of(&registry, &["allow_empty = true"]).await);
        other.becomes(&["10.0.0.1:80"]).await;
        registry.set(&[]);
        other.becomes(&[]).await;
        follower.counts("empty", 1.0).await;
        assert_eq!(follower.names(), ["10.0.0.1:80"], "{kind:?}");
    }
}

#[tokio::test]
async fn bad_entries_are_left_out_and_the_others_count() {
    for kind in KINDS {
        let bad =
            ["10.0.0.1:80", "10.0.0.2:0", "a.inside:80", "0.0.0.0:80", "10.0.0.3:65536", "10.0.0.4:80", "10.0.0.1:80"];
        let registry = Registry::start(kind, &bad).await;
        let mut follower = Follower::of(&registry, &[""]).await;
        follower.becomes(&["10.0.0.1:80", "10.0.0.4:80"]).await;
        assert_eq!(follower.metric("skipped_entries"), 4.0, "{kind:?}");
        registry.set(&["10.0.0.1:80"]);
        follower.becomes(&["10.0.0.1:80"]).await;
        assert_eq!(follower.metric("skipped_entries"), 0.0, "{kind:?}");
    }
}

#[tokio::test]
async fn the_admin_is_no_endpoint_and_others_of_this_machine_are() {
    for kind in KINDS {
        let entries = ["127.0.0.1:9900", "127.0.0.1:9901", "10.0.0.1:9900", "255.255.255.255:80"];
        let registry = Registry::start(kind, &entries).await;
        let section = format!("{}\n[admin]\nhttp = {{ bind = '127.0.0.1:9900' }}", registry.section());
        let mut follower = Follower::in_plan(&plan_of(&section, &[registry.source()])).await;
        follower.becomes(&["10.0.0.1:9900", "127.0.0.1:9901"]).await;
        assert_eq!(follower.metric("skipped_entries"), 2.0, "{kind:?}");
    }
}

#[tokio::test]
async fn ten_thousand_entries_come_at_once_and_one_of_a_hundred_changes() {
    for kind in KINDS {
        let host = |n: u32, generation: u32| format!("10.{}.{}.{}:80", generation, n >> 8, n & 255);
        let mut entries: Vec<String> = (0..10_000).map(|n| host(n, 0)).collect();
        let texts = |entries: &[String]| entries.iter().map(String::as_str).map(String::from).collect::<Vec<_>>();
        let set = |registry: &Registry, entries: &[String]| {
            let texts = texts(entries);
            registry.set(&texts.iter().map(String::as_str).collect::<Vec<_>>());
        };
        let registry = Registry::start(kind, &["10.0.0.1:80"]).await;
        let mut follower = Follower::of(&registry, &[""]).await;
        follower.becomes(&["10.0.0.1:80"]).await;
        for generation in 1..4 {
            set(&registry, &entries);
            let until = std::time::Instant::now() + Duration::from_secs(60);
            loop {
                let mut wanted = entries.clone();
                wanted.sort();
                if follower.names() == wanted {
                    break;
                }
                assert!(std::time::Instant::now() < until, "{kind:?}: {} entries", follower.names().len());
                let _ = tokio::time::timeout(Duration::from_millis(100), follower.discovery.changed()).await;
            }
            (0..100).for_each(|n| entries[n as usize * 100] = host(n * 100, generation));
        }
    }
}

#[tokio::test]
async fn a_list_that_flips_is_asked_for_at_a_bounded_rate() {
    let flip = async |kind: Kind| {
        let registry = Registry::start(kind, &["10.0.0.1:80"]).await;
        let mut follower = Follower::of(&registry, &[""]).await;
        follower.becomes(&["10.0.0.1:80"]).await;
        let (before, began) = (registry.requests(), std::time::Instant::now());
        while began.elapsed() < Duration::from_secs(3) {
            registry.set(&["10.0.0.2:80"]);
            registry.set(&["10.0.0.1:80"]);
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let requests = registry.requests() - before;
        let most = 6 + began.elapsed().as_secs() as usize;
        assert!(requests <= most, "{kind:?}: {requests} requests in {:?}", began.elapsed());
        registry.set(&["10.0.0.3:80"]);
        follower.becomes(&["10.0.0.3:80"]).await;
    };
    let [consul, nomad, http, docker] = KINDS;
    tokio::join!(flip(consul), flip(nomad), flip(http), flip(docker));
}

#[tokio::test]
async fn pools_share_the_connections_to_an_engine() {
    let registry = Registry::start(Kind::Docker, &["10.0.0.1:80"]).await;
    let mut follower = Follower::of(&registry, &["", "allow_empty = true", ""]).await;
    follower.becomes(&["10.0.0.1:80"]).await;
    registry.set(&["10.0.0.2:80"]);
    follower.becomes(&["10.0.0.2:80"]).await;
    assert!(follower.discovery.lists().iter().all(|(_, endpoints)| endpoints.len() == 1));
    assert_eq!(registry.connections.load(Relaxed), 2, "one for events, one for lists");
}
