//! What did the user ask for? The [`Plan`]: plain values, every default filled in, every reference checked.
//!
//! Nothing in here is text to be parsed again, and nothing is optional unless absence means something.

pub use crate::form::{Address, Cidr, HashKey, HostPattern, PathPattern};
pub use crate::sections::admin::Admin;
pub use crate::sections::listener::{
    ClientLocality, Listener, ListenerLimits, Mode, NameServer, Record, RecordKind, ReportLoad, UdpFlows, Zone,
};
pub use crate::sections::pool::{
    Check, Discover, Dns, Endpoint, HealthCheck, LoadReports, Pool, PoolLimits, Probe, ProxyVersion, Records, Resolve,
    SameSite, Secret, Source, SpeakAs, Sticky, Subset,
};
pub use crate::sections::resolver::Resolver;
pub use crate::sections::retry::Retry;
pub use crate::sections::route::Route;
pub use crate::sections::runtime::{Level, Log, LogFormat, Runtime, Workers};
pub use crate::sections::telemetry::{AccessLog, Journal, LogTarget, Metrics, Telemetry};
pub use crate::sections::timeouts::{ListenerTimeouts, PoolTimeouts, RouteTimeouts};
pub use crate::table::Balance;

use std::collections::HashMap;

/// A whole configuration that was found possible. A plan exists only if there was no error.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The process: workers, log, how long it drains.
    pub runtime: Runtime,
    /// Where `/metrics`, `/livez` and `/readyz` are served; `None` = nowhere.
    pub admin: Option<Admin>,
    /// Metrics and the access log.
    pub telemetry: Telemetry,
    /// How names of endpoints are resolved.
    pub resolver: Resolver,
    /// In the order of the file. At least one.
    pub listeners: Vec<Listener>,
    /// In the order of the file, which means nothing: the most specific match wins; then those that listeners' own pools
    /// stand for.
    pub routes: Vec<Route>,
    /// In the order of the file. At least one.
    pub pools: Vec<Pool>,
}

impl Plan {
    /// The listener of that name.
    pub fn listener(&self, name: &str) -> Option<&Listener> {
        self.listeners.iter().find(|l| &*l.name == name)
    }

    /// The pool of that name. Every [`Route::pool`] is there.
    pub fn pool(&self, name: &str) -> Option<&Pool> {
        self.pools.iter().find(|p| &*p.name == name)
    }

    /// What is spoken on the listeners that lead to each pool, in the order of the pools; nothing for one that none leads
    /// to.
    pub fn modes(&self) -> Vec<Vec<Mode>> {
        let at: HashMap<&str, usize> = self.pools.iter().enumerate().map(|(i, pool)| (&*pool.name, i)).collect();
        let mut modes = vec![Vec::new(); self.pools.len()];
        for listener in &self.listeners {
            let records = listener.zone.iter().flat_map(|zone| &zone.records).map(|record| &record.pool);
            let routes = self.routes_on(&listener.name).map(|route| &route.pool);
            for pool in records.chain(routes).filter_map(|name| at.get(&**name)) {
                if !modes[*pool].contains(&listener.mode) {
                    modes[*pool].push(listener.mode);
                }
            }
        }
        modes
    }

    /// The routes that take requests of a listener, those that name it first: if two have the same host and path, the
    /// first one given here is the more specific.
    pub fn routes_on<'a>(&'a self, listener: &'a str) -> impl Iterator<Item = &'a Route> {
        let naming = self.routes.iter().filter(move |r| r.listeners.iter().any(|l| &**l == listener));
        let is_http = self.listener(listener).is_none_or(|l| l.mode == Mode::Http);
        naming.chain(self.routes.iter().filter(move |r| is_http && r.listeners.is_empty()))
    }
}
