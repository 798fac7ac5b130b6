//! Which endpoints are there, and how is one chosen? [`Pool`], [`Endpoint`] and [`Balance`].

use super::{Discover, HealthCheck, LoadReports, Resolve, Retry, Sticky};
use evenkeel_balance::eligible::{Locality, Panic};
use evenkeel_balance::params::{Kind, Params};
use evenkeel_balance::picker::Algorithm;
use evenkeel_balance::{concurrency, outlier, queue, slow_start};
use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// `[pool.NAME]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Pool {
    /// Unique among pools.
    pub name: Arc<str>,
    /// How an endpoint is chosen.
    pub balance: Balance,
    /// In the order of the file; no name and no address twice. At least one, unless `discover` finds them.
    pub endpoints: Vec<Endpoint>,
    /// Where more of them are looked for; `None` = nowhere.
    pub discover: Option<Discover>,
    /// What an endpoint may be given.
    pub limits: PoolLimits,
    /// How long an endpoint may take. Requests use their [`super::Route::timeouts`], which started from these.
    pub timeouts: PoolTimeouts,
    /// Active checks; `None` = none.
    pub health: Option<HealthCheck>,
    /// Ejection by what requests see; `None` = never.
    pub outlier: Option<outlier::Settings>,
    /// The ramp of endpoints that come, or come back; `None` = all at once.
    pub slow_start: Option<slow_start::Settings>,
    /// What happens when few are healthy.
    pub panic: Panic,
    /// Endpoints of the own zone first; `None` = all zones alike.
    pub locality: Option<Locality>,
    /// The name whose hash [`Locality::zone`] is; there if, and only if, `locality` is.
    pub zone: Option<Arc<str>>,
    /// The part of the endpoints that is used; `None` = all.
    pub subset: Option<Subset>,
    /// Who waits when every endpoint is full.
    pub queue: queue::Settings,
    /// What is tried again. Requests use their [`super::Route::retry`], which started from this.
    pub retry: Retry,
    /// How a client finds its endpoint again; `None` = it does not.
    pub sticky: Option<Sticky>,
    /// What endpoints say of their load; `None` = nobody listens.
    pub load_reports: Option<LoadReports>,
    /// The header that endpoints get at the start of each connection, if any.
    pub proxy_protocol: Option<ProxyVersion>,
    /// As whom endpoints are connected to. [`SpeakAs::Client`] only where no route of a listener for HTTP leads.
    pub source: SpeakAs,
    /// After how much silence of a session's peer the kernel asks it for a sign of life; `None` = never.
    pub keepalive: Option<Duration>,
}

/// The address that connections to endpoints come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SpeakAs {
    /// One of this machine.
    #[default]
    Own,
    /// The client's, by a transparent socket.
    Client,
}

/// `subset` of a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subset {
    /// Endpoints to use of each tier.
    pub size: u32,
    /// Which instance this is; `None` = the one of this host.
    pub instance: Option<Arc<str>>,
}

/// A version of the PROXY protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxyVersion {
    /// A line of text.
    V1,
    /// Binary.
    V2,
}

/// One entry of `endpoints`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Unique in the pool; the address as text if the file gives none.
    pub name: Arc<str>,
    /// Where it listens.
    pub addr: Address,
    /// If that is a name: what is made of its addresses.
    pub resolve: Resolve,
    /// Its share against the other endpoints; 0 = no traffic.
    pub weight: u16,
    /// Its tier: 0 is used first, 1 when tier 0 has no room, and so on to 15.
    pub priority: u8,
    /// Gets no new requests; running ones go on.
    pub drain: bool,
    /// The zone it is in, if that is known.
    pub zone: Option<Arc<str>>,
}

/// Where an endpoint listens. The port is never 0.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Address {
    /// An IP address.
    Ip(SocketAddr),
    /// A host name, lower case without a final dot, to be resolved.
    Name {
        /// The name.
        host: String,
        /// The port.
        port: u16,
    },
}

impl Address {
    /// The port.
    pub fn port(&self) -> u16 {
        match self {
            Address::Ip(addr) => addr.port(),
            Address::Name { port, .. } => *port,
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Ip(addr) => write!(f, "{addr}"),
            Address::Name { host, port } => write!(f, "{host}:{port}"),
        }
    }
}

/// `limits` of a pool.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PoolLimits {
    /// Requests in flight at one endpoint, all workers together; 0 = no limit.
    pub requests_per_endpoint: u32,
    /// Idle upstream connections that a worker keeps for one endpoint; 0 = none is ever used again.
    pub idle_per_endpoint: usize,
    /// A limit of requests in flight at one endpoint that follows its latency, below `requests_per_endpoint`; `None` = no
    /// such limit.
    pub concurrency: Option<concurrency::Settings>,
}

/// `timeouts` of a pool: the upstream's side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolTimeouts {
    /// See [`super::RouteTimeouts::connect`].
    pub connect: Duration,
    /// See [`super::RouteTimeouts::response`].
    pub response: Option<Duration>,
    /// See [`super::RouteTimeouts::request`].
    pub request: Option<Duration>,
    /// See [`super::RouteTimeouts::idle`].
    pub idle: Duration,
    /// How long an idle upstream connection is kept.
    pub upstream_idle: Duration,
}

/// An algorithm with its parameters.
#[derive(Clone)]
pub struct Balance {
    /// Its row in the registry.
    pub algorithm: &'static Algorithm,
    /// Its numeric parameters.
    pub params: Params,
    /// What of a request is hashed, by parameter name. Parameters at their default are in here too.
    pub keys: BTreeMap<&'static str, HashKey>,
}

impl Balance {
    /// What of a request is hashed for this pool: the parameter `key`. `None` if the algorithm uses none.
    pub fn key(&self) -> Option<&HashKey> {
        self.keys.get("key")
    }

    /// What is hashed when a request does not have [`Balance::key`]: the parameter `fallback`.
    pub fn fallback(&self) -> Option<&HashKey> {
        self.keys.get("fallback")
    }

    /// The value of one numeric parameter as it is written in a file.
    pub(crate) fn written(&self, name: &str, kind: Kind) -> String {
        use evenkeel_balance::params::Value;
        match kind {
            Kind::Int { .. } => Value::Int(self.params.int(name)).to_string(),
            Kind::Float { .. } => format!("{:?}", self.params.float(name)),
            Kind::Duration { .. } => format!("\"{}\"", Value::Duration(self.params.duration_ns(name))),
            Kind::HashKey => self.keys.get(name).map(|k| format!("\"{k}\"")).unwrap_or_default(),
        }
    }
}

impl fmt::Display for Balance {
    /// `leastconn`, or with what is not at its default: `random{draws=3}`, `peak_ewma{decay=5s}`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unset = Balance::of(self.algorithm);
        let written = |balance: &Balance, p: &evenkeel_balance::params::Param| balance.written(p.name, p.kind);
        let set = self.algorithm.params.iter().filter(|p| written(self, p) != written(&unset, p));
        let set: Vec<String> = set.map(|p| format!("{}={}", p.name, written(self, p).replace('"', ""))).collect();
        f.write_str(self.algorithm.name)?;
        if set.is_empty() { Ok(()) } else { write!(f, "{{{}}}", set.join(",")) }
    }
}

impl PartialEq for Balance {
    fn eq(&self, other: &Balance) -> bool {
        let same = |p: &evenkeel_balance::params::Param| self.written(p.name, p.kind) == other.written(p.name, p.kind);
        self.algorithm.name == other.algorithm.name && self.algorithm.params.iter().all(same)
    }
}

impl fmt::Debug for Balance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut s = f.debug_struct(self.algorithm.name);
        for p in self.algorithm.params {
            s.field(p.name, &format_args!("{}", self.written(p.name, p.kind)));
        }
        s.finish()
    }
}

/// What of a request is hashed to choose an endpoint.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HashKey {
    /// The client's IP address.
    ClientIp,
    /// The path, without the query.
    Path,
    /// The value of this header field (lower case).
    Header(String),
    /// The value of this cookie.
    Cookie(String),
    /// The value of this parameter of the query.
    Query(String),
}

impl fmt::Display for HashKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HashKey::ClientIp => f.write_str("client-ip"),
            HashKey::Path => f.write_str("path"),
            HashKey::Header(name) => write!(f, "header:{name}"),
            HashKey::Cookie(name) => write!(f, "cookie:{name}"),
            HashKey::Query(name) => write!(f, "query:{name}"),
        }
    }
}
