//! Routes of a filter chain, as its HTTP filters see them. See [`Behind`].

use evenkeel_config::plan::{Filters, Match};
use evenkeel_envoy::route::{PlannedRoute, RouteConfiguration};
use std::sync::Arc;

/// A route that HTTP filters are given to. Its match has no hosts.
pub(super) struct Behind<'r> {
    pub matching: &'r Match,
    pub filters: &'r mut Filters,
}

/// Returns all routes of a route configuration.
pub(super) fn routes(of: &mut RouteConfiguration) -> Vec<Behind<'_>> {
    let planned = of.hosts.iter_mut().flat_map(|host| &mut Arc::make_mut(host).routes);
    let behind = planned.map(|PlannedRoute { matching, acting, .. }| Behind {
        matching,
        filters: &mut Arc::make_mut(acting).route.filters,
    });
    behind.collect()
}
