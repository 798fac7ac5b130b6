//! A demonstration: two evenkeels that serve a Gateway, under load, while the Deployment behind it is updated.

use crate::evenkeel::Evenkeel;
use crate::load::{Counts, Load, request};
use crate::objects::{client, create, manifest};
use crate::server::{ADMIN, EVENKEEL};
use k8s_openapi::api::apps::v1::Deployment;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const REPLICAS: i32 = 6;

/// Addresses of the two evenkeels, among those of the cluster.
const BALANCERS: [&str; 2] = ["10.250.0.1", "10.250.0.2"];

/// Manifest of the guide: evenkeel gets its rights and classes here.
const GUIDE: &str = include_str!("../../../deploy/gateway.yaml");

#[derive(clap::Args, Debug)]
pub struct Options {
    /// Program of evenkeel
    #[arg(long, default_value = "target/debug/evenkeel")]
    evenkeel: PathBuf,
    /// Keep everything running at the end, until Ctrl-C
    #[arg(long)]
    stay: bool,
}

/// Runs the demonstration in the cluster with its files in `folder`, whose network this process shares. True if each
/// request got a response.
///
/// # Errors
/// The cluster or an evenkeel fails.
pub async fn run(folder: &Path, options: &Options) -> Result<bool, String> {
    let client = client(&folder.join(format!("{ADMIN}.kubeconfig"))).await?;
    for object in manifest(GUIDE) {
        // The program runs as a process, not as a pod.
        if !matches!(object["kind"].as_str(), Some("ConfigMap" | "Deployment" | "Service" | "PodDisruptionBudget")) {
            create(&client, &object).await;
        }
    }
    let process = std::fs::read_to_string(folder.join("process")).map_err(|error| error.to_string())?;
    for object in shop() {
        create(&client, &object).await;
    }
    let deployments = Api::<Deployment>::namespaced(client.clone(), "shop");
    updated(&deployments).await?;
    println!("shop: Deployment web has {REPLICAS} pods, Service web has them as endpoints, HTTPRoute web leads there");

    let mut balancers = Vec::new();
    for (n, addr) in (1..).zip(BALANCERS) {
        let name = format!("evenkeel-{n}");
        let socket = folder.join(format!("{name}.sock"));
        let mut evenkeel = Evenkeel::begin(&options.evenkeel, folder, &name, &config(folder, addr, &socket))?;
        let addr = SocketAddr::new(addr.parse().expect("an address"), 80);
        answers(addr, &mut evenkeel).await?;
        println!("{name}: answers at {addr}");
        println!("    nsenter --net=/proc/{process}/ns/net curl -s http://{addr}/");
        println!("    {} status --admin unix:{} --watch", options.evenkeel.display(), socket.display());
        balancers.push((Load::begin(addr, 8, Duration::from_millis(10)), evenkeel));
    }

    let mut total = Counts::default();
    let mut show = Show { began: Instant::now(), balancers: &balancers, total: &mut total };
    show.seconds(5).await;
    println!("rolling update of web");
    let template = json!({ "spec": { "template": { "metadata": { "annotations": { "version": "2" } } } } });
    let (parameters, patch) = (PatchParams::default(), Patch::Merge(&template));
    deployments.patch("web", &parameters, &patch).await.map_err(|error| format!("deployment web: {error}"))?;
    let began = Instant::now();
    let update = async {
        let done = updated(&deployments).await;
        (done, began.elapsed())
    };
    let mut update = std::pin::pin!(update);
    let took = loop {
        tokio::select! {
            (done, took) = &mut update => {
                done?;
                break took;
            }
            () = show.seconds(1) => {}
        }
    };
    println!("updated after {took:.1?}; old pods finish what they have");
    show.seconds(8).await;
    for (_, evenkeel) in &mut balancers {
        evenkeel.check()?;
    }
    println!(
        "{} requests, {} failed{}; the slowest took {:.0?}; {} pods answered",
        total.answered + total.failed,
        total.failed,
        total.failure.as_ref().map(|failure| format!(" ({failure})")).unwrap_or_default(),
        total.slowest,
        total.by_pod.len()
    );
    if options.stay {
        println!("all of it stays until Ctrl-C");
        std::future::pending::<()>().await;
    }
    Ok(total.failed == 0)
}

/// Returns a Deployment with its Service and a Gateway. Pods end later than their endpoints, so that balancers know of it first.
fn shop() -> [Value; 5] {
    let field = |name: &str, path: &str| json!({ "name": name, "valueFrom": { "fieldRef": { "fieldPath": path } } });
    let container = json!({
        "name": "web", "image": "echo-basic",
        "env": [field("POD_NAME", "metadata.name"), field("NAMESPACE", "metadata.namespace")],
        "ports": [{ "name": "http", "containerPort": 3000 }],
        "lifecycle": { "preStop": { "sleep": { "seconds": 5 } } },
    });
    let labels = json!({ "app": "web" });
    [
        json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "shop" } }),
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "web", "namespace": "shop" },
            "spec": {
                "replicas": REPLICAS, "minReadySeconds": 2, "selector": { "matchLabels": labels },
                "template": { "metadata": { "labels": labels }, "spec": { "containers": [container] } },
            },
        }),
        json!({
            "apiVersion": "v1", "kind": "Service", "metadata": { "name": "web", "namespace": "shop" },
            "spec": { "selector": labels, "ports": [{ "name": "http", "port": 80, "targetPort": "http" }] },
        }),
        json!({
            "apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway", "metadata": { "name": "web", "namespace": "shop" },
            "spec": { "gatewayClassName": "evenkeel", "listeners": [{ "name": "http", "port": 80, "protocol": "HTTP" }] },
        }),
        json!({
            "apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute", "metadata": { "name": "web", "namespace": "shop" },
            "spec": { "parentRefs": [{ "name": "web" }], "rules": [{ "backendRefs": [{ "name": "web", "port": 80 }] }] },
        }),
    ]
}

fn config(folder: &Path, addr: &str, socket: &Path) -> String {
    format!(
        r#"version = 1

[discovery.kubernetes]
kubeconfig = "{}"
scope = "cluster"

[provider.kubernetes]
addresses = ["{addr}"]

[admin]
bind = "unix:{}"
"#,
        folder.join(format!("{EVENKEEL}.kubeconfig")).display(),
        socket.display()
    )
}

/// Waits until all pods of the Deployment have its last template and are ready.
async fn updated(deployments: &Api<Deployment>) -> Result<(), String> {
    let until = Instant::now() + Duration::from_secs(120);
    loop {
        let web = deployments.get("web").await.map_err(|error| format!("deployment web: {error}"))?;
        let status = web.status.unwrap_or_default();
        let counts = [status.replicas, status.updated_replicas, status.ready_replicas];
        if status.observed_generation == web.metadata.generation && counts == [Some(REPLICAS); 3] {
            return Ok(());
        }
        if Instant::now() > until {
            return Err(format!("deployment web does not become ready: {counts:?}"));
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Waits until a request is answered.
async fn answers(addr: SocketAddr, evenkeel: &mut Evenkeel) -> Result<(), String> {
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        evenkeel.check()?;
        match request(addr, &mut None).await {
            Ok(_) => return Ok(()),
            Err(error) if Instant::now() > until => return Err(format!("{addr}: {error}\n{}", evenkeel.log_end())),
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

/// A line each second.
struct Show<'a> {
    began: Instant,
    balancers: &'a [(Load, Evenkeel)],
    total: &'a mut Counts,
}

impl Show<'_> {
    async fn seconds(&mut self, count: u32) {
        for _ in 0..count {
            tokio::time::sleep(Duration::from_secs(1)).await;
            let mut line = format!("{:>4.0?} s", self.began.elapsed().as_secs_f64());
            for (load, _) in self.balancers {
                let counts = load.counts();
                line += &format!("  | {:>4} answered, {} failed, by {}", counts.answered, counts.failed, sets(&counts));
                self.total.answered += counts.answered;
                self.total.failed += counts.failed;
                self.total.failure = counts.failure.or(self.total.failure.take());
                self.total.slowest = self.total.slowest.max(counts.slowest);
                for (pod, answered) in counts.by_pod {
                    *self.total.by_pod.entry(pod).or_default() += answered;
                }
            }
            println!("{line}");
        }
    }
}

/// Returns how many pods of each ReplicaSet answered: pods are named `DEPLOYMENT-REPLICASET-POD`.
fn sets(counts: &Counts) -> String {
    let mut sets = BTreeMap::<&str, usize>::new();
    for pod in counts.by_pod.keys() {
        *sets.entry(pod.rsplit_once('-').map_or("", |(set, _)| set)).or_default() += 1;
    }
    let text: Vec<String> = sets.iter().map(|(set, pods)| format!("{pods} of {set}")).collect();
    text.join(", ")
}
