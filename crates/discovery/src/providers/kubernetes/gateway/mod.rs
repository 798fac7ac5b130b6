//! Gateways and their Routes. Read the files in this order:
//!
//! 1. [`classes`] finds the classes of this controller, and [`gateways`] their Gateways with [`addresses`] and listeners.
//!    Objects that ask for the same port have [`conflicts`].
//! 2. [`ports`]: addresses and ports that listeners share. [`attach`] has the listeners of a Route.
//! 3. [`rules`] with [`filters`], and [`streams`], make routes. [`hosts`] compares host names.

// Order: attach, classes, conflicts, rules, streams, filters, ports, gateways, addresses, hosts
pub mod addresses;
mod attach;
pub mod classes;
mod conflicts;
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
use super::statuses::status::{Condition, PARTIALLY_INVALID, Parent, Says, Wanted};
use super::translation::{Shown, Taken, Translation};
use super::world::objects::{Key, Object, RouteSpec};
use super::world::store::{Kind, ROUTES, World};
use crate::providers::parts::Refusal;
use addresses::Addresses;
use attach::{Attachment, attach};
use evenkeel_config::plan::KubernetesProvider;
use gateways::Gateways;
use ports::Ports;
use rules::{Dropped, Made, Rules};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Translates the Gateways of this controller with their Routes.
pub fn translate(
    world: &World,
    provider: &KubernetesProvider,
    (addresses, taken, shown): (&mut Addresses, &[Taken<'_>], &Shown),
    refused: &[Refusal],
    (backends, routes): (&mut Backends<'_>, &mut Ordered),
    to: &mut Translation,
) {
    let classes = classes::accepted(world, &provider.controller, &mut to.statuses);
    let mut gateways = Gateways::find(world, &classes, addresses, taken);
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
        if let Some(refusal) = refusal(refused, &piece.of) {
            port.listeners().iter().for_each(|index| gateways.listeners[*index].refused = Some(refusal.why.clone()));
        }
        to.part.listeners.push(piece);
        to.part.routes.extend(port.ends(&gateways));
    }
    gateways.statuses(shown, &mut to.statuses);
}

fn refusal<'r>(refused: &'r [Refusal], of: &str) -> Option<&'r Refusal> {
    refused.iter().find(|refusal| *refusal.of == *of)
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
    routes.since(&route.metadata, false);
    let attachments = attach(kind, route, gateways, world);
    let mut attached: BTreeSet<usize> = BTreeSet::new();
    for attachment in &attachments {
        attached.extend(attachment.listeners.iter().map(|(listener, _)| *listener));
    }
    attached.iter().for_each(|listener| gateways.listeners[*listener].attached += 1);
    let all: Vec<(usize, Vec<Option<String>>)> =
        attachments.iter().flat_map(|attachment| attachment.listeners.iter().cloned()).collect();
    let mut wrong = Wrong::default();
    let here = || ports.all().filter(|port| port.listeners().iter().any(|listener| attached.contains(listener)));
    let before = routes.all.len();
    for port in here() {
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
            let Made { routes: made, unresolved, dropped } = rules.make(backends);
            made.into_iter().for_each(|one| routes.add(&of, one));
            wrong.note(unresolved, dropped);
        } else {
            let streams::Made { action, unresolved } = streams::action(kind, route, &keys, backends);
            wrong.note(unresolved, None);
            // Of several Routes without names, the oldest has the port.
            if kind == Kind::TlsRoute || routes.taken.insert(port.name.clone()) {
                routes.add(&of, streams::route(kind, route, &port.name, &hosts, action));
            }
        }
    }
    if !attachments.is_empty() && here().next().is_none() {
        // Its references are looked at even if no port serves it.
        wrong.note(backends.forgetting(|backends| unresolved(kind, route, backends)), None);
    }
    // Without a listener that is served, it is not the Route that is at fault.
    let is_listened = here().any(|port| refusal(refused, &port.of(gateways)).is_none());
    if let Some(refusal) = refusal(refused, &of).filter(|_| is_listened) {
        let are_all = routes.all.len() - before < 2;
        wrong.dropped.get_or_insert(Dropped { rules: vec![(None, refusal.why.clone())], are_all });
    }
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
    dropped: Option<Dropped>,
}

impl Wrong {
    fn note(&mut self, unresolved: Option<Fault>, dropped: Option<Dropped>) {
        self.unresolved = self.unresolved.take().or(unresolved);
        self.dropped = self.dropped.take().or(dropped);
    }

    fn parent(&self, attachment: &Attachment) -> Parent {
        let mut conditions = vec![
            match (&attachment.fault, &self.dropped) {
                (Some((reason, message)), _) => Condition::no("Accepted", reason, message.clone()),
                (None, Some(dropped)) if dropped.are_all => {
                    Condition::no("Accepted", "UnsupportedValue", dropped.why())
                }
                (None, _) => Condition::yes("Accepted", "Accepted"),
            },
            match &self.unresolved {
                Some((reason, message)) => Condition::no("ResolvedRefs", reason, message.clone()),
                None => Condition::yes("ResolvedRefs", "ResolvedRefs"),
            },
        ];
        if let (None, Some(dropped)) = (&attachment.fault, self.dropped.as_ref().filter(|dropped| !dropped.are_all)) {
            let (of, reason) = (PARTIALLY_INVALID, "UnsupportedValue");
            conditions.push(Condition { of, holds: true, reason, message: dropped.message() });
        }
        Parent { to: attachment.parent.clone(), conditions }
    }
}
