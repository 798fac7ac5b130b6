//! Life of a pod: bound to a node, begun, ready, restarted when its process ends, and ended when it is deleted.

use super::container::{Container, Program};
use super::status::{State, Status};
use super::{Pods, images, node, volumes};
use k8s_openapi::api::core::v1::{Container as Wanted, EnvVar, Pod};
use k8s_openapi::jiff::Timestamp;
use kube::Api;
use kube::api::{DeleteParams, PostParams, Preconditions};
use serde_json::{Value, json};
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch::Receiver;

/// Pause before a failed step is tried again.
const PAUSE: Duration = Duration::from_millis(250);

/// Runs a pod until it is deleted. `changes` has its changes; `None` or the end of the channel means that the object is
/// gone.
pub async fn live(shared: Arc<Pods>, mut changes: Receiver<Option<Arc<Pod>>>) {
    let Some(pod) = changes.borrow().clone() else { return };
    let namespace = pod.metadata.namespace.as_deref().unwrap_or("default");
    let Some(wanted) = pod.spec.as_ref().and_then(|spec| spec.containers.first()).cloned() else { return };
    let (addr, node) = shared.next();
    let mut life = Life {
        folder: shared.folder.join(pod.metadata.uid.as_deref().unwrap_or_default()),
        api: Api::namespaced(shared.client.clone(), namespace),
        restarts: 0,
        start: Timestamp::now().to_string(),
        container: None,
        shared,
        wanted,
        addr,
        node,
        pod,
    };
    let grace = tokio::select! {
        () = life.run() => Duration::ZERO,
        grace = end(&mut changes) => grace,
    };
    life.end(grace, &mut changes).await;
}

/// Waits until the pod must end, and returns its grace period.
async fn end(changes: &mut Receiver<Option<Arc<Pod>>>) -> Duration {
    let deleted = |pod: &Option<Arc<Pod>>| pod.as_ref().is_none_or(|pod| pod.metadata.deletion_timestamp.is_some());
    let Ok(last) = changes.wait_for(deleted).await else { return Duration::ZERO };
    let seconds = last.as_ref().and_then(|pod| pod.metadata.deletion_grace_period_seconds).unwrap_or(0);
    Duration::from_secs(u64::try_from(seconds).unwrap_or(0))
}

struct Life {
    shared: Arc<Pods>,
    pod: Arc<Pod>,
    api: Api<Pod>,
    wanted: Wanted,
    folder: PathBuf,
    addr: Ipv4Addr,
    node: &'static str,
    restarts: u32,
    start: String,
    container: Option<Container>,
}

impl Life {
    fn name(&self) -> &str {
        self.pod.metadata.name.as_deref().unwrap_or_default()
    }

    async fn run(&mut self) {
        self.bind().await;
        let ports = self.wanted.ports.iter().flatten();
        let ports = ports.filter_map(|port| u16::try_from(port.container_port).ok()).collect();
        loop {
            self.begin().await;
            self.write(State::Running { ready: false }).await;
            let container = self.container.as_mut().expect("it has begun");
            let listening = container.listening();
            let early = tokio::select! {
                () = listening.ready(&ports) => false,
                _ = container.ended() => true,
            };
            if !early {
                self.write(State::Running { ready: true }).await;
                self.container.as_mut().expect("it has begun").ended().await;
            }
            self.restarts += 1;
            let message = format!("see {}", self.folder.join("log").display());
            self.write(State::Waiting { reason: "CrashLoopBackOff", message: &message }).await;
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }

    /// Binds the pod to its node, if it has none.
    async fn bind(&self) {
        if self.pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some()) {
            return;
        }
        let target = json!({ "apiVersion": "v1", "kind": "Node", "name": self.node });
        let binding =
            json!({ "apiVersion": "v1", "kind": "Binding", "metadata": { "name": self.name() }, "target": target });
        let parameters = PostParams::default();
        let done = self.api.create_subresource::<Value, Value>("binding", self.name(), &parameters, &binding);
        if let Err(error) = done.await {
            eprintln!("pod {} is not bound: {error}", self.name());
        }
    }

    /// Starts the process, as soon as its volumes and its program are there.
    async fn begin(&mut self) {
        let mut before = String::new();
        loop {
            match self.try_begin().await {
                Ok(container) => {
                    self.container = Some(container);
                    return;
                }
                Err(message) => {
                    if message != before {
                        self.write(State::Waiting { reason: "ContainerCreating", message: &message }).await;
                    }
                    before = message;
                }
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn try_begin(&self) -> Result<Container, String> {
        let image = self.wanted.image.as_deref().unwrap_or_default();
        let program = images::program(image).ok_or_else(|| format!("no program stands for image {image}"))?;
        let program = evenkeel_peers::find(program).ok_or_else(|| format!("{program} is not installed"))?;
        volumes::write(&self.shared.client, &self.pod, &self.wanted, &self.folder.join("root")).await?;
        let env: Vec<(String, String)> = self.wanted.env.iter().flatten().map(|var| self.variable(var)).collect();
        // The program comes from the image, even if the pod names another program.
        let arguments = self.wanted.command.iter().flatten().skip(1).chain(self.wanted.args.iter().flatten());
        let arguments: Vec<String> = arguments.cloned().collect();
        let begun = Container::begin(Program {
            folder: &self.folder,
            program: &program,
            arguments: &arguments,
            env: &env,
            addr: self.addr,
        });
        begun.await
    }

    fn variable(&self, var: &EnvVar) -> (String, String) {
        let field = var.value_from.as_ref().and_then(|from| from.field_ref.as_ref()).map(|field| &*field.field_path);
        let metadata = &self.pod.metadata;
        let value = match field {
            Some("metadata.name") => metadata.name.clone(),
            Some("metadata.namespace") => metadata.namespace.clone(),
            Some("metadata.uid") => metadata.uid.clone(),
            Some("spec.nodeName") => Some(self.node.to_owned()),
            Some("status.podIP" | "status.podIPs") => Some(self.addr.to_string()),
            Some("status.hostIP") => Some(node::ADDR.to_owned()),
            _ => var.value.clone(),
        };
        (var.name.clone(), value.unwrap_or_default())
    }

    async fn write(&self, state: State<'_>) {
        let status =
            Status { api: &self.api, pod: &self.pod, addr: self.addr, restarts: self.restarts, start: &self.start };
        status.write(state, &Timestamp::now().to_string()).await;
    }

    /// Ends the process, and then the object. An object that is deleted at once kills the process.
    async fn end(mut self, grace: Duration, changes: &mut Receiver<Option<Arc<Pod>>>) {
        if let Some(container) = self.container.take() {
            let pause =
                self.wanted.lifecycle.as_ref().and_then(|lifecycle| lifecycle.pre_stop.as_ref()?.sleep.as_ref());
            let pause =
                Duration::from_secs(pause.map_or(0, |sleep| u64::try_from(sleep.seconds).unwrap_or(0))).min(grace);
            tokio::select! {
                // The container is dropped there, and killed.
                _ = changes.wait_for(Option::is_none) => {}
                () = async {
                    tokio::time::sleep(pause).await;
                    container.end(grace - pause).await;
                } => {}
            }
        }
        let _ = tokio::fs::remove_dir_all(&self.folder).await;
        // A pod of the same name may have been created since.
        let same = Preconditions { uid: self.pod.metadata.uid.clone(), resource_version: None };
        let at_once = DeleteParams { preconditions: Some(same), ..DeleteParams::default().grace_period(0) };
        match self.api.delete(self.name(), &at_once).await {
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {}
            Err(error) => eprintln!("pod {} is not deleted: {error}", self.name()),
            Ok(_) => {}
        }
    }
}
