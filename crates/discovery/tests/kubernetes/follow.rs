//! Services whose endpoints change in the ways in which Kubernetes changes them.

use crate::pools::Pools;
use evenkeel_cluster::objects::create;
use evenkeel_cluster::server::{ADMIN, EVENKEEL, Server, WITHOUT_RIGHTS};
use evenkeel_cluster::slices::{in_state, pod};
use serde_json::{Value, json};

const A: &str = "a 10.0.0.1:8080";
const B: &str = "b 10.0.0.2:8080";
const C: &str = "c 10.0.0.3:8080";

fn a() -> Value {
    pod("a", "10.0.0.1")
}

fn b() -> Value {
    pod("b", "10.0.0.2")
}

fn c() -> Value {
    pod("c", "10.0.0.3")
}

const ENDING: [bool; 3] = [false, true, true];
const NOT_READY: [bool; 3] = [false, false, false];

#[tokio::test]
#[ignore = "needs an API server: make test-kubernetes"]
async fn a_service_is_followed_while_its_pods_and_slices_change() {
    let Some(server) = Server::start().await else { return };
    let slices = server.slices("shop").await;
    let mut pools = Pools::follow(&server, ADMIN, "namespace", &[("web", ""), ("later", ", allow_empty = true")]).await;
    assert!(pools.shown("web").is_empty(), "the service does not exist");

    slices.put("web-1", "web", vec![a(), b(), c()]).await;
    pools.become_these("web", &[A, B, C], &[]).await;

    // A rolling update: a new pod is not ready, then is; an old one ends, and is gone.
    slices.put("web-1", "web", vec![a(), b(), c(), in_state("d", "10.0.0.4", NOT_READY)]).await;
    slices.put("web-1", "web", vec![a(), b(), in_state("c", "10.0.0.3", ENDING), pod("d", "10.0.0.4")]).await;
    pools.become_these("web", &[A, B, "c 10.0.0.3:8080!", "d 10.0.0.4:8080"], &["a", "b", "c"]).await;
    slices.put("web-1", "web", vec![a(), b(), pod("d", "10.0.0.4")]).await;
    pools.become_these("web", &[A, B, "d 10.0.0.4:8080"], &["a", "b", "d"]).await;
    slices.put("web-1", "web", vec![a(), b(), c()]).await;
    pools.become_these("web", &[A, B, C], &["a", "b"]).await;

    // Endpoints move to another slice, the old one first without them; then the first is renamed.
    slices.put("web-1", "web", vec![a()]).await;
    slices.put("web-2", "web", vec![b(), c()]).await;
    slices.put("web-3", "web", vec![a(), pod("d", "10.0.0.4")]).await;
    slices.delete("web-1").await;
    pools.become_these("web", &[A, B, C, "d 10.0.0.4:8080"], &["a", "b", "c"]).await;
    slices.put("web-2", "web", vec![a(), b(), c()]).await;
    slices.delete("web-3").await;
    pools.become_these("web", &[A, B, C], &["a", "b", "c"]).await;

    // The second family of the same pods changes nothing; hints neither.
    slices.put("web-6", "web", vec![pod("a", "fd00::1"), pod("b", "fd00::2")]).await;
    let hinted = |mut pod: Value, zone: &str| {
        pod["hints"] = json!({ "forZones": [{ "name": zone }] });
        pod
    };
    slices.put("web-2", "web", vec![hinted(a(), "a"), hinted(b(), "b"), c()]).await;
    slices.put("web-2", "web", vec![hinted(a(), "b"), b(), c()]).await;
    slices.put("web-2", "web", vec![a(), in_state("b", "10.0.0.2", NOT_READY), c()]).await;
    slices.put("web-6", "web", vec![pod("a", "fd00::1")]).await;
    pools.become_these("web", &[A, C], &["a", "c"]).await;
    slices.put("web-2", "web", vec![a(), b(), c()]).await;
    pools.become_these("web", &[A, B, C], &["a", "c"]).await;

    // None is ready, and some serve until they end.
    slices.delete("web-6").await;
    let ending = vec![in_state("a", "10.0.0.1", ENDING), in_state("b", "10.0.0.2", ENDING)];
    slices.put("web-2", "web", ending).await;
    pools.become_these("web", &[A, B], &["a", "b"]).await;

    // Scaled to zero: the last ones stay, and only a pool that allows it is emptied.
    slices.put("web-2", "web", vec![a(), b()]).await;
    slices.put("later-1", "later", vec![c()]).await;
    pools.become_these("later", &[C], &[]).await;
    slices.put("web-2", "web", vec![]).await;
    slices.put("later-1", "later", vec![]).await;
    pools.become_these("later", &[], &[]).await;
    pools.become_these("web", &[A, B], &["a", "b"]).await;
    slices.delete("web-2").await;
    slices.put("web-9", "web", vec![b(), c()]).await;
    pools.become_these("web", &[B, C], &["b"]).await;
}

/// The rights of `deploy/kubernetes.yaml`, for all namespaces and for one.
#[tokio::test]
#[ignore = "needs an API server: make test-kubernetes"]
async fn the_rights_in_the_manifest_are_enough() {
    let Some(server) = Server::start().await else { return };
    let slices = server.slices("shop").await;
    slices.put("web-1", "web", vec![a()]).await;
    let refused = Pools::follow(&server, WITHOUT_RIGHTS, "namespace", &[("web", "")]).await;
    assert!(refused.updates("failed") > 0.0 && refused.shown("web").is_empty());

    let manifest = include_str!("../../../../deploy/kubernetes.yaml");
    let client = server.client(ADMIN).await.expect("a client");
    for document in manifest.split("\n---\n") {
        let object: Value = serde_saphyr::from_str(document).expect("YAML");
        create(&client, &object).await;
        if let Some(text) = object["data"]["evenkeel.toml"].as_str() {
            let plan = evenkeel_config::parse_str("evenkeel.toml", text, &|_| None).plan;
            assert!(plan.expect("a good plan").pools[0].discover.is_some());
        }
    }
    for scope in ["namespace", "cluster"] {
        let mut pools = Pools::follow(&server, EVENKEEL, scope, &[("web", "")]).await;
        pools.become_these("web", &[A], &[]).await;
        slices.put("web-1", "web", vec![a(), b()]).await;
        pools.become_these("web", &[A, B], &["a"]).await;
        slices.put("web-1", "web", vec![a()]).await;
        pools.become_these("web", &[A], &["a"]).await;
    }
}
