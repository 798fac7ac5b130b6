//! Thousands of services, of which pools follow some.

use crate::pools::Pools;
use evenkeel_cluster::server::{ADMIN, Server};
use evenkeel_cluster::slices::{Slices, pod};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// Objects, and those that change each second.
const ALL: usize = 10_000;
const CHURN: usize = ALL / 100;

/// Writers at the same time.
const WRITERS: usize = 16;

/// Services that pools follow: every hundredth.
fn followed() -> Vec<String> {
    (0..ALL).step_by(100).map(|n| format!("s{n}")).collect()
}

/// Runs a task for each number.
pub async fn each<T: Future<Output = ()> + Send + 'static>(
    numbers: impl IntoIterator<Item = usize>,
    mut task: impl FnMut(usize) -> T,
) {
    let mut running = JoinSet::new();
    for number in numbers {
        if running.len() == WRITERS {
            running.join_next().await.expect("there are some").expect("no panic");
        }
        running.spawn(task(number));
    }
    running.join_all().await;
}

/// Creates a slice with an endpoint that stays, and another one.
async fn create_all(slices: &Slices) {
    each(0..ALL, |n| {
        let slices = slices.clone();
        async move {
            let name = format!("s{n}");
            slices.create(&name, &name, vec![pod("stays", "10.0.0.1"), pod("first", "10.0.0.2")]).await;
        }
    })
    .await;
}

#[tokio::test]
#[ignore = "needs an API server: make test-kubernetes"]
async fn ten_thousand_services_come_and_change_and_no_endpoint_is_dropped() {
    let Some(server) = Server::start().await else { return };
    let slices = server.slices("shop").await;
    let names = followed();
    let wanted: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "")).collect();
    // Followed while they come, all at once.
    let mut pools = Pools::follow(&server, ADMIN, "cluster", &wanted).await;
    let began = Instant::now();
    create_all(&slices).await;
    let created = began.elapsed();
    let first = ["first 10.0.0.2:8080", "stays 10.0.0.1:8080"];
    for name in &names {
        pools.become_these(name, &first, &[]).await;
    }
    println!("{ALL} objects written in {created:.1?}; all there after {:.1?}", began.elapsed());

    // And listed, in pages.
    let began = Instant::now();
    let mut later = Pools::follow(&server, ADMIN, "cluster", &wanted).await;
    for name in &names {
        later.become_these(name, &first, &[]).await;
    }
    println!("{ALL} objects listed in {:.1?}", began.elapsed());

    // The services did not exist at first.
    let before = [&pools, &later].map(|pools| pools.updates("empty"));
    let writing = tokio::spawn(async move {
        for second in 0..10 {
            let next = Instant::now() + Duration::from_secs(1);
            // Some services change each time, and every one that a pool follows.
            let all = (0..CHURN / 2).map(move |n| n * 100).chain((0..CHURN / 2).map(move |n| n * 20 + second + 1));
            each(all, |n| {
                let slices = slices.clone();
                async move {
                    let (name, other) = (format!("s{n}"), pod(&format!("o{second}"), &format!("10.0.1.{second}")));
                    slices.put(&name, &name, vec![pod("stays", "10.0.0.1"), other]).await;
                }
            })
            .await;
            tokio::time::sleep_until(next.into()).await;
        }
    });
    for (pools, empty) in [&mut pools, &mut later].into_iter().zip(before) {
        for name in names.iter().take(CHURN / 2) {
            pools.become_these(name, &["o9 10.0.1.9:8080", "stays 10.0.0.1:8080"], &["stays"]).await;
        }
        for name in names.iter().skip(CHURN / 2) {
            assert_eq!(pools.shown(name), first, "{name} did not change");
        }
        assert_eq!((pools.updates("failed"), pools.updates("empty")), (0.0, empty));
    }
    writing.await.expect("no panic");
}
