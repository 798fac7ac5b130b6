//! Draft of the output: listeners, routes and pools, before they are written. The translations fill it in.

// Order: order, maps, matching, units
mod maps;
mod matching;
mod order;
mod units;

pub(crate) use evenkeel_config::draft::{Draft, Entries, Value, size_text as size};
pub(crate) use maps::Maps;
pub(crate) use matching::{Apart, Cond, Key, Match, Test, escape, unnamed};
pub(crate) use order::{Clash, break_ties, settle_order};
pub(crate) use units::{braced, duration, name_of, parse_size, pool_names};

use evenkeel_config::draft::{File, KeyOf};
use evenkeel_config::plan;

/// Keys of a `[[route]]`.
pub(crate) type RouteKeys = Draft<plan::Route>;

/// Keys of a `[pool.NAME]`.
pub(crate) type PoolKeys = Draft<plan::Pool>;

/// An output file before it is written.
#[derive(Clone, Debug, Default)]
pub(crate) struct Target {
    /// Tables of the top level other than listeners, routes and pools.
    pub root: Draft<File>,
    pub listeners: Vec<Listener>,
    /// Tables `[map.NAME]`.
    pub maps: Vec<(String, Draft<plan::Map>)>,
    /// Tables `[limit.NAME]`.
    pub limits: Vec<(String, Draft<plan::Limit>)>,
    pub routes: Vec<Route>,
    /// Filters that routes name in `use`.
    pub filters: Vec<FilterSet>,
    pub pools: Vec<Pool>,
}

/// A `[filters.NAME]` of the output.
#[derive(Clone, Debug)]
pub(crate) struct FilterSet {
    pub name: String,
    pub set: RouteKeys,
}

/// A `[listener.NAME]` of the output.
#[derive(Clone, Debug, Default)]
pub(crate) struct Listener {
    pub name: String,
    pub comments: Vec<String>,
    pub bind: Vec<String>,
    pub is_tcp: bool,
    pub is_udp: bool,
    pub pool: Option<String>,
    pub set: Draft<plan::Listener>,
}

/// A `[[route]]` of the output.
#[derive(Clone, Debug)]
pub(crate) struct Route {
    pub name: String,
    pub comments: Vec<String>,
    pub matching: Match,
    pub action: Action,
    /// Filters and other keys of the route.
    pub set: RouteKeys,
    /// Directive that it was made from, for notes.
    pub line: crate::ledger::Line,
}

/// Pools that get the requests of a route, or the response to them.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Action {
    Pool(String),
    Split(Draft<plan::Split>),
    Redirect(Draft<plan::Redirect>),
    Respond(Draft<plan::Respond>),
}

/// A `[pool.NAME]` of the output.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pool {
    pub name: String,
    pub comments: Vec<String>,
    pub endpoints: Vec<Endpoint>,
    pub set: PoolKeys,
}

/// An element of `endpoints`; a plain string if it has only an address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Endpoint {
    pub addr: String,
    pub set: Draft<plan::Endpoint>,
}

impl Target {
    /// Returns the pool with this name.
    pub fn pool(&mut self, name: &str) -> Option<&mut Pool> {
        self.pools.iter_mut().find(|pool| pool.name == name)
    }

    /// The whole file, but for its first line. Each table is dropped as soon as it is written.
    pub fn into_toml(self) -> String {
        let mut out = String::new();
        self.root.write_tables(&mut out);
        self.listeners.iter().for_each(|listener| listener.keys().write(&listener.name, &listener.comments, &mut out));
        self.maps.iter().for_each(|(name, map)| map.write(name, &[], &mut out));
        self.limits.iter().for_each(|(name, limit)| limit.write_under(&format!("[limit.{name}]"), &mut out));
        for filters in &self.filters {
            filters.set.write_under(&format!("[filters.{}]", filters.name), &mut out);
        }
        for route in self.routes {
            route.keys().write(&route.name, &route.comments, &mut out);
            route.set.write_more(&mut out);
        }
        for mut pool in self.pools {
            let endpoints = std::mem::take(&mut pool.endpoints);
            pool.keys(endpoints).write(&pool.name, &pool.comments, &mut out);
            pool.set.write_more(&mut out);
        }
        out
    }
}

/// An entry of `tls.certificates`, from files.
pub(crate) fn cert_files(cert: &str, key: &str) -> Value {
    Draft::<plan::Certificate>::one(key!("cert"), cert).with(key!("key"), key).into()
}

impl Listener {
    /// Sets the certificates from files, and a certificate for the names that an authority issues. Returns false if
    /// there are none: a self-signed certificate is used.
    pub fn certify(&mut self, mut files: Vec<Value>, mut acme: Vec<String>) -> bool {
        acme.sort();
        acme.dedup();
        if !acme.is_empty() {
            files.push(Draft::<plan::Certificate>::one(key!("acme"), acme).into());
        }
        match files.is_empty() {
            true => self.set.put(key!("tls.self_signed"), true),
            false => self.set.put(key!("tls.certificates"), files),
        };
        self.set.has(key!("tls.certificates"))
    }

    /// Takes HTTP/3 out where the listener cannot have it: QUIC needs TLS, and has no PROXY protocol. True if it was there.
    pub fn drop_impossible_h3(&mut self) -> bool {
        let can =
            self.set.has(key!("tls")) && !self.set.has(key!("accept_proxy_protocol")) && !self.is_tcp && !self.is_udp;
        !can && self.set.remove(key!("http3")).is_some()
    }

    fn keys(&self) -> Draft<plan::Listener> {
        let mut keys = Draft::one(key!("bind"), self.bind.clone());
        if self.is_tcp || self.is_udp {
            keys.put(key!("mode"), if self.is_udp { "udp" } else { "tcp" });
        }
        if let Some(pool) = &self.pool {
            keys.put(key!("pool"), pool.as_str());
        }
        keys.merge(&self.set);
        keys
    }
}

impl Route {
    /// Keys in the order in which the file has them, with the name first.
    fn keys(&self) -> RouteKeys {
        let mut keys = Draft::one(key!("name"), self.name.as_str());
        let matching = self.matching.table();
        if !matching.is_empty() {
            keys.put(key!("match"), matching);
        }
        match &self.action {
            Action::Pool(pool) => keys.put(key!("pool"), pool.as_str()),
            Action::Split(split) => keys.put(key!("split"), split.clone()),
            Action::Redirect(to) => keys.put(key!("redirect"), to.clone()),
            Action::Respond(response) => match (response.get(key!("status")), response.entries().iter().len()) {
                (Some(status), 1) => keys.put(key!("respond"), status.clone()),
                _ => keys.put(key!("respond"), response.clone()),
            },
        };
        keys
    }
}

impl Action {
    /// A response of this status alone.
    pub fn respond(status: u64) -> Action {
        Action::Respond(Draft::one(key!("status"), status))
    }
}

impl Pool {
    /// Has clients return to their endpoint by a signed cookie.
    pub fn stick(&mut self, cookie: &str, is_secure: bool) {
        self.set.put(key!("sticky.cookie"), cookie);
        if is_secure {
            self.set.put(key!("sticky.secure"), true);
        }
    }

    /// Keys in the order in which the file has them, with the name first.
    fn keys(&self, endpoints: Vec<Endpoint>) -> PoolKeys {
        let mut keys = Draft::default();
        if !endpoints.is_empty() {
            let each: Vec<Value> = endpoints.into_iter().map(Endpoint::value).collect();
            keys.put(key!("endpoints"), each);
        }
        keys
    }
}

impl Endpoint {
    fn value(self) -> Value {
        if self.set.is_empty() {
            return self.addr.into();
        }
        let mut keys = Draft::one(key!("addr"), self.addr);
        keys.merge(&self.set);
        keys.into()
    }
}

/// Keys of the changes to fields of a route.
#[derive(Clone, Copy)]
pub(crate) struct FieldKeys {
    pub table: &'static str,
    pub remove: KeyOf<plan::Route>,
    pub set: KeyOf<plan::Route>,
    pub add: KeyOf<plan::Route>,
}

impl FieldKeys {
    pub const REQUEST: FieldKeys = FieldKeys {
        table: "request_headers",
        remove: key!("request_headers.remove"),
        set: key!("request_headers.set"),
        add: key!("request_headers.add"),
    };
    pub const RESPONSE: FieldKeys = FieldKeys {
        table: "response_headers",
        remove: key!("response_headers.remove"),
        set: key!("response_headers.set"),
        add: key!("response_headers.add"),
    };
}

/// Value of `balance` for an algorithm that hashes a part of requests.
pub(crate) fn hashed(key: impl Into<Value>) -> Value {
    Entries::one("maglev", Entries::one("key", key)).into()
}
