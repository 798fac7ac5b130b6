//! The [`Plan`]: a configuration as plain values, with every default filled in and every reference checked.
//!
//! No field needs further parsing, and none is optional unless absence has a meaning.

pub use crate::form::{
    Address, AdminSocket, Captures, Cidr, End, Expression, Extent, Function, GROUPS_MAX, Groups, HashKey, HostPattern,
    KeySource, LimitKey, Origin, PathPart, PathPattern, Pem, Piece, Pieces, RequestRate, SendHost, Template,
    TemplatePart, TokenField, TooLong, Variable, captures, checked_regex, compile_regex, escaped, regex_cost, steers,
    without_case,
};
pub use crate::maps::MapMatch;
pub use crate::sections::access_log::{
    AccessLog, Facility, LineFields, LineFormat, LineSink, LineTemplate, LineValue, Part, SyslogAddress,
};
pub use crate::sections::acme::{Acme, Challenge, ExternalAccount};
pub use crate::sections::action::*;
pub use crate::sections::admin::{Admin, AdminHttp};
pub use crate::sections::cache::{CacheAdmit, CacheDisk, CacheMemory};
pub use crate::sections::discovery::Discovery;
pub use crate::sections::error_pages::ERROR_PAGE_MAX;
pub use crate::sections::filters::*;
pub use crate::sections::kernel::{Attach, Kernel, OnExit};
pub use crate::sections::listener::{
    Certificate, ClientAuth, ClientAuthMode, ClientLocality, Errors, Http2, Http3, HttpsProtocol, HttpsRecord,
    KernelFlows, Listener, ListenerLimits, ListenerTls, Mode, NameServer, Plane, Protocol, Record, RecordKind,
    RedirectHttps, ReportLoad, RequestIdField, UdpFlows, Underscores, UnknownName, Zone, takes,
};
pub use crate::sections::map::Map;
pub use crate::sections::matching::{Criteria, Expected, Match, Paths, Rank, Scheme};
pub use crate::sections::pool::discover::{
    Consul, ConsulServer, Credentials, Discover, Dns, Docker, DockerServer, Etcd, EtcdServer, HttpList, Kubernetes,
    KubernetesServer, Nomad, NomadServer, Records, Scope, Servers, ServicePort, Source, Xds, XdsServer,
};
pub use crate::sections::pool::{
    Check, Endpoint, EndpointHttp2, EndpointProtocol, HealthCheck, LoadReports, OnDown, Own, Pool, PoolLimits, PoolTls,
    Probe, Resolve, Secret, SpeakAs, Sticky, Subset,
};
pub use crate::sections::provider::{KubernetesProvider, Providers, XdsProvider};
pub use crate::sections::resolver::Resolver;
pub use crate::sections::retry::Retry;
pub use crate::sections::route::Route;
pub use crate::sections::runtime::{IdleConnections, Level, Log, LogFormat, Runtime, Workers};
pub use crate::sections::same_site::SameSite;
pub use crate::sections::telemetry::{Explain, Journal, LogTarget, Metrics, Telemetry};
pub use crate::sections::timeouts::{ListenerTimeouts, PoolTimeouts, RouteTimeouts};
pub use crate::sections::tls_version::TlsVersion;
pub use crate::sections::traces::{ContextFormat, Parents, Traces};
pub use crate::table::Balance;
pub use evenkeel_wire::grpc::Status as GrpcStatus;
pub use evenkeel_wire::http1::tolerance::{Tolerance, Tolerated};
pub use evenkeel_wire::proxy_protocol::ProxyVersion;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// A whole, valid configuration. Exists only if there was no error.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Settings of the process: workers, log, shutdown.
    pub runtime: Runtime,
    /// Listeners of the admin; `None` without `[admin]`: a Unix socket that commands find, and no HTTP.
    pub admin: Option<Admin>,
    /// Metrics, logs, traces and explanations.
    pub telemetry: Telemetry,
    /// Resolution of the names of endpoints.
    pub resolver: Resolver,
    /// Servers that sources of endpoints ask; sources have copies of their part.
    pub discovery: Discovery,
    /// Systems that more listeners, routes and pools come from.
    pub providers: Providers,
    /// Authority that issues certificates.
    pub acme: Acme,
    /// Memory for the responses that routes store.
    pub cache: CacheMemory,
    /// Rules and programs in the kernel.
    pub kernel: Kernel,
    /// Maps in the order of the file. No map depends on itself.
    pub maps: Vec<Arc<Map>>,
    /// Limits that routes share, by name, in the order of the file. Routes have copies.
    pub limits: Vec<(Arc<str>, Limit)>,
    /// Listeners in the order of the file; none only if a provider may have some. Shared like routes and pools, so
    /// copying a plan does not copy them.
    pub listeners: Vec<Arc<Listener>>,
    /// Routes in the order of the file, which has no effect on matching (the most specific wins, then the lower
    /// [`order`](Route::order)), then routes implied by `pool` of listeners. Shared, because work begun under one plan
    /// may outlast it by days and needs nothing else of it.
    pub routes: Arc<[Route]>,
    /// Pools in the order of the file; none only if all routes answer by themselves, or a provider may have some.
    pub pools: Vec<Arc<Pool>>,
}

impl Plan {
    pub fn listener(&self, name: &str) -> Option<&Arc<Listener>> {
        self.listeners.iter().find(|l| &*l.name == name)
    }

    /// Pool by name. Every pool of an [`Action`] or of a filter exists.
    pub fn pool(&self, name: &str) -> Option<&Arc<Pool>> {
        self.pools.iter().find(|p| &*p.name == name)
    }

    /// Map by name. Every map that a value, a match or a key uses exists.
    pub fn map(&self, name: &str) -> Option<&Arc<Map>> {
        self.maps.iter().find(|map| *map.name == *name)
    }

    /// Names of the claims that values and maps use.
    pub fn claims(&self) -> BTreeSet<Arc<str>> {
        let of_pools = self
            .pools
            .iter()
            .flat_map(|pool| pool.request_headers.templates().chain(pool.response_headers.templates()));
        let of_listeners = self.listeners.iter().flat_map(|listener| &listener.error_pages);
        let of_listeners = of_listeners.flat_map(|page| page.templates());
        let templates = self.routes.iter().flat_map(|route| route.templates()).chain(of_pools).chain(of_listeners);
        let of_maps = self.maps.iter().flat_map(|map| map.variables());
        let claim = |variable: &Variable| if let Variable::Claim(name) = variable { Some(name.clone()) } else { None };
        templates.flat_map(Template::variables).chain(of_maps).filter_map(claim).collect()
    }

    /// Name lists of the certificates to issue over ACME, without duplicates, in the order of the listeners.
    pub fn issued(&self) -> Vec<&[String]> {
        let certificates = self.listeners.iter().filter_map(|l| l.tls.as_ref()).flat_map(|tls| &tls.certificates);
        let mut all: Vec<&[String]> = Vec::new();
        for names in certificates.map(|certificate| &certificate.acme[..]).filter(|names| !names.is_empty()) {
            if !all.contains(&names) {
                all.push(names);
            }
        }
        all
    }

    /// Modes of the listeners that lead to each pool, in the order of the pools. Empty for a pool that
    /// nothing leads to.
    pub fn modes(&self) -> Vec<Vec<Mode>> {
        let mut modes = vec![Vec::new(); self.pools.len()];
        let mut add = |pool: usize, mode: Mode| {
            if !modes[pool].contains(&mode) {
                modes[pool].push(mode);
            }
        };
        let at = self.pools_by_name();
        // Common routes apply to every HTTP listener, and adding them once is enough.
        let mut common = Some(self.pools_of_all());
        for (listener, pools) in self.listeners.iter().zip(self.pools_named_on()) {
            let records = listener.zone.iter().flat_map(|zone| &zone.records);
            let records = records.filter_map(|record| at.get(&*record.pool).copied());
            let common = common.take_if(|_| listener.mode == Mode::Http).unwrap_or_default();
            records.chain(pools).chain(common).for_each(|pool| add(pool, listener.mode));
        }
        modes
    }

    /// Takes the listeners and pools of another plan that equal its own, so that both plans hold them once.
    pub fn share(&mut self, other: &Plan) {
        let listeners: HashMap<&str, _> = other.listeners.iter().map(|listener| (&*listener.name, listener)).collect();
        for own in &mut self.listeners {
            if let Some(&same) = listeners.get(&*own.name).filter(|&&same| same == own) {
                *own = same.clone();
            }
        }
        let pools = other.pools_by_name();
        for own in &mut self.pools {
            if let Some(same) = pools.get(&*own.name).map(|&at| &other.pools[at]).filter(|&same| same == own) {
                *own = same.clone();
            }
        }
    }

    /// Positions of the pools by name, to look up many.
    pub fn pools_by_name(&self) -> HashMap<&str, usize> {
        self.pools.iter().enumerate().map(|(i, pool)| (&*pool.name, i)).collect()
    }

    /// Pools of the routes that name each listener, by index, in the order of the listeners.
    pub(crate) fn pools_named_on(&self) -> Vec<Vec<usize>> {
        let at = self.pools_by_name();
        let listeners: HashMap<&str, usize> = self.listeners.iter().enumerate().map(|(i, l)| (&*l.name, i)).collect();
        let mut pools = vec![Vec::new(); self.listeners.len()];
        for route in &*self.routes {
            let named: Vec<usize> = route.listeners.iter().filter_map(|name| listeners.get(&**name)).copied().collect();
            for pool in route.pools().filter_map(|pool| at.get(&**pool)) {
                named.iter().for_each(|listener| pools[*listener].push(*pool));
            }
        }
        pools
    }

    /// Pools of the routes that name no listener, by index.
    pub(crate) fn pools_of_all(&self) -> Vec<usize> {
        let at = self.pools_by_name();
        let common = self.routes.iter().filter(|r| r.listeners.is_empty());
        common.flat_map(|r| r.pools()).filter_map(|pool| at.get(&**pool).copied()).collect()
    }

    /// Routes with their index, the lowest [`order`](Route::order) first.
    pub fn routes_in_order(&self) -> impl Iterator<Item = (usize, &Route)> {
        let mut all: Vec<(usize, &Route)> = self.routes.iter().enumerate().collect();
        all.sort_by_key(|(_, route)| route.order);
        all.into_iter()
    }

    /// Routes of a listener. Routes that name it come first: if two have the same host and path, the first one is
    /// the more specific.
    pub fn routes_on<'a>(&'a self, listener: &'a str) -> impl Iterator<Item = &'a Route> {
        let naming = self.routes.iter().filter(move |r| r.listeners.iter().any(|l| &**l == listener));
        let is_http = self.listener(listener).is_none_or(|l| l.mode == Mode::Http);
        naming.chain(self.routes.iter().filter(move |r| is_http && r.listeners.is_empty()))
    }
}
