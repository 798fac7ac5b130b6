//! Services that Routes and Ingresses lead to, as pools. See [`Backends`].

use super::Fault;
use super::certificates::Pair;
use super::grants::{From, allows, kind_of};
use super::names;
use super::policies::{Policies, Trust};
use crate::providers::kubernetes::world::objects::{Key, Reference, ServicePort};
use crate::providers::kubernetes::world::store::{Kind, World};
use crate::providers::parts::Piece;
use evenkeel_config::plan::{
    Address, Balance, Discover, Endpoint, EndpointProtocol, Kubernetes, KubernetesServer, Pool, PoolTls,
    RequestHeaders, ResponseHeaders, Secret, ServicePort as Port, Source, Sticky,
};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// Names of the pools for references that lead nowhere: of requests, and of sessions and datagrams.
const INVALID: &str = "kubernetes.invalid";

const NOWHERE: &str = "kubernetes.nowhere";

/// Status of responses to requests with a reference that leads nowhere (Gateway API).
pub const INVALID_STATUS: u16 = 500;

/// Settings that may differ between pools of the same port of a Service.
#[derive(Clone, Debug, Default)]
pub struct Variant {
    /// True if the endpoints speak HTTP/2.
    pub is_http2: bool,
    pub request_headers: RequestHeaders,
    pub response_headers: ResponseHeaders,
    /// Certificate that endpoints get to see.
    pub certificate: Option<Pair>,
    /// True for sessions and datagrams, which have no protocol here.
    pub is_stream: bool,
    /// True for datagrams: of two ports with the same number, the port for UDP is meant.
    pub is_udp: bool,
    /// TLS with endpoints that no BackendTLSPolicy is about.
    pub tls: Option<PoolTls>,
    /// Algorithm, if not the default.
    pub balance: Option<Balance>,
    /// Affinity by a cookie. Each pool gets a separate secret.
    pub sticky: Option<Sticky>,
}

/// Port of a Service, as an object refers to it.
#[derive(Clone, Copy, Debug)]
pub enum Wanted<'a> {
    Name(&'a str),
    Number(u16),
}

impl Wanted<'_> {
    fn is(self, port: &ServicePort) -> bool {
        match self {
            Wanted::Name(name) => !name.is_empty() && port.name == name,
            Wanted::Number(number) => port.port == number,
        }
    }
}

impl std::fmt::Display for Wanted<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Wanted::Name(name) => f.write_str(name),
            Wanted::Number(number) => number.fmt(f),
        }
    }
}

/// Pools of all Services that are in use.
#[derive(Debug)]
pub struct Backends<'w> {
    world: &'w World,
    pub policies: Policies<'w>,
    pools: BTreeMap<Arc<str>, Piece<Arc<Pool>>>,
}

impl<'w> Backends<'w> {
    pub fn new(world: &'w World) -> Backends<'w> {
        Backends { world, policies: Policies::new(world), pools: BTreeMap::new() }
    }

    pub fn into_pools(self) -> (Policies<'w>, Vec<Piece<Arc<Pool>>>) {
        (self.policies, self.pools.into_values().collect())
    }

    /// Looks for something, without the pools that are made for that.
    pub fn forgetting<T>(&mut self, look: impl FnOnce(&mut Self) -> T) -> T {
        let pools = std::mem::take(&mut self.pools);
        let found = look(self);
        self.pools = pools;
        found
    }

    /// The pool for references that lead nowhere.
    pub fn invalid(&mut self) -> Arc<str> {
        let name: Arc<str> = INVALID.into();
        self.pools.entry(name.clone()).or_insert_with(|| {
            let pool = Pool { empty_status: Some(INVALID_STATUS), ..Pool::new(INVALID) };
            Piece::new(&"references that lead nowhere".into(), Arc::new(pool))
        });
        name
    }

    /// Returns the pool for sessions and datagrams with a reference that leads nowhere. It has no endpoints, so they
    /// end.
    pub fn nowhere(&mut self) -> Arc<str> {
        let name: Arc<str> = NOWHERE.into();
        self.pools.entry(name.clone()).or_insert_with(|| {
            // Names of Services have no dots.
            let source = Kubernetes { service: NOWHERE.to_owned(), ..Kubernetes::default() };
            let discover = Some(Discover { source: Source::Kubernetes(source), allow_empty: true });
            Piece::new(&"references that lead nowhere".into(), Arc::new(Pool { discover, ..Pool::new(NOWHERE) }))
        });
        name
    }

    /// Returns the pool of a reference to a Service. `gateways`: senders of the requests.
    ///
    /// # Errors
    /// If it leads nowhere.
    pub fn pool(
        &mut self,
        from: From<'_>,
        to: &Reference,
        variant: &Variant,
        gateways: &[Key],
    ) -> Result<Arc<str>, Fault> {
        let kind = kind_of(to, "Service");
        let key = to.key(from.namespace);
        if kind != ("", "Service") {
            return Err(("InvalidKind", format!("requests can be sent to a Service, not to a {}", kind.1)));
        }
        if !allows(self.world, from, kind, &key) {
            return Err(("RefNotPermitted", format!("no ReferenceGrant allows the reference to Service {key}")));
        }
        let Some(number) = to.port else {
            return Err(("BackendNotFound", format!("the reference to Service {key} has no port")));
        };
        self.of_port(&key, Wanted::Number(number), variant, gateways)
    }

    /// The pool of a port of a Service.
    ///
    /// # Errors
    /// If there is none.
    pub fn of_port(
        &mut self,
        key: &Key,
        wanted: Wanted<'_>,
        variant: &Variant,
        gateways: &[Key],
    ) -> Result<Arc<str>, Fault> {
        let not_found = |message| Err(("BackendNotFound", message));
        let Some(service) = self.world.services.get(key) else {
            return not_found(format!("Service {key} does not exist"));
        };
        if service.spec.kind.as_deref() == Some("ExternalName") {
            return Err(("UnsupportedProtocol", format!("Service {key} is a name outside of the cluster")));
        }
        let port = match port(&service.spec.ports, wanted, variant.is_udp) {
            Ok(port) => port,
            Err(why) => return not_found(format!("Service {key} {why}")),
        };
        let trust = match variant.is_stream {
            true => None,
            false => self.policies.of(key, &port.name, gateways),
        };
        let trust = match trust {
            Some(Err(why)) => return Err(("InvalidBackendTLSPolicy", why)),
            Some(Ok(trust)) => Some(trust),
            None => None,
        };
        let tls = trust.map(|trust| self.tls(&trust, variant)).or_else(|| variant.tls.clone());
        let is_http2 = variant.is_http2 || port.app_protocol.as_deref() == Some("kubernetes.io/h2c");
        let protocol = match variant.is_stream {
            false if is_http2 => EndpointProtocol::H2,
            _ => EndpointProtocol::Http1,
        };
        let transport = if port.is_udp() { ".udp" } else { "" };
        let base = format!("{}.{}.{}{transport}", key.namespace, key.name, port.port);
        let of: Arc<str> = format!("{} {key}", Kind::Service.name()).into();
        // An EndpointSlice uses the port names of its Service.
        let by = (!port.name.is_empty()).then(|| Port::Name(port.name.clone()));
        let source = Kubernetes {
            service: key.name.clone(),
            namespace: key.namespace.clone(),
            port: by,
            server: KubernetesServer::default(),
        };
        // The API server is the authority: an address that it no longer lists may belong to another pod.
        let discover = Some(Discover { source: Source::Kubernetes(source), allow_empty: true });
        // Equal in each process, and as hard to guess as an object's uid, which no client gets to see.
        let secret = Secret::Inline(format!("evenkeel affinity {}", service.metadata.uid));
        let usual = Pool::default();
        let pool = Pool {
            protocol,
            tls,
            discover,
            balance: variant.balance.clone().unwrap_or(usual.balance),
            sticky: variant.sticky.clone().map(|sticky| Sticky { secret, ..sticky }),
            request_headers: variant.request_headers.clone(),
            response_headers: variant.response_headers.clone(),
            ..Pool::default()
        };
        let usual = Pool { discover: pool.discover.clone(), ..Pool::default() };
        let base = match pool == usual {
            true => base,
            false => format!("{base}.{}", names::hash(&format!("{pool:?}"))),
        };
        Ok(self.add(&base, pool, &of))
    }

    /// Adds a pool unless it is there, and returns its name. Two pools that differ never share a name, although names are
    /// shortened and have only a hash of settings.
    fn add(&mut self, base: &str, pool: Pool, of: &Arc<str>) -> Arc<str> {
        let mut name: Arc<str> = names::name(base).into();
        let mut next = 2;
        loop {
            let named = Pool { name: name.clone(), ..pool.clone() };
            match self.pools.entry(name.clone()) {
                Entry::Vacant(free) => {
                    free.insert(Piece::new(of, Arc::new(named)));
                    return name;
                }
                Entry::Occupied(there) if *there.get().value == named => return name,
                Entry::Occupied(_) => {
                    name = names::name(&format!("{base}.{next}")).into();
                    next += 1;
                }
            }
        }
    }

    /// The pool of a server outside of the cluster.
    pub fn at_host(&mut self, host: &str, port: u16, tls: Option<PoolTls>, of: &Arc<str>) -> Arc<str> {
        let scheme = if tls.is_some() { "https" } else { "http" };
        let addr = match host.trim_matches(['[', ']']).parse::<IpAddr>() {
            Ok(ip) => Address::Ip(SocketAddr::new(ip, port)),
            Err(_) => Address::Name { host: host.to_ascii_lowercase(), port },
        };
        let endpoints = vec![Endpoint { name: addr.to_string().into(), addr, ..Endpoint::default() }];
        // The name may resolve to this machine later.
        let pool = Pool { endpoints, tls, refuse_local: true, ..Pool::default() };
        // Names of namespaces have no underscore: it is not the pool of a Service in a namespace "http".
        self.add(&format!("url_{scheme}.{host}.{port}"), pool, of)
    }

    fn tls(&self, trust: &Trust, variant: &Variant) -> PoolTls {
        let pair = variant.certificate.as_ref();
        trust.tls(pair)
    }
}

/// Returns the port that an object refers to. If two ports have the same number, the right protocol decides.
fn port<'s>(ports: &'s [ServicePort], wanted: Wanted<'_>, is_udp: bool) -> Result<&'s ServicePort, String> {
    let here = || ports.iter().filter(|port| wanted.is(port));
    if let Some(port) = here().find(|port| port.is_udp() == is_udp) {
        return Ok(port);
    }
    match here().next() {
        // A port without a protocol is a TCP port. Its pods may listen for UDP, too.
        Some(port) if is_udp => Ok(port),
        Some(_) => Err(format!("has port {wanted} for UDP only")),
        None => Err(format!("has no port {wanted}")),
    }
}
