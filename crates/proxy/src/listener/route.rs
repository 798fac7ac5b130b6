//! Routing of requests by host, then by path. The most specific match wins; the order in the configuration does not
//! matter.

use super::by_host::ByHost;
use evenkeel_config::Plan;
use evenkeel_config::plan::{HostPattern, Mode, PathPattern, Route};
use memchr::{memchr, memrchr};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// Index of a route in the plan.
pub type RouteId = usize;

/// The routes of one listener.
#[derive(Debug)]
pub struct Router {
    /// The only route, if it matches every host and path, as in most sidecars.
    sole: Option<RouteId>,
    /// Hosts of routes that name this listener, each with all of the host's routes.
    own: Hosts,
    /// All other hosts; one table shared by all listeners.
    common: Arc<Hosts>,
}

type Paths = matchit::Router<RouteId>;

#[derive(Debug, Default)]
struct Hosts {
    named: ByHost<Paths>,
    any: Option<Paths>,
}

/// Routes by host, while a router is built. Routes that name the listener come first.
#[derive(Debug, Default)]
struct Ids {
    named: ByHost<Vec<RouteId>>,
    any: Vec<RouteId>,
}

impl Router {
    /// Builds a router for each listener, in the order of the plan. The plan must not have equally specific routes.
    pub fn of_plan(plan: &Plan) -> Vec<Router> {
        let mut naming: HashMap<&str, Vec<RouteId>> = HashMap::new();
        let mut naming_none = Vec::new();
        for (id, route) in plan.routes.iter().enumerate() {
            if route.listeners.is_empty() {
                naming_none.push(id);
            }
            for listener in &route.listeners {
                naming.entry(listener).or_default().push(id);
            }
        }
        let mut common = Ids::default();
        naming_none.iter().for_each(|&id| common.add(&plan.routes[id], id));
        let (routers, none) = (Arc::new(common.hosts(plan)), Arc::<Hosts>::default());
        let router = |listener: &Arc<evenkeel_config::plan::Listener>| {
            let own = naming.get(&*listener.name).map_or(&[][..], Vec::as_slice);
            // Routes that name no listener apply to HTTP only.
            let is_http = listener.mode == Mode::Http;
            let others = if is_http { &naming_none[..] } else { &[] };
            let mut hosts = Ids::default();
            own.iter().for_each(|&id| hosts.add(&plan.routes[id], id));
            if is_http {
                hosts.follow(&common, own.iter().flat_map(|&id| &plan.routes[id].hosts));
            }
            let sole = match (own, others) {
                ([only], []) | ([], [only]) => Some(*only).filter(|&id| takes_all(&plan.routes[id])),
                _ => None,
            };
            let common = if is_http { routers.clone() } else { none.clone() };
            Router { sole, own: hosts.hosts(plan), common }
        };
        plan.listeners.iter().map(router).collect()
    }

    /// Returns the route for a request; `None` if none matches. `host` is as the client wrote it. `path` returns the
    /// path without the query; not called if the listener has a sole route.
    #[inline]
    pub fn find<'p>(&self, host: &[u8], path: impl FnOnce() -> &'p str) -> Option<RouteId> {
        self.sole.or_else(|| self.find_one(host, path()))
    }

    fn find_one(&self, host: &[u8], path: &str) -> Option<RouteId> {
        let (host, path) = (without_port(host), if path == "*" { "/" } else { path });
        if host.iter().any(u8::is_ascii_uppercase) {
            return self.find_lower(&host.to_ascii_lowercase(), path);
        }
        self.find_lower(host, path)
    }

    fn find_lower(&self, host: &[u8], path: &str) -> Option<RouteId> {
        let at = |paths: &Paths| paths.at(path).ok().map(|found| *found.value);
        let (own, common) = (&self.own, &*self.common);
        let exact = || own.named.exact(host).or_else(|| common.named.exact(host)).and_then(at);
        let longest = || if own.named.suffix_max() > common.named.suffix_max() { &own.named } else { &common.named };
        let wildcard = || {
            let paths = |suffix| own.named.wildcard(suffix).or_else(|| common.named.wildcard(suffix));
            longest().suffixes(host).find_map(|suffix| paths(suffix).and_then(at))
        };
        let any = || own.any.as_ref().or(common.any.as_ref()).and_then(at);
        exact().or_else(wildcard).or_else(any)
    }
}

impl Ids {
    fn add(&mut self, route: &Route, id: RouteId) {
        if route.hosts.is_empty() {
            self.any.push(id);
        }
        route.hosts.iter().for_each(|host| self.named.entry(host).push(id));
    }

    /// Appends the routes of `common` for the hosts that are here already. `hosts` names all of these, possibly more
    /// than once.
    fn follow<'p>(&mut self, common: &Ids, hosts: impl Iterator<Item = &'p HostPattern>) {
        if !self.any.is_empty() {
            self.any.extend(&common.any);
        }
        let hosts: BTreeSet<&HostPattern> = hosts.collect();
        for host in hosts {
            let others = common.named.get(host);
            self.named.entry(host).extend(others.into_iter().flatten());
        }
    }

    fn hosts(&self, plan: &Plan) -> Hosts {
        let any = (!self.any.is_empty()).then(|| paths(plan, &self.any));
        Hosts { named: self.named.map(|ids| paths(plan, ids)), any }
    }
}

/// Builds the paths of one host's routes. On equal paths the earlier of `ids` wins.
fn paths(plan: &Plan, ids: &[RouteId]) -> Paths {
    let mut paths = Paths::new();
    // Insertion fails on conflict, so earlier routes win. A trailing catch-all also matches an empty rest, but a route
    // to exactly that path wins: those are inserted last.
    for &id in ids {
        let _ = paths.insert(plan.routes[id].path.to_string(), id);
    }
    for &id in ids {
        for path in plan.routes[id].path.empty_rests() {
            let _ = paths.insert(path, id);
        }
    }
    paths
}

fn takes_all(route: &Route) -> bool {
    route.hosts.is_empty() && takes_any(&route.path)
}

/// True if every path matches: no pattern, or just a catch-all (`/{*rest}`).
fn takes_any(path: &PathPattern) -> bool {
    match path {
        PathPattern::Any => true,
        PathPattern::Pattern(pattern) => pattern.starts_with("/{*"),
        PathPattern::Prefix(_) => false,
    }
}

/// Strips the port and a final dot; an IPv6 address keeps its brackets.
fn without_port(host: &[u8]) -> &[u8] {
    let from = memrchr(b']', host).unwrap_or(0);
    let host = memchr(b':', &host[from..]).map_or(host, |at| &host[..from + at]);
    host.strip_suffix(b".").unwrap_or(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The names of the routes that these paths match at a listener.
    fn found(plan: &Plan, listener: usize, paths: &[&str]) -> Vec<String> {
        let router = &Router::of_plan(plan)[listener];
        let name = |path: &&str| router.find(b"a", || path).map_or("-".into(), |id| plan.routes[id].name.to_string());
        paths.iter().map(name).collect()
    }

    fn plan(text: &str) -> Plan {
        let pools = "[pool.p]\nendpoints = ['127.0.0.1:81']\n[pool.q]\nendpoints = ['127.0.0.1:82']\n";
        let outcome = evenkeel_config::parse_str("a.toml", &format!("{text}\n{pools}"), &|_| None);
        outcome.plan.unwrap_or_else(|| panic!("{}", evenkeel_config::render_text(&outcome.diagnostics, false)))
    }

    #[test]
    fn a_prefix_takes_its_path_and_what_is_below_and_nothing_beside() {
        let plan = plan(
            "[listener.a]\nbind = ['127.0.0.1:1']\n[[route]]\npool = 'p'\nmatch = { prefix = '/api' }\n\
             [[route]]\npool = 'q'\nmatch = { path = '/api/v2' }\n[[route]]\npool = 'q'\nmatch = { prefix = '/t/{id}' }",
        );
        let paths = ["/api", "/api/", "/api/x/y", "/api/v2", "/apix", "/", "/t/1", "/t/1/x", "/t/"];
        let want = ["/api/*", "/api/*", "/api/*", "/api/v2", "-", "-", "/t/{id}/*", "/t/{id}/*", "-"];
        assert_eq!(found(&plan, 0, &paths), want);
    }

    #[test]
    fn the_pool_of_a_listener_is_its_last_route() {
        let plan = plan(
            "[listener.a]\nbind = ['127.0.0.1:1']\npool = 'p'\n[listener.b]\nbind = ['127.0.0.1:2']\n\
             [[route]]\npool = 'q'\n[[route]]\npool = 'q'\nmatch = { prefix = '/api' }\n\
             [[route]]\npool = 'q'\nmatch = { host = ['a'], path = '/a' }",
        );
        let paths = ["/", "/x", "/api/x", "/a"];
        assert_eq!(found(&plan, 0, &paths), ["a", "a", "/api/*", "a/a"]);
        assert_eq!(found(&plan, 1, &paths), ["default", "default", "/api/*", "a/a"]);
    }

    #[test]
    fn ports_and_final_dots_do_not_count() {
        for (host, want) in
            [("a.b:80", "a.b"), ("a.b.", "a.b"), ("a.b.:1", "a.b"), ("[::1]:80", "[::1]"), ("[::1]", "[::1]"), ("", "")]
        {
            assert_eq!(without_port(host.as_bytes()), want.as_bytes(), "{host}");
        }
    }
}
