//! Attachment of Routes to listeners, by their parents.

use super::gateways::Gateways;
use super::hosts::both;
use crate::providers::kubernetes::services::Fault;
use crate::providers::kubernetes::world::objects::{GATEWAY_GROUP, Key, Object, Reference, RouteSpec};
use crate::providers::kubernetes::world::store::{Kind, World};

/// A parent of a Route that belongs to this controller.
#[derive(Debug)]
pub struct Attachment {
    pub parent: Reference,
    /// Listeners by index, each with the hosts that both it and the Route have; `None` = every host.
    pub listeners: Vec<(usize, Vec<Option<String>>)>,
    /// Reason for which it has no listener.
    pub fault: Option<Fault>,
}

/// Attaches a Route to its parents. Parents of other controllers are left out.
pub fn attach(kind: Kind, route: &Object<RouteSpec>, gateways: &Gateways<'_>, world: &World) -> Vec<Attachment> {
    let mut seen: Vec<&Reference> = Vec::new();
    let mut all = Vec::new();
    for parent in &route.spec.parent_refs {
        if !seen.contains(&parent) {
            seen.push(parent);
            all.extend(attach_one(kind, route, parent, gateways, world));
        }
    }
    all
}

fn attach_one(
    kind: Kind,
    route: &Object<RouteSpec>,
    parent: &Reference,
    gateways: &Gateways<'_>,
    world: &World,
) -> Option<Attachment> {
    let namespace = &route.metadata.namespace;
    if parent.group.as_deref().unwrap_or(GATEWAY_GROUP) != GATEWAY_GROUP {
        return None;
    }
    let owner_kind = match parent.kind.as_deref().unwrap_or("Gateway") {
        "Gateway" => Kind::Gateway,
        "ListenerSet" => Kind::ListenerSet,
        _ => return None,
    };
    let owner: (Kind, Key) = (owner_kind, parent.key(namespace));
    let gateway = gateways.gateway_of(&owner)?;
    let attachment = |listeners, fault| Some(Attachment { parent: parent.clone(), listeners, fault });
    if !gateways.all[gateway].is_accepted() {
        return attachment(Vec::new(), Some(("NoMatchingParent", "the Gateway is not accepted".to_owned())));
    }
    let fault = |reason, message: &str| attachment(Vec::new(), Some((reason, message.to_owned())));
    let own = gateways.listeners.iter().enumerate().filter(|(_, listener)| listener.owner == owner);
    let named: Vec<_> = own
        .filter(|(_, listener)| parent.section_name.as_ref().is_none_or(|name| *name == listener.spec.name))
        .filter(|(_, listener)| parent.port.is_none_or(|port| port == listener.spec.port))
        .collect();
    if named.is_empty() {
        return fault("NoMatchingParent", "no listener has this name and port");
    }
    let admitting: Vec<_> = named.into_iter().filter(|(_, listener)| listener.admits(kind, namespace, world)).collect();
    if admitting.is_empty() {
        return fault("NotAllowedByListeners", "no listener takes Routes of this kind and namespace");
    }
    let mut listeners = Vec::new();
    for (index, listener) in admitting.into_iter().filter(|(_, listener)| listener.is_valid()) {
        let hosts: Vec<Option<String>> = match route.spec.hostnames.is_empty() {
            true => vec![listener.host().map(str::to_ascii_lowercase)],
            false => route.spec.hostnames.iter().filter_map(|host| both(listener.host(), Some(host))).collect(),
        };
        if !hosts.is_empty() {
            listeners.push((index, hosts));
        }
    }
    match listeners.is_empty() {
        true => fault("NoMatchingListenerHostname", "no listener has one of the Route's host names"),
        false => attachment(listeners, None),
    }
}
