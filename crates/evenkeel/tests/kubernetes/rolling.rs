//! Rolling updates of a Service under load, as a Deployment does them: new pods come in batches, old ones terminate and are
//! gone a moment later, and their endpoints move between slices and zones.

use crate::endpoints::Endpoint;
use crate::network::with_pods;
use evenkeel_cluster::evenkeel::Evenkeel;
use evenkeel_cluster::load::{Load, request};
use evenkeel_cluster::server::{ADMIN, Server};
use evenkeel_cluster::slices::{Slices, in_state};
use evenkeel_peers::own_addr;
use serde_json::{Value, json};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::{Duration, Instant};

const UPDATES: usize = 20;
const REPLICAS: usize = 50;

/// Pods that are replaced at once: a quarter, the default of Deployments.
const BATCH: usize = 13;

/// Slices of the Service. A real one has a hundred endpoints.
const SLICES: usize = 3;

/// Time between the end of a pod in its slice and that of its process: the least that a manifest should give it.
const GRACE: Duration = Duration::from_secs(1);

/// Addresses of pods: those of the last update and of this one.
fn ip(update: usize, number: usize) -> Ipv4Addr {
    let last = update % 2 * REPLICAS + number + 1;
    Ipv4Addr::new(10, 244, 0, u8::try_from(last).expect("two sets of pods"))
}

/// Pods of a Service, and the slices that have them.
struct Service {
    slices: Slices,
    serving: Vec<Endpoint>,
    terminating: Vec<Endpoint>,
    /// Moves endpoints between slices and zones.
    turn: usize,
}

impl Service {
    async fn write(&mut self) {
        let mut slices = vec![Vec::new(); SLICES];
        let serving = self.serving.iter().map(|pod| (pod, [true, true, false]));
        let terminating = self.terminating.iter().map(|pod| (pod, [false, true, true]));
        for (number, (pod, state)) in serving.chain(terminating).enumerate() {
            let mut endpoint = in_state(&pod.name, &pod.ip.to_string(), state);
            if self.turn % 2 == 1 {
                endpoint["hints"] = json!({ "forZones": [{ "name": if number % 2 == 0 { "a" } else { "b" } }] });
            }
            slices[(number + self.turn) % SLICES].push(endpoint);
        }
        // What moves is in two slices for a moment, as in a cluster, or in none: the ones that get more are written first.
        let mut order: Vec<(usize, Vec<Value>)> = slices.into_iter().enumerate().collect();
        order.sort_by_key(|(_, endpoints)| std::cmp::Reverse(endpoints.len()));
        for (number, endpoints) in order {
            self.slices.put(&format!("web-{number}"), "web", endpoints).await;
        }
    }

    /// Replaces every pod, batch by batch. Returns from when on new pods had requests, and until when old ones had new ones,
    /// since the write of their slice.
    async fn update(&mut self, update: usize) -> Vec<(Duration, Duration)> {
        let mut times = Vec::new();
        for batch in (0..REPLICAS).collect::<Vec<_>>().chunks(BATCH) {
            let before = self.serving.len();
            for number in batch {
                let pod = Endpoint::begin(format!("web-{update}-{number}"), ip(update, *number)).await;
                self.serving.push(pod);
            }
            // A surge: both are ready.
            self.turn += 1;
            let came = Instant::now();
            self.write().await;
            let first = self.first_request(before).await.duration_since(came);
            let old = self.serving.drain(..batch.len());
            self.terminating = old.collect();
            let went = Instant::now();
            self.write().await;
            tokio::time::sleep_until((went + GRACE).into()).await;
            let last = self.terminating.iter().filter_map(|pod| pod.times().last).max();
            times.push((first, last.map_or(Duration::ZERO, |last| last.saturating_duration_since(went))));
            // Their processes end before their objects.
            self.terminating.clear();
            self.write().await;
        }
        times
    }

    /// Waits until one of the pods from that number on has had a request.
    async fn first_request(&self, from: usize) -> Instant {
        let until = Instant::now() + Duration::from_secs(10);
        loop {
            if let Some(first) = self.serving[from..].iter().filter_map(|pod| pod.times().first).min() {
                return first;
            }
            assert!(Instant::now() < until, "no request reaches the new pods");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

fn config(kubeconfig: &Path, addr: SocketAddr) -> String {
    format!(
        r#"version = 1

[discovery.kubernetes]
kubeconfig = "{}"

[listener.web]
bind = ["{addr}"]
pool = "web"

[pool.web]
discover = {{ kubernetes = {{ service = "web", namespace = "shop", port = "http" }} }}
"#,
        kubeconfig.display()
    )
}

#[test]
#[ignore = "needs an API server: make test-kubernetes"]
fn twenty_rolling_updates_of_fifty_endpoints_fail_no_request() {
    with_pods("10.244.0.0/16", updates);
}

async fn updates() {
    let server = Server::start().await.expect("it is installed");
    let slices = server.slices("shop").await;
    let mut service = Service { slices, serving: Vec::new(), terminating: Vec::new(), turn: 0 };
    for number in 0..REPLICAS {
        service.serving.push(Endpoint::begin(format!("web-0-{number}"), ip(0, number)).await);
    }
    service.write().await;
    let addr = own_addr();
    let program = Path::new(env!("CARGO_BIN_EXE_evenkeel"));
    let config = config(&server.kubeconfig(ADMIN), addr);
    let mut evenkeel = Evenkeel::begin(program, &server.folder, "evenkeel", &config).expect("it begins");
    let until = Instant::now() + Duration::from_secs(20);
    while let Err(error) = request(addr, &mut None).await {
        evenkeel.check().expect("it runs");
        assert!(Instant::now() < until, "{error}: {}", evenkeel.log_end());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }

    let (load, began) = (Load::begin(addr, 32, Duration::from_millis(5)), Instant::now());
    let mut times = Vec::new();
    for update in 1..=UPDATES {
        times.extend(service.update(update).await);
    }
    let (counts, took) = (load.counts(), began.elapsed());
    evenkeel.check().expect("it runs");
    let mut came: Vec<Duration> = times.iter().map(|(came, _)| *came).collect();
    let mut went: Vec<Duration> = times.iter().map(|(_, went)| *went).collect();
    came.sort_unstable();
    went.sort_unstable();
    let (median, last) = (times.len() / 2, times.len() - 1);
    println!(
        "{UPDATES} updates of {REPLICAS} pods in {took:.0?}: {} requests at {} pods, {} failed, the slowest took {:.0?}; from \
         before the write of a slice to the first request at a new pod {:.1?} (median), {:.1?} (longest); to the last one at a \
         pod that terminates {:.1?}, {:.1?}",
        counts.answered,
        counts.by_pod.len(),
        counts.failed,
        counts.slowest,
        came[median],
        came[last],
        went[median],
        went[last]
    );
    assert_eq!((counts.failed, &counts.failure), (0, &None), "{}", evenkeel.log_end());
    assert_eq!(counts.by_pod.len(), (UPDATES + 1) * REPLICAS, "every pod had requests");
}
