//! Objects of the cluster as a part of the plan, and the statuses that they get. Without I/O. See [`translate`].

use super::gateway;
use super::gateway::addresses::Addresses;
use super::ingress;
use super::services::backends::Backends;
use super::services::ordered::Ordered;
use super::statuses::events;
use super::translation::{Shown, Translation};
use super::world::objects::Key;
use super::world::store::World;
use crate::providers::parts::Refusal;
use evenkeel_config::plan::KubernetesProvider;
use serde_json::Value;
use std::net::IpAddr;
use std::sync::Arc;

/// Translates all objects. `refused`: pieces of the last translation that this machine or the file does not allow. `own`: the
/// address of this machine that is shown if it listens at all.
pub fn translate(
    world: &World,
    provider: &KubernetesProvider,
    addresses: &mut Addresses,
    own: Option<IpAddr>,
    refused: &[Refusal],
) -> Translation {
    let mut translation = Translation::default();
    let mut backends = Backends::new(world);
    let mut routes = Ordered::default();
    let shown = Shown { published: published(world, provider), own };
    if provider.gateways {
        let places = (addresses, &*ingress::taken(world, provider), &shown);
        gateway::translate(world, provider, places, refused, (&mut backends, &mut routes), &mut translation);
    }
    if provider.ingresses {
        ingress::translate(world, provider, &shown, refused, (&mut backends, &mut routes), &mut translation);
    }
    let (policies, pools) = backends.into_pools();
    policies.statuses(&mut translation.statuses);
    translation.part.routes.extend(routes.into_pieces());
    translation.part.pools = pools;
    let of_statuses = events::of_statuses(&translation.statuses);
    translation.events.extend(of_statuses);
    translation.events.sort_unstable();
    translation.events.dedup();
    translation
}

/// Addresses and host names for statuses: the addresses of the load balancer in front, else the configured addresses.
/// `None` if statuses show the addresses that evenkeel listens at.
fn published(world: &World, provider: &KubernetesProvider) -> Option<Vec<Arc<str>>> {
    let set = || provider.publish.clone();
    let service = provider.publish_service.as_ref().and_then(|text| text.split_once('/'));
    let Some((namespace, name)) = service else { return Some(set()).filter(|set| !set.is_empty()) };
    let service = world.services.get(&Key::new(namespace, name));
    let points = service.and_then(|service| service.status["loadBalancer"]["ingress"].as_array());
    let point = |point: &Value| point["ip"].as_str().or(point["hostname"].as_str()).map(Arc::from);
    let points: Vec<Arc<str>> = points.into_iter().flatten().filter_map(point).collect();
    // The address of a replica would bypass the load balancer, and vanish with the replica.
    Some(if points.is_empty() { set() } else { points })
}
