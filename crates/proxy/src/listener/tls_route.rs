//! Routing of sessions by the server name and the ALPN protocols of the ClientHello, or of all sessions alike. The most
//! specific match wins. Among equally specific matches, the route with the lowest `order` wins.

use super::by_host::ByHost;
use crate::listener::route::RouteId;
use evenkeel_config::Plan;
use evenkeel_config::plan::{Listener, Mode, Route};
use evenkeel_wire::tls_hello::Hello;
use std::collections::HashMap;
use std::sync::Arc;

/// The routes of a listener.
#[derive(Debug, Default)]
pub struct TlsRoutes {
    named: ByHost<Vec<ByAlpn>>,
    any: Vec<ByAlpn>,
    /// Route of every other session, TLS or not: to the listener's own pool, or the route without hosts and protocols of
    /// a listener that has none.
    rest: Option<RouteId>,
}

/// A route and its ALPN protocols; an empty list matches any.
#[derive(Debug)]
struct ByAlpn {
    alpn: Vec<Box<[u8]>>,
    route: RouteId,
}

impl TlsRoutes {
    /// Builds the routers, in the order of the listeners in the plan; `None` for those that are not TCP. The plan must
    /// not have equally specific routes.
    pub fn of_plan(plan: &Plan) -> Vec<Option<TlsRoutes>> {
        let is_tcp = |listener: &&Arc<Listener>| listener.mode == Mode::Tcp;
        let tcp = plan.listeners.iter().filter(is_tcp);
        let mut by_listener: HashMap<&str, (&Arc<Listener>, TlsRoutes)> =
            tcp.map(|listener| (&*listener.name, (listener, TlsRoutes::default()))).collect();
        for (id, route) in plan.routes_in_order() {
            for name in &route.listeners {
                if let Some((listener, routes)) = by_listener.get_mut(&**name) {
                    routes.add(listener, id, route);
                }
            }
        }
        let of = |listener: &Arc<Listener>| Some(by_listener.remove(&*listener.name)?.1);
        plan.listeners.iter().map(of).collect()
    }

    fn add(&mut self, listener: &Listener, id: RouteId, route: &Route) {
        let takes_rest = match listener.pool {
            Some(_) => route.name == listener.name,
            None => route.matching.hosts.is_empty() && route.alpn.is_empty(),
        };
        if takes_rest {
            self.rest.get_or_insert(id);
            return;
        }
        let row = || ByAlpn { alpn: route.alpn.iter().map(|p| p.as_bytes().into()).collect(), route: id };
        if route.matching.hosts.is_empty() {
            self.any.push(row());
        }
        route.matching.hosts.iter().for_each(|host| self.named.entry(host).push(row()));
    }

    /// True if the ClientHello decides the route.
    pub fn by_hello(&self) -> bool {
        !(self.named.is_empty() && self.any.is_empty())
    }

    /// Returns the route for a session; `None` if none matches. `hello` is the client's ClientHello, if it could be
    /// read.
    pub fn find(&self, hello: Option<&Hello>) -> Option<RouteId> {
        hello.and_then(|hello| self.asked(hello)).or(self.rest)
    }

    fn asked(&self, hello: &Hello) -> Option<RouteId> {
        let at = |rows: &Vec<ByAlpn>| {
            let spoken = || hello.alpn.iter().find_map(|p| rows.iter().find(|row| row.alpn.contains(p)));
            let any = || rows.iter().find(|row| row.alpn.is_empty());
            spoken().or_else(any).map(|row| row.route)
        };
        let named = hello.server_name.as_deref().and_then(|name| {
            let name = name.as_bytes();
            let wildcard = || self.named.suffixes(name).find_map(|suffix| self.named.wildcard(suffix).and_then(at));
            self.named.exact(name).and_then(at).or_else(wildcard)
        });
        named.or_else(|| at(&self.any))
    }
}
