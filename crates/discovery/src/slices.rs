//! EndpointSlices of Kubernetes: the parts of the object that a pool's endpoints come from, and the slices of a
//! service.

use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::Deserialize;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Label that names the service of a slice.
pub const SERVICE: &str = "kubernetes.io/service-name";

/// Slices of a service, by name.
pub type Slices = BTreeMap<Arc<str>, Arc<Slice>>;

/// Part of the endpoints of a service, with ports that they share.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Slice {
    /// Family of the addresses: `IPv4`, `IPv6`, or `FQDN` for names.
    pub kind: Box<str>,
    pub ports: Box<[Port]>,
    pub endpoints: Box<[Entry]>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Port {
    /// Name in the service; empty if the service has a single port.
    #[serde(default, deserialize_with = "or_default")]
    pub name: Box<str>,
    /// Number at which the endpoints listen; `None` = any.
    #[serde(default)]
    pub port: Option<u16>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub addr: Box<str>,
    /// Namespace and name of its pod.
    pub pod: Option<Arc<str>>,
    pub zone: Option<Arc<str>>,
    pub phase: Phase,
}

/// Use that may be made of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    Ready,
    /// Still serving, and about to end.
    Terminating,
    /// Not fit for requests, neither now nor as a last resort.
    Away,
}

/// Object of the API with a slice. Other fields, such as annotations, are not read.
#[derive(Clone, Debug, Deserialize)]
#[serde(from = "Wire")]
pub struct Object {
    meta: ObjectMeta,
    /// Service that the slice belongs to; empty if it belongs to none.
    pub service: Arc<str>,
    pub slice: Slice,
}

impl Object {
    pub fn namespace(&self) -> &str {
        self.meta.namespace.as_deref().unwrap_or_default()
    }

    pub fn name(&self) -> &str {
        self.meta.name.as_deref().unwrap_or_default()
    }
}

impl Resource for Object {
    type DynamicType = ();
    type Scope = <EndpointSlice as Resource>::Scope;

    fn kind(_: &()) -> Cow<'_, str> {
        EndpointSlice::kind(&())
    }

    fn group(_: &()) -> Cow<'_, str> {
        EndpointSlice::group(&())
    }

    fn version(_: &()) -> Cow<'_, str> {
        EndpointSlice::version(&())
    }

    fn plural(_: &()) -> Cow<'_, str> {
        EndpointSlice::plural(&())
    }

    fn meta(&self) -> &ObjectMeta {
        &self.meta
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.meta
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Wire {
    #[serde(default)]
    metadata: WireMeta,
    #[serde(default)]
    address_type: Box<str>,
    #[serde(default, deserialize_with = "or_default")]
    ports: Vec<Port>,
    #[serde(default, deserialize_with = "or_default")]
    endpoints: Vec<WireEntry>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireMeta {
    name: Option<String>,
    namespace: Option<String>,
    resource_version: Option<String>,
    #[serde(default, deserialize_with = "or_default")]
    labels: WireLabels,
}

#[derive(Default, Deserialize)]
struct WireLabels {
    #[serde(default, rename = "kubernetes.io/service-name")]
    service: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireEntry {
    #[serde(default, deserialize_with = "or_default")]
    addresses: Vec<Box<str>>,
    #[serde(default, deserialize_with = "or_default")]
    conditions: WireConditions,
    #[serde(default)]
    target_ref: Option<WireTarget>,
    #[serde(default)]
    zone: Option<Arc<str>>,
}

/// Conditions of an endpoint. Each may be unknown.
#[derive(Default, Deserialize)]
struct WireConditions {
    ready: Option<bool>,
    serving: Option<bool>,
    terminating: Option<bool>,
}

#[derive(Deserialize)]
struct WireTarget {
    #[serde(default)]
    kind: String,
    #[serde(default)]
    namespace: String,
    #[serde(default)]
    name: String,
}

/// Reads `null` like a field that is missing.
fn or_default<'de, D: serde::Deserializer<'de>, T: Default + Deserialize<'de>>(value: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(value)?.unwrap_or_default())
}

impl WireConditions {
    /// Use of an endpoint. Unknown conditions have the API's defaults: `ready` is true, `serving` equals `ready`,
    /// `terminating` is false.
    fn phase(&self) -> Phase {
        let ready = self.ready.unwrap_or(true);
        match (ready, self.serving.unwrap_or(ready), self.terminating.unwrap_or(false)) {
            (true, _, _) => Phase::Ready,
            (false, true, true) => Phase::Terminating,
            _ => Phase::Away,
        }
    }
}

impl From<WireEntry> for Entry {
    fn from(entry: WireEntry) -> Entry {
        let pod = entry.target_ref.filter(|target| target.kind == "Pod" && !target.name.is_empty());
        Entry {
            // All addresses of an entry lead to the same place, and the API recommends the first.
            addr: entry.addresses.into_iter().next().unwrap_or_default(),
            pod: pod.map(|pod| format!("{}/{}", pod.namespace, pod.name).into()),
            zone: entry.zone.filter(|zone| !zone.is_empty()),
            phase: entry.conditions.phase(),
        }
    }
}

impl From<Wire> for Object {
    fn from(wire: Wire) -> Object {
        let WireMeta { name, namespace, resource_version, labels } = wire.metadata;
        Object {
            meta: ObjectMeta { name, namespace, resource_version, ..ObjectMeta::default() },
            service: labels.service.into(),
            slice: Slice {
                kind: wire.address_type,
                ports: wire.ports.into(),
                endpoints: wire.endpoints.into_iter().map(Entry::from).collect(),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_conditions_mean_what_the_api_says() {
        let (yes, no) = (Some(true), Some(false));
        for (ready, serving, terminating, expected) in [
            (None, None, None, Phase::Ready),
            (yes, yes, no, Phase::Ready),
            (yes, no, no, Phase::Ready),
            // A service that publishes pods before they are ready.
            (yes, yes, yes, Phase::Ready),
            (no, yes, yes, Phase::Terminating),
            (no, no, yes, Phase::Away),
            (no, None, yes, Phase::Away),
            (no, yes, no, Phase::Away),
            (no, yes, None, Phase::Away),
            (no, no, no, Phase::Away),
        ] {
            let conditions = WireConditions { ready, serving, terminating };
            assert_eq!(conditions.phase(), expected, "{ready:?} {serving:?} {terminating:?}");
        }
    }

    #[test]
    fn an_object_is_read_with_all_its_fields_or_with_none() {
        let object: Object = serde_json::from_str(
            r#"{"apiVersion":"discovery.k8s.io/v1","kind":"EndpointSlice","metadata":{"name":"web-x","namespace":"shop",
            "resourceVersion":"7","labels":{"kubernetes.io/service-name":"web","app":"web"},"managedFields":[{"manager":"a"}]},
            "addressType":"IPv4","ports":[{"name":"http","port":8080,"protocol":"TCP"},{"name":null,"port":null}],
            "endpoints":[{"addresses":["10.0.0.1","10.0.0.2"],"conditions":{"ready":true},"zone":"a","nodeName":"n",
            "hints":{"forZones":[{"name":"b"}]},"targetRef":{"kind":"Pod","namespace":"shop","name":"web-1"}},
            {"addresses":["10.0.0.3"],"conditions":null,"targetRef":{"kind":"Node","name":"n"}}]}"#,
        )
        .expect("an object");
        assert_eq!((object.namespace(), object.name(), &*object.service), ("shop", "web-x", "web"));
        assert_eq!(object.meta().resource_version.as_deref(), Some("7"));
        let [first, second] = &object.slice.endpoints[..] else { panic!("{object:?}") };
        assert_eq!(
            (&*first.addr, first.pod.as_deref(), first.zone.as_deref()),
            ("10.0.0.1", Some("shop/web-1"), Some("a"))
        );
        assert_eq!((&*second.addr, &second.pod, second.phase), ("10.0.0.3", &None, Phase::Ready));
        let [named, any] = &object.slice.ports[..] else { panic!("{object:?}") };
        assert_eq!((&*named.name, named.port, &*any.name, any.port), ("http", Some(8080), "", None));
        for bare in [r#"{"metadata":{}}"#, r#"{"metadata":{"labels":null},"ports":null,"endpoints":null}"#] {
            let object: Object = serde_json::from_str(bare).expect("an object");
            assert!(object.service.is_empty() && object.slice == Slice::default(), "{bare}");
        }
    }
}
