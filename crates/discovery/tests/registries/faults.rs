//! Registries that fail: no endpoint is lost, and the next list counts.

use super::Follower;
use super::fake::{Fault, KINDS, Kind, Registry};
use std::time::Duration;

async fn each_fault(kind: Kind) {
    let mut registry = Registry::start(kind, &["10.0.0.1:80", "10.0.0.2:80"]).await;
    let mut follower = Follower::of(&registry, &[""]).await;
    follower.becomes(&["10.0.0.1:80", "10.0.0.2:80"]).await;
    let faults =
        [Fault::Garbage, Fault::Refuses(500), Fault::Refuses(429), Fault::Refuses(403), Fault::Huge, Fault::Cuts];
    for (n, fault) in faults.into_iter().enumerate() {
        let failed = follower.metric("failed");
        registry.change(|state| (state.fault, state.index) = (fault, state.index + 1));
        follower.counts("failed", failed + 1.0).await;
        assert_eq!(follower.names().len(), 2, "{kind:?} {fault:?}");
        let next = format!("10.0.1.{n}:80");
        registry.change(|state| state.fault = Fault::None);
        registry.set(&[&next, "10.0.0.2:80"]);
        follower.becomes(&["10.0.0.2:80", &next]).await;
    }
    registry.stop();
    let failed = follower.metric("failed");
    follower.counts("failed", failed + 1.0).await;
    assert_eq!(follower.names().len(), 2, "{kind:?} is down");
    // It comes back with an older state.
    registry.change(|state| state.index = 1);
    registry.set(&["10.0.2.1:80"]);
    registry.restart().await;
    follower.becomes(&["10.0.2.1:80"]).await;
}

#[tokio::test]
async fn consul_that_fails_takes_no_endpoint_away() {
    each_fault(Kind::Consul).await;
}

#[tokio::test]
async fn nomad_that_fails_takes_no_endpoint_away() {
    each_fault(Kind::Nomad).await;
}

#[tokio::test]
async fn a_server_of_lists_that_fails_takes_no_endpoint_away() {
    each_fault(Kind::Http).await;
}

#[tokio::test]
async fn an_engine_that_fails_takes_no_endpoint_away() {
    each_fault(Kind::Docker).await;
}

#[tokio::test]
async fn a_registry_that_hangs_is_given_up_and_asked_again() {
    for kind in KINDS {
        let registry = Registry::start(kind, &["10.0.0.1:80"]).await;
        let mut follower = Follower::of(&registry, &[""]).await;
        follower.becomes(&["10.0.0.1:80"]).await;
        registry.change(|state| (state.fault, state.index) = (Fault::Hangs, state.index + 1));
        // The request that begins now is never answered; its patience passes at once.
        let asked = registry.requests();
        while registry.requests() == asked {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        tokio::time::pause();
        while follower.metric("failed") < 1.0 {
            tokio::time::advance(Duration::from_secs(10)).await;
            tokio::task::yield_now().await;
        }
        tokio::time::resume();
        assert_eq!(follower.names(), ["10.0.0.1:80"], "{kind:?}");
        registry.change(|state| state.fault = Fault::None);
        registry.set(&["10.0.0.2:80"]);
        follower.becomes(&["10.0.0.2:80"]).await;
    }
}

#[tokio::test]
async fn a_registry_that_is_not_there_at_the_start_is_found_later() {
    for kind in KINDS {
        let mut registry = Registry::start(kind, &["10.0.0.1:80"]).await;
        registry.stop();
        let mut follower = Follower::of(&registry, &[""]).await;
        assert!(follower.names().is_empty());
        registry.restart().await;
        follower.becomes(&["10.0.0.1:80"]).await;
    }
}

#[tokio::test]
async fn a_token_that_is_renewed_in_its_file_is_used() {
    for kind in KINDS {
        let file = std::env::temp_dir().join(format!("evenkeel-token-{kind:?}-{}", std::process::id()));
        let token = |text: &str| std::fs::write(&file, text).expect("it can be written");
        token("old\n");
        let mut registry = Registry::start(kind, &["10.0.0.1:80"]).await;
        registry.token_file = Some(file.display().to_string());
        registry.change(|state| state.token = Some("old".into()));
        let mut follower = Follower::of(&registry, &[""]).await;
        follower.becomes(&["10.0.0.1:80"]).await;
        registry.change(|state| state.token = Some("new".into()));
        registry.set(&["10.0.0.2:80"]);
        // Requests that were there before the change may still be answered.
        token("new");
        registry.set(&["10.0.0.3:80"]);
        follower.becomes(&["10.0.0.3:80"]).await;
        std::fs::remove_file(&file).expect("it is there");
        registry.set(&["10.0.0.3:80"]);
        follower.counts("failed", 1.0).await;
        assert_eq!(follower.names(), ["10.0.0.3:80"], "{kind:?}");
    }
}
