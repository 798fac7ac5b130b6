//! Routes of a filter chain, as its HTTP filters see them. See [`Behind`].

use evenkeel_config::plan::{Access, Cidr, Filters, Match};
use evenkeel_envoy::route::{PlannedRoute, RouteConfiguration};
use std::net::IpAddr;
use std::sync::Arc;

/// A route that HTTP filters are given to. Its match has no hosts.
pub(super) struct Behind<'r> {
    /// Name of the virtual host.
    pub host: String,
    /// Name of the route, or its position in the virtual host.
    pub label: Arc<str>,
    pub matching: &'r Match,
    pub filters: &'r mut Filters,
}

/// Returns all routes of a route configuration.
pub(super) fn routes(of: &mut RouteConfiguration) -> Vec<Behind<'_>> {
    let mut all = Vec::new();
    for host in &mut of.hosts {
        let host = Arc::make_mut(host);
        let name = &host.name;
        all.extend(host.routes.iter_mut().map(|PlannedRoute { label, matching, acting, .. }| Behind {
            host: name.clone(),
            label: label.clone(),
            matching,
            filters: &mut Arc::make_mut(acting).route.filters,
        }));
    }
    all
}

/// Lets no client use a route.
pub(super) fn close(filters: &mut Filters) {
    let all = [IpAddr::from([0; 4]), IpAddr::from([0; 16])];
    let deny = all.into_iter().filter_map(|ip| Cidr::around(ip, 0));
    filters.access = Some(Access { deny: deny.collect(), ..Access::default() });
}
