//! Names that every part of the translation looks up: upstreams, maps, zones, constants, the book; and pools as they are made.

use super::lexer::Directive;
use super::table::Tables;
use super::upstream;
use super::variable::{self, Scope};
use crate::ledger::{Ledger, Line};
use crate::model::{Pool, Target, name_of, pool_names};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// A zone of `limit_req_zone` or `limit_conn_zone`: its key, and its rate as `10r/s`.
#[derive(Clone, Debug)]
pub(super) struct Zone {
    pub line: Line,
    pub key: String,
    pub rate: String,
    /// The smallest burst, or number of connections, that a location allows; `None` if no location has the zone.
    pub least: Option<u64>,
}

/// Everything that directives refer to by name.
pub(super) struct World<'d> {
    pub upstreams: BTreeMap<&'d str, &'d Directive>,
    /// Maps by the name of the variable that they set.
    pub maps: BTreeMap<&'d str, &'d Directive>,
    pub zones: BTreeMap<String, Zone>,
    /// Zone and constant key of each shared limit, by its name.
    pub limits: BTreeMap<String, String>,
    /// Lines of `proxy_cache_path` by the names of their zones.
    pub caches: BTreeMap<&'d str, &'d Directive>,
    /// Bytes of the largest cache in use, which all share here.
    pub cache_memory: u64,
    /// Locations that sub-requests of the server at hand lead to.
    pub services: BTreeMap<&'d str, &'d Directive>,
    pub tables: Rc<Tables>,
    /// Number of routes for error pages.
    pub pages: usize,
    pub target: Target,
    /// Names of the pools that were made for addresses.
    names: BTreeSet<String>,
    /// Pools by address and scheme.
    made: BTreeMap<(String, String), String>,
    pub ledger: &'d mut Ledger,
}

/// A pool to forward to, and the Host that NGINX sends to it by default.
#[derive(Clone, Debug)]
pub(super) struct Forward {
    pub pool: String,
    pub host: String,
}

impl<'d> World<'d> {
    pub fn new(http: &'d [Directive], ledger: &'d mut Ledger) -> World<'d> {
        let mut world = World {
            upstreams: BTreeMap::new(),
            maps: BTreeMap::new(),
            zones: BTreeMap::new(),
            limits: BTreeMap::new(),
            caches: BTreeMap::new(),
            cache_memory: 0,
            services: BTreeMap::new(),
            tables: Rc::new(Tables::read(http)),
            pages: 0,
            target: Target::default(),
            names: BTreeSet::new(),
            made: BTreeMap::new(),
            ledger,
        };
        for directive in http {
            match directive.name() {
                "upstream" => drop(world.upstreams.insert(directive.word(1), directive)),
                "map" => drop(world.maps.insert(directive.word(2).trim_start_matches('$'), directive)),
                "proxy_cache_path" => {
                    let zone = directive.from(2).iter().find_map(|word| word.strip_prefix("keys_zone="));
                    let name = zone.and_then(|zone| zone.split(':').next()).unwrap_or_default();
                    world.caches.insert(name, directive);
                }
                "limit_req_zone" | "limit_conn_zone" => world.zone(directive),
                _ => {}
            }
        }
        world.amounts(http);
        world
    }

    pub fn zone(&mut self, directive: &Directive) {
        let parameter =
            |name: &str| directive.from(2).iter().find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
        let name = parameter("zone").unwrap_or_default().split(':').next().unwrap_or_default().to_string();
        let (key, rate) = (directive.word(1).to_string(), parameter("rate").unwrap_or_default().to_string());
        self.zones
            .insert(format!("{}:{name}", directive.name()), Zone { line: directive.line, key, rate, least: None });
    }

    /// Notes the amounts that locations allow for the zones.
    fn amounts(&mut self, level: &[Directive]) {
        for directive in level {
            self.amounts(directive.inner());
            let parameter =
                |name: &str| directive.from(1).iter().find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
            let (name, amount) = match directive.name() {
                "limit_req" => (parameter("zone").unwrap_or_default(), parameter("burst").unwrap_or("0")),
                "limit_conn" => (directive.word(1), directive.word(2)),
                _ => continue,
            };
            if let Some(zone) = self.zones.get_mut(&format!("{}_zone:{name}", directive.name())) {
                let amount = amount.parse().unwrap_or(0);
                zone.least = Some(zone.least.map_or(amount, |least| least.min(amount)));
            }
        }
    }

    /// Returns the pool for a URL, given the text behind `://`, and makes it if needed. `line` is the directive that
    /// names it.
    pub fn forward(&mut self, scheme: &str, authority: &str, scope: &Scope, line: Line) -> Option<Forward> {
        let authority = variable::constant(authority, scope)?;
        let is_tls = matches!(scheme, "https" | "grpcs");
        let is_h2 = scheme.starts_with("grpc");
        let known = self.upstreams.get(authority.as_str()).copied();
        let port = if is_tls { 443 } else { 80 };
        let key = (authority.clone(), scheme.trim_start_matches("http").to_string());
        let made = self.made.get(&key).cloned();
        let name = made.clone().unwrap_or_else(|| self.free_name(&authority, is_tls, is_h2));
        // The usual port is left out, and a socket has no name.
        let usual = format!(":{port}");
        let host = match authority.starts_with("unix:") {
            true => "localhost".to_string(),
            false => authority.strip_suffix(&usual).unwrap_or(&authority).to_string(),
        };
        if made.is_none() {
            let mut pool = match known {
                Some(upstream) => upstream::read(upstream, port, self.ledger),
                None => Pool { endpoints: vec![upstream::endpoint(&authority, port)], ..Pool::default() },
            };
            pool.name.clone_from(&name);
            if is_tls {
                // NGINX verifies no certificate unless proxy_ssl_verify is on.
                pool.set.put(key!("tls.verify"), false);
                let todo = "leave verify = false out of the pool if the endpoints have valid certificates";
                self.ledger.changes(line, "certificates of endpoints are not verified, as in NGINX by default", todo);
            }
            if is_h2 {
                pool.set.put(key!("protocol"), "h2");
            }
            if pool.endpoints.is_empty() {
                self.ledger.decide(
                    line,
                    format!("the upstream \"{authority}\" has no server that was carried over"),
                    "add endpoints to the pool",
                );
                return None;
            }
            self.made.insert(key, name.clone());
            self.target.pools.push(pool);
        }
        Some(Forward { pool: name, host })
    }

    /// A name for the pool of an address that no other pool has.
    fn free_name(&mut self, authority: &str, is_tls: bool, is_h2: bool) -> String {
        let bases = match self.upstreams.contains_key(authority) {
            true => vec![name_of(authority)],
            false => pool_names(authority),
        };
        let suffix = match (is_tls, is_h2) {
            (true, true) => "-grpcs",
            (true, false) => "-tls",
            (false, true) => "-grpc",
            (false, false) => "-plain",
        };
        let last = bases.last().cloned().unwrap_or_default();
        let numbered = (2..).map(|number| format!("{last}{suffix}-{number}"));
        let mut names = bases.into_iter().chain([format!("{last}{suffix}")]).chain(numbered);
        let name = names.find(|name| !self.names.contains(name)).unwrap_or_default();
        self.names.insert(name.clone());
        name
    }
}

/// Directives of a name at the innermost level that has any.
pub(super) fn group<'d>(levels: &[&'d [Directive]], name: &str) -> Vec<&'d Directive> {
    let of_level = |level: &&'d [Directive]| level.iter().filter(|d| d.name() == name).collect::<Vec<_>>();
    levels.iter().rev().map(of_level).find(|found| !found.is_empty()).unwrap_or_default()
}

/// The last directive of a name at the innermost level that has it.
pub(super) fn single<'d>(levels: &[&'d [Directive]], name: &str) -> Option<&'d Directive> {
    group(levels, name).pop()
}

/// Host and path of a URL, given the text behind `://`.
pub(super) fn split_uri(rest: &str) -> (&str, &str) {
    if let Some(path) = rest.strip_prefix("unix:") {
        return match path.split_once(':') {
            Some((socket, uri)) => (&rest[.."unix:".len() + socket.len()], uri),
            None => (rest, ""),
        };
    }
    // A variable behind the host begins the path.
    let at = rest.find('/').or_else(|| {
        rest.get(1..)
            .and_then(|tail| tail.find("${request_uri").or(tail.find("${uri")).or(tail.find("${1")))
            .map(|n| n + 1)
    });
    rest.split_at(at.unwrap_or(rest.len()))
}
