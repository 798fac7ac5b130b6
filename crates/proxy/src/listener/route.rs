//! Which pool gets this request? Host, then path; the most specific wins, whatever the order in the configuration.

use evenkeel_config::Plan;
use evenkeel_config::plan::{HostPattern, PathPattern, Route};
use memchr::{memchr, memrchr};
use std::collections::HashMap;

/// Index of a route in the plan.
pub type RouteId = usize;

/// The routes of one listener.
#[derive(Debug, Default)]
pub struct Router {
    /// The only route, if it takes every host and path: most sidecars have no other.
    sole: Option<RouteId>,
    exact: HashMap<Vec<u8>, Paths>,
    /// By suffix (`.example.com`), longest first.
    wildcard: Vec<(Vec<u8>, Paths)>,
    any: Paths,
}

type Paths = matchit::Router<RouteId>;

impl Router {
    /// The routes of the listener of that name. The plan has no two that are equally specific.
    pub fn new(plan: &Plan, listener: &str) -> Router {
        let mut router = Router::default();
        let index = |route: &Route| plan.routes.iter().position(|r| std::ptr::eq(r, route));
        let ids: Vec<RouteId> = plan.routes_on(listener).filter_map(index).collect();
        if let [only] = ids[..]
            && plan.routes[only].hosts.is_empty()
            && takes_any(&plan.routes[only].path)
        {
            router.sole = Some(only);
        }
        // A rest takes nothing too, but a route to just that path wins: so it goes in behind all of them.
        for empty_rest in [false, true] {
            for &id in &ids {
                let route = &plan.routes[id];
                let path: Option<String> =
                    if empty_rest { route.path.empty_rest() } else { Some(route.path.to_string()) };
                path.into_iter().for_each(|path| router.insert(&route.hosts, &path, id));
            }
        }
        router.wildcard.sort_by_key(|(suffix, _)| std::cmp::Reverse(suffix.len()));
        router
    }

    /// What conflicts was inserted before: routes that name the listener come first.
    fn insert(&mut self, hosts: &[HostPattern], path: &str, id: RouteId) {
        if hosts.is_empty() {
            let _ = self.any.insert(path, id);
        }
        for host in hosts {
            let paths = match host {
                HostPattern::Exact(host) => self.exact.entry(host.clone().into()).or_default(),
                HostPattern::Wildcard(suffix) => {
                    let at = self.wildcard.iter().position(|(s, _)| s == suffix.as_bytes()).unwrap_or_else(|| {
                        self.wildcard.push((suffix.clone().into(), Paths::new()));
                        self.wildcard.len() - 1
                    });
                    &mut self.wildcard[at].1
                }
            };
            let _ = paths.insert(path, id);
        }
    }

    /// The route for a request, or `None` when no route takes it. `host` as the client wrote it; `path` without query.
    #[inline]
    pub fn find(&self, host: &[u8], path: &str) -> Option<RouteId> {
        if self.sole.is_some() {
            return self.sole;
        }
        let (host, path) = (without_port(host), if path == "*" { "/" } else { path });
        if host.iter().any(u8::is_ascii_uppercase) {
            return self.find_lower(&host.to_ascii_lowercase(), path);
        }
        self.find_lower(host, path)
    }

    fn find_lower(&self, host: &[u8], path: &str) -> Option<RouteId> {
        let at = |paths: &Paths| paths.at(path).ok().map(|found| *found.value);
        let exact = || self.exact.get(host).and_then(at);
        let wildcard = || {
            let fits = |s: &&(Vec<u8>, Paths)| host.len() > s.0.len() && host.ends_with(&s.0);
            self.wildcard.iter().filter(fits).find_map(|(_, paths)| at(paths))
        };
        exact().or_else(wildcard).or_else(|| at(&self.any))
    }
}

/// Whether every path matches: none was given, or just a rest (`/{*rest}`).
fn takes_any(path: &PathPattern) -> bool {
    match path {
        PathPattern::Any => true,
        PathPattern::Pattern(pattern) => pattern.starts_with("/{*"),
    }
}

/// Without port and final dot; an IPv6 address keeps its brackets.
fn without_port(host: &[u8]) -> &[u8] {
    let from = memrchr(b']', host).unwrap_or(0);
    let host = memchr(b':', &host[from..]).map_or(host, |at| &host[..from + at]);
    host.strip_suffix(b".").unwrap_or(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_and_final_dots_do_not_count() {
        for (host, want) in
            [("a.b:80", "a.b"), ("a.b.", "a.b"), ("a.b.:1", "a.b"), ("[::1]:80", "[::1]"), ("[::1]", "[::1]"), ("", "")]
        {
            assert_eq!(without_port(host.as_bytes()), want.as_bytes(), "{host}");
        }
    }
}
