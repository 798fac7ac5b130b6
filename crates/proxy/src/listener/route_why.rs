//! Explanation of routing: the route that matches a request, and why the others do not. Requests themselves use the
//! [`router`](super::route).

use super::route::Router;
use evenkeel_config::Plan;
use evenkeel_config::plan::{HostPattern, Mode, PathPattern, Route};
use evenkeel_view::picks::{Considered, Routed};
use std::sync::Arc;

/// Explains how a request for `host` (as a client writes it) and `path` is routed at the named listener, or without a
/// name at the first HTTP listener.
///
/// # Errors
/// There is no such HTTP listener.
pub fn explain(plan: &Plan, listener: Option<&str>, host: &str, path: &str) -> Result<Routed, String> {
    let http = || plan.listeners.iter().enumerate().filter(|(_, listener)| listener.mode == Mode::Http);
    let found = http().find(|(_, of)| listener.is_none_or(|name| *of.name == *name));
    let Some((at, of)) = found else {
        let names: Vec<&str> = http().map(|(_, listener)| &*listener.name).collect();
        let which = listener.map_or_else(|| "no listener".to_string(), |name| format!("no listener \"{name}\""));
        return Err(format!("{which} serves HTTP; HTTP listeners: {}", names.join(", ")));
    };
    let router = &Router::of_plan(plan)[at];
    let taken = router.find(host.as_bytes(), || path).map(|id| &plan.routes[id]);
    let considered = |route: &Route| {
        let is_taken = taken.is_some_and(|taken| taken.name == route.name);
        Considered {
            route: route.name.clone(),
            pool: route.pool.clone(),
            taken: is_taken,
            why: why(route, &of.name, host, path, is_taken, taken),
        }
    };
    Ok(Routed {
        listener: of.name.clone(),
        route: taken.map(|route| route.name.clone()),
        pool: taken.map(|route| route.pool.clone()),
        routes: plan.routes.iter().map(considered).collect(),
    })
}

fn why(route: &Route, listener: &Arc<str>, host: &str, path: &str, is_taken: bool, taken: Option<&Route>) -> String {
    if !route.listeners.is_empty() && !route.listeners.contains(listener) {
        return format!("it is for other listeners ({})", route.listeners.join(", "));
    }
    if !takes_host(&route.hosts, host) {
        let hosts: Vec<String> = route.hosts.iter().map(HostPattern::to_string).collect();
        return format!("it is for other hosts ({})", hosts.join(", "));
    }
    if !takes_path(&route.path, path) {
        return format!("it is for other paths ({})", path_text(&route.path));
    }
    match taken {
        _ if is_taken => "host and path match, and no matching route is more specific".to_string(),
        Some(taken) => format!("it matches, but route \"{}\" is more specific", taken.name),
        // A more specific host matched first, and none of its paths did.
        None => "it matches, but a route with a more specific host owns that host's paths".to_string(),
    }
}

fn path_text(path: &PathPattern) -> String {
    match path {
        PathPattern::Any => "every path".to_string(),
        PathPattern::Pattern(pattern) => pattern.clone(),
        PathPattern::Prefix(prefix) => format!("{prefix} and below"),
    }
}

fn takes_host(hosts: &[HostPattern], host: &str) -> bool {
    let from = host.rfind(']').unwrap_or(0);
    let host = host[from..].find(':').map_or(host, |at| &host[..from + at]);
    let host = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
    let takes = |pattern: &HostPattern| match pattern {
        HostPattern::Exact(name) => *name == host,
        HostPattern::Wildcard(suffix) => host.len() > suffix.len() && host.ends_with(&**suffix),
    };
    hosts.is_empty() || hosts.iter().any(takes)
}

fn takes_path(pattern: &PathPattern, path: &str) -> bool {
    let path = if path == "*" { "/" } else { path };
    if *pattern == PathPattern::Any {
        return true;
    }
    let mut paths = matchit::Router::new();
    let patterns = std::iter::once(pattern.to_string()).chain(pattern.empty_rests());
    patterns.for_each(|pattern| _ = paths.insert(pattern, ()));
    paths.at(path).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> Plan {
        let text = "[listener.web]\nbind = ['127.0.0.1:1']\n[listener.inner]\nbind = ['127.0.0.1:2']\n\
                    [pool.a]\nendpoints = ['127.0.0.1:3']\n[pool.b]\nendpoints = ['127.0.0.1:4']\n\
                    [[route]]\nname = 'all'\npool = 'a'\n\
                    [[route]]\nname = 'shop'\npool = 'b'\nmatch = { host = ['shop.example'], path = '/buy/{*rest}' }\n\
                    [[route]]\nname = 'wild'\npool = 'a'\nmatch = { host = ['*.example'] }\n\
                    [[route]]\nname = 'inner'\npool = 'b'\nmatch = { listener = ['inner'], path = '/only' }\n";
        let outcome = evenkeel_config::parse_str("test.toml", text, &|_| None);
        outcome.plan.unwrap_or_else(|| panic!("{:?}", outcome.diagnostics))
    }

    #[test]
    fn says_for_each_route_why_it_takes_a_request_or_does_not() {
        let routed = explain(&plan(), None, "Shop.Example:443", "/buy/x").unwrap();
        assert_eq!((routed.route.as_deref(), routed.pool.as_deref()), (Some("shop"), Some("b")));
        let why: Vec<_> = routed.routes.iter().map(|route| &*route.why).collect();
        assert_eq!(
            why,
            [
                "it matches, but route \"shop\" is more specific",
                "host and path match, and no matching route is more specific",
                "it matches, but route \"shop\" is more specific",
                "it is for other listeners (inner)",
            ]
        );
        let other = explain(&plan(), None, "shop.example", "/sell").unwrap();
        assert_eq!(other.route.as_deref(), Some("wild"));
        assert_eq!(other.routes[1].why, "it is for other paths (/buy/{*rest})");
        let elsewhere = explain(&plan(), Some("inner"), "other.test", "/only").unwrap();
        assert_eq!(elsewhere.route.as_deref(), Some("inner"));
        assert_eq!(elsewhere.routes[2].why, "it is for other hosts (*.example)");
        assert!(explain(&plan(), Some("nix"), "a", "/").unwrap_err().contains("HTTP listeners: web, inner"));
    }

    #[test]
    fn agrees_with_the_router() {
        let plan = plan();
        for host in ["shop.example", "a.example", "example", "other.test", "[::1]:80", ""] {
            for path in ["/", "*", "/buy", "/buy/", "/buy/x/y", "/only", "/sell"] {
                for listener in ["web", "inner"] {
                    let routed = explain(&plan, Some(listener), host, path).unwrap();
                    let taken: Vec<_> = routed.routes.iter().filter(|route| route.taken).collect();
                    assert_eq!(taken.len(), usize::from(routed.route.is_some()), "{host} {path}");
                    let more = routed.routes.iter().filter(|route| route.why.starts_with("host and path match"));
                    assert_eq!(more.count(), taken.len(), "{host} {path}: {routed:?}");
                }
            }
        }
    }
}
