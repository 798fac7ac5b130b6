//! Ingresses as routes, in the words of ingress-nginx where the API leaves something open. Read the files in this order:
//!
//! 1. [`classes`] finds the Ingresses that are served. Each is a [`site`]. Its [`annotations`] become [`filters`],
//!    [`protection`] and settings of its [`endpoints`].
//! 2. [`listeners`] with [`certificates`], including listeners of Gateways at the same port.
//! 3. [`rules`] makes the routes, from [`paths`] and [canaries](canary).

// Order: classes, rules, listeners, certificates, paths, site, canary, endpoints, filters, protection, annotations
mod annotations;
mod canary;
mod certificates;
mod classes;
mod endpoints;
mod filters;
mod listeners;
mod paths;
mod protection;
mod rules;
mod site;
#[cfg(test)]
mod tests;

use super::translation::{Shown, Taken, Translation};
use crate::providers::kubernetes::services::backends::Backends;
use crate::providers::kubernetes::services::ordered::Ordered;
use crate::providers::kubernetes::statuses::events::REFUSED;
use crate::providers::kubernetes::statuses::status::{Says, Wanted};
use crate::providers::kubernetes::world::objects::{IngressSpec, Object};
use crate::providers::kubernetes::world::store::{Kind, World};
use crate::providers::parts::Refusal;
use evenkeel_config::plan::KubernetesProvider;
use listeners::Listeners;
use rules::Rules;
use site::Site;
use std::net::{IpAddr, SocketAddr};

/// Translates the Ingresses of this controller.
pub fn translate(
    world: &World,
    provider: &KubernetesProvider,
    shown: &Shown,
    refused: &[Refusal],
    (backends, routes): (&mut Backends<'_>, &mut Ordered),
    to: &mut Translation,
) {
    let served = classes::served(world, provider);
    let mut sites: Vec<Site<'_>> = served.into_iter().map(|object| Site::read(object, world, backends)).collect();
    let listeners = Listeners::add(&mut sites, world, provider, refused, &mut to.part);
    Rules { listeners: &listeners, backends, routes, redirect_port: provider.redirect_port }.make(&mut sites);
    let points = points(provider, shown);
    for mut site in sites {
        if let Some(refusal) = refused.iter().find(|refusal| refusal.of == site.of) {
            site.annotations.event(REFUSED, refusal.why.clone());
        }
        // A load balancer in front has other ports.
        let ports = if shown.published.is_none() { listeners.ports.clone() } else { Vec::new() };
        let says = Says::Ingress { points: points.clone(), ports };
        let wanted = Wanted { generation: site.object.metadata.generation, says };
        to.statuses.insert((Kind::Ingress, site.key.clone()), wanted);
        to.events.extend(site.annotations.finish());
    }
}

/// Returns the ports that Ingresses have. Younger Gateways do not get them for anything else.
pub fn taken<'w>(world: &'w World, provider: &KubernetesProvider) -> Vec<Taken<'w>> {
    let Some(ip) = provider.addresses.first().filter(|_| provider.ingresses) else { return Vec::new() };
    let served = classes::served(world, provider);
    let with_tls = served.iter().find(|one| !one.spec.tls.is_empty() || provider.default_certificate.is_some());
    let taken = |port, is_tls, oldest: &&'w Object<IngressSpec>| Taken {
        addr: SocketAddr::new(*ip, port),
        is_tls,
        since: oldest.metadata.age(),
    };
    let http = served.first().map(|oldest| taken(provider.http_port, false, oldest));
    let https = with_tls.map(|oldest| taken(provider.https_port, true, oldest));
    http.into_iter().chain(https).collect()
}

/// Addresses and host names for statuses.
fn points(provider: &KubernetesProvider, shown: &Shown) -> Vec<String> {
    if let Some(published) = &shown.published {
        return published.iter().map(ToString::to_string).collect();
    }
    let own = provider.addresses.first().filter(|ip| !IpAddr::is_unspecified(ip)).copied().or(shown.own);
    own.iter().map(ToString::to_string).collect()
}
