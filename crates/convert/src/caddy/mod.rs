//! Caddyfile: sites, matchers and directives, and their counterparts. In Caddy, sites get certificates automatically.

// Order: client_auth, site, walk, auth, compression, matcher, expression, proxy, step, fields, lexer, value
mod auth;
mod client_auth;
mod compression;
mod expression;
mod fields;
mod lexer;
mod matcher;
mod proxy;
mod site;
mod step;
mod value;
mod walk;

use crate::ledger::Ledger;
use crate::model::{Apart, Cond, Key, Listener, Match, Route, RouteKeys, Target, Value, cert_files};
use client_auth::ClientAuth;
use evenkeel_config::Files;
use lexer::Directive;
use matcher::Reading;
use std::collections::BTreeMap;
use std::sync::Arc;
use value::environment;

/// Address of a site: a word before its braces.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Address {
    host: String,
    port: u16,
    is_tls: bool,
}

/// Source of the certificates of a site.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Tls {
    Automatic,
    Internal,
    Files(String, String),
}

/// A port, and the addresses that `bind` names.
type Place = (u16, Vec<String>);

/// Listeners by port, with the settings collected for them.
#[derive(Default)]
struct Ports {
    listeners: BTreeMap<Place, Listening>,
    /// Error pages of sites for all hosts.
    pages: BTreeMap<u16, RouteKeys>,
}

#[derive(Default)]
struct Listening {
    is_tls: bool,
    is_plain: bool,
    acme: Vec<String>,
    files: Vec<Value>,
    is_internal: bool,
    /// Certificates that clients need for its only site.
    client_auth: Option<ClientAuth>,
    sites: Vec<Served>,
}

struct Served {
    hosts: Vec<String>,
    routes: Vec<Route>,
    client_auth: Option<ClientAuth>,
}

impl Served {
    /// Sites with names come before those with patterns, and the site for all hosts comes last.
    fn rank(&self) -> (u8, std::cmp::Reverse<usize>) {
        let length = |host: &String| host.replace("*.", "").len();
        let longest = self.hosts.iter().map(length).max().unwrap_or(0);
        let has_pattern = self.hosts.iter().any(|host| host.contains('*') || host.is_empty());
        (if longest == 0 { 2 } else { u8::from(has_pattern) }, std::cmp::Reverse(longest))
    }
}

/// Reads a Caddyfile and the files that it imports.
pub(crate) fn translate(text: &str, file: &Arc<str>, files: &dyn Files, ledger: &mut Ledger) -> Target {
    let mut all = lexer::read(text, file, files, ledger);
    // Imports that cannot be read are noted.
    all.retain(|directive| directive.name() != "import");
    let mut target = Target::default();
    // Without braces the whole file is a single site. The first line has its addresses.
    let is_bare = all.first().is_some_and(|first| first.block.is_empty() && !first.words.is_empty())
        && all.iter().all(|d| !is_site(d));
    let (options, sites): (Vec<&Directive>, Vec<&Directive>) =
        all.iter().partition(|directive| directive.words.is_empty());
    let options: Vec<&Directive> = options.iter().flat_map(|block| &block.block).collect();
    all.iter().filter(|directive| directive.words.is_empty()).for_each(|directive| ledger.carried(directive.line));
    let global = global(&options, &mut target, ledger);
    let is_automatic = global.is_automatic;
    let mut ports = Ports::default();
    for site in &sites {
        let all = site.words.iter().flat_map(|word| word.split(',')).filter_map(|word| address(word, is_automatic));
        for open in all.filter(|address| address.host.is_empty()) {
            ports.pages.extend(site::pages(&site.block).map(|pages| (open.port, pages)));
        }
    }
    match (is_bare, all.split_first()) {
        (true, Some((first, rest))) => {
            let own = Directive { line: first.line, words: first.words.clone(), block: rest.to_vec() };
            read_site(&own, &global, &mut ports, &mut target, ledger);
        }
        _ => {
            for directive in sites {
                read_site(directive, &global, &mut ports, &mut target, ledger);
            }
        }
    }
    ports.settle_routes(&mut target, ledger);
    ports.into_listeners(&global, &mut target);
    target
}

fn is_site(directive: &Directive) -> bool {
    !directive.block.is_empty()
        && address(directive.name().trim_end_matches(','), true).is_some()
        && !directive.name().starts_with(['@', '/'])
        && (directive.name().contains(['.', ':']) || directive.name() == "localhost")
}

/// Options that all sites have.
struct Global {
    /// True if sites get certificates automatically.
    is_automatic: bool,
    /// Networks of proxies in front. `None`: they are not known.
    trusted: Option<Vec<String>>,
    /// Ports without HTTP/3; `None` for all.
    without_h3: Vec<Option<u16>>,
}

impl Global {
    /// Reads `trusted_proxies static NETWORK...`.
    fn trust(&mut self, row: &Directive, ledger: &mut Ledger) {
        let nets: Vec<String> = row.from(2).iter().flat_map(|net| matcher::networks(net)).collect();
        if row.word(1) == "static" && !nets.is_empty() && nets.iter().all(|net| !net.contains('{')) {
            ledger.carried(row.line);
            self.trusted = Some(nets);
        } else {
            self.trusted = None;
            let reason = "which proxies in front are trusted is not known: conditions on clients are not carried over";
            ledger.decide(row.line, reason, "trusted_proxies of the listener");
        }
    }

    /// Reads `protocols h1 h2 h3` of the servers at an address, or of all.
    fn protocols(&mut self, servers: &Directive, row: &Directive, ledger: &mut Ledger) {
        let has = |word: &str| row.from(1).iter().any(|own| own == word);
        if !has("h3") {
            self.without_h3.push(servers.word(1).rsplit(':').next().and_then(|port| port.parse().ok()));
        }
        if has("h1") && has("h2") && !has("h2c") {
            ledger.carried(row.line);
        }
    }

    fn has_h3(&self, port: u16) -> bool {
        self.without_h3.iter().all(|other| other.is_some_and(|other| other != port))
    }

    fn reading(&self) -> Reading {
        Reading {
            is_guarded: false,
            has_remote: self.trusted.as_ref().is_some_and(Vec::is_empty),
            has_client: self.trusted.is_some(),
        }
    }
}

/// Reads the global options.
fn global(options: &[&Directive], target: &mut Target, ledger: &mut Ledger) -> Global {
    let mut global = Global { is_automatic: true, trusted: Some(Vec::new()), without_h3: Vec::new() };
    for option in options {
        ledger.carried(option.line);
        match option.name() {
            "auto_https" => global.is_automatic = option.word(1) != "off",
            "email" if !option.word(1).contains(['.', '{']) => {
                ledger.changes(option.line, "it is not an address of mail", "email of [acme]");
            }
            "email" => drop(target.root.put(key!("acme.email"), environment(option.word(1)))),
            "acme_ca" => drop(target.root.put(key!("acme.directory"), environment(option.word(1)))),
            "admin" | "debug" | "log" | "storage" | "persist_config" | "grace_period" | "shutdown_delay" | "order" => {
                option.dropped("it is about Caddy's own process", ledger);
                ledger.dropped(option.line, "it is about Caddy's own process");
            }
            "servers" => {
                for inner in &option.block {
                    match inner.name() {
                        "trusted_proxies" => global.trust(inner, ledger),
                        "protocols" => global.protocols(option, inner, ledger),
                        _ => {}
                    }
                    inner.lost(
                        "settings of servers are keys of the listeners",
                        "trusted_proxies, timeouts and limits of a listener",
                        ledger,
                    );
                }
            }
            _ => {
                ledger.changes(
                    option.line,
                    "this option has no counterpart",
                    "see [runtime], [acme] and the listeners",
                );
                option.lost("its option has no counterpart", "see [runtime], [acme] and the listeners", ledger);
            }
        }
    }
    global
}

fn read_site(directive: &Directive, global: &Global, ports: &mut Ports, target: &mut Target, ledger: &mut Ledger) {
    ledger.carried(directive.line);
    let mut addresses = Vec::new();
    for word in directive.words.iter().flat_map(|word| word.split(',')).filter(|word| !word.is_empty()) {
        let word = environment(word);
        match address(&word, global.is_automatic) {
            Some(address) => addresses.push(address),
            None => ledger.decide(
                directive.line,
                format!("\"{word}\" is not an address of a site"),
                "add bind of a listener, and match.host",
            ),
        }
    }
    if addresses.is_empty() {
        return directive.lost("its site has no address", "write the [[route]] by hand", ledger);
    }
    let client_auth = client_auth::of(directive, ledger);
    let tls = tls(directive, ledger);
    let binds = binds(directive, ledger);
    for address in &mut addresses {
        address.is_tls |= tls != Tls::Automatic;
        if address.is_tls && address.port == 80 {
            address.port = 443;
        }
        ports.add(address, &binds, &tls);
    }
    let name = crate::model::name_of(&addresses[0].host.replace(['.', '*'], "-").replace("${", "").replace('}', ""));
    let common = ports.pages.get(&addresses[0].port).cloned();
    let routes =
        site::routes(&directive.block, common.as_ref(), &name, directive.line, global.reading(), target, ledger);
    for (n, address) in addresses.iter().enumerate() {
        let is_new = addresses[..n].iter().all(|earlier| earlier.port != address.port);
        if is_new {
            let hosts = addresses.iter().filter(|other| other.port == address.port).map(|other| other.host.clone());
            ports.serve((address.port, binds.clone()), hosts.collect(), &routes, client_auth.clone());
        }
    }
}

/// Addresses of the `bind` directives of a site.
fn binds(site: &Directive, ledger: &mut Ledger) -> Vec<String> {
    let mut binds = Vec::new();
    for directive in site.block.iter().filter(|directive| directive.name() == "bind") {
        let known =
            directive.from(1).iter().map(|word| environment(word)).filter(|word| {
                word.parse::<std::net::IpAddr>().is_ok() || word.starts_with("${") && word.ends_with('}')
            });
        let known: Vec<String> = known.collect();
        match known.len() + 1 == directive.words.len() {
            true => ledger.carried(directive.line),
            false => directive.lost("sites listen at addresses of this machine", "bind of the listener", ledger),
        }
        binds.extend(known);
    }
    binds
}

/// The `tls` directive of a site.
fn tls(site: &Directive, ledger: &mut Ledger) -> Tls {
    let Some(directive) = site.block.iter().find(|directive| directive.name() == "tls") else { return Tls::Automatic };
    ledger.carried(directive.line);
    for inner in &directive.block {
        inner.lost("settings of TLS are those of the listener", "tls of the listener", ledger);
    }
    match directive.from(1) {
        [word] if word == "internal" => Tls::Internal,
        [cert, key] => Tls::Files(environment(cert), environment(key)),
        [email] if email.contains('@') => Tls::Automatic,
        _ => Tls::Automatic,
    }
}

/// An address of a site: `[SCHEME://]HOST[:PORT]`, or a port alone.
fn address(word: &str, is_automatic: bool) -> Option<Address> {
    let (scheme, rest) = match word.split_once("://") {
        Some((scheme @ ("http" | "https"), rest)) => (scheme, rest),
        Some(_) => return None,
        None => ("", word),
    };
    let rest = rest.trim_end_matches('/');
    if rest.contains('/') {
        return None;
    }
    let bare = rest.rsplit(']').next().unwrap_or_default();
    let (host, port) = match bare.rsplit_once(':') {
        Some((_, port)) if !port.contains('}') || port.starts_with("${") => {
            (&rest[..rest.len() - port.len() - 1], Some(port))
        }
        _ => (rest, None),
    };
    let port = port.map(str::parse::<u16>).transpose().ok()?;
    let is_plain = scheme == "http" || port == Some(80) || scheme.is_empty() && (host.is_empty() || !is_automatic);
    let port = port.unwrap_or(if is_plain { 80 } else { 443 });
    // A variable has a case.
    let host = if host.contains("${") { host.to_string() } else { host.to_ascii_lowercase() };
    let is_host = host.is_empty()
        || host.starts_with("${")
        || host.bytes().all(|b| b.is_ascii_alphanumeric() || b"-.*_[]:".contains(&b));
    // Only the first label may be a star, and not the whole of a name.
    let is_pattern = host.trim_start_matches("*.").contains('*');
    let is_bracketed =
        host.strip_prefix('[').is_some_and(|rest| rest.trim_end_matches(']').parse::<std::net::Ipv6Addr>().is_err());
    (is_host && !is_pattern && !is_bracketed && port > 0).then_some(Address { host, port, is_tls: !is_plain })
}

fn listener_name(port: u16, binds: &[String]) -> String {
    let name = match port {
        80 => "http".to_string(),
        443 => "https".to_string(),
        port => format!("port-{port}"),
    };
    match binds.first() {
        Some(bind) => crate::model::name_of(&format!("{name}-{}", bind.replace(['.', ':', '$', '{', '}'], "-"))),
        None => name,
    }
}

impl Ports {
    fn add(&mut self, address: &Address, binds: &[String], tls: &Tls) {
        let entry = self.listeners.entry((address.port, binds.to_vec())).or_default();
        match address.is_tls {
            true => entry.is_tls = true,
            false => entry.is_plain = true,
        }
        let is_name = (address.host.contains('.') || address.host.starts_with("${"))
            && address.host.parse::<std::net::IpAddr>().is_err()
            && !address.host.contains('*');
        match tls {
            Tls::Files(cert, key) => {
                let file = cert_files(cert, key);
                if !entry.files.contains(&file) {
                    entry.files.push(file);
                }
            }
            Tls::Internal => entry.is_internal = true,
            Tls::Automatic if !address.is_tls => {}
            Tls::Automatic if is_name => entry.acme.push(address.host.clone()),
            Tls::Automatic => entry.is_internal = true,
        }
    }

    fn serve(&mut self, place: Place, hosts: Vec<String>, routes: &[Route], client_auth: Option<ClientAuth>) {
        let sites = &mut self.listeners.entry(place).or_default().sites;
        sites.push(Served { hosts, routes: routes.to_vec(), client_auth });
    }

    /// Puts the routes of all sites, in the order in which Caddy tries them.
    fn settle_routes(&mut self, target: &mut Target, ledger: &mut Ledger) {
        for ((port, binds), entry) in &mut self.listeners {
            entry.sites.sort_by_key(Served::rank);
            let is_only = entry.sites.len() == 1;
            for site in &mut entry.sites {
                let Some(auth) = site.client_auth.take() else { continue };
                match auth.is_whole() && is_only {
                    true => entry.client_auth = Some(auth),
                    false => {
                        auth.close(&mut site.routes, ledger);
                    }
                }
            }
            let mut routes = Vec::new();
            for site in &entry.sites {
                let mut own = Match::of([Cond::one_of(Key::Listener, [listener_name(*port, binds)])]);
                if !site.hosts.iter().any(String::is_empty) {
                    own.conds.push(Cond::one_of(Key::Host, site.hosts.clone()));
                }
                for route in &site.routes {
                    match own.and(&route.matching) {
                        Ok(matching) => routes.push(Route { matching, ..route.clone() }),
                        Err(Apart::Never) => ledger.dropped(route.line, "no request of this site fulfils it"),
                        Err(Apart::Unwritable) => {
                            let reason = "its conditions and those of its site do not fit into one match";
                            ledger.decide(route.line, reason, "write the [[route]] by hand");
                        }
                    }
                }
            }
            crate::reconcile::reconcile(&mut routes, "Caddy", None, ledger);
            target.routes.extend(routes);
        }
    }

    fn into_listeners(self, global: &Global, target: &mut Target) {
        let has_tls = self.listeners.iter().any(|((port, _), entry)| *port == 443 && entry.is_tls);
        let has_plain = self.listeners.keys().any(|(port, _)| *port == 80);
        if has_tls && !has_plain && global.is_automatic {
            let mut listener =
                Listener { name: "http".to_string(), bind: vec!["[::]:80".to_string()], ..Listener::default() };
            listener.comments.push("Caddy redirects to HTTPS by itself.".to_string());
            listener.set.put(key!("redirect_https"), true);
            target.listeners.push(listener);
        }
        for ((port, binds), entry) in self.listeners {
            let at = |host: &String| match host.parse::<std::net::Ipv6Addr>() {
                Ok(_) => format!("[{host}]:{port}"),
                Err(_) => format!("{host}:{port}"),
            };
            let bind = if binds.is_empty() { vec![format!("[::]:{port}")] } else { binds.iter().map(at).collect() };
            let mut listener = Listener { name: listener_name(port, &binds), bind, ..Listener::default() };
            if let Some(trusted) = global.trusted.as_ref().filter(|trusted| !trusted.is_empty()) {
                listener.set.put(key!("trusted_proxies"), trusted.clone());
            }
            if entry.is_tls {
                if entry.client_auth.is_some() && !entry.acme.is_empty() {
                    // The other challenge connects without a certificate.
                    target.root.put(key!("acme.challenge"), "http-01");
                }
                listener.certify(entry.files, entry.acme);
                if global.has_h3(port) {
                    listener.set.put(key!("http3"), true);
                }
                if let Some(auth) = &entry.client_auth {
                    auth.put(&mut listener);
                }
                if entry.is_internal {
                    listener
                        .comments
                        .push("Certificates of Caddy's own authority are self-signed ones here.".to_string());
                }
            }
            target.listeners.push(listener);
        }
    }
}
