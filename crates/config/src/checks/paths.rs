//! Checks of `paths`: protected routes that another spelling of their paths passes.

use super::collisions::Placed;
use crate::code::Code;
use crate::diagnostic::Findings;
use crate::form::PathPattern;
use crate::sections::action::Action;
use crate::sections::listener::{Listener, Mode};
use crate::sections::matching::{Match, Paths};
use crate::sections::route::Route;
use std::sync::Arc;

/// Warns of routes that protect a path which is matched as sent, if another route sends requests to the same pool.
pub(super) fn check(routes: &[Placed], listeners: &[Arc<Listener>], findings: &mut Findings) {
    let http = || listeners.iter().filter(|listener| listener.mode == Mode::Http);
    if http().all(|listener| listener.paths != Paths::AsSent) && routes.iter().all(|of| of.route.paths.is_none()) {
        return;
    }
    let is_lax = |route: &Route, listener: &Listener| {
        let serves = route.listeners.is_empty() || route.listeners.contains(&listener.name);
        serves && route.paths.unwrap_or(listener.paths) == Paths::AsSent
    };
    let routes = || routes.iter().filter(|of| !of.route.internal);
    let open: Vec<&Route> = routes().map(|of| &of.route).filter(|route| is_open(route)).collect();
    for Placed { route, span, .. } in routes().filter(|of| is_protected(&of.route)) {
        let passes = |other: &&&Route| {
            shares_pool(route, other)
                && shares_host(route, other)
                && http().any(|on| is_lax(route, on) && is_lax(other, on))
        };
        let Some(other) = open.iter().find(passes) else { continue };
        let message = format!(
            "route \"{}\" protects a path that is matched as sent: endpoints that read \"//x\" as \"/x\", for example, serve the \
             path through route \"{}\"",
            route.name, other.name
        );
        findings
            .add(Code::AtOdds, *span, message)
            .help("set paths = \"refuse\" or \"normalise\" in this route: of several settings, the strictest applies");
    }
}

/// True if the route has an effect that a client may want to avoid, on some paths.
fn is_protected(route: &Route) -> bool {
    let filters = &route.filters;
    let has_path = route.matches().iter().any(|matching| {
        let is_of_path = matching.criteria.of_path().next().is_some() || matching.criteria.ends_with.is_some();
        matching.path != PathPattern::Any || is_of_path
    });
    let refuses = matches!(&route.action, Action::Respond(response) if response.status >= 400);
    has_path && (refuses || protects(route) || !filters.limits.is_empty())
}

fn protects(Route { filters, .. }: &Route) -> bool {
    filters.access.is_some()
        || filters.basic_auth.is_some()
        || filters.jwt.is_some()
        || filters.forward_auth.is_some()
        || filters.maintenance.is_some()
}

fn is_open(route: &Route) -> bool {
    route.action.pools().next().is_some() && !protects(route)
}

/// True if endpoints of `open` may serve what `route` protects.
fn shares_pool(route: &Route, open: &Route) -> bool {
    let has_none = route.action.pools().next().is_none();
    has_none || route.action.pools().any(|pool| open.action.pools().any(|other| other == pool))
}

fn shares_host(a: &Route, b: &Route) -> bool {
    a.matches().iter().any(|a| {
        let shares =
            |b: &Match| a.hosts.is_empty() || b.hosts.is_empty() || a.hosts.iter().any(|host| b.hosts.contains(host));
        b.matches().iter().any(shares)
    })
}
