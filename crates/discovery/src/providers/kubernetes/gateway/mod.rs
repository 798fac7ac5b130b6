//! Gateways and their Routes. Read the files in this order:
//!
//! 1. [`classes`] finds the classes of this controller, and [`gateways`] their Gateways with [`addresses`] and listeners.
//! 2. [`ports`]: addresses and ports that listeners share. [`attach`] has the listeners of a Route.
//! 3. [`rules`] with [`filters`], and [`streams`], make routes. [`hosts`] compares host names.

pub mod addresses;
mod attach;
pub mod classes;
pub mod filters;
mod gateways;
mod hosts;
pub mod ports;
pub mod rules;
mod streams;
#[cfg(test)]
mod tests;

use super::services::Fault;
use super::services::backends::Backends;
use super::services::ordered::Ordered;
use super::statuses::status::{Condition, Parent, Says, Wanted};
use super::translation::{Shown, Translation};
use super::world::objects::{Key, Object, RouteSpec};
use super::world::store::{Kind, ROUTES, World};
use crate::providers::parts::Refusal;
use addresses::Addresses;
use attach::{Attachment, attach};
use evenkeel_config::plan::KubernetesProvider;
use gateways::{Gateways, Listener};
use ports::{Port, Ports};
use rules::{Made, Rules};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Translates the Gateways of this controller with their Routes.
pub fn translate(
    world: &World,
    provider: &KubernetesProvider,
    addresses: &mut Addresses,
    shown: &Shown,
    refused: &[Refusal],
    (backends, routes): (&mut Backends<'_>, &mut Ordered),
    to: &mut Translation,
) {
    let classes = classes::accepted(world, &provider.controller, &mut to.statuses);
    let mut gateways = Gateways::find(world, &classes, addresses);
    let ports = Ports::of(&gateways);
    for kind in ROUTES {
        let mut objects: Vec<&Arc<Object<RouteSpec>>> = world.routes_of(kind).collect();
        objects.sort_by_key(|route| route.metadata.age());
        for route in objects {
            one_route(kind, route, world, (&mut gateways, &ports), backends, routes, (refused, to));
        }
    }
    for port in ports.all() {
        let has_routes = routes.all.iter().any(|piece| piece.value.listeners.contains(&port.name));
        let Some(piece) = port.listener(&gateways, has_routes) else { continue };
        refuse(refused, &piece.of, port, &mut gateways.listeners);
        to.part.listeners.push(piece);
        to.part.routes.extend(port.ends(&gateways));
    }
    gateways.statuses(&shown.published, shown.own, &mut to.statuses);
}

/// Notes that the machine does not allow the listeners of a port.
fn refuse(refused: &[Refusal], of: &Arc<str>, port: &Port, listeners: &mut [Listener<'_>]) {
    let Some(refusal) = refused.iter().find(|refusal| refusal.of == *of) else { return };
    for index in port.listeners() {
        listeners[*index].refused = Some(refusal.why.clone());
    }
}

fn one_route(
    kind: Kind,
    route: &Object<RouteSpec>,
    world: &World,
    (gateways, ports): (&mut Gateways<'_>, &Ports),
    backends: &mut Backends<'_>,
    routes: &mut Ordered,
    (refused, to): (&[Refusal], &mut Translation),
) {
    let key = route.metadata.key();
    let of: Arc<str> = format!("{} {key}", kind.name()).into();
    let attachments = attach(kind, route, gateways, world);
    let mut attached: BTreeSet<usize> = BTreeSet::new();
    for attachment in &attachments {
        attached.extend(attachment.listeners.iter().map(|(listener, _)| *listener));
    }
    attached.iter().for_each(|listener| gateways.listeners[*listener].attached += 1);
    let all: Vec<(usize, Vec<Option<String>>)> =
        attachments.iter().flat_map(|attachment| attachment.listeners.iter().cloned()).collect();
    let mut wrong = Wrong::default();
    for port in ports.all().filter(|port| port.listeners().iter().any(|listener| attached.contains(listener))) {
        let hosts = port.hosts(&all, gateways);
        let here: BTreeSet<usize> =
            port.listeners().iter().filter(|l| attached.contains(l)).map(|l| gateways.listeners[*l].gateway).collect();
        let keys: Vec<Key> = here.iter().map(|gateway| gateways.all[*gateway].key.clone()).collect();
        let certificate = here.iter().find_map(|gateway| gateways.all[*gateway].client_certificate.as_ref());
        if matches!(kind, Kind::HttpRoute | Kind::GrpcRoute) {
            let rules = Rules {
                kind,
                route,
                listener: &port.name,
                port: port.addr.port(),
                hosts: &hosts,
                certificate,
                gateways: &keys,
            };
            let Made { routes: made, unresolved, unsupported } = rules.make(backends);
            made.into_iter().for_each(|one| routes.add(&of, one));
            wrong.note(unresolved, unsupported);
        } else {
            let streams::Made { action, unresolved } = streams::action(kind, route, &keys, backends);
            wrong.note(unresolved, None);
            // Of several Routes without names, the oldest has the port.
            if kind == Kind::TlsRoute || routes.taken.insert(port.name.clone()) {
                routes.add(&of, streams::route(kind, route, &port.name, &hosts, action));
            }
        }
    }
    let is_served = ports.all().any(|port| port.listeners().iter().any(|listener| attached.contains(listener)));
    if !attachments.is_empty() && !is_served {
        // Its references are looked at even if no port serves it.
        wrong.note(backends.forgetting(|backends| unresolved(kind, route, backends)), None);
    }
    let refusal = refused.iter().find(|refusal| refusal.of == of).map(|refusal| refusal.why.clone());
    wrong.unsupported = wrong.unsupported.or(refusal);
    let parents: Vec<Parent> = attachments.iter().map(|attachment| wrong.parent(attachment)).collect();
    if !parents.is_empty() || !route.status.is_null() {
        let says = Says::Parents(parents);
        to.statuses.insert((kind, key), Wanted { generation: route.metadata.generation, says });
    }
}

/// First fault of the references of a Route.
fn unresolved(kind: Kind, route: &Object<RouteSpec>, backends: &mut Backends<'_>) -> Option<Fault> {
    let nowhere: Arc<str> = "".into();
    if matches!(kind, Kind::HttpRoute | Kind::GrpcRoute) {
        let rules = Rules { kind, route, listener: &nowhere, port: 80, hosts: &[], certificate: None, gateways: &[] };
        return rules.make(backends).unresolved;
    }
    streams::action(kind, route, &[], backends).unresolved
}

#[derive(Default)]
struct Wrong {
    unresolved: Option<Fault>,
    unsupported: Option<String>,
}

impl Wrong {
    fn note(&mut self, unresolved: Option<Fault>, unsupported: Option<String>) {
        self.unresolved = self.unresolved.take().or(unresolved);
        self.unsupported = self.unsupported.take().or(unsupported);
    }

    fn parent(&self, attachment: &Attachment) -> Parent {
        let mut conditions = vec![
            match (&attachment.fault, &self.unsupported) {
                (Some((reason, message)), _) => Condition::no("Accepted", reason, message.clone()),
                (None, Some(why)) => Condition::no("Accepted", "UnsupportedValue", why.clone()),
                (None, None) => Condition::yes("Accepted", "Accepted"),
            },
            match &self.unresolved {
                Some((reason, message)) => Condition::no("ResolvedRefs", reason, message.clone()),
                None => Condition::yes("ResolvedRefs", "ResolvedRefs"),
            },
        ];
        if let (None, Some(why)) = (&attachment.fault, &self.unsupported) {
            conditions.push(Condition {
                of: "PartiallyInvalid",
                holds: true,
                reason: "UnsupportedValue",
                message: why.clone(),
            });
        }
        Parent { to: attachment.parent.clone(), conditions }
    }
}
