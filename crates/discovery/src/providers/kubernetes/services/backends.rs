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
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// Names of the pools for references that lead nowhere: of requests, and of sessions and datagrams.
const INVALID: &str = "kubernetes.invalid";

const NOWHERE: &str = "kubernetes.nowhere";

/// Status of answers to requests whose reference leads nowhere, as the Gateway API wants it.
pub const INVALID_STATUS: u16 = 500;

/// Settings in which pools of one port of a Service differ.
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
    /// TLS with endpoints that no BackendTLSPolicy is about.
    pub tls: Option<PoolTls>,
    /// Algorithm, if not the usual one.
    pub balance: Option<Balance>,
    /// Affinity by a cookie. The pool gets a secret of its own.
    pub sticky: Option<Sticky>,
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

    /// The pool for sessions and datagrams whose reference leads nowhere: it has no endpoint, and they end.
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
        let is_it = |port: &&ServicePort| port.port == number;
        self.of_port(&key, is_it, &number.to_string(), variant, gateways)
    }

    /// The pool of a port of a Service.
    ///
    /// # Errors
    /// If there is none.
    pub fn of_port(
        &mut self,
        key: &Key,
        is_it: impl Fn(&&ServicePort) -> bool,
        shown: &str,
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
        let Some(port) = service.spec.ports.iter().find(is_it) else {
            return not_found(format!("Service {key} has no port {shown}"));
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
        let base = format!("{}.{}.{}", key.namespace, key.name, port.port);
        let of: Arc<str> = format!("{} {key}", Kind::Service.name()).into();
        // Ports of an EndpointSlice have the names of those of the Service.
        let by = (!port.name.is_empty()).then(|| Port::Name(port.name.clone()));
        let source = Kubernetes {
            service: key.name.clone(),
            namespace: key.namespace.clone(),
            port: by,
            server: KubernetesServer::default(),
        };
        // The API server knows: an address that it has no longer may be that of another pod.
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
        let name = match pool == usual {
            true => names::name(&base),
            false => names::name(&format!("{base}.{}", names::hash(&format!("{pool:?}")))),
        };
        let name: Arc<str> = name.into();
        let pool = Pool { name: name.clone(), ..pool };
        self.pools.entry(name.clone()).or_insert_with(|| Piece::new(&of, Arc::new(pool)));
        Ok(name)
    }

    /// The pool of a server outside of the cluster.
    pub fn at_host(&mut self, host: &str, port: u16, tls: Option<PoolTls>, of: &Arc<str>) -> Arc<str> {
        let scheme = if tls.is_some() { "https" } else { "http" };
        let name: Arc<str> = names::name(&format!("{scheme}.{host}.{port}")).into();
        let addr = match host.trim_matches(['[', ']']).parse::<IpAddr>() {
            Ok(ip) => Address::Ip(SocketAddr::new(ip, port)),
            Err(_) => Address::Name { host: host.to_ascii_lowercase(), port },
        };
        let endpoints = vec![Endpoint { name: addr.to_string().into(), addr, ..Endpoint::default() }];
        let pool = Pool { name: name.clone(), endpoints, tls, ..Pool::default() };
        self.pools.entry(name.clone()).or_insert_with(|| Piece::new(of, Arc::new(pool)));
        name
    }

    fn tls(&self, trust: &Trust, variant: &Variant) -> PoolTls {
        let pair = variant.certificate.as_ref();
        trust.tls(pair)
    }
}
