//! EndpointSlices that tests write.

use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{DeleteParams, PostParams};
use serde_json::{Value, json};

#[derive(Clone)]
pub struct Slices(pub(crate) kube::Api<EndpointSlice>);

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
