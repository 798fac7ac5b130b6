//! An API server with a store, in a folder of their own. All of it ends with the test.

use evenkeel_peers::{find, installed, own_addr};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{DeleteParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::{Value, json};
use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Tokens of an administrator, of the service account in the guide, and of a user without any rights.
pub const ADMIN: &str = "admin-token";
pub const EVENKEEL: &str = "evenkeel-token";
pub const WITHOUT_RIGHTS: &str = "token-without-rights";

pub struct Server {
    pub folder: PathBuf,
    addr: SocketAddr,
    store: [SocketAddr; 2],
    etcd: Option<Child>,
    api: Option<Child>,
}

impl Server {
    /// Starts an API server; `None` if this machine has none.
    pub async fn start() -> Option<Server> {
        if !installed(&["kube-apiserver", "etcd", "openssl"]) {
            return None;
        }
        let addr = own_addr();
        let folder = std::env::temp_dir().join(format!("evenkeel-kubernetes-{}-{}", std::process::id(), addr.port()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("the temporary folder can be written");
        let mut server = Server { folder, addr, store: [own_addr(), own_addr()], etcd: None, api: None };
        server.certify();
        openssl(&server.folder, &["genrsa", "-out", "accounts.key", "2048"]);
        let tokens = format!(
            "{ADMIN},admin,1,\"system:masters\"\n{EVENKEEL},system:serviceaccount:evenkeel:evenkeel,2\n{WITHOUT_RIGHTS},nobody,3\n"
        );
        fs::write(server.folder.join("tokens.csv"), tokens).expect("it can be written");
        server.begin_store();
        server.begin_api();
        server.ready().await;
        Some(server)
    }

    /// Makes an authority, and a certificate of the server by it.
    pub fn certify(&self) {
        let common = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"];
        let own = ["req", "-x509", "-subj", "/CN=authority", "-keyout", "ca.key", "-out", "ca.pem"];
        openssl(&self.folder, &[&own[..], &common[..]].concat());
        let name = format!("subjectAltName=IP:{}", self.addr.ip());
        let by = ["req", "-x509", "-CA", "ca.pem", "-CAkey", "ca.key", "-subj", "/CN=server", "-addext", &name];
        let files = ["-addext", "basicConstraints=critical,CA:FALSE", "-keyout", "server.key", "-out", "server.pem"];
        openssl(&self.folder, &[&by[..], &common[..], &files[..]].concat());
    }

    pub fn begin_store(&mut self) {
        let [client, peer] = self.store.map(|addr| format!("http://{addr}"));
        let arguments = [
            ("data-dir", &*self.folder.join("store").display().to_string()),
            ("listen-client-urls", &client),
            ("advertise-client-urls", &client),
            ("listen-peer-urls", &peer),
            ("initial-advertise-peer-urls", &peer),
            ("initial-cluster", &format!("default={peer}")),
        ];
        self.etcd = Some(self.spawn("etcd", &arguments));
    }

    pub fn begin_api(&mut self) {
        let (ip, port) = (self.addr.ip().to_string(), self.addr.port().to_string());
        let arguments = [
            ("etcd-servers", &*format!("http://{}", self.store[0])),
            ("bind-address", &ip),
            ("secure-port", &port),
            ("tls-cert-file", "server.pem"),
            ("tls-private-key-file", "server.key"),
            ("token-auth-file", "tokens.csv"),
            ("authorization-mode", "RBAC"),
            ("service-account-issuer", "https://kubernetes.default.svc"),
            ("service-account-key-file", "accounts.key"),
            ("service-account-signing-key-file", "accounts.key"),
            ("service-cluster-ip-range", "10.96.0.0/16"),
            // There is no address at which pods would reach it.
            ("endpoint-reconciler-type", "none"),
            ("advertise-address", "10.255.255.1"),
        ];
        self.api = Some(self.spawn("kube-apiserver", &arguments));
    }

    fn spawn(&self, program: &str, arguments: &[(&str, &str)]) -> Child {
        let log = || File::options().create(true).append(true).open(self.folder.join(format!("{program}.log")));
        let mut command = Command::new(find(program).expect("it is installed"));
        command.current_dir(&self.folder).args(arguments.iter().map(|(name, value)| format!("--{name}={value}")));
        command
            .stdin(Stdio::null())
            .stdout(log().expect("it can be written"))
            .stderr(log().expect("it can be written"));
        command.spawn().expect("it is installed")
    }

    /// Ends the API server without a goodbye.
    pub fn end_api(&mut self) {
        end(&mut self.api);
    }

    pub fn end_store(&mut self) {
        end(&mut self.etcd);
    }

    /// Makes the API server hang, or go on.
    pub fn hang(&self, hang: bool) {
        let child = self.api.as_ref().expect("it runs");
        let signal = if hang { "-STOP" } else { "-CONT" };
        let done = Command::new("kill").args([signal, &child.id().to_string()]).status();
        assert!(done.is_ok_and(|done| done.success()));
    }

    /// Waits until the API server answers, its default rights included.
    pub async fn ready(&self) {
        let until = Instant::now() + Duration::from_secs(90);
        loop {
            let asked = async { self.client(ADMIN).await?.request_text(request("/readyz")).await };
            match asked.await {
                Ok(text) if text == "ok" => return,
                // `kube-apiserver.log` has the reason.
                answer => assert!(Instant::now() < until, "{answer:?}, see {}", self.folder.display()),
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Writes a kubeconfig for the owner of a token.
    pub fn kubeconfig(&self, token: &str) -> PathBuf {
        let path = self.folder.join(format!("{token}.kubeconfig"));
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "here",
            "clusters": [{ "name": "here", "cluster": {
                "server": format!("https://{}", self.addr), "certificate-authority": self.folder.join("ca.pem") } }],
            "users": [{ "name": "me", "user": { "token": token } }],
            "contexts": [{ "name": "here", "context": { "cluster": "here", "user": "me" } }],
        });
        fs::write(&path, config.to_string()).expect("it can be written");
        path
    }

    pub async fn client(&self, token: &str) -> kube::Result<Client> {
        let config = Kubeconfig::read_from(self.kubeconfig(token)).expect("it is valid");
        let config = Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await.expect("it is valid");
        Client::try_from(config)
    }

    /// Slices of a namespace, to write.
    pub async fn slices(&self, namespace: &str) -> Slices {
        let client = self.client(ADMIN).await.expect("a client");
        let object = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": namespace } });
        create(&client, &object).await;
        Slices(kube::Api::namespaced(client, namespace))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end_api();
        self.end_store();
        if !std::thread::panicking() {
            let _ = fs::remove_dir_all(&self.folder);
        }
    }
}

fn end(child: &mut Option<Child>) {
    if let Some(mut child) = child.take() {
        let _ = child.kill();
        let _ = child.wait();
    }
}

fn openssl(folder: &Path, arguments: &[&str]) {
    let done = Command::new("openssl").current_dir(folder).args(arguments).output().expect("it is installed");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

fn request(path: &str) -> hyper::Request<Vec<u8>> {
    hyper::Request::get(path).body(Vec::new()).expect("a path")
}

/// Creates an object of any kind, unless it exists.
pub async fn create(client: &Client, object: &Value) {
    let text = |name: &str| object[name].as_str().unwrap_or_else(|| panic!("no {name}: {object}")).to_owned();
    let (version, kind) = (text("apiVersion"), text("kind").to_ascii_lowercase());
    let root = if version.contains('/') { "apis" } else { "api" };
    let within = object["metadata"]["namespace"].as_str().map(|name| format!("namespaces/{name}/")).unwrap_or_default();
    let request = hyper::Request::post(format!("/{root}/{version}/{within}{kind}s"));
    let request = request.header("content-type", "application/json").body(object.to_string().into_bytes());
    match client.request::<Value>(request.expect("a request")).await {
        Ok(_) => {}
        Err(kube::Error::Api(status)) if status.code == 409 => {}
        Err(error) => panic!("{error}: {object}"),
    }
}

#[derive(Clone)]
pub struct Slices(kube::Api<EndpointSlice>);

impl Slices {
    /// Creates a slice, or replaces it.
    pub async fn put(&self, name: &str, service: &str, endpoints: Vec<Value>) {
        let v6 = endpoints.first().is_some_and(|e| e["addresses"][0].as_str().is_some_and(|addr| addr.contains(':')));
        let slice: EndpointSlice = serde_json::from_value(json!({
            "metadata": { "name": name, "labels": { "kubernetes.io/service-name": service } },
            "addressType": if v6 { "IPv6" } else { "IPv4" },
            "ports": [{ "name": "http", "port": 8080 }, { "name": "metrics", "port": 9100 }],
            "endpoints": endpoints,
        }))
        .expect("a slice");
        match self.0.replace(name, &PostParams::default(), &slice).await {
            Err(kube::Error::Api(status)) if status.code == 404 => {
                self.0.create(&PostParams::default(), &slice).await.expect("created");
            }
            done => _ = done.expect("replaced"),
        }
    }

    pub async fn create(&self, name: &str, service: &str, endpoints: Vec<Value>) {
        let slice: EndpointSlice = serde_json::from_value(json!({
            "metadata": { "name": name, "labels": { "kubernetes.io/service-name": service } },
            "addressType": "IPv4", "ports": [{ "name": "http", "port": 8080 }], "endpoints": endpoints,
        }))
        .expect("a slice");
        self.0.create(&PostParams::default(), &slice).await.expect("created");
    }

    pub async fn delete(&self, name: &str) {
        self.0.delete(name, &DeleteParams::default()).await.expect("deleted");
    }
}

/// Endpoint of a slice that is ready.
pub fn pod(name: &str, addr: &str) -> Value {
    in_state(name, addr, [true, true, false])
}

/// Endpoint with its conditions: ready, serving, terminating.
pub fn in_state(name: &str, addr: &str, [ready, serving, terminating]: [bool; 3]) -> Value {
    json!({
        "addresses": [addr], "conditions": { "ready": ready, "serving": serving, "terminating": terminating },
        "targetRef": { "kind": "Pod", "namespace": "shop", "name": name }, "zone": "a",
    })
}
