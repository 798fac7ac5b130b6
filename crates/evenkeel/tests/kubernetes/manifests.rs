//! Manifests of `deploy` in a real API server: each is valid, and the rights of `gateway.yaml` are enough, and none too many.

use crate::endpoints::Endpoint;
use crate::network::with_pods;
use evenkeel_cluster::evenkeel::Evenkeel;
use evenkeel_cluster::load::request;
use evenkeel_cluster::objects::{create, manifest, patch, read};
use evenkeel_cluster::rig::install_gateway_api;
use evenkeel_cluster::server::{ADMIN, AUDIT, EVENKEEL, Server};
use evenkeel_cluster::slices::pod;
use evenkeel_peers::skip;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::{Duration, Instant};

/// Address of the load balancer in front, as its Service has it.
const PUBLISHED: &str = "192.0.2.10";

/// Returns the objects of a manifest of `deploy`.
pub fn deployed(name: &str) -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy").join(name);
    manifest(&std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display())))
}

/// Runs `test` beside an API server that has the Gateway API.
fn beside_a_server(test: impl AsyncFnOnce(Server) + Send) {
    with_pods("10.244.0.0/16", async || {
        let server = Server::start().await.expect("it is installed");
        let client = server.client(ADMIN).await.expect("a client");
        if !install_gateway_api(&client).await.expect("they are valid") {
            return skip("no Gateway API: `scripts/setup.sh gateway-api` installs it");
        }
        test(server).await;
    });
}

#[test]
#[ignore = "needs an API server: make test-kubernetes"]
fn each_manifest_is_valid() {
    beside_a_server(async |server| {
        let client = server.client(ADMIN).await.expect("a client");
        let names = ["kubernetes.yaml", "ingress.yaml", "gateway.yaml", "gateway-daemonset.yaml"];
        for name in names.into_iter().chain(["sidecar.yaml", "node-local.yaml"]) {
            for object in deployed(name) {
                // An object of the same name is no reason to skip validation.
                create(&client, &object).await;
            }
        }
    });
}

/// Rights, as group, resource and verb.
type Rights = BTreeSet<(String, String, String)>;

fn granted(objects: &[Value]) -> Rights {
    let texts = |list: &Value| -> Vec<String> {
        list.as_array().expect("a list").iter().map(|text| text.as_str().expect("a text").to_owned()).collect()
    };
    let mut rights = Rights::new();
    for role in objects.iter().filter(|object| matches!(object["kind"].as_str(), Some("ClusterRole" | "Role"))) {
        for rule in role["rules"].as_array().expect("a list") {
            for group in texts(&rule["apiGroups"]) {
                for resource in texts(&rule["resources"]) {
                    let verbs = texts(&rule["verbs"]).into_iter();
                    rights.extend(verbs.map(|verb| (group.clone(), resource.clone(), verb)));
                }
            }
        }
    }
    rights
}

/// Rights that the service account has used, by the audit log. A request without the right for it fails the test.
fn used(server: &Server) -> Rights {
    let log = std::fs::read_to_string(server.folder.join(AUDIT)).expect("the API server writes it");
    let mut rights = Rights::new();
    // The last line may not be complete yet.
    for event in log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
        let (text, of) = (|value: &Value| value.as_str().unwrap_or_default().to_owned(), &event["objectRef"]);
        assert_ne!(event["responseStatus"]["code"], 403, "{event}");
        if of.is_null() {
            continue;
        }
        let sub = of["subresource"].as_str().map(|name| format!("/{name}")).unwrap_or_default();
        rights.insert((text(&of["apiGroup"]), text(&of["resource"]) + &sub, text(&event["verb"])));
    }
    rights
}

/// Objects of each kind whose status evenkeel writes, but for the classes.
fn shop() -> Vec<Value> {
    let gateway = |version: &str, kind: &str, name: &str, spec: Value| {
        json!({
            "apiVersion": format!("gateway.networking.k8s.io/{version}"), "kind": kind,
            "metadata": { "name": name, "namespace": "shop" }, "spec": spec,
        })
    };
    let route = |version: &str, kind: &str, section: &str| {
        let parents = json!([{ "name": "web", "sectionName": section }]);
        let rules = json!([{ "backendRefs": [{ "name": "web", "port": 80 }] }]);
        let mut spec = json!({ "parentRefs": parents, "rules": rules });
        if kind == "TLSRoute" {
            spec["hostnames"] = json!(["secure.example"]);
        }
        gateway(version, kind, section, spec)
    };
    let listener = |name: &str, port: u16, protocol: &str| json!({ "name": name, "port": port, "protocol": protocol });
    let mut passthrough = listener("tls", 8443, "TLS");
    passthrough["tls"] = json!({ "mode": "Passthrough" });
    let service = |name: &str| {
        json!({
            "apiVersion": "v1", "kind": "Service", "metadata": { "name": name, "namespace": "shop" },
            "spec": { "ports": [{ "name": "http", "port": 80 }], "clusterIP": "None" },
        })
    };
    let secure = json!({
        "parentRefs": [{ "name": "web", "sectionName": "http" }], "hostnames": ["secure.example"],
        "rules": [{ "backendRefs": [{ "name": "secure", "port": 80 }] }],
    });
    let policy = json!({
        "targetRefs": [{ "group": "", "kind": "Service", "name": "secure" }],
        "validation": { "hostname": "secure.example", "wellKnownCACertificates": "System" },
    });
    let lost = json!({
        "parentRefs": [{ "name": "web", "sectionName": "http" }], "hostnames": ["lost.example"],
        "rules": [{ "backendRefs": [{ "name": "lost", "port": 80 }] }],
    });
    vec![
        service("web"),
        service("secure"),
        gateway(
            "v1",
            "Gateway",
            "web",
            json!({
                "gatewayClassName": "evenkeel", "allowedListeners": { "namespaces": { "from": "Same" } },
                "listeners": [
                    listener("http", 80, "HTTP"), listener("grpc", 8081, "HTTP"), passthrough,
                    listener("tcp", 9001, "TCP"), listener("udp", 9002, "UDP"),
                ],
            }),
        ),
        gateway(
            "v1",
            "ListenerSet",
            "more",
            json!({ "parentRef": { "name": "web" }, "listeners": [listener("more", 8082, "HTTP")] }),
        ),
        route("v1", "HTTPRoute", "http"),
        route("v1", "GRPCRoute", "grpc"),
        route("v1", "TLSRoute", "tls"),
        route("v1alpha2", "TCPRoute", "tcp"),
        route("v1alpha2", "UDPRoute", "udp"),
        gateway("v1", "HTTPRoute", "secure", secure),
        gateway("v1", "BackendTLSPolicy", "secure", policy),
        // An event reports it.
        gateway("v1", "HTTPRoute", "lost", lost),
        json!({
            "apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": { "name": "web", "namespace": "shop" },
            "spec": {
                "ingressClassName": "evenkeel", "rules": [{ "host": "ingress.example", "http": { "paths": [{
                    "path": "/", "pathType": "Prefix", "backend": { "service": { "name": "web", "port": { "number": 80 } } },
                }] } }],
            },
        }),
    ]
}

/// Returns the configuration of a manifest, with what differs outside of a pod.
fn config(objects: &[Value], server: &Server) -> String {
    let map = objects.iter().find(|object| object["kind"] == "ConfigMap").expect("there is one");
    let text = map["data"]["evenkeel.toml"].as_str().expect("a text");
    let kubeconfig = server.kubeconfig(EVENKEEL).display().to_string();
    let discovery = format!("[discovery.kubernetes]\nkubeconfig = \"{kubeconfig}\"\n\n[provider.kubernetes]\n");
    let changed = [("[provider.kubernetes]\n", discovery), ("/run/evenkeel", server.folder.display().to_string())];
    changed.into_iter().fold(text.to_owned(), |text, (from, to)| {
        assert!(text.contains(from), "{from}: {text}");
        text.replacen(from, &to, 1)
    })
}

/// The configuration of the manifest serves a Gateway and an Ingress with the rights of the manifest, and uses each of them.
#[test]
#[ignore = "needs an API server: make test-kubernetes"]
fn the_rights_of_the_gateway_manifest_are_enough_and_all_are_used() {
    beside_a_server(async |server| {
        let client = server.client(ADMIN).await.expect("a client");
        let objects = deployed("gateway.yaml");
        for object in &objects {
            create(&client, object).await;
        }
        // As a cloud does.
        let status = json!({ "status": { "loadBalancer": { "ingress": [{ "ip": PUBLISHED }] } } });
        patch(&client, "/api/v1/namespaces/evenkeel/services/evenkeel/status", &status).await;
        let ip = Ipv4Addr::new(10, 244, 0, 1);
        let endpoint = Endpoint::begin("web-1".into(), ip).await;
        server.slices("shop").await.put("web-1", "web", vec![pod(&endpoint.name, &ip.to_string())]).await;
        for object in shop() {
            create(&client, &object).await;
        }
        let program = Path::new(env!("CARGO_BIN_EXE_evenkeel"));
        let mut evenkeel =
            Evenkeel::begin(program, &server.folder, "evenkeel", &config(&objects, &server)).expect("it begins");

        let (granted, until) = (granted(&objects), Instant::now() + Duration::from_secs(60));
        let mut answered = Err("no request yet".to_owned());
        loop {
            evenkeel.check().expect("it runs");
            if answered.is_err() {
                answered =
                    request(SocketAddr::from((ip, 80)), &mut None).await.map(|_| ()).map_err(|error| error.to_string());
            }
            let used = used(&server);
            let missing: Vec<_> = used.difference(&granted).collect();
            assert!(missing.is_empty(), "used, and not in the manifest: {missing:?}");
            let unused: Vec<_> = granted.difference(&used).collect();
            if answered.is_ok() && unused.is_empty() {
                break;
            }
            assert!(Instant::now() < until, "{answered:?}; not used: {unused:?}\n{}", evenkeel.log_end());
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let gateway = read(&client, "/apis/gateway.networking.k8s.io/v1/namespaces/shop/gateways/web").await;
        let gateway = gateway.expect("it is there");
        assert_eq!(gateway["status"]["addresses"], json!([{ "type": "IPAddress", "value": PUBLISHED }]));
        let ingress = read(&client, "/apis/networking.k8s.io/v1/namespaces/shop/ingresses/web").await;
        let ingress = ingress.expect("it is there");
        assert_eq!(ingress["status"]["loadBalancer"]["ingress"][0]["ip"], PUBLISHED);
    });
}
