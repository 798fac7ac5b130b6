//! TLSRoutes, TCPRoutes and UDPRoutes: sessions and datagrams. Only the server name of a session is read.

use super::filters::name_of;
use super::ports::pattern;
use crate::providers::kubernetes::services::Fault;
use crate::providers::kubernetes::services::backends::{Backends, Variant};
use crate::providers::kubernetes::services::grants::From;
use crate::providers::kubernetes::world::objects::{GATEWAY_GROUP, Key, Object, RouteSpec};
use crate::providers::kubernetes::world::store::Kind;
use evenkeel_config::plan::{Action, Match, Pool, Route, Split};
use std::sync::Arc;

/// Largest weight of a pool in a split.
const WEIGHT_MAX: u32 = 1_000_000;

/// Action of a Route, and the first fault of its references.
pub struct Made {
    pub action: Action,
    pub unresolved: Option<Fault>,
}

/// Finds the pools of a Route, by weight. `gateways`: the Gateways that it is attached to. A reference that leads
/// nowhere keeps its share: these sessions end.
pub fn action(kind: Kind, route: &Object<RouteSpec>, gateways: &[Key], backends: &mut Backends<'_>) -> Made {
    let from = From { group: GATEWAY_GROUP, kind: kind.name(), namespace: &route.metadata.namespace };
    let variant = Variant { is_stream: true, is_udp: kind == Kind::UdpRoute, ..Variant::default() };
    let (mut weights, mut unresolved): (Vec<(Arc<str>, u32)>, Option<Fault>) = (Vec::new(), None);
    for to in route.spec.rules.iter().flat_map(|rule| &rule.backend_refs) {
        let weight = to.weight.unwrap_or(1).min(WEIGHT_MAX);
        let pool = match backends.pool(from, &to.to, &variant, gateways) {
            Ok(pool) => pool,
            Err(fault) => {
                unresolved.get_or_insert(fault);
                backends.nowhere()
            }
        };
        match weights.iter_mut().find(|(other, _)| *other == pool) {
            Some((_, sum)) => *sum = sum.saturating_add(weight).min(WEIGHT_MAX),
            None => weights.push((pool, weight)),
        }
    }
    weights.retain(|(_, weight)| *weight > 0);
    let action = match weights.len() {
        0 => Action::Pool(backends.nowhere()),
        1 => Action::Pool(weights.swap_remove(0).0),
        _ => Action::Split(Split { weights, key: None }),
    };
    Made { action, unresolved }
}

/// Route of the plan at a single port. `hosts`: server names of a TLSRoute at that port; `None` = every name.
pub fn route(
    kind: Kind,
    route: &Object<RouteSpec>,
    listener: &Arc<str>,
    hosts: &[Option<String>],
    action: Action,
) -> Route {
    let (prefix, has_names) = match kind {
        Kind::TcpRoute => ("tcp:", false),
        Kind::UdpRoute => ("udp:", false),
        _ => ("tls:", !hosts.contains(&None)),
    };
    let hosts = match has_names {
        true => hosts.iter().flatten().filter_map(|host| pattern(host)).collect(),
        false => Vec::new(),
    };
    Route {
        name: name_of(prefix, &route.metadata.key().to_string(), None, None),
        listeners: vec![listener.clone()],
        matching: Match { hosts, ..Match::default() },
        action,
        ..Route::to(&Pool::default())
    }
}
