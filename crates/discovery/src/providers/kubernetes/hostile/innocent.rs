//! Objects of the namespace `shop`, which does no harm, and the parts of a plan that serve it.

use super::shapes::read;
use crate::providers::kubernetes::gateway::addresses::Addresses;
use crate::providers::kubernetes::translate::translate;
use crate::providers::kubernetes::world::store::{Change, World};
use crate::providers::merge::{Kind, Merged, Unwanted, merge};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use evenkeel_config::Plan;
use evenkeel_config::plan::{
    HostPattern, KubernetesProvider, Listener, ListenerTls, Match, Mode, PathPattern, Pool, Providers, Route, Users,
};
use evenkeel_tls::Store;
use std::sync::{Arc, OnceLock};

const OBJECTS: &str = "
kind: GatewayClass
metadata: { name: evenkeel }
spec: { controllerName: CONTROLLER }
---
kind: Gateway
metadata: { name: web, namespace: infra }
spec:
  gatewayClassName: evenkeel
  listeners:
  - { name: http, port: 80, protocol: HTTP, allowedRoutes: { namespaces: { from: All } } }
  - { name: https, port: 443, protocol: HTTPS, hostname: '*.shop.example', allowedRoutes: { namespaces: { from: All } }, tls: { certificateRefs: [{ name: cert }] } }
  - { name: sessions, port: 9000, protocol: TCP, allowedRoutes: { namespaces: { from: All } } }
  - { name: datagrams, port: 9001, protocol: UDP, allowedRoutes: { namespaces: { from: All } } }
  - { name: through, port: 9443, protocol: TLS, tls: { mode: Passthrough }, allowedRoutes: { namespaces: { from: All } } }
---
kind: Secret
metadata: { name: cert, namespace: infra }
data: { tls.crt: CERT, tls.key: KEY }
---
kind: Secret
metadata: { name: cert, namespace: shop }
data: { tls.crt: CERT, tls.key: KEY }
---
kind: Secret
metadata: { name: users, namespace: shop }
data: { auth: USERS }
---
kind: Service
metadata: { name: web, namespace: shop, uid: shop-web }
spec: { ports: [{ name: http, port: 80 }, { name: grpc, port: 9000 }, { name: dns, port: 53, protocol: UDP }] }
---
kind: HTTPRoute
metadata: { name: web, namespace: shop }
spec:
  parentRefs: [{ name: web, namespace: infra }]
  hostnames: [www.shop.example]
  rules:
  - { matches: [{ path: { type: PathPrefix, value: / } }], backendRefs: [{ name: web, port: 80 }] }
  - { matches: [{ path: { type: PathPrefix, value: /api } }], backendRefs: [{ name: web, port: 80, filters: [{ type: RequestHeaderModifier, requestHeaderModifier: { set: [{ name: X-Shop, value: '1' }] } }] }] }
---
kind: GRPCRoute
metadata: { name: orders, namespace: shop }
spec:
  parentRefs: [{ name: web, namespace: infra }]
  hostnames: [grpc.shop.example]
  rules: [{ backendRefs: [{ name: web, port: 9000 }] }]
---
kind: TLSRoute
metadata: { name: through, namespace: shop }
spec:
  parentRefs: [{ name: web, namespace: infra, sectionName: through }]
  hostnames: [through.shop.example]
  rules: [{ backendRefs: [{ name: web, port: 80 }] }]
---
kind: TCPRoute
metadata: { name: sessions, namespace: shop }
spec:
  parentRefs: [{ name: web, namespace: infra, sectionName: sessions }]
  rules: [{ backendRefs: [{ name: web, port: 9000 }] }]
---
kind: UDPRoute
metadata: { name: datagrams, namespace: shop }
spec:
  parentRefs: [{ name: web, namespace: infra, sectionName: datagrams }]
  rules: [{ backendRefs: [{ name: web, port: 53 }] }]
---
kind: Ingress
metadata:
  name: web
  namespace: shop
  annotations:
    nginx.ingress.kubernetes.io/auth-type: basic
    nginx.ingress.kubernetes.io/auth-secret: users
    nginx.ingress.kubernetes.io/affinity: cookie
spec:
  ingressClassName: evenkeel
  tls: [{ hosts: [in.shop.example], secretName: cert }]
  rules:
  - { host: in.shop.example, http: { paths: [{ path: /, pathType: Prefix, backend: { service: { name: web, port: { number: 80 } } } }] } }
  - { host: plain.shop.example, http: { paths: [{ path: /, pathType: Prefix, backend: { service: { name: web, port: { name: grpc } } } }] } }
";

const USERS: &str = "ann:$2y$05$......................21jzCB1r6pN6rp5O2Ev0ejjTAboskKm";

/// Port of the UDP listener.
const DATAGRAMS: u16 = 9001;

/// Requests and sessions of clients of the innocent namespace: port, host and path.
const CLIENTS: [(u16, &str, &str); 12] = [
    (80, "www.shop.example", "/"),
    (80, "www.shop.example", "/api/orders"),
    (443, "www.shop.example", "/basket"),
    (443, "grpc.shop.example", "/shop.Orders/List"),
    (80, "in.shop.example", "/"),
    (443, "in.shop.example", "/basket"),
    (80, "plain.shop.example", "/basket"),
    (9443, "through.shop.example", ""),
    (9000, "", ""),
    (DATAGRAMS, "", ""),
    (80, "grpc.shop.example", "/shop.Orders/List"),
    (80, "plain.shop.example", "/"),
];

pub fn provider() -> KubernetesProvider {
    KubernetesProvider { addresses: vec![[0, 0, 0, 0, 0, 0, 0, 0].into()], ..KubernetesProvider::default() }
}

/// The world of the innocent, who was there first.
pub fn world() -> World {
    static PAIR: OnceLock<[String; 2]> = OnceLock::new();
    let [cert, key] = PAIR.get_or_init(|| {
        let (cert, key) = evenkeel_tls::pair::self_signed_pem("in.shop.example").expect("a certificate");
        [STANDARD.encode(cert), STANDARD.encode(key)]
    });
    let text = OBJECTS.replace("CONTROLLER", &provider().controller).replace("CERT", cert).replace("KEY", key);
    let text = text.replace("USERS", &STANDARD.encode(USERS));
    let mut world = World::default();
    for (at, manifest) in text.split("\n---\n").enumerate() {
        let (kind, mut object) = read(manifest);
        object["metadata"]["creationTimestamp"] = format!("2025-01-01T00:00:{at:02}Z").into();
        world.apply(kind, Change::Put(object));
    }
    assert_eq!(world.unreadable, [].into());
    world
}

/// Plan and certificates from which clients of the innocent namespace are served.
pub struct Served {
    merged: Merged,
    pub refused: Vec<String>,
    /// The error of the certificates and keys of the plan.
    tls: Option<String>,
}

impl Served {
    pub fn of(world: &World) -> Served {
        let provider = provider();
        let translation = translate(world, &provider, &mut Addresses::new(&provider.addresses), None, &[]);
        let base = Plan::builder().providers(Providers { kubernetes: Some(provider), xds: None });
        let base = base.build("test").plan.expect("an empty plan");
        let parts = [("kubernetes", Arc::new(translation.part))];
        let merged = merge(&base, &parts, &Unwanted::new(), &base);
        let refused = merged.refused.values().flatten().map(|one| format!("{}: {}", one.of, one.why)).collect();
        let tls = Store::default().next(&merged.plan).err().map(|errors| errors[0].to_string());
        Served { merged, refused, tls }
    }

    /// Asserts that all clients are served without objects of other namespaces.
    pub fn is_whole(&self) {
        assert_eq!((&self.refused, &self.tls), (&Vec::new(), &None));
        for client in CLIENTS {
            let routes = self.routes(client);
            let is_served = |route: &&Route| !route.action.to_string().starts_with("respond 5");
            assert!(!routes.is_empty() && routes.iter().all(is_served), "{client:?}: {}", self.merged.plan.to_toml());
        }
    }

    /// The first thing that others have changed for clients of the innocent.
    pub fn harm(&self, after: &Served) -> Option<String> {
        if let Some(refused) = after.refused.iter().find(|text| text.contains(" shop/") || text.contains(" infra/")) {
            return Some(format!("refused: {refused}"));
        }
        if let Some(error) = &after.tls {
            return Some(format!("TLS: {error}"));
        }
        if let Some(route) = after.merged.plan.routes.iter().find_map(unusable) {
            return Some(route);
        }
        CLIENTS.into_iter().find_map(|client| self.harm_to(client, after))
    }

    fn harm_to(&self, client: (u16, &str, &str), after: &Served) -> Option<String> {
        let (Some(before), now) = (self.listener(client.0), after.listener(client.0)) else {
            return Some(format!("{client:?}: no listener to begin with"));
        };
        let Some(now) = now else { return Some(format!("{client:?}: its listener is gone")) };
        let tls = |listener: &Listener| {
            let tls = listener.tls.clone().map(|tls| ListenerTls { certificates: Vec::new(), ..tls });
            Listener { tls, ..listener.clone() }
        };
        if tls(before) != tls(now) {
            return Some(format!("{client:?}: its listener differs: {before:?} {now:?}"));
        }
        let certificates = |listener: &Listener| listener.tls.clone().map(|tls| tls.certificates).unwrap_or_default();
        if !certificates(before).iter().all(|one| certificates(now).contains(one)) {
            return Some(format!("{client:?}: a certificate is gone"));
        }
        let (had, has) = (self.routes(client), after.routes(client));
        let same = |(a, b): (&&Route, &&Route)| {
            let (listeners, order) = (a.listeners.clone(), a.order);
            a.listeners.iter().all(|name| b.listeners.contains(name))
                && **a == Route { listeners, order, ..(**b).clone() }
                && self.pools(a) == after.pools(b)
        };
        if had.len() == has.len() && had.iter().zip(&has).all(same) {
            return None;
        }
        let had: Vec<String> = had.into_iter().map(|route| self.shown(route)).collect();
        let has: Vec<String> = has.into_iter().map(|route| after.shown(route)).collect();
        Some(format!("{client:?}: had {had:#?}, has {has:#?}"))
    }

    fn listener(&self, port: u16) -> Option<&Listener> {
        let has_port = |listener: &Listener| listener.bind.iter().any(|addr| addr.port() == port);
        // Others may have the port of the other transport.
        let is_it =
            |listener: &&Arc<Listener>| has_port(listener) && (listener.mode == Mode::Udp) == (port == DATAGRAMS);
        self.merged.plan.listeners.iter().find(is_it).map(|listener| &**listener)
    }

    /// Routes that a client's requests with this host and path may take, best match first.
    fn routes(&self, (port, host, path): (u16, &str, &str)) -> Vec<&Route> {
        let Some(listener) = self.listener(port) else { return Vec::new() };
        let here = self.merged.plan.routes.iter().filter(|route| route.listeners.contains(&listener.name));
        let matches = here.flat_map(|route| route.matches().into_iter().map(move |matching| (route, matching)));
        let fit = |(route, matching): (_, Match)| {
            let place = (of_host(&matching.hosts, host)?, of_path(&matching.path, path)?);
            Some((place, matching, route))
        };
        let mut fit: Vec<(_, Match, &Route)> = matches.filter_map(fit).collect();
        fit.sort_by(|(a, one, first), (b, other, second)| {
            b.cmp(a).then_with(|| other.rank().cmp(&one.rank())).then(first.order.cmp(&second.order))
        });
        let last = fit.iter().position(|(_, matching, _)| matching.is_plain()).map_or(fit.len(), |at| at + 1);
        fit[..last].iter().map(|(.., route)| *route).collect()
    }

    fn pools(&self, route: &Route) -> Vec<Option<&Arc<Pool>>> {
        let pool = |name: &str| self.merged.plan.pool(name);
        let of_action = route.action.pools().map(|name| pool(name));
        of_action.chain(route.filters.forward_auth.iter().map(|auth| pool(&auth.pool))).collect()
    }

    /// A route with its object, for the message of a failure.
    fn shown(&self, route: &Route) -> String {
        let of = self.merged.origins.of(Kind::Route, &route.name);
        let pools: Vec<Option<&str>> = self.pools(route).into_iter().map(|pool| Some(&*pool?.name)).collect();
        format!("{} of {of:?} at {:?}: {:?} to {} {pools:?}", route.name, route.listeners, route.matching, route.action)
    }
}

/// A list of users that no worker could read, for which this machine would refuse the plan.
fn unusable(route: &Route) -> Option<String> {
    let Users::Text(text) = &route.filters.basic_auth.as_ref()?.users else { return None };
    evenkeel_config::user_list("users", text.as_bytes()).err().map(|error| format!("{}: {error}", route.name))
}

/// Specificity of the host; `None` if it is another.
fn of_host(hosts: &[HostPattern], host: &str) -> Option<usize> {
    if hosts.is_empty() {
        return Some(0);
    }
    let one = |pattern: &HostPattern| match pattern {
        HostPattern::Exact(exact) => (exact == host).then_some(1000),
        HostPattern::Wildcard(suffix) => host.ends_with(&**suffix).then_some(suffix.len()),
    };
    hosts.iter().filter_map(one).max()
}

/// Specificity of the path; `None` if it is another.
fn of_path(pattern: &PathPattern, path: &str) -> Option<(usize, bool)> {
    let below = |prefix: &str| {
        path == prefix || path.strip_prefix(prefix.trim_end_matches('/')).is_some_and(|rest| rest.starts_with('/'))
    };
    match pattern {
        PathPattern::Any => Some((0, false)),
        PathPattern::Pattern(exact) => (exact == path || exact.contains(['{', '*'])).then_some((exact.len(), true)),
        PathPattern::Prefix(prefix) => below(prefix).then_some((prefix.trim_end_matches('/').len(), false)),
        PathPattern::StartsWith(text) => path.starts_with(&**text).then_some((text.trim_end_matches('/').len(), false)),
    }
}
