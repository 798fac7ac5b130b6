//! Cost of 10,000 services with 100,000 endpoints, 1 % of which are replaced each second for a minute:
//!
//! ```text
//! cargo test --release -p evenkeel-discovery --test kubernetes -- --ignored --nocapture --exact measure::measure
//! ```

use crate::many::each;
use crate::pools::plan;
use evenkeel_cluster::server::{ADMIN, Server};
use evenkeel_cluster::slices::pod;
use evenkeel_discovery::Discovery;
use std::collections::HashSet;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const SERVICES: usize = 10_000;

/// Endpoints of a service, all of which are replaced at once.
const EACH: usize = 10;

/// Services that change each second: 1 % of all endpoints are replaced.
const CHURN: usize = SERVICES / 100;

const SECONDS: usize = 60;

/// Name of the variable by which the process that follows knows the folder of the server.
const FOLDER: &str = "EVENKEEL_MEASURE";

fn now_ms() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_millis()
}

/// Endpoints of a service, named by the time at which they are written.
fn endpoints(service: usize, round: usize) -> Vec<serde_json::Value> {
    let (high, low, written) = (service / 250, service % 250, now_ms());
    (0..EACH)
        .map(|n| pod(&format!("t{written}-{n}"), &format!("10.{high}.{low}.{}", 1 + n + EACH * (round % 20))))
        .collect()
}

#[tokio::test]
#[ignore = "measures, for three minutes"]
async fn measure() {
    let Some(server) = Server::start().await else { return };
    let slices = server.slices("shop").await;
    let began = Instant::now();
    each(0..SERVICES, |n| {
        let slices = slices.clone();
        async move { slices.create(&format!("s{n}"), &format!("s{n}"), endpoints(n, 0)).await }
    })
    .await;
    println!("{SERVICES} services written in {:.1?}", began.elapsed());
    let names: Vec<String> = (0..SERVICES).map(|n| format!("s{n}")).collect();
    let pools: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "")).collect();
    fs::write(server.folder.join("plan.toml"), plan(&server, ADMIN, "cluster", &pools).to_toml_with_secrets())
        .expect("it can be written");

    // In a process of its own, whose memory and CPU time are those of the source.
    let mut follower = Command::new(std::env::current_exe().expect("it runs"))
        .args(["--ignored", "--nocapture", "--exact", "measure::follower"])
        .env(FOLDER, &server.folder)
        .spawn()
        .expect("it runs");
    let ready = server.folder.join("ready");
    while !ready.exists() {
        assert!(follower.try_wait().expect("a child").is_none(), "it ended");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let took = Arc::<Mutex<Vec<Duration>>>::default();
    for second in 0..SECONDS {
        let next = Instant::now() + Duration::from_secs(1);
        each((0..CHURN).map(|n| (second * CHURN + n) % SERVICES), |n| {
            let (slices, took) = (slices.clone(), took.clone());
            async move {
                let began = Instant::now();
                slices.put(&format!("s{n}"), &format!("s{n}"), endpoints(n, second + 1)).await;
                took.lock().expect("no panic").push(began.elapsed());
            }
        })
        .await;
        tokio::time::sleep_until(next.into()).await;
    }
    let mut took = std::mem::take(&mut *took.lock().expect("no panic"));
    took.sort_unstable();
    println!(
        "a write took {:.1?} (median), {:.1?} (99th percentile)",
        took[took.len() / 2],
        took[took.len() * 99 / 100]
    );
    assert!(follower.wait().expect("a child").success());
}

/// Memory of this process in KiB, and its CPU time.
fn used() -> (u64, Duration) {
    let status = fs::read_to_string("/proc/self/status").expect("Linux");
    let rss = status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.split_whitespace().next()?.parse().ok());
    let tasks = fs::read_dir("/proc/self/task").expect("Linux").filter_map(|task| {
        let stat = fs::read_to_string(task.ok()?.path().join("schedstat")).ok()?;
        stat.split_whitespace().next()?.parse::<u64>().ok()
    });
    (rss.expect("a number"), Duration::from_nanos(tasks.sum()))
}

/// Follower of all services, until all have changed as often as they will.
#[tokio::test]
#[ignore = "run by measure::measure"]
async fn follower() {
    let Some(folder) = std::env::var_os(FOLDER).map(PathBuf::from) else { return };
    let text = fs::read_to_string(folder.join("plan.toml")).expect("it was written");
    let plan = evenkeel_config::parse_str("plan.toml", &text, &|_| None).plan.expect("a good plan");
    drop(text);
    let (mut discovery, before, began) = (Discovery::default(), used(), Instant::now());
    let following = discovery.follow(&plan).await;
    discovery.keep(following);
    let mut missing: HashSet<Arc<str>> = plan.pools.iter().map(|pool| pool.name.clone()).collect();
    for (pool, _) in discovery.lists().into_iter().filter(|(_, list)| !list.is_empty()) {
        missing.remove(&pool);
    }
    while !missing.is_empty() {
        for (pool, _) in discovery.changed().await {
            missing.remove(&pool);
        }
    }
    let (rss, cpu) = used();
    println!(
        "lists of {SERVICES} pools after {:.1?}: {:.1?} of CPU time, {} MiB more than the {} MiB of the plan",
        began.elapsed(),
        cpu - before.1,
        (rss - before.0) / 1024,
        before.0 / 1024
    );
    // What waits from before is taken.
    while tokio::time::timeout(Duration::from_secs(2), discovery.changed()).await.is_ok() {}
    fs::write(folder.join("ready"), "").expect("it can be written");
    let (mut late, until, (_, cpu)) = (Vec::new(), Instant::now() + Duration::from_secs(SECONDS as u64), used());
    while let Ok(changed) = tokio::time::timeout_at(until.into(), discovery.changed()).await {
        let now = now_ms();
        for (_, list) in changed {
            let written =
                list.first().and_then(|e| e.name.strip_prefix("shop/t")?.split('-').next()?.parse::<u128>().ok());
            late.push(now - written.expect("it is named by a time"));
        }
    }
    let (rss, after) = used();
    late.sort_unstable();
    let part = |share: f64| late[((late.len() - 1) as f64 * share) as usize];
    println!(
        "{} changes of {EACH} endpoints in {SECONDS} s: {:.2?} of CPU time, {} MiB in all; from before the write to the change: \
         {} ms (median), {} ms (99th percentile), {} ms (longest)",
        late.len(),
        after - cpu,
        rss / 1024,
        part(0.5),
        part(0.99),
        part(1.0)
    );
}
