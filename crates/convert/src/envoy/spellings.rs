//! Spellings of paths and hosts that Envoy refuses, or gives to a virtual host that refuses them. See [`refuse`].

use super::guard::{DENIED, guard};
use super::per_route::has_settings;
use super::read::each;
use crate::ledger::Ledger;
use crate::tree::Node;
use evenkeel_config::plan::{Action, Criteria, Expected, Match};
use evenkeel_envoy::action::To;
use evenkeel_envoy::route::{PlannedRoute, RouteConfiguration, VirtualHost};
use std::sync::Arc;

/// Escaped slashes and backslashes of a path.
const SLASHES: &str = "(?i)%2f|%5c";

/// Adds routes that refuse spellings, behind all filters of a connection manager.
pub(super) fn refuse(manager: &Node, routes: &mut RouteConfiguration, ledger: &mut Ledger) {
    if let Some(action) = manager.get("path_with_escaped_slashes_action")
        && matches!(action.text(), Some("REJECT_REQUEST" | "2"))
    {
        for host in &mut routes.hosts {
            let of_others = [with_slashes(&Match::all())];
            guard(Arc::make_mut(host), &of_others, action.line, ledger, |route, _| vec![with_slashes(&route.matching)]);
        }
        let reason = "a request with an escaped slash gets a 403 or 404 instead of a 400 if it is refused for another reason, or has no virtual host";
        ledger.changes(action.line, reason, "");
    }
    let Some(spelling) = other_hosts(manager, routes) else { return };
    let mut matching = Match::all();
    matching.criteria.headers.push(("host".into(), spelling));
    for host in routes.hosts.iter_mut().filter(|host| is_named(host)) {
        guard(Arc::make_mut(host), &[], manager.line, ledger, |route, _| match &route.acting.to {
            To::Answer(_) => Vec::new(),
            To::Cluster(_) | To::Clusters(..) => vec![matching.clone()],
        });
    }
    let reason = "hosts with a final dot or a port that no domain has are refused, as the virtual host for all others \
        refuses requests";
    ledger.changes(manager.line, reason, "");
}

/// Match of paths with escaped slashes, by the kind of expression that `of` does not have.
fn with_slashes(of: &Match) -> Match {
    let criteria = match of.criteria.search {
        None => Criteria { search: Some(SLASHES.into()), ..Criteria::default() },
        Some(_) => Criteria { regex: Some("(?i).*%(?:2f|5c).*".into()), ..Criteria::default() },
    };
    Match { criteria, ..Match::all() }
}

fn is_named(host: &VirtualHost) -> bool {
    !host.domains.is_empty() && !host.is_for_all
}

/// Spellings of the hosts of a virtual host that are hosts of the virtual host for all others in Envoy. `None` if no such
/// host would pass a refusal.
fn other_hosts(manager: &Node, routes: &RouteConfiguration) -> Option<Expected> {
    let wide = routes.hosts.iter().find(|host| host.is_for_all)?;
    let names = each(manager, "http_filters").filter_map(|filter| filter.get("name")?.text());
    let differs = names.into_iter().any(|name| has_settings(manager, name));
    if !wide.routes.iter().any(|route| refuses(route, differs)) || !routes.hosts.iter().any(|host| is_named(host)) {
        return None;
    }
    let is_set = |key: &str| manager.get(key).and_then(Node::text) == Some("true");
    let hosts = manager.get("route_config").into_iter().flat_map(|config| each(config, "virtual_hosts"));
    let mut domains = hosts.filter_map(|host| host.get("domains")).flat_map(Node::list).filter_map(Node::text);
    let has_ports = domains.any(|domain| domain.contains(':') && !domain.ends_with(']'));
    let without_port = is_set("strip_any_host_port") || is_set("strip_matching_host_port") || has_ports;
    let regex = match (is_set("strip_trailing_host_dot"), without_port) {
        (true, true) => return None,
        (true, false) => ".*:[0-9]*",
        (false, true) => r".*\.(?::[0-9]*)?",
        (false, false) => r".*(?:\.|:[0-9]*)",
    };
    Some(Expected { regex: Some(regex.into()), ..Expected::default() })
}

/// True if a route refuses requests that others may take. `differs`: routes have settings of their own for filters.
fn refuses(route: &PlannedRoute, differs: bool) -> bool {
    let filters = &route.acting.route.filters;
    let is_filtered = filters.access.is_some() || filters.jwt.is_some() || filters.basic_auth.is_some();
    match &route.acting.to {
        _ if differs && is_filtered => true,
        To::Answer(Action::Respond(respond)) => {
            matches!(respond.status, 401 | 403 | 405 | 407 | 429) && (differs || !route.label.ends_with(DENIED))
        }
        _ => false,
    }
}
