//! Objects of the cluster as they are known now. See [`World`].

use super::objects::{
    Data, GatewayClassSpec, GatewaySpec, GrantSpec, IngressClassSpec, IngressSpec, Key, ListenerSetSpec, Meta, Object,
    PolicySpec, RouteSpec, ServiceSpec,
};
use evenkeel_config::plan::Cidr;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

/// A kind of objects that is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    GatewayClass,
    Gateway,
    ListenerSet,
    HttpRoute,
    GrpcRoute,
    TlsRoute,
    TcpRoute,
    UdpRoute,
    BackendTlsPolicy,
    ReferenceGrant,
    Namespace,
    Service,
    Secret,
    ConfigMap,
    Ingress,
    IngressClass,
}

impl Kind {
    /// Name of the kind in manifests.
    pub fn name(self) -> &'static str {
        match self {
            Kind::GatewayClass => "GatewayClass",
            Kind::Gateway => "Gateway",
            Kind::ListenerSet => "ListenerSet",
            Kind::HttpRoute => "HTTPRoute",
            Kind::GrpcRoute => "GRPCRoute",
            Kind::TlsRoute => "TLSRoute",
            Kind::TcpRoute => "TCPRoute",
            Kind::UdpRoute => "UDPRoute",
            Kind::BackendTlsPolicy => "BackendTLSPolicy",
            Kind::ReferenceGrant => "ReferenceGrant",
            Kind::Namespace => "Namespace",
            Kind::Service => "Service",
            Kind::Secret => "Secret",
            Kind::ConfigMap => "ConfigMap",
            Kind::Ingress => "Ingress",
            Kind::IngressClass => "IngressClass",
        }
    }
}

pub const ROUTES: [Kind; 5] = [Kind::HttpRoute, Kind::GrpcRoute, Kind::TlsRoute, Kind::TcpRoute, Kind::UdpRoute];

/// Objects of a kind, by namespace and name.
pub type Map<T> = BTreeMap<Key, Arc<T>>;

/// A change of the objects of a kind.
#[derive(Debug)]
pub enum Change {
    /// All objects that there are.
    All(Vec<Value>),
    Put(Value),
    Delete(Value),
}

/// Objects of the cluster, as far as the provider reads them.
#[derive(Debug, Default)]
pub struct World {
    pub classes: Map<Object<GatewayClassSpec>>,
    pub gateways: Map<Object<GatewaySpec>>,
    pub listener_sets: Map<Object<ListenerSetSpec>>,
    pub routes: BTreeMap<Kind, Map<Object<RouteSpec>>>,
    pub policies: Map<Object<PolicySpec>>,
    pub grants: Map<Object<GrantSpec>>,
    pub namespaces: Map<Object<Value>>,
    pub services: Map<Object<ServiceSpec>>,
    pub secrets: Map<Data>,
    pub config_maps: Map<Data>,
    pub ingresses: Map<Object<IngressSpec>>,
    pub ingress_classes: Map<Object<IngressClassSpec>>,
    /// Networks of this machine and its links that objects may name.
    pub local_networks: Vec<Cidr>,
    /// Objects that cannot be read, with the reason.
    pub unreadable: BTreeMap<(Kind, Key), String>,
}

/// An object that has metadata.
trait Named {
    fn meta(&self) -> &Meta;
}

impl<S> Named for Object<S> {
    fn meta(&self) -> &Meta {
        &self.metadata
    }
}

impl Named for Data {
    fn meta(&self) -> &Meta {
        &self.metadata
    }
}

impl World {
    /// Applies a change; true if something differs.
    pub fn apply(&mut self, kind: Kind, change: Change) -> bool {
        let World { unreadable, .. } = self;
        match kind {
            Kind::GatewayClass => apply(&mut self.classes, kind, change, unreadable),
            Kind::Gateway => apply(&mut self.gateways, kind, change, unreadable),
            Kind::ListenerSet => apply(&mut self.listener_sets, kind, change, unreadable),
            Kind::HttpRoute | Kind::GrpcRoute | Kind::TlsRoute | Kind::TcpRoute | Kind::UdpRoute => {
                apply(self.routes.entry(kind).or_default(), kind, change, unreadable)
            }
            Kind::BackendTlsPolicy => apply(&mut self.policies, kind, change, unreadable),
            Kind::ReferenceGrant => apply(&mut self.grants, kind, change, unreadable),
            Kind::Namespace => apply(&mut self.namespaces, kind, change, unreadable),
            Kind::Service => apply(&mut self.services, kind, change, unreadable),
            Kind::Secret => apply(&mut self.secrets, kind, change, unreadable),
            Kind::ConfigMap => apply(&mut self.config_maps, kind, change, unreadable),
            Kind::Ingress => apply(&mut self.ingresses, kind, change, unreadable),
            Kind::IngressClass => apply(&mut self.ingress_classes, kind, change, unreadable),
        }
    }

    /// The uid and status of an object that has a status; `None` if it is not there.
    pub fn uid_and_status(&self, kind: Kind, key: &Key) -> Option<(&str, &Value)> {
        fn of<'a, T>(map: &'a Map<Object<T>>, key: &Key) -> Option<(&'a str, &'a Value)> {
            map.get(key).map(|object| (&*object.metadata.uid, &object.status))
        }
        match kind {
            Kind::GatewayClass => of(&self.classes, key),
            Kind::Gateway => of(&self.gateways, key),
            Kind::ListenerSet => of(&self.listener_sets, key),
            Kind::BackendTlsPolicy => of(&self.policies, key),
            Kind::Ingress => of(&self.ingresses, key),
            kind => of(self.routes.get(&kind)?, key),
        }
    }

    pub fn routes_of(&self, kind: Kind) -> impl Iterator<Item = &Arc<Object<RouteSpec>>> {
        self.routes.get(&kind).into_iter().flat_map(|routes| routes.values())
    }
}

fn apply<T: DeserializeOwned + Named + PartialEq>(
    map: &mut Map<T>,
    kind: Kind,
    change: Change,
    unreadable: &mut BTreeMap<(Kind, Key), String>,
) -> bool {
    match change {
        Change::All(objects) => {
            let mut all = Map::new();
            unreadable.retain(|(other, _), _| *other != kind);
            for object in objects {
                put(&mut all, kind, object, unreadable);
            }
            // Unchanged objects keep their `Arc`.
            for (key, object) in &mut all {
                if let Some(before) = map.get(key).filter(|before| **before == *object) {
                    *object = before.clone();
                }
            }
            let has_changed = all != *map;
            *map = all;
            has_changed
        }
        Change::Put(object) => put(map, kind, object, unreadable),
        Change::Delete(object) => {
            let key = key_of(&object);
            unreadable.remove(&(kind, key.clone()));
            map.remove(&key).is_some()
        }
    }
}

/// Puts an object; true if it differs from the object before. If it cannot be read, the object before stays.
fn put<T: DeserializeOwned + Named + PartialEq>(
    map: &mut Map<T>,
    kind: Kind,
    object: Value,
    unreadable: &mut BTreeMap<(Kind, Key), String>,
) -> bool {
    let key = key_of(&object);
    match serde_json::from_value::<T>(object) {
        Ok(object) => {
            let key = object.meta().key();
            unreadable.remove(&(kind, key.clone()));
            match map.entry(key) {
                Entry::Occupied(mut there) => {
                    let differs = **there.get() != object;
                    if differs {
                        there.insert(Arc::new(object));
                    }
                    differs
                }
                Entry::Vacant(free) => {
                    free.insert(Arc::new(object));
                    true
                }
            }
        }
        Err(error) => {
            tracing::warn!(kind = kind.name(), object = %key, %error, "kubernetes: cannot read an object");
            unreadable.insert((kind, key), error.to_string()).is_none()
        }
    }
}

fn key_of(object: &Value) -> Key {
    let text = |name: &str| object["metadata"][name].as_str().unwrap_or_default();
    Key::new(text("namespace"), text("name"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn gateway(name: &str, port: u16) -> Value {
        json!({
            "metadata": { "namespace": "shop", "name": name },
            "spec": { "gatewayClassName": "evenkeel", "listeners": [{ "name": "http", "port": port, "protocol": "HTTP" }] },
        })
    }

    #[test]
    fn changes_that_change_nothing_are_told_from_others() {
        let mut world = World::default();
        assert!(world.apply(Kind::Gateway, Change::All(vec![gateway("a", 80), gateway("b", 80)])));
        assert!(!world.apply(Kind::Gateway, Change::All(vec![gateway("a", 80), gateway("b", 80)])));
        assert!(!world.apply(Kind::Gateway, Change::Put(gateway("a", 80))));
        assert!(world.apply(Kind::Gateway, Change::Put(gateway("a", 81))));
        assert!(world.apply(Kind::Gateway, Change::Delete(gateway("a", 81))));
        assert!(!world.apply(Kind::Gateway, Change::Delete(gateway("a", 81))));
        assert!(world.apply(Kind::Gateway, Change::All(Vec::new())));
    }

    #[test]
    fn an_object_that_cannot_be_read_costs_itself_alone() {
        let mut world = World::default();
        let mut broken = gateway("a", 80);
        broken["spec"]["listeners"][0]["port"] = json!("eighty");
        world.apply(Kind::Gateway, Change::All(vec![broken, gateway("b", 80)]));
        assert_eq!(world.gateways.keys().map(|key| &*key.name).collect::<Vec<_>>(), ["b"]);
        let key = (Kind::Gateway, Key::new("shop", "a"));
        assert!(world.unreadable[&key].contains("eighty"), "{:?}", world.unreadable);
        world.apply(Kind::Gateway, Change::Put(gateway("a", 80)));
        assert!(world.unreadable.is_empty() && world.gateways.len() == 2);
    }
}
