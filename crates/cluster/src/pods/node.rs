//! Nodes of the cluster, which are names: all pods run on this machine.

use super::kubelet;
use crate::objects::create;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde_json::json;

/// Nodes with their zones. Pods are bound to them in turn.
pub const NODES: [(&str, &str); 2] = [("node-a", "a"), ("node-b", "b")];

/// Address of all nodes, and of the bridge of pods.
pub const ADDR: &str = "10.244.0.1";

/// Creates a node that is ready, with the port of its kubelet.
///
/// # Errors
/// If the API server refuses its status.
pub async fn register(client: &Client, name: &str, zone: &str) -> kube::Result<()> {
    let labels = json!({ "kubernetes.io/hostname": name, "topology.kubernetes.io/zone": zone });
    let node = json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": name, "labels": labels } });
    create(client, &node).await;
    let ready = json!({ "type": "Ready", "status": "True", "reason": "KubeletReady" });
    let amount = json!({ "cpu": "64", "memory": "64Gi", "pods": "1000" });
    let status = json!({ "status": {
        "conditions": [ready], "capacity": amount, "allocatable": amount,
        "addresses": [{ "type": "InternalIP", "address": ADDR }],
        "daemonEndpoints": { "kubeletEndpoint": { "Port": kubelet::PORT } },
    } });
    let nodes = Api::<Node>::all(client.clone());
    nodes.patch_status(name, &PatchParams::default(), &Patch::Merge(&status)).await?;
    Ok(())
}
