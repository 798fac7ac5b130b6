//! Checks of `paths`: protected routes that another spelling of their paths passes, and patterns that no path matches.

use super::collisions::Placed;
use crate::code::Code;
use crate::diagnostic::Findings;
use crate::form::PathPattern;
use crate::sections::action::Action;
use crate::sections::listener::{Listener, Mode};
use crate::sections::matching::{Match, Paths};
use crate::sections::route::Route;
use crate::tree::quoted;
use evenkeel_wire::readings::{normalised, unescaped};
use std::sync::Arc;

pub(super) fn check(routes: &[Placed], listeners: &[Arc<Listener>], findings: &mut Findings) {
    check_protected(routes, listeners, findings);
    check_patterns(routes, listeners, findings);
}

/// Warns of patterns with `//`, `/./` or `/../`, whose normal form is another path, if no listener matches paths as sent.
fn check_patterns(routes: &[Placed], listeners: &[Arc<Listener>], findings: &mut Findings) {
    for Placed { route, span, .. } in routes.iter().filter(|of| of.whole) {
        let matches = route.matches();
        let Some((pattern, normal)) = matches.iter().find_map(|one| unreached(&one.path)) else { continue };
        let takes_normal = |one: &Match| text(&one.path).is_none_or(|text| text == normal);
        let mut at = listeners.iter().filter(|on| on.mode == Mode::Http && on.serves(route)).peekable();
        if at.peek().is_none()
            || at.any(|on| route.paths.unwrap_or(on.paths) == Paths::AsSent)
            || matches.iter().any(takes_normal)
        {
            continue;
        }
        let message = format!(
            "no request takes route \"{}\" by {}: servers read such a path as {}, and \"paths\" refuses or normalises it",
            route.name,
            quoted(pattern),
            quoted(&normal)
        );
        findings
            .add(Code::OddMatch, *span, message)
            .help(format!("write {}, or set paths = \"as_sent\" for this route and its listeners", quoted(&normal)));
    }
}

/// Text of a pattern; `None` for any path.
fn text(path: &PathPattern) -> Option<&str> {
    match path {
        PathPattern::Any => None,
        PathPattern::Pattern(text) | PathPattern::Prefix(text) | PathPattern::StartsWith(text) => Some(text),
    }
}

/// A pattern that is not in normal form, and its normal form.
fn unreached(path: &PathPattern) -> Option<(&str, String)> {
    let pattern = text(path)?;
    // The last segment may go on: `/.` also begins `/.well-known`.
    let end = if let PathPattern::StartsWith(_) = path { pattern.rfind('/')? + 1 } else { pattern.len() };
    let unescaped = unescaped(&pattern[..end]);
    let normal = normalised(&unescaped);
    (normal != unescaped).then(|| (pattern, normal + &pattern[end..]))
}

/// Warns of routes that protect a path which is matched as sent, if another route sends requests to the same pool.
fn check_protected(routes: &[Placed], listeners: &[Arc<Listener>], findings: &mut Findings) {
    let http = || listeners.iter().filter(|listener| listener.mode == Mode::Http);
    if http().all(|listener| listener.paths != Paths::AsSent) && routes.iter().all(|of| of.route.paths.is_none()) {
        return;
    }
    let is_lax = |route: &Route, listener: &Listener| {
        listener.serves(route) && route.paths.unwrap_or(listener.paths) == Paths::AsSent
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
