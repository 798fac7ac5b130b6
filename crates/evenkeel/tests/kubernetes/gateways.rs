//! Gateways of a cluster whose API server ends, hangs, loses its state and comes back, under load.

use crate::endpoints::Endpoint;
use crate::network::with_pods;
use evenkeel_cluster::evenkeel::Evenkeel;
use evenkeel_cluster::load::{Load, request};
use evenkeel_cluster::objects::{Client, create, manifest, patch, read};
use evenkeel_cluster::rig::install_gateway_api;
use evenkeel_cluster::server::{ADMIN, Server};
use evenkeel_cluster::slices::pod;
use evenkeel_peers::own_addr;
use serde_json::json;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Longest wait for a change to have its effect; a watch of a server that hangs is given up after half a minute.
const PATIENCE: Duration = Duration::from_secs(60);

const MANIFEST: &str = "
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: { name: evenkeel }
spec: { controllerName: evenkeel.dev/controller }
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: { name: web, namespace: shop }
spec:
  gatewayClassName: evenkeel
  listeners: [{ name: http, port: 8000, protocol: HTTP }]
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: { name: web, namespace: shop }
spec:
  parentRefs: [{ name: web }]
  rules: [{ backendRefs: [{ name: web, port: 80 }] }]
---
apiVersion: v1
kind: Service
metadata: { name: web, namespace: shop }
spec: { ports: [{ name: http, port: 80, targetPort: 8080 }] }
---
apiVersion: v1
kind: Service
metadata: { name: other, namespace: shop }
spec: { ports: [{ name: http, port: 80, targetPort: 8080 }] }";

fn config(kubeconfig: &Path, addr: IpAddr, admin: SocketAddr) -> String {
    format!(
        "version = 1\n[discovery.kubernetes]\nkubeconfig = '{}'\n[provider.kubernetes]\naddresses = ['{addr}']\n\
         [admin]\nhttp = {{ bind = '{admin}' }}\n[runtime]\nworkers = 2\n",
        kubeconfig.display()
    )
}

#[test]
#[ignore = "needs an API server: make test-kubernetes"]
fn gateways_are_served_whatever_becomes_of_the_api_server() {
    with_pods("10.244.0.0/16", outages);
}

/// Waits until requests are answered by this pod alone, ten in a row.
async fn answers(addr: SocketAddr, pod: &str, evenkeel: &mut Evenkeel) {
    let (until, mut in_a_row, mut last) = (Instant::now() + PATIENCE, 0, String::new());
    while in_a_row < 10 {
        match request(addr, &mut None).await {
            Ok(answer) if answer == pod => in_a_row += 1,
            Ok(other) => (in_a_row, last) = (0, other),
            Err(error) => (in_a_row, last) = (0, error),
        }
        evenkeel.check().expect("it runs");
        assert!(Instant::now() < until, "{pod} does not answer, but {last}: {}", evenkeel.log_end());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Sends all requests of the Route to another Service.
async fn lead_to(client: &Client, service: &str) {
    let path = "/apis/gateway.networking.k8s.io/v1/namespaces/shop/httproutes/web";
    let rules = json!({ "spec": { "rules": [{ "backendRefs": [{ "name": service, "port": 80 }] }] } });
    patch(client, path, &rules).await;
}

/// Value of a metric of the provider.
async fn metric(admin: SocketAddr, name: &str) -> Option<f64> {
    let mut stream = TcpStream::connect(admin).await.ok()?;
    let request = format!("GET /metrics HTTP/1.1\r\nhost: {admin}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).await.ok()?;
    let line = text.lines().find(|line| line.starts_with(&format!("{name}{{provider=\"kubernetes\"")))?;
    line.rsplit(' ').next()?.parse().ok()
}

async fn becomes(admin: SocketAddr, name: &str, value: f64, evenkeel: &Evenkeel) {
    let until = Instant::now() + PATIENCE;
    while metric(admin, name).await != Some(value) {
        assert!(Instant::now() < until, "{name} does not become {value}: {}", evenkeel.log_end());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Waits until the listeners of a Gateway, by name, have these values of `Programmed`.
async fn are_programmed(client: &Client, path: &str, listeners: &[(&str, &str)], evenkeel: &Evenkeel) {
    let until = Instant::now() + PATIENCE;
    loop {
        let gateway = read(client, path).await.expect("it is there");
        let is = |(name, value): &(&str, &str)| {
            let all = gateway["status"]["listeners"].as_array().into_iter().flatten();
            let mut conditions =
                all.filter(|one| one["name"] == *name).flat_map(|one| one["conditions"].as_array()).flatten();
            conditions.any(|one| one["type"] == "Programmed" && one["status"] == *value)
        };
        if listeners.iter().all(is) {
            return;
        }
        assert!(Instant::now() < until, "{listeners:?}: {}\n{}", gateway["status"], evenkeel.log_end());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn outages() {
    let mut server = Server::start().await.expect("it is installed");
    let client = server.client(ADMIN).await.expect("a client");
    if !install_gateway_api(&client).await.expect("they are valid") {
        return evenkeel_peers::skip("no resources of the Gateway API: scripts/setup.sh gateway-api");
    }
    let slices = server.slices("shop").await;
    let ips = [1, 2].map(|last| Ipv4Addr::new(10, 244, 0, last));
    let _pods = [Endpoint::begin("a".into(), ips[0]).await, Endpoint::begin("b".into(), ips[1]).await];
    slices.put("web-1", "web", vec![pod("a", &ips[0].to_string())]).await;
    slices.put("other-1", "other", vec![pod("b", &ips[1].to_string())]).await;

    // evenkeel starts before there is a Gateway, and before its kinds have settled.
    let (own, admin) = (own_addr(), own_addr());
    let addr = SocketAddr::new(own.ip(), 8000);
    let config = config(&server.kubeconfig(ADMIN), own.ip(), admin);
    let program = Path::new(env!("CARGO_BIN_EXE_evenkeel"));
    let mut evenkeel = Evenkeel::begin(program, &server.folder, "evenkeel", &config).expect("it begins");
    for object in manifest(MANIFEST) {
        create(&client, &object).await;
    }
    answers(addr, "a", &mut evenkeel).await;
    let load = Load::begin(addr, 16, Duration::from_millis(5));

    let changed = Instant::now();
    lead_to(&client, "other").await;
    answers(addr, "b", &mut evenkeel).await;
    println!("a changed Route had all requests after {:.0?}", changed.elapsed());

    // A port that something else has costs its own listener alone, until it is free.
    let taken = TcpListener::bind((own.ip(), 8001)).await.expect("a free port");
    let (gateway, both) = (
        "/apis/gateway.networking.k8s.io/v1/namespaces/shop/gateways/web",
        json!([
            { "name": "http", "port": 8000, "protocol": "HTTP" },
            { "name": "more", "port": 8001, "protocol": "HTTP" },
        ]),
    );
    patch(&client, gateway, &json!({ "spec": { "listeners": both } })).await;
    are_programmed(&client, gateway, &[("http", "True"), ("more", "False")], &evenkeel).await;
    answers(addr, "b", &mut evenkeel).await;
    drop(taken);
    are_programmed(&client, gateway, &[("http", "True"), ("more", "True")], &evenkeel).await;
    answers(SocketAddr::new(own.ip(), 8001), "b", &mut evenkeel).await;

    // It is killed, and comes back.
    server.end_api();
    becomes(admin, "evenkeel_provider_up", 0.0, &evenkeel).await;
    server.begin_api();
    server.ready().await;
    becomes(admin, "evenkeel_provider_up", 1.0, &evenkeel).await;
    lead_to(&client, "web").await;
    answers(addr, "a", &mut evenkeel).await;

    // It hangs, as its process does, and goes on.
    server.hang(true);
    becomes(admin, "evenkeel_provider_up", 0.0, &evenkeel).await;
    server.hang(false);
    becomes(admin, "evenkeel_provider_up", 1.0, &evenkeel).await;
    lead_to(&client, "other").await;
    answers(addr, "b", &mut evenkeel).await;

    // It loses everything: what was known is served.
    server.end_api();
    server.end_store();
    std::fs::remove_dir_all(server.folder.join("store")).expect("removed");
    server.begin_store();
    server.begin_api();
    server.ready().await;
    becomes(admin, "evenkeel_provider_up", 0.0, &evenkeel).await;
    // Nothing shows that the empty store was seen and nothing was made of it: that takes less than a second.
    tokio::time::sleep(Duration::from_secs(3)).await;
    answers(addr, "b", &mut evenkeel).await;

    let counts = load.counts();
    println!("{} requests, {} failed, the slowest took {:.0?}", counts.answered, counts.failed, counts.slowest);
    assert_eq!((counts.failed, &counts.failure), (0, &None), "{}", evenkeel.log_end());
}
