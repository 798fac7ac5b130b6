//! Indexes of blocking queries that do not keep the rules.

use super::Follower;
use super::fake::{Index, Kind, Registry};
use std::time::Duration;

async fn follows_with(kind: Kind, rule: Index) {
    let registry = Registry::start(kind, &["10.0.0.1:80"]).await;
    registry.change(|state| state.rule = rule);
    let mut follower = Follower::of(&registry, &[""]).await;
    follower.becomes(&["10.0.0.1:80"]).await;
    registry.set(&["10.0.0.2:80"]);
    follower.becomes(&["10.0.0.2:80"]).await;
    let before = registry.requests();
    tokio::time::sleep(Duration::from_secs(3)).await;
    let requests = registry.requests() - before;
    assert!(requests <= 8, "{kind:?} {rule:?}: {requests} requests in three seconds");
}

#[tokio::test]
async fn an_index_that_is_missing_0_or_always_the_same_loses_no_change_and_floods_nobody() {
    for kind in [Kind::Consul, Kind::Nomad] {
        let (missing, zero, equal) =
            (follows_with(kind, Index::Missing), follows_with(kind, Index::Zero), follows_with(kind, Index::Equal));
        tokio::join!(missing, zero, equal);
    }
}

#[tokio::test]
async fn an_index_that_falls_is_asked_for_anew() {
    for kind in [Kind::Consul, Kind::Nomad] {
        let registry = Registry::start(kind, &["10.0.0.1:80"]).await;
        registry.change(|state| state.index = 1_000_000);
        let mut follower = Follower::of(&registry, &[""]).await;
        follower.becomes(&["10.0.0.1:80"]).await;
        registry.change(|state| state.index = 5);
        registry.set(&["10.0.0.2:80"]);
        follower.becomes(&["10.0.0.2:80"]).await;
        registry.set(&["10.0.0.3:80"]);
        follower.becomes(&["10.0.0.3:80"]).await;
    }
}

#[tokio::test]
async fn an_answer_that_is_too_old_is_asked_for_at_the_leader() {
    let registry = Registry::start(Kind::Consul, &["10.0.0.1:80"]).await;
    registry.change(|state| state.contact = 60_000);
    let mut follower = Follower::of(&registry, &[""]).await;
    follower.becomes(&["10.0.0.1:80"]).await;
    registry.set(&["10.0.0.2:80"]);
    follower.becomes(&["10.0.0.2:80"]).await;
    assert_eq!(follower.metric("failed"), 0.0);
}
