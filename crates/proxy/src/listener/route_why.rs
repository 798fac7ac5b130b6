//! Explanation of routing: the route that matches a request, and why the others do not. Requests themselves use the
//! [`router`](super::route).

use super::paths::Paths;
use super::readings::Choice;
use super::route::{Refusal, Router};
use crate::matching::criteria::Criteria;
use crate::peer::sender::{MapValues, Sender};
use evenkeel_config::Plan;
use evenkeel_config::plan::{HostPattern, Listener, Match, Mode, PathPattern, Route, Scheme};
use evenkeel_view::described::Parts;
use evenkeel_view::picks::{Considered, Reading, Routed};
use evenkeel_wire::folding::folded;
use evenkeel_wire::head::{Request, Table};
use evenkeel_wire::readings::has_several;
use std::net::Ipv4Addr;

/// Explains how a described request is routed at the listener that it names, or without a name at the first HTTP
/// listener. Without `maps` none has a value.
///
/// # Errors
/// There is no such HTTP listener.
pub fn explain(plan: &Plan, described: &Parts, maps: Option<&dyn MapValues>) -> Result<Routed, String> {
    let listener = described.listener.as_deref();
    let http = || plan.listeners.iter().enumerate().filter(|(_, listener)| listener.mode == Mode::Http);
    let found = http().find(|(_, of)| listener.is_none_or(|name| *of.name == *name));
    let Some((at, of)) = found else {
        let names: Vec<&str> = http().map(|(_, listener)| &*listener.name).collect();
        let which = listener.map_or_else(|| "no listener".to_string(), |name| format!("no listener \"{name}\""));
        return Err(format!("{which} serves HTTP; HTTP listeners: {}", names.join(", ")));
    };
    let mut fields: Table = described.fields.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect();
    let request = Request {
        method: &described.method,
        target: &described.target,
        host: described.host.as_bytes(),
        fields: fields.fields(),
    };
    let scheme = if of.tls.is_some() { Scheme::Https } else { Scheme::Http };
    let client = described.client.unwrap_or(Ipv4Addr::LOCALHOST.into());
    let sender = || Sender { maps, ..Sender::new(client, scheme) };
    let router = &Router::of_plan(plan)[at];
    let route = |id: usize| &plan.routes[id];
    let (choice, refused) = match router.find(&request, sender) {
        Ok(choice) => (choice, None),
        Err(Refusal::TooCostly) => return Err("a 400: regular expressions of the routes take too long for it".into()),
        Err(refusal) => (Choice::as_sent(None), Some(refusal.text(|id| &*route(id).name))),
    };
    let readings = if has_several(request.path()) { router.readings(&request, &sender()) } else { None };
    let readings = readings.unwrap_or_default();
    let taken = choice.route.map(route);
    let matched = if refused.is_some() { readings.first().and_then(|(_, id)| *id).map(route) } else { taken };
    let normal = choice.path.map(|path| path + &described.target[request.path().len()..]);
    let request = Request { target: normal.as_deref().unwrap_or(&described.target), ..request };
    let considered = |route: &Route| Considered {
        route: route.name.clone(),
        pool: route.action.to_string().into(),
        taken: taken.is_some_and(|taken| taken.name == route.name),
        why: why(route, of, &request, &sender(), matched),
    };
    let routes = plan.routes.iter().map(considered).collect();
    let reading = |(path, id): (String, Option<usize>)| Reading { path, route: id.map(|id| route(id).name.clone()) };
    Ok(Routed {
        listener: of.name.clone(),
        route: taken.map(|route| route.name.clone()),
        pool: taken.and_then(|route| route.action.pool()).cloned(),
        routes,
        readings: if readings.len() > 1 { readings.into_iter().map(reading).collect() } else { Vec::new() },
        normal,
        refused,
    })
}

fn why(
    route: &Route,
    listener: &Listener,
    request: &Request<'_, '_>,
    sender: &Sender<'_>,
    taken: Option<&Route>,
) -> String {
    if route.internal {
        return "it is internal: only error pages and internal redirects lead to it".to_string();
    }
    if !route.listeners.is_empty() && !route.listeners.contains(&listener.name) {
        return format!("it is for other listeners ({})", route.listeners.join(", "));
    }
    let matched =
        if listener.ignore_case { "host and path match without regard to case" } else { "host and path match" };
    // Of several alternatives the last to fail is the closest.
    let miss = |matching: &Match| miss(matching, request, sender, listener.ignore_case);
    let misses = route.matches().iter().map(miss).collect::<Vec<_>>();
    if let Some(miss) = misses.into_iter().collect::<Option<Vec<_>>>().and_then(|all| all.into_iter().max()) {
        return match miss {
            Miss::Host(hosts) => format!("it is for other hosts ({hosts})"),
            Miss::Path(path) => format!("it is for other paths ({path})"),
            Miss::Criterion(criterion) => format!("{matched}, but not: {criterion}"),
        };
    }
    match taken {
        Some(taken) if taken.name == route.name && route.is_plain() => {
            format!("{matched}, and no matching route is more specific")
        }
        Some(taken) if taken.name == route.name => {
            "it matches in all, and no matching route is more specific".to_string()
        }
        Some(taken) if tie(route, taken, miss) => {
            format!("it matches, and so does route \"{}\", which has the lower order", taken.name)
        }
        Some(taken) => format!("it matches, but route \"{}\" is more specific", taken.name),
        // A more specific host matched first, and none of its paths did.
        None => "it matches, but a route with a more specific host owns that host's paths".to_string(),
    }
}

/// True if neither route is more specific for a request that both match, so that their order has decided.
fn tie(route: &Route, taken: &Route, miss: impl Fn(&Match) -> Option<Miss>) -> bool {
    let met = |of: &Route| of.matches().into_iter().filter(|one| miss(one).is_none()).collect::<Vec<_>>();
    let shares_host = |a: &Match, b: &Match| {
        a.hosts.is_empty() && b.hosts.is_empty() || a.hosts.iter().any(|host| b.hosts.contains(host))
    };
    let shares_path = |a: &Match, b: &Match| {
        let theirs = b.path.forms();
        a.path.forms().iter().any(|ours| theirs.iter().any(|form| form.shape() == ours.shape()))
    };
    let same = |a: &Match, b: &Match| a.rank() == b.rank() && shares_host(a, b) && shares_path(a, b);
    let theirs = met(taken);
    route.order > taken.order
        && route.listeners.is_empty() == taken.listeners.is_empty()
        && met(route).iter().any(|a| theirs.iter().any(|b| same(a, b)))
}

/// Part of a match that a request misses, in the order in which they are compared.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Miss {
    Host(String),
    Path(String),
    Criterion(String),
}

fn miss(matching: &Match, request: &Request<'_, '_>, sender: &Sender<'_>, ignore_case: bool) -> Option<Miss> {
    if !takes_host(&matching.hosts, &String::from_utf8_lossy(request.host)) {
        let hosts: Vec<String> = matching.hosts.iter().map(HostPattern::to_string).collect();
        return Some(Miss::Host(hosts.join(", ")));
    }
    if !takes_path(&matching.path, request.path(), ignore_case) {
        return Some(Miss::Path(path_text(&matching.path)));
    }
    Criteria::new(matching, ignore_case).unmet(request, sender).map(Miss::Criterion)
}

fn path_text(path: &PathPattern) -> String {
    match path {
        PathPattern::Any => "every path".to_string(),
        PathPattern::Pattern(pattern) => pattern.clone(),
        PathPattern::Prefix(prefix) => format!("{prefix} and below"),
        PathPattern::StartsWith(text) => format!("{text} and what begins with it"),
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

fn takes_path(pattern: &PathPattern, path: &str, ignore_case: bool) -> bool {
    let mut paths: Paths<()> = Paths::default();
    for form in pattern.forms() {
        *paths.entry(&if ignore_case { form.folded() } else { form }) = ();
    }
    let path = if path == "*" { "/" } else { path };
    let path = if ignore_case { folded(path.as_bytes()) } else { path.as_bytes().into() };
    paths.find(&path, |()| Some(())).is_some()
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

    fn explain(plan: &Plan, listener: Option<&str>, host: &str, path: &str) -> Result<Routed, String> {
        let described = Parts {
            method: "GET".into(),
            host: host.into(),
            target: path.into(),
            fields: vec![("X-Canary".into(), "1".into())],
            listener: listener.map(Into::into),
            client: None,
        };
        super::explain(plan, &described, None)
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
    fn shows_the_readings_of_a_path_and_why_they_are_refused() {
        let routed = |paths: &str, path: &str| {
            let text = format!(
                "[listener.web]\nbind = ['127.0.0.1:1']\npaths = '{paths}'\n[pool.a]\nendpoints = ['127.0.0.1:3']\n\
                 [[route]]\nname = 'open'\npool = 'a'\n[[route]]\nname = 'admin'\nmatch = {{ prefix = '/admin' }}\n\
                 respond = {{ status = 403 }}\n"
            );
            let outcome = evenkeel_config::parse_str("test.toml", &text, &|_| None);
            explain(&outcome.plan.expect("a plan"), None, "a", path).expect("explained")
        };
        let refused = routed("refuse", "//admin?x");
        let why = "servers may read the path as \"/admin\", which is for route \"admin\" instead of route \"open\"";
        assert_eq!((refused.route.as_deref(), refused.refused.as_deref()), (None, Some(why)));
        let readings: Vec<_> = refused.readings.iter().map(|one| (&*one.path, one.route.as_deref())).collect();
        assert_eq!(readings, [("//admin", Some("open")), ("/admin", Some("admin")), ("/", Some("open"))]);
        assert!(refused.routes.iter().all(|route| !route.taken));
        let normal = routed("normalise", "//admin?x");
        assert_eq!((normal.route.as_deref(), normal.normal.as_deref()), (Some("admin"), Some("/admin?x")));
        assert_eq!(normal.routes[1].why, "host and path match, and no matching route is more specific");
        let as_sent = routed("as_sent", "//admin");
        assert_eq!((as_sent.route.as_deref(), as_sent.readings.len(), as_sent.normal), (Some("open"), 3, None));
        assert!(routed("refuse", "/admin").readings.is_empty());
    }

    #[test]
    fn agrees_with_a_listener_that_ignores_case() {
        let text = "[listener.web]\nbind = ['127.0.0.1:1']\nignore_case = true\n[pool.a]\nendpoints = ['127.0.0.1:3']\n\
                    [[route]]\nname = 'open'\npool = 'a'\n\
                    [[route]]\nname = 'admin'\npool = 'a'\nmatch = { prefix = '/Admin', ends_with = '.PHP' }\n";
        let outcome = evenkeel_config::parse_str("test.toml", text, &|_| None);
        let plan = outcome.plan.expect("a plan");
        let routed = |path| explain(&plan, None, "a", path).expect("explained");
        assert_eq!(routed("/ADMIN/x.php").route.as_deref(), Some("admin"));
        let (other, elsewhere) = (routed("/ADMIN/x"), routed("/x"));
        let without = "host and path match without regard to case";
        assert_eq!(other.routes[0].why, format!("{without}, and no matching route is more specific"));
        assert_eq!(other.routes[1].why, format!("{without}, but not: ends_with .PHP"));
        assert_eq!(elsewhere.routes[1].why, "it is for other paths (/Admin and below)");
    }

    #[test]
    fn names_the_order_where_it_decides() {
        let text = "[listener.web]\nbind = ['127.0.0.1:1']\n[pool.a]\nendpoints = ['127.0.0.1:3']\n\
                    [[route]]\nname = 'second'\npool = 'a'\norder = 2\nmatch = { path = '/{x}' }\n\
                    [[route]]\nname = 'first'\npool = 'a'\norder = 1\nmatch = { path = '/{y}' }\n\
                    [[route]]\nname = 'rest'\npool = 'a'\n";
        let outcome = evenkeel_config::parse_str("test.toml", text, &|_| None);
        let routed = explain(&outcome.plan.expect("a plan"), None, "a", "/x").unwrap();
        let why: Vec<_> = routed.routes.iter().map(|route| &*route.why).collect();
        assert_eq!(
            why,
            [
                "it matches, and so does route \"first\", which has the lower order",
                "host and path match, and no matching route is more specific",
                "it matches, but route \"first\" is more specific",
            ]
        );
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
