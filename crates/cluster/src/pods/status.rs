//! Status of a pod, as a kubelet writes it.

use super::node;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use std::net::Ipv4Addr;

/// State of the container of a pod.
pub enum State<'a> {
    /// The program does not run yet, or has ended.
    Waiting {
        reason: &'static str,
        message: &'a str,
    },
    Running {
        ready: bool,
    },
}

/// A pod whose status is written.
pub struct Status<'a> {
    pub api: &'a Api<Pod>,
    pub pod: &'a Pod,
    pub addr: Ipv4Addr,
    pub restarts: u32,
    /// Start of the pod, in RFC 3339.
    pub start: &'a str,
}

impl Status<'_> {
    /// Writes the status. A pod that is gone has none.
    pub async fn write(&self, state: State<'_>, now: &str) {
        let Some(container) = self.pod.spec.as_ref().and_then(|spec| spec.containers.first()) else { return };
        let running = matches!(state, State::Running { .. });
        let ready = matches!(state, State::Running { ready: true });
        let inside = match state {
            State::Waiting { reason, message } => json!({ "waiting": { "reason": reason, "message": message } }),
            State::Running { .. } => json!({ "running": { "startedAt": now } }),
        };
        let condition = |kind: &str, holds: bool| -> Value {
            let status = if holds { "True" } else { "False" };
            let generation = self.pod.metadata.generation;
            json!({ "type": kind, "status": status, "lastTransitionTime": now, "observedGeneration": generation })
        };
        let mut status = json!({
            "phase": if running || self.restarts > 0 { "Running" } else { "Pending" },
            "startTime": self.start,
            "hostIP": node::ADDR,
            "hostIPs": [{ "ip": node::ADDR }],
            "conditions": [
                condition("PodScheduled", true), condition("PodReadyToStartContainers", true), condition("Initialized", true),
                condition("ContainersReady", ready), condition("Ready", ready),
            ],
            "containerStatuses": [{
                "name": container.name, "image": container.image, "imageID": "", "ready": ready, "started": running,
                "restartCount": self.restarts, "state": inside,
            }],
        });
        if running {
            status["podIP"] = json!(self.addr);
            status["podIPs"] = json!([{ "ip": self.addr }]);
        }
        let name = self.pod.metadata.name.as_deref().unwrap_or_default();
        match self.api.patch_status(name, &PatchParams::default(), &Patch::Merge(json!({ "status": status }))).await {
            Err(kube::Error::Api(answer)) if answer.code == 404 => {}
            Err(error) => eprintln!("status of pod {name}: {error}"),
            Ok(_) => {}
        }
    }
}
