//! Ingresses of a real API server, served by the program with the rights and the settings of `deploy/ingress.yaml`.

use evenkeel_cluster::evenkeel::Evenkeel;
use evenkeel_cluster::objects::{create, manifest};
use evenkeel_cluster::server::{ADMIN, EVENKEEL, Server};
use evenkeel_peers::own_addr;
use kube::Client;
use serde_json::{Value, json};
use std::io::Write;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const MANIFEST: &str = include_str!("../../../../deploy/ingress.yaml");

/// The program, as `EVENKEEL` or where cargo puts it; `None` if it was not built.
fn program() -> Option<PathBuf> {
    let set = std::env::var_os("EVENKEEL").map(PathBuf::from);
    // Tests are in `deps`, below it.
    let beside = || Some(std::env::current_exe().ok()?.parent()?.parent()?.join("evenkeel"));
    set.or_else(beside).filter(|path| path.is_file())
}

/// An address of this machine that an EndpointSlice may have: the API refuses 127.0.0.0/8.
fn address() -> Option<IpAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect("198.51.100.1:9").ok()?;
    socket.local_addr().ok().map(|addr| addr.ip()).filter(|ip| !ip.is_loopback() && !ip.is_unspecified())
}

/// Serves the first line of each request as the body of its response.
async fn begin_endpoint(ip: IpAddr) -> SocketAddr {
    let listener = TcpListener::bind((ip, 0)).await.expect("a free port");
    let addr = listener.local_addr().expect("it is bound");
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    match stream.read_u8().await {
                        Ok(byte) => head.push(byte),
                        Err(_) => return,
                    }
                }
                let line = String::from_utf8_lossy(&head).lines().next().unwrap_or_default().to_owned();
                let len = line.len();
                let response = format!("HTTP/1.1 200 OK\r\ncontent-length: {len}\r\nconnection: close\r\n\r\n{line}");
                let _ = stream.write_all(response.as_bytes()).await;
            });
        }
    });
    addr
}

fn request(host: &str, path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")
}

/// The response to a request; empty if nothing listens yet.
async fn asked(addr: SocketAddr, host: &str, path: &str) -> String {
    let Ok(mut stream) = TcpStream::connect(addr).await else { return String::new() };
    let mut response = Vec::new();
    let _ = stream.write_all(request(host, path).as_bytes()).await;
    let _ = stream.read_to_end(&mut response).await;
    String::from_utf8_lossy(&response).into_owned()
}

/// The response to a request over TLS, with what OpenSSL has to say about the certificate.
fn asked_by_tls(addr: SocketAddr, host: &str, path: &str) -> String {
    let mut command = Command::new("openssl");
    command.args(["s_client", "-ign_eof", "-connect", &addr.to_string(), "-servername", host]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().expect("it is installed");
    child.stdin.take().expect("it is a pipe").write_all(request(host, path).as_bytes()).expect("it is read");
    String::from_utf8_lossy(&child.wait_with_output().expect("it ends").stdout).into_owned()
}

/// Waits until a request is answered with this status line and text.
async fn becomes(addr: SocketAddr, (host, path): (&str, &str), status: u16, text: &str) {
    let until = Instant::now() + Duration::from_secs(30);
    loop {
        let response = asked(addr, host, path).await;
        if response.starts_with(&format!("HTTP/1.1 {status} ")) && response.contains(text) {
            return;
        }
        assert!(Instant::now() < until, "{host}{path}, not {status} {text}: {response}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn get(client: &Client, path: &str) -> Value {
    let request = hyper::Request::get(path).body(Vec::new()).expect("a path");
    client.request(request).await.expect("an answer")
}

/// Waits until a value of the API server is as wanted.
async fn seen(client: &Client, path: &str, wanted: impl Fn(&Value) -> bool) {
    let until = Instant::now() + Duration::from_secs(30);
    loop {
        let value = get(client, path).await;
        if wanted(&value) {
            return;
        }
        assert!(Instant::now() < until, "{path}: {value:#}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

fn ingress(name: &str, annotations: Value, spec: Value) -> Value {
    json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "Ingress",
        "metadata": { "namespace": "shop", "name": name, "annotations": annotations }, "spec": spec,
    })
}

fn rule(host: &str, path: &str, kind: &str) -> Value {
    let backend = json!({ "service": { "name": "web", "port": { "name": "http" } } });
    json!({ "host": host, "http": { "paths": [{ "path": path, "pathType": kind, "backend": backend }] } })
}

/// Rights of the manifest, a Service, and its endpoint.
async fn prepare(client: &Client, endpoint: SocketAddr) {
    for object in manifest(MANIFEST) {
        if !matches!(object["kind"].as_str(), Some("Deployment" | "PodDisruptionBudget")) {
            create(client, &object).await;
        }
    }
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": { "namespace": "shop", "name": "web" },
        "spec": { "ports": [{ "name": "http", "port": 80 }], "clusterIP": "None" },
    });
    let slice = json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": { "namespace": "shop", "name": "web-1", "labels": { "kubernetes.io/service-name": "web" } },
        "addressType": "IPv4", "ports": [{ "name": "http", "port": endpoint.port() }],
        "endpoints": [{ "addresses": [endpoint.ip().to_string()], "conditions": { "ready": true } }],
    });
    for object in [service, slice] {
        create(client, &object).await;
    }
}

/// The configuration of the manifest, with what differs outside of a pod.
fn config(server: &Server, http: SocketAddr, https: SocketAddr) -> String {
    let objects = manifest(MANIFEST);
    let map = objects.iter().find(|object| object["kind"] == "ConfigMap").expect("there is one");
    let text = map["data"]["evenkeel.toml"].as_str().expect("a text");
    // The Lease is where the service account is.
    let kubeconfig = server.kubeconfig(EVENKEEL);
    let mut context: Value =
        serde_json::from_str(&std::fs::read_to_string(&kubeconfig).expect("it was written")).expect("JSON");
    context["contexts"][0]["context"]["namespace"] = "evenkeel".into();
    std::fs::write(&kubeconfig, context.to_string()).expect("it can be written");
    let socket = server.folder.join("admin.sock");
    let discovery =
        format!("[discovery.kubernetes]\nkubeconfig = \"{}\"\n\n[provider.kubernetes]\n", kubeconfig.display());
    let changed = [
        ("[provider.kubernetes]\n", discovery),
        ("http_port = 8080", format!("addresses = [\"{}\"]\nhttp_port = {}", http.ip(), http.port())),
        ("https_port = 8443", format!("https_port = {}", https.port())),
        ("publish_service = \"evenkeel/evenkeel\"", "publish = [\"192.0.2.7\"]".to_owned()),
        ("shutdown_delay = \"5s\"", "shutdown_delay = \"0s\"".to_owned()),
        ("unix:/run/evenkeel/admin.sock", format!("unix:{}", socket.display())),
        ("http = { bind = \"0.0.0.0:9900\" }", String::new()),
    ];
    changed.into_iter().fold(text.to_owned(), |text, (from, to)| {
        assert!(text.contains(from), "{from}: {text}");
        text.replacen(from, &to, 1)
    })
}

#[tokio::test]
#[ignore = "needs an API server: make test-kubernetes"]
async fn ingresses_are_served_and_get_their_statuses_and_events() {
    let Some(program) = program() else { return evenkeel_peers::skip("cargo build -p evenkeel builds the program") };
    let Some(ip) = address() else { return evenkeel_peers::skip("this machine has no address but 127.0.0.1") };
    let Some(server) = Server::start().await else { return };
    server.slices("shop").await;
    let client = server.client(ADMIN).await.expect("a client");
    prepare(&client, begin_endpoint(ip).await).await;

    let (http, https) = (own_addr(), own_addr());
    let https = SocketAddr::new(http.ip(), https.port());
    let began = Evenkeel::begin(&program, &server.folder, "evenkeel", &config(&server, http, https));
    let mut evenkeel = began.expect("it starts");
    let annotations = json!({
        "nginx.ingress.kubernetes.io/rewrite-target": "/$2", "nginx.ingress.kubernetes.io/server-snippet": "deny all;",
    });
    let spec = |rules: Value| json!({ "ingressClassName": "evenkeel", "rules": rules });
    let rules = json!([rule("shop.example", "/app(/|$)(.*)", "ImplementationSpecific")]);
    create(&client, &ingress("web", annotations, spec(rules))).await;
    let wildcard = json!([rule("*.wild.example", "/", "Prefix"), rule("shop.example", "/exact", "Exact")]);
    create(&client, &ingress("wild", json!({}), spec(wildcard))).await;
    becomes(http, ("shop.example", "/app/cart?id=7"), 200, "GET /cart?id=7 HTTP/1.1").await;
    becomes(http, ("shop.example", "/app"), 200, "GET / HTTP/1.1").await;
    becomes(http, ("shop.example", "/application"), 404, "").await;
    becomes(http, ("shop.example", "/exact"), 200, "GET /exact").await;
    becomes(http, ("shop.example", "/exact/x"), 404, "").await;
    becomes(http, ("a.wild.example", "/"), 200, "GET / ").await;
    becomes(http, ("A.wild.example:80", "/"), 200, "GET / ").await;
    becomes(http, ("b.a.wild.example", "/"), 404, "").await;
    becomes(http, ("other.example", "/"), 404, "").await;

    let path = "/apis/networking.k8s.io/v1/namespaces/shop/ingresses/web";
    seen(&client, path, |object| object["status"]["loadBalancer"]["ingress"] == json!([{ "ip": "192.0.2.7" }])).await;
    let about = |event: &Value| {
        event["regarding"]["name"] == "web"
            && event["reason"] == "Refused"
            && event["note"].as_str().is_some_and(|note| note.contains("server-snippet"))
    };
    let of = |events: &Value| events["items"].as_array().map_or(0, |all| all.iter().filter(|one| about(one)).count());
    let events = "/apis/events.k8s.io/v1/namespaces/shop/events";
    seen(&client, events, |events| of(events) == 1).await;

    // TLS, whose Secret comes later.
    let tls = json!({
        "ingressClassName": "evenkeel", "rules": [rule("tls.example", "/", "Prefix")],
        "tls": [{ "hosts": ["tls.example"], "secretName": "cert" }],
    });
    create(&client, &ingress("tls", json!({}), tls)).await;
    becomes(http, ("tls.example", "/x?y=1"), 308, "https://tls.example/x?y=1").await;
    let (cert, key) = evenkeel_tls::pair::self_signed_pem("tls.example").expect("a certificate");
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": { "namespace": "shop", "name": "cert" },
        "type": "kubernetes.io/tls", "stringData": { "tls.crt": cert, "tls.key": key },
    });
    create(&client, &secret).await;
    let until = Instant::now() + Duration::from_secs(30);
    loop {
        let response = tokio::task::spawn_blocking(move || asked_by_tls(https, "tls.example", "/x"));
        let response = response.await.expect("it ends");
        if response.contains("GET /x HTTP/1.1") && response.contains(cert.lines().nth(2).expect("PEM")) {
            break;
        }
        assert!(Instant::now() < until, "{response}\n{}", evenkeel.log_end());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    evenkeel.check().expect("it runs");
    seen(&client, events, |events| of(events) == 1).await;

    // The next one need not wait until the Lease runs out.
    let leases = "/apis/coordination.k8s.io/v1/namespaces/evenkeel/leases";
    let holder = |leases: &Value| leases["items"][0]["spec"]["holderIdentity"].as_str().unwrap_or_default().to_owned();
    assert_ne!(holder(&get(&client, leases).await), "");
    let pid = evenkeel.pid().expect("it runs").to_string();
    assert!(Command::new("kill").arg(pid).status().expect("it is installed").success());
    let until = Instant::now() + Duration::from_secs(10);
    while evenkeel.check().is_ok() {
        assert!(Instant::now() < until, "it does not end");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(holder(&get(&client, leases).await), "", "{}", evenkeel.log_end());
}
