//! An API server with a store and, if wanted, controllers, in a separate folder. All of it ends with the [`Server`].

use crate::objects::create;
use crate::slices::Slices;
use evenkeel_peers::{find, installed, own_addr};
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

/// User of that service account.
const ACCOUNT: &str = "system:serviceaccount:evenkeel:evenkeel";

/// File in the folder of a server with the requests of that service account, a line for each: see `Event` of
/// `audit.k8s.io/v1`.
pub const AUDIT: &str = "audit.log";

/// Controllers that Deployments, Services and namespaces need. Controllers of nodes, volumes and clouds do not run.
const CONTROLLERS: [&str; 12] = [
    "deployment-controller",
    "replicaset-controller",
    "endpointslice-controller",
    "endpointslice-mirroring-controller",
    "endpoints-controller",
    "namespace-controller",
    "garbage-collector-controller",
    "serviceaccount-controller",
    "serviceaccount-token-controller",
    "root-ca-certificate-publisher-controller",
    "pod-garbage-collector-controller",
    "disruption-controller",
];

pub struct Server {
    pub folder: PathBuf,
    addr: SocketAddr,
    store: [SocketAddr; 2],
    etcd: Option<Child>,
    api: Option<Child>,
    controllers: Option<Child>,
}

impl Server {
    /// Starts an API server; `None` if this machine has none.
    pub async fn start() -> Option<Server> {
        let own = format!("evenkeel-kubernetes-{}-{}", std::process::id(), own_addr().port());
        Server::start_in(std::env::temp_dir().join(own)).await
    }

    /// Starts an API server with its files in `folder`, which is emptied first and removed at the end.
    pub async fn start_in(folder: PathBuf) -> Option<Server> {
        if !installed(&["kube-apiserver", "etcd", "openssl"]) {
            return None;
        }
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("the folder can be written");
        let (addr, store) = (own_addr(), [own_addr(), own_addr()]);
        let mut server = Server { folder, addr, store, etcd: None, api: None, controllers: None };
        server.certify();
        openssl(&server.folder, &["genrsa", "-out", "accounts.key", "2048"]);
        let tokens =
            format!("{ADMIN},admin,1,\"system:masters\"\n{EVENKEEL},{ACCOUNT},2\n{WITHOUT_RIGHTS},without-rights,3\n");
        fs::write(server.folder.join("tokens.csv"), tokens).expect("it can be written");
        fs::write(server.folder.join("audit.json"), audited().to_string()).expect("it can be written");
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
            ("audit-policy-file", "audit.json"),
            ("audit-log-path", AUDIT),
            ("service-cluster-ip-range", "10.96.0.0/16"),
            // There is no address at which pods would reach it.
            ("endpoint-reconciler-type", "none"),
            ("advertise-address", "10.255.255.1"),
        ];
        self.api = Some(self.spawn("kube-apiserver", &arguments));
    }

    /// Starts the controllers; false if this machine has none.
    pub fn begin_controllers(&mut self) -> bool {
        if !installed(&["kube-controller-manager"]) {
            return false;
        }
        let arguments = [
            ("kubeconfig", &*self.kubeconfig(ADMIN).display().to_string()),
            ("controllers", &CONTROLLERS.join(",")),
            ("leader-elect", "false"),
            ("root-ca-file", "ca.pem"),
            ("service-account-private-key-file", "accounts.key"),
            // Without its own endpoint for health and metrics.
            ("secure-port", "0"),
            ("kube-api-qps", "500"),
            ("kube-api-burst", "1000"),
        ];
        self.controllers = Some(self.spawn("kube-controller-manager", &arguments));
        true
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

    /// Writes a kubeconfig for the owner of a token. The service account uses its namespace, others use `default`.
    pub fn kubeconfig(&self, token: &str) -> PathBuf {
        let path = self.folder.join(format!("{token}.kubeconfig"));
        let namespace = if token == EVENKEEL { "evenkeel" } else { "default" };
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "here",
            "clusters": [{ "name": "here", "cluster": {
                "server": format!("https://{}", self.addr), "certificate-authority": self.folder.join("ca.pem") } }],
            "users": [{ "name": "me", "user": { "token": token } }],
            "contexts": [{ "name": "here", "context": { "cluster": "here", "user": "me", "namespace": namespace } }],
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
        end(&mut self.controllers);
        self.end_api();
        self.end_store();
        if !std::thread::panicking() {
            let _ = fs::remove_dir_all(&self.folder);
        }
    }
}

/// Returns the policy of the audit log.
fn audited() -> Value {
    json!({ "apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": [
        { "level": "Metadata", "users": [ACCOUNT], "omitStages": ["RequestReceived"] },
        { "level": "None" },
    ] })
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
