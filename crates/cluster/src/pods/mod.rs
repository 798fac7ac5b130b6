//! Pods as processes, instead of a scheduler and kubelets. Each pod gets a network namespace with an address in
//! 10.244.0.0/16, and a folder as its root. It is ready when its ports listen. There are no probes, only the first
//! container of a pod runs, and images are programs of this machine ([`images`]). `kubectl logs` shows their output.

// Order: life, container, images, status, node, kubelet, log, volumes
mod container;
mod images;
mod kubelet;
mod life;
mod log;
mod node;
mod status;
mod volumes;

use container::begin_network;
use futures_util::TryStreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client};
use kubelet::Kubelet;
use std::collections::{HashMap, HashSet};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering::Relaxed};
use std::time::Duration;
use tokio::sync::watch;

/// State that all pods share.
struct Pods {
    client: Client,
    folder: PathBuf,
    /// Pods so far, from which each has its address and node.
    count: AtomicU16,
}

impl Pods {
    /// Returns the next address and node. Addresses repeat after 65,000 pods.
    fn next(&self) -> (Ipv4Addr, &'static str) {
        // Relaxed: the number guards no other data.
        let number = self.count.fetch_add(1, Relaxed);
        let [high, low] = (number % 65_000 + 2).to_be_bytes();
        (Ipv4Addr::new(10, 244, high, low), node::NODES[usize::from(number) % node::NODES.len()].0)
    }
}

/// Runs every pod of the cluster, until the future is dropped. Files of pods are in `folder`; `certificate` is the
/// certificate of the API server.
///
/// # Errors
/// The API server refuses nodes, or the system a bridge.
pub async fn run(client: Client, folder: &Path, certificate: &Path) -> Result<(), String> {
    begin_network().await?;
    let kubelet = Kubelet::new(client.clone(), folder, certificate, node::ADDR).await?;
    for (name, zone) in node::NODES {
        node::register(&client, name, zone).await.map_err(|error| format!("node {name}: {error}"))?;
    }
    tokio::select! {
        done = run_pods(client, folder) => done,
        () = kubelet.run() => Ok(()),
    }
}

async fn run_pods(client: Client, folder: &Path) -> Result<(), String> {
    let shared = Arc::new(Pods { client: client.clone(), folder: folder.to_owned(), count: AtomicU16::new(0) });
    let mut running: HashMap<String, watch::Sender<Option<Arc<Pod>>>> = HashMap::new();
    let mut listed = HashSet::new();
    let mut events = pin!(watcher::watcher(Api::<Pod>::all(client), watcher::Config::default()));
    loop {
        let event = match events.try_next().await {
            Ok(Some(event)) => event,
            Ok(None) => return Err("the watch of pods ended".into()),
            Err(error) => {
                eprintln!("pods: {error}");
                tokio::time::sleep(Duration::from_millis(500)).await;
                continue;
            }
        };
        match event {
            Event::Init => listed.clear(),
            Event::InitApply(pod) => {
                listed.insert(uid(&pod));
                follow(&shared, &mut running, pod);
            }
            Event::Apply(pod) => follow(&shared, &mut running, pod),
            // Senders that are dropped end their pods.
            Event::InitDone => running.retain(|uid, _| listed.contains(uid)),
            Event::Delete(pod) => _ = running.remove(&uid(&pod)),
        }
    }
}

fn uid(pod: &Pod) -> String {
    pod.metadata.uid.clone().unwrap_or_default()
}

/// Begins a pod that is new, or passes its change on.
fn follow(shared: &Arc<Pods>, running: &mut HashMap<String, watch::Sender<Option<Arc<Pod>>>>, pod: Pod) {
    let (uid, pod) = (uid(&pod), Arc::new(pod));
    if let Some(known) = running.get(&uid) {
        known.send_replace(Some(pod));
        return;
    }
    let (sender, receiver) = watch::channel(Some(pod));
    running.insert(uid, sender);
    tokio::spawn(life::live(shared.clone(), receiver));
}
