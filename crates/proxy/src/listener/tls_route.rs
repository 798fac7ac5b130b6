//! Which pool gets this session? That of its listener; or where clients speak TLS, which is passed through, a route for the
//! server and the protocol that they ask for: the most specific, whatever the order in the configuration.

use crate::listener::route::RouteId;
use evenkeel_config::Plan;
use evenkeel_config::plan::HostPattern;
use evenkeel_wire::tls_hello::Hello;
use std::collections::HashMap;

/// The routes of one listener.
#[derive(Debug, Default)]
pub struct TlsRoutes {
    exact: HashMap<String, Vec<ByAlpn>>,
    /// By suffix (`.example.com`), longest first.
    wildcard: Vec<(String, Vec<ByAlpn>)>,
    any: Vec<ByAlpn>,
    /// To the listener's own pool.
    own: Option<RouteId>,
}

/// A route and the protocols that it is for; none = any.
#[derive(Debug)]
struct ByAlpn {
    alpn: Vec<Box<[u8]>>,
    route: RouteId,
}

impl TlsRoutes {
    /// The routes of the listener of that name. The plan has no two that are equally specific.
    pub fn new(plan: &Plan, listener: &str) -> TlsRoutes {
        let mut routes = TlsRoutes::default();
        let own_pool = plan.listener(listener).is_some_and(|l| l.pool.is_some());
        for route in plan.routes_on(listener) {
            let Some(id) = plan.routes.iter().position(|r| std::ptr::eq(r, route)) else { continue };
            if own_pool && *route.name == *listener {
                routes.own = Some(id);
                continue;
            }
            let row = || ByAlpn { alpn: route.alpn.iter().map(|p| p.as_bytes().into()).collect(), route: id };
            if route.hosts.is_empty() {
                routes.any.push(row());
            }
            for host in &route.hosts {
                match host {
                    HostPattern::Exact(host) => routes.exact.entry(host.clone()).or_default().push(row()),
                    HostPattern::Wildcard(suffix) => match routes.wildcard.iter_mut().find(|(s, _)| s == suffix) {
                        Some((_, rows)) => rows.push(row()),
                        None => routes.wildcard.push((suffix.clone(), vec![row()])),
                    },
                }
            }
        }
        routes.wildcard.sort_by_key(|(suffix, _)| std::cmp::Reverse(suffix.len()));
        routes
    }

    /// Whether it matters what clients ask for.
    pub fn by_hello(&self) -> bool {
        !(self.exact.is_empty() && self.wildcard.is_empty() && self.any.is_empty())
    }

    /// The route for a session, or `None` when no route takes it. `hello`: what the client asks for, if that could be read.
    pub fn find(&self, hello: Option<&Hello>) -> Option<RouteId> {
        hello.and_then(|hello| self.asked(hello)).or(self.own)
    }

    fn asked(&self, hello: &Hello) -> Option<RouteId> {
        let at = |rows: &Vec<ByAlpn>| {
            let spoken = || hello.alpn.iter().find_map(|p| rows.iter().find(|row| row.alpn.contains(p)));
            let any = || rows.iter().find(|row| row.alpn.is_empty());
            spoken().or_else(any).map(|row| row.route)
        };
        let named = hello.server_name.as_deref().and_then(|name| {
            let fits = |s: &&(String, Vec<ByAlpn>)| name.len() > s.0.len() && name.ends_with(&s.0);
            let wildcard = || self.wildcard.iter().filter(fits).find_map(|(_, rows)| at(rows));
            self.exact.get(name).and_then(at).or_else(wildcard)
        });
        named.or_else(|| at(&self.any))
    }
}
