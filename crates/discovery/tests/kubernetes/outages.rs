//! API servers that end, hang, lose state, or get other certificates.

use crate::pools::Pools;
use evenkeel_cluster::server::{ADMIN, Server};
use evenkeel_cluster::slices::pod;
use serde_json::Value;
use std::fs;
use std::path::Path;

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

#[tokio::test]
#[ignore = "needs an API server: make test-kubernetes"]
async fn endpoints_stay_while_the_api_server_is_away() {
    let Some(mut server) = Server::start().await else { return };
    let slices = server.slices("shop").await;
    slices.put("web-1", "web", vec![a(), b()]).await;
    let mut pools = Pools::follow(&server, ADMIN, "namespace", &[("web", ""), ("other", "")]).await;
    pools.become_these("web", &[A, B], &[]).await;

    // It is killed, and comes back with the same state and then another endpoint.
    let failed = pools.updates("failed");
    server.end_api();
    pools.more("failed", failed).await;
    let unchanged = pools.updates("unchanged");
    server.begin_api();
    server.ready().await;
    pools.more("unchanged", unchanged).await;
    slices.put("web-1", "web", vec![a(), b(), c()]).await;
    pools.become_these("web", &[A, B, C], &["a", "b"]).await;

    // It hangs, as its process does, and goes on.
    let failed = pools.updates("failed");
    server.hang(true);
    pools.more("failed", failed).await;
    pools.become_these("web", &[A, B, C], &["a", "b", "c"]).await;
    server.hang(false);
    slices.put("web-1", "web", vec![a(), b()]).await;
    pools.become_these("web", &[A, B], &["a", "b"]).await;

    // Another authority certifies it, and the kubeconfig names the same file.
    let failed = pools.updates("failed");
    server.end_api();
    server.certify();
    server.begin_api();
    server.ready().await;
    pools.more("failed", failed).await;
    let slices = server.slices("shop").await;
    slices.put("web-1", "web", vec![b(), c()]).await;
    pools.become_these("web", &[B, C], &["b"]).await;
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("it can be written");
    for entry in fs::read_dir(from).expect("a folder").map(|entry| entry.expect("an entry")) {
        let to = to.join(entry.file_name());
        match entry.file_type().expect("a type").is_dir() {
            true => copy(&entry.path(), &to),
            false => _ = fs::copy(entry.path(), to).expect("copied"),
        }
    }
}

/// After a restore, new changes have versions that the balancer has seen before.
#[tokio::test]
#[ignore = "needs an API server: make test-kubernetes"]
async fn a_store_that_is_restored_from_a_backup_is_followed() {
    let Some(mut server) = Server::start().await else { return };
    let slices = server.slices("shop").await;
    slices.put("web-1", "web", vec![a()]).await;
    let (store, backup) = (server.folder.join("store"), server.folder.join("backup"));
    server.end_api();
    server.end_store();
    copy(&store, &backup);
    server.begin_store();
    server.begin_api();
    server.ready().await;

    let mut pools = Pools::follow(&server, ADMIN, "cluster", &[("web", "")]).await;
    pools.become_these("web", &[A], &[]).await;
    for round in 0..100 {
        slices.put("noise", "noise", vec![pod("x", &format!("10.1.0.{}", 1 + round))]).await;
    }
    slices.put("web-2", "web", vec![b()]).await;
    pools.become_these("web", &[A, B], &["a"]).await;

    server.end_api();
    server.end_store();
    fs::remove_dir_all(&store).expect("removed");
    copy(&backup, &store);
    server.begin_store();
    server.begin_api();
    server.ready().await;
    pools.become_these("web", &[A], &["a"]).await;
    slices.put("web-1", "web", vec![a(), c()]).await;
    pools.become_these("web", &[A, C], &["a"]).await;

    // A store that lost everything is another cluster, and empties no pool.
    server.end_api();
    server.end_store();
    fs::remove_dir_all(&store).expect("removed");
    let failed = pools.updates("failed");
    server.begin_store();
    server.begin_api();
    server.ready().await;
    let slices = server.slices("shop").await;
    slices.put("web-1", "web", vec![c()]).await;
    pools.more("failed", failed + 3.0).await;
    pools.become_these("web", &[A, C], &["a", "c"]).await;
}
