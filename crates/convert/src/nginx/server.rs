//! `server` blocks: listeners by address, hosts, TLS, and the routes of each.

use super::lexer::Directive;
use super::listen::{Listen, is_of_quic, listen, quic};
use super::names::{Names, OtherNames};
use super::rules::{self, Routes, join};
use super::table::written;
use super::time::milliseconds;
use super::tls::{self, Refused};
use super::tree::Tree;
use super::variable::Scope;
use super::world::{World, group, single};
use crate::ledger::Line;
use crate::limits::timeout;
use crate::model::{Apart, Cond, Key, Listener, Match, Route, break_ties, escape, name_of, parse_size, size, unnamed};
use crate::reconcile::reconcile;
use evenkeel_config::draft::KeyOf;
use evenkeel_config::plan;
use std::rc::Rc;

/// A server with its addresses and names.
struct Server<'d> {
    directive: &'d Directive,
    listens: Vec<Listen>,
    /// Names, and domains as `*.x`.
    names: Vec<String>,
    /// Names that are looked up behind these: `x.*` as an expression, and expressions.
    late: Vec<Late>,
    /// True if it has a name that is not known here. All requests that may have the name are refused.
    is_unknown: bool,
    name: String,
}

/// A name by an expression, which NGINX tries if no fixed name or domain fits.
#[derive(Clone, Debug)]
struct Late {
    /// Number of characters of `x.*`, which the longest wins; 0 for an expression.
    length: usize,
    regex: String,
}

/// Translates all servers of the HTTP level, which inherit the directives in `http`.
pub(super) fn translate<'d>(servers: &[&'d Directive], http: &'d [Directive], world: &mut World<'d>) {
    let servers: Vec<Server<'d>> = servers.iter().map(|directive| Server::read(directive, world)).collect();
    let (listeners, refused) = listeners(http, &servers, world);
    let mut names = Names::new();
    for (number, server) in servers.iter().enumerate() {
        server.names.iter().for_each(|name| _ = names.entry(name.clone()).or_default().insert(number));
    }
    let names = Rc::new(names);
    for (number, server) in servers.iter().enumerate() {
        let groups = server.routes(http, OtherNames::new(&names, number), refused[number], world);
        place(number, groups, &servers, &listeners, world);
    }
    // Servers with names by expression are conditions on a field, and not on the host.
    if servers.iter().any(|server| !server.late.is_empty()) {
        break_ties(&mut world.target.routes);
    }
    world.target.listeners.extend(listeners.into_iter().map(|(_, listener)| listener));
}

/// Puts the routes of a server into its listeners and hosts.
fn place(
    number: usize,
    groups: Vec<Vec<Route>>,
    servers: &[Server<'_>],
    listeners: &[((String, bool), Listener)],
    world: &mut World<'_>,
) {
    let server = &servers[number];
    // Listeners with the same conditions on hosts, with the names of the listeners.
    let mut places: Vec<(Vec<Cond>, Vec<String>)> = Vec::new();
    for (key, listener) in listeners.iter().filter(|(key, _)| server.has(key)) {
        for conds in hosts(number, servers, key) {
            match places.iter_mut().find(|(other, _)| *other == conds) {
                Some((_, names)) => names.push(listener.name.clone()),
                None => places.push((conds, vec![listener.name.clone()])),
            }
        }
    }
    if places.is_empty() {
        let reason = "it has no name of its own and is not the first of its address, so NGINX never takes it";
        return world.ledger.changes(server.directive.line, reason, "remove it, or give it a host");
    }
    let is_default = listeners.iter().any(|(key, _)| default_of(key, servers) == Some(server.directive.line));
    if is_default && !server.names.is_empty() {
        note_default(server, world);
    }
    let scope = Scope::new(Rc::clone(&world.tables), Vec::new());
    for (conds, names) in &places {
        let mut own = Match::default();
        if names.len() < listeners.len() {
            own.conds.push(Cond::one_of(Key::Listener, names.iter().cloned()));
        }
        own.conds.extend(conds.iter().cloned());
        for group in &groups {
            let mut list = placed(group, &own, &scope, world);
            reconcile(&mut list, "NGINX", Some(&world.tables.tests), world.ledger);
            world.target.routes.append(&mut list);
        }
    }
}

/// Routes with the conditions of their server.
fn placed(group: &[Route], own: &Match, scope: &Scope, world: &mut World<'_>) -> Vec<Route> {
    let mut list = Vec::new();
    for route in group {
        match join(own, &route.matching.conds, scope) {
            Ok(matching) => list.push(Route { matching, ..route.clone() }),
            // A condition on the host that its own server never sees.
            Err(Apart::Never) => world.ledger.dropped(route.line, "no request of this server fulfils it"),
            Err(Apart::Unwritable) => world.ledger.decide(
                route.line,
                "its condition does not fit beside the names of its server",
                "write the [[route]] by hand",
            ),
        }
    }
    list
}

/// Conditions by which hosts come to a server at an address, each for a route.
fn hosts(number: usize, servers: &[Server<'_>], key: &(String, bool)) -> Vec<Vec<Cond>> {
    let server = &servers[number];
    let is_default = default_of(key, servers) == Some(server.directive.line);
    // Of servers with the same name, the first has it.
    let taken = |name: &String| servers[..number].iter().any(|other| other.has(key) && other.names.contains(name));
    let names: Vec<String> = server.names.iter().filter(|name| !taken(name)).cloned().collect();
    let mut late: Vec<(usize, &Late)> = servers
        .iter()
        .enumerate()
        .filter(|(_, other)| other.has(key))
        .flat_map(|(number, other)| other.late.iter().map(move |late| (number, late)))
        .collect();
    late.sort_by_key(|(_, late)| (late.length == 0, std::cmp::Reverse(late.length)));
    let none_of = |all: &[(usize, &Late)]| {
        let others = all.iter().filter(|(of, _)| *of != number);
        let others: Vec<String> = others.map(|(_, late)| unnamed(&late.regex)).collect();
        (!others.is_empty()).then(|| rules::host(&others.join("|")).negate())
    };
    let mut places = Vec::new();
    let others = none_of(&late);
    // A domain of another server does not take the names of the default server.
    let has_domains = servers
        .iter()
        .enumerate()
        .any(|(of, other)| of != number && other.has(key) && other.names.iter().any(|name| name.starts_with('*')));
    if !names.is_empty() && (!is_default || others.is_some() || has_domains) {
        places.push(vec![Cond::one_of(Key::Host, names)]);
    }
    for (at, (_, own)) in late.iter().enumerate().filter(|(_, (of, _))| *of == number && !is_default) {
        places.push([Some(rules::host(&own.regex)), none_of(&late[..at])].into_iter().flatten().collect());
    }
    if is_default {
        // Own expressions that stand before others are not worth a route: the others exclude them by themselves.
        for (at, (_, own)) in
            late.iter().enumerate().filter(|(at, (of, _))| *of == number && none_of(&late[*at..]).is_some())
        {
            places.push([Some(rules::host(&own.regex)), none_of(&late[..at])].into_iter().flatten().collect());
        }
        places.push(others.into_iter().collect());
    }
    places
}

fn note_default(server: &Server<'_>, world: &mut World<'_>) {
    for directive in server.directive.inner().iter().filter(|d| d.name() == "server_name") {
        let reason =
            "the first server of an address takes every host that no other has, in NGINX too: its routes have no host";
        world.ledger.dropped(directive.line, reason);
    }
}

/// Line of the default server of an address: it gets the requests that no other server matches.
fn default_of(key: &(String, bool), servers: &[Server<'_>]) -> Option<Line> {
    let of_address = |server: &&Server<'_>| server.has(key);
    let named = servers.iter().find(|s| s.listens.iter().any(|l| l.is_at(key) && l.is_default));
    named.or(servers.iter().find(of_address)).map(|server| server.directive.line)
}

impl<'d> Server<'d> {
    /// True if the server listens at an address.
    fn has(&self, key: &(String, bool)) -> bool {
        self.listens.iter().any(|listen| listen.is_at(key))
    }

    fn read(directive: &'d Directive, world: &mut World<'d>) -> Server<'d> {
        world.ledger.carried(directive.line);
        let mut listens: Vec<Listen> = Vec::new();
        let mut has_listen = false;
        for line in directive.inner().iter().filter(|d| d.name() == "listen") {
            has_listen = true;
            if let Some(listen) = listen(line, world) {
                match listens.iter_mut().find(|other| other.key() == listen.key()) {
                    Some(other) => other.join(&listen),
                    None => listens.push(listen),
                }
            }
        }
        if !has_listen {
            listens.push(Listen {
                address: "[::]:80".into(),
                families: [true, false],
                is_tls: false,
                is_default: false,
                takes_proxy: false,
                is_h2c: false,
                is_quic: false,
                is_stream: true,
            });
        }
        let mut server = Server {
            directive,
            listens,
            names: Vec::new(),
            late: Vec::new(),
            is_unknown: false,
            name: "server".to_string(),
        };
        for line in directive.inner().iter().filter(|d| d.name() == "server_name") {
            server.names(line, world);
        }
        server
    }

    fn names(&mut self, directive: &Directive, world: &mut World<'_>) {
        world.ledger.carried(directive.line);
        for name in directive.from(1) {
            let lower = name.to_ascii_lowercase();
            match lower.as_str() {
                // Names that no request has.
                "" | "_" | "--" | "!@#" => {}
                "localhost" if directive.words.len() == 2 => {}
                "$hostname" => world.ledger.changes(
                    directive.line,
                    "`$hostname` is the name of the machine",
                    "write it in match.host",
                ),
                _ if name.starts_with('~') => match written(&name[1..]) {
                    Ok(regex) => self.late.push(Late { length: 0, regex }),
                    Err(reason) => {
                        let reason = format!("{reason}: every host that it may be is refused");
                        let todo = "write match.host, or header = { Host = { regex = \"...\" } }";
                        world.ledger.decide(directive.line, reason, todo);
                        self.is_unknown = true;
                        self.late.push(Late { length: 0, regex: ".*".into() });
                    }
                },
                lower if lower.ends_with(".*") => {
                    let start = lower.trim_end_matches('*');
                    self.late.push(Late { length: lower.len(), regex: format!("^{}", escape(start)) });
                }
                lower if lower.starts_with('.') => self.names.extend([lower[1..].to_string(), format!("*{lower}")]),
                lower => self.names.push(lower.to_string()),
            }
        }
        if let Some(first) = self.names.first() {
            self.name = name_of(&first.trim_start_matches("*.").replace('.', "-").replace("${", "").replace('}', ""));
        }
    }

    /// Variables at the beginning of the server's rules.
    fn scope(&self, world: &World<'d>) -> Scope {
        let mut names = Vec::new();
        let mut open: Vec<&Directive> = self.directive.inner().iter().collect();
        while let Some(directive) = open.pop() {
            if directive.name() == "set" {
                names.push(directive.word(1).trim_start_matches('$').to_string());
            }
            open.extend(directive.inner());
        }
        let mut scope = Scope::new(Rc::clone(&world.tables), names);
        let first = self.directive.inner().iter().find(|d| d.name() == "server_name").map_or("", |d| d.word(1));
        let name = match first.strip_prefix('~') {
            Some(regex) => regex.to_string(),
            None => first.trim_start_matches('.').to_ascii_lowercase(),
        };
        scope.set("server_name", &name);
        scope
    }

    /// Routes of the server for each group of paths, without hosts and listeners.
    fn routes(
        &self,
        http: &'d [Directive],
        others: OtherNames,
        refused: Refused,
        world: &mut World<'d>,
    ) -> Vec<Vec<Route>> {
        let levels: Vec<&'d [Directive]> = vec![http, self.directive.inner()];
        let tree = Tree::read(&levels);
        world.services = super::filters::asked(&levels, &tree);
        let scope = self.scope(world);
        let port =
            self.listens.first().and_then(|listen| listen.address.rsplit(':').next()?.parse().ok()).unwrap_or(80);
        let mut routes = Routes::new(world, &tree, self.name.clone(), port);
        routes.others = others;
        let has = |is_tls: bool| self.listens.iter().any(|listen| listen.is_tls == is_tls);
        let is_mixed = has(true) && has(false) && !self.is_unknown;
        routes.refuse(refused, &scope, is_mixed, self.directive.line);
        routes.server(&levels, scope, self.directive.line);
        let (pages, groups) = (routes.pages, routes.groups);
        world.target.routes.extend(pages);
        for named in tree.named.values() {
            if !world.ledger.is_settled(named.directive.line) {
                world.ledger.dropped(named.directive.line, "nothing leads to it that was carried over");
                settle_all(named.directive.inner(), "its location is not used", world);
            }
        }
        unreached(self.directive.inner(), world);
        groups
    }
}

/// Settles locations that no request reaches.
fn unreached(level: &[Directive], world: &mut World<'_>) {
    for directive in level.iter().filter(|d| d.name() == "location") {
        if !world.ledger.is_settled(directive.line) {
            world.ledger.dropped(directive.line, "NGINX never comes to it: other lines take its requests");
            settle_all(directive.inner(), "its location is not reached", world);
        }
        unreached(directive.inner(), world);
    }
}

fn settle_all(directives: &[Directive], reason: &str, world: &mut World<'_>) {
    for directive in directives {
        if !world.ledger.is_settled(directive.line) {
            world.ledger.dropped(directive.line, reason);
        }
        settle_all(directive.inner(), reason, world);
    }
}

/// Listeners by their addresses, and the requests that each server refuses by its settings of TLS.
type Listeners = (Vec<((String, bool), Listener)>, Vec<Refused>);

fn listeners(http: &[Directive], servers: &[Server<'_>], world: &mut World<'_>) -> Listeners {
    let mut listeners: Vec<((String, bool), Listener)> = Vec::new();
    let mut refused = vec![Refused::None; servers.len()];
    for (number, server) in servers.iter().enumerate() {
        let levels: [&[Directive]; 2] = [http, server.directive.inner()];
        for listen in &server.listens {
            let key = listen.key();
            let at = listeners.iter().position(|(other, _)| *other == key).unwrap_or_else(|| {
                let name = listener_name(&key, &listeners);
                let bind = binds(&key, servers, world);
                listeners.push((key.clone(), Listener { name, bind: vec![bind], ..Listener::default() }));
                listeners.len() - 1
            });
            let is_default = default_of(&key, servers) == Some(server.directive.line);
            if server.is_unknown && !is_default || listen.is_tls && rejects(&levels) {
                refused[number] = Refused::All;
            }
            let listener = &mut listeners[at].1;
            if listen.is_h2c {
                listener.set.put(key!("h2c"), true);
            }
            client_times(&levels, listener, world);
            heads(&levels, is_default, listener, world);
            proxies_in_front(&levels, listen, listener, world);
            if listen.is_tls {
                tls::read(&levels, is_default, listener, world);
            }
            if listen.is_quic {
                quic(&levels, listen, listener, world);
            }
        }
    }
    for (key, listener) in listeners.iter_mut().filter(|(key, _)| key.1) {
        let here: Vec<usize> = (0..servers.len()).filter(|number| servers[*number].has(key)).collect();
        let levels = here.iter().map(|number| vec![http, servers[*number].directive.inner()]).collect::<Vec<_>>();
        for (number, own) in here.iter().zip(tls::client_certificates(&levels, listener, world)) {
            refused[*number] = refused[*number].max(own);
        }
        let mut listens = here.iter().flat_map(|number| servers[*number].directive.inner());
        if !listener.set.has(key!("tls.certificates")) {
            listener.set.put(key!("tls.self_signed"), true);
            if let Some(directive) = listens.clone().find(|d| d.name() == "listen") {
                let todo = "write tls = { certificates = [{ cert = \"FILE.pem\", key = \"FILE.key\" }] }";
                world.ledger.decide(directive.line, "no certificate was carried over: a self-signed one is used", todo);
            }
        }
        if listener.drop_impossible_h3()
            && let Some(directive) = listens.find(|d| is_of_quic(d))
        {
            let reason = "HTTP/3 is off, as the listener requires the PROXY protocol, which QUIC does not have";
            world.ledger.changes(directive.line, reason, "a listener with another address for HTTP/3");
        }
    }
    (listeners, refused)
}

fn rejects(levels: &[&[Directive]]) -> bool {
    single(levels, "ssl_reject_handshake").is_some_and(|d| d.word(1) == "on")
}

/// Address that a listener binds: `[::]` has both families, and is used where any server has IPv6.
fn binds(key: &(String, bool), servers: &[Server<'_>], world: &mut World<'_>) -> String {
    let Some(port) = key.0.strip_prefix("[::]:") else { return key.0.clone() };
    let of = |server: &Server<'_>| {
        let own = server.listens.iter().filter(|listen| listen.is_at(key));
        own.fold([false, false], |all, listen| [all[0] | listen.families[0], all[1] | listen.families[1]])
    };
    let has_six = servers.iter().any(|server| of(server)[1]);
    for server in servers.iter().filter(|server| has_six && server.has(key) && of(server) != [true, true]) {
        let family = if of(server)[0] { "IPv4" } else { "IPv6" };
        let line =
            server.directive.inner().iter().find(|d| d.name() == "listen").map_or(server.directive.line, |d| d.line);
        let reason = format!("the server listens for {family} only, and its listener for both families");
        world.ledger.changes(line, reason, "bind in the listener, with the address of an interface");
    }
    if has_six { key.0.clone() } else { format!("0.0.0.0:{port}") }
}

/// Sizes and readings of heads of requests.
fn heads(levels: &[&[Directive]], is_default: bool, listener: &mut Listener, world: &mut World<'_>) {
    const MOST: u64 = 128 << 10;
    if let Some(directive) = single(levels, "large_client_header_buffers") {
        let total = directive.word(1).parse::<u64>().ok().zip(parse_size(directive.word(2)));
        match total.and_then(|(number, bytes)| number.checked_mul(bytes)) {
            Some(total) => {
                listener.set.put(key!("limits.headers"), size(total.clamp(1 << 10, MOST)));
                world.ledger.carried(directive.line);
                if total > MOST {
                    let reason = "heads of requests have 128 KiB at most";
                    world.ledger.changes(directive.line, reason, "nothing, unless clients send larger ones");
                }
            }
            None => {
                world.ledger.changes(directive.line, "its value was not understood", "limits.headers of the listener")
            }
        }
    }
    if let Some(directive) = single(levels, "underscores_in_headers") {
        world.ledger.carried(directive.line);
        // NGINX has the setting of the default server.
        if is_default {
            listener.set.put(key!("underscores"), if directive.word(1) == "on" { "keep" } else { "drop" });
        }
    }
    if let Some(directive) = single(levels, "merge_slashes") {
        world.ledger.carried(directive.line);
        if directive.word(1) == "off" {
            listener.set.put(key!("paths"), "refuse");
            let reason = "a path that chooses another route by another reading gets a 400, where NGINX keeps `//`";
            world.ledger.changes(directive.line, reason, "nothing, unless clients send such paths");
        }
    }
}

fn listener_name(key: &(String, bool), others: &[((String, bool), Listener)]) -> String {
    let port = key.0.rsplit(':').next().unwrap_or_default().trim_matches(['$', '{', '}']);
    let base = match (port, key.1) {
        ("80", false) => "http".to_string(),
        ("443", true) => "https".to_string(),
        (port, false) => format!("http-{port}"),
        (port, true) => format!("https-{port}"),
    };
    let taken = |name: &str| others.iter().any(|(_, listener)| listener.name == name);
    let mut name = base.clone();
    let mut number = 1;
    while taken(&name) {
        number += 1;
        name = format!("{base}-{number}");
    }
    name
}

fn client_times(levels: &[&[Directive]], listener: &mut Listener, world: &mut World<'_>) {
    for (name, key) in [
        ("keepalive_timeout", key!("timeouts.client_idle")),
        ("client_header_timeout", key!("timeouts.client_header")),
        ("client_body_timeout", key!("timeouts.client_body")),
    ] {
        let Some(directive) = single(levels, name) else { continue };
        match milliseconds(directive.word(1)) {
            Some(0) if name == "keepalive_timeout" => {
                listener.set.put(key!("limits.requests_per_connection"), 1);
                world.ledger.carried(directive.line);
            }
            Some(ms) => {
                let (value, note) = timeout(key, ms);
                let before = listener.set.get(key).cloned();
                match before.is_some_and(|before| before != value) {
                    true => world.ledger.changes(
                        directive.line,
                        "times of clients are those of a listener: the first server's counts",
                        "set timeouts of the listener",
                    ),
                    false => drop(listener.set.put(key, value)),
                }
                world.ledger.carried(directive.line);
                if let Some(note) = note {
                    world.ledger.changes(directive.line, note, "nothing, unless the limit is reached");
                }
            }
            None => world.ledger.changes(directive.line, "its value was not understood", format!("set {key}")),
        }
    }
}

fn proxies_in_front(levels: &[&[Directive]], listen: &Listen, listener: &mut Listener, world: &mut World<'_>) {
    let key: KeyOf<plan::Listener> =
        if listen.takes_proxy { key!("accept_proxy_protocol") } else { key!("trusted_proxies") };
    let networks = group(levels, "set_real_ip_from");
    for directive in &networks {
        match directive.word(1) {
            "unix:" => world.ledger.dropped(directive.line, "clients do not connect by Unix sockets"),
            network => {
                listener.set.push(key, network);
                world.ledger.carried(directive.line);
            }
        }
    }
    if listen.takes_proxy && networks.is_empty() {
        listener.set.put(key, vec!["0.0.0.0/0", "::/0"]);
        let listens = levels[1].iter().find(|d| d.name() == "listen" && d.words.iter().any(|w| w == "proxy_protocol"));
        if let Some(directive) = listens {
            let todo = "name only the networks of the balancers in front in accept_proxy_protocol";
            world.ledger.changes(directive.line, "the PROXY protocol is required from every address, as there", todo);
        }
    }
    if let Some(directive) = single(levels, "real_ip_header") {
        match directive.word(1).to_ascii_lowercase().as_str() {
            "x-forwarded-for" | "proxy_protocol" => world.ledger.carried(directive.line),
            _ => world.ledger.changes(
                directive.line,
                "the client's address is taken from X-Forwarded-For or Forwarded",
                "have the proxy in front send one of them",
            ),
        }
    }
}
