//! A whole cluster: servers, controllers, pods, the CRDs of Gateway API, and addresses that Gateways may have.

use crate::contained::Contained;
use crate::objects::{create_folder, read};
use crate::pods;
use crate::server::{ADMIN, EVENKEEL, Server};
use kube::Client;
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// Returns the addresses that Gateways may have, in the network of the cluster.
pub fn gateway_addresses() -> impl Iterator<Item = String> {
    (1..=40).map(|last| format!("10.250.0.{last}"))
}

/// Runs a cluster in the namespaces of this process, until it is dropped. When all is there, the file `ready` appears in `folder`.
///
/// # Errors
/// If something is not installed, or ends early.
pub async fn run(folder: &Path) -> Result<(), String> {
    begin_network()?;
    let began = Instant::now();
    let mut server = Server::start_in(folder.to_owned()).await.ok_or(MISSING)?;
    if !server.begin_controllers() {
        return Err(MISSING.into());
    }
    let client = server.client(ADMIN).await.map_err(|error| error.to_string())?;
    server.kubeconfig(EVENKEEL);
    let gateways = if install_gateway_api(&client).await? { "with" } else { "without" };
    println!("cluster: up after {:.1?}, {gateways} Gateway API", began.elapsed());
    fs::write(folder.join("ready"), "").map_err(|error| format!("{}: {error}", folder.display()))?;
    pods::run(client, &folder.join("pods"), &folder.join("server.pem")).await
}

const MISSING: &str = "programs are missing: `scripts/setup.sh kubernetes` installs them";

fn begin_network() -> Result<(), String> {
    let mut lines = "link set lo up\n".to_owned();
    lines.extend(gateway_addresses().map(|addr| format!("addr add {addr}/32 dev lo\n")));
    let mut ip = Command::new("sh");
    ip.args(["-c", "printf %s \"$1\" | ip -batch -", "ip", &lines]);
    match ip.status() {
        Ok(status) if status.success() => Ok(()),
        _ => Err("no network: `ip` failed".into()),
    }
}

/// Installs the CRDs of Gateway API, and waits until the API server has all of them. Returns false if this machine does not have them.
///
/// # Errors
/// If they cannot be read, or the API server does not know them soon.
pub async fn install_gateway_api(client: &Client) -> Result<bool, String> {
    let Some(crds) =
        evenkeel_peers::cached().map(|cache| cache.join("kubernetes/gateway-api")).filter(|crds| crds.is_dir())
    else {
        return Ok(false);
    };
    create_folder(client, &crds).await.map_err(|error| format!("{}: {error}", crds.display()))?;
    let until = Instant::now() + Duration::from_secs(30);
    loop {
        let list = read(client, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions").await;
        let list = list.map_err(|error| error.to_string())?;
        let is_established = |crd: &Value| {
            let mut conditions = crd["status"]["conditions"].as_array().into_iter().flatten();
            conditions.any(|condition| condition["type"] == "Established" && condition["status"] == "True")
        };
        if list["items"].as_array().is_some_and(|crds| crds.iter().all(is_established)) {
            return Ok(true);
        }
        if Instant::now() > until {
            return Err("the CRDs of Gateway API are not established".into());
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// A cluster that another process runs.
pub struct Rig {
    contained: Contained,
}

impl Rig {
    /// Starts a cluster with its files in `folder`, and waits until it is up.
    ///
    /// # Errors
    /// A cluster runs there already, or something is missing.
    pub fn start(folder: &Path) -> Result<Rig, String> {
        if let Some(process) = running(folder) {
            return Err(format!("a cluster runs in {}, as process {process}", folder.display()));
        }
        let _ = fs::remove_file(folder.join("ready"));
        let arguments = ["up".to_owned()];
        let contained =
            Contained::start(folder, &arguments, None).map_err(|error| format!("no namespaces: {error}"))?;
        let mut rig = Rig { contained };
        while !folder.join("ready").exists() {
            if !rig.contained.runs() {
                return Err("the cluster ended early".into());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        let process = folder.join("process");
        fs::write(&process, rig.process().to_string()).map_err(|error| format!("{}: {error}", process.display()))?;
        Ok(rig)
    }

    /// Returns the process that holds the network namespace of the cluster.
    pub fn process(&self) -> u32 {
        self.contained.id()
    }

    /// Waits until the cluster ends.
    pub fn wait(&mut self) {
        let _ = self.contained.wait();
    }
}

/// Returns the process that holds the network namespace of the cluster in `folder`, if a cluster runs there.
pub fn running(folder: &Path) -> Option<u32> {
    let process = fs::read_to_string(folder.join("process")).ok()?.trim().parse().ok()?;
    let name = fs::read_to_string(format!("/proc/{process}/comm")).ok()?;
    (name.trim() == "unshare").then_some(process)
}
