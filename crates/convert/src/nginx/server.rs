//! `server` blocks: listeners by address, hosts, TLS, and the routes of each.

use super::lexer::Directive;
use super::listen::{Listen, listen};
use super::location::{Locations, Routes};
use super::time::milliseconds;
use super::variable::{self, Constants};
use super::world::{World, group, single};
use crate::ledger::Line;
use crate::limits::timeout;
use crate::model::{Action, Cond, Draft, Key, Listener, Match, Route, Test, Value, cert_files, name_of};
use evenkeel_config::draft::KeyOf;
use evenkeel_config::plan::{self, ErrorPage};
use std::collections::BTreeMap;

/// A server with its addresses and hosts.
struct Server<'d> {
    directive: &'d Directive,
    listens: Vec<Listen>,
    hosts: Vec<Cond>,
    name: String,
}

/// Translates all servers of the HTTP level.
pub(super) fn translate<'d>(servers: &[&'d Directive], http: &'d [Directive], world: &mut World<'d>) {
    let servers: Vec<Server<'d>> = servers.iter().map(|directive| Server::read(directive, world)).collect();
    let defaults = defaults(&servers);
    let mut listeners = listeners(http, &servers, &defaults, world);
    let mut redirected: BTreeMap<usize, bool> = BTreeMap::new();
    let mut all: Vec<Vec<Route>> = Vec::new();
    for server in &servers {
        let routes = server.routes(http, world);
        let only_https = is_to_https(&routes);
        for (index, _) in
            listeners.iter().enumerate().filter(|(_, (key, _))| server.listens.iter().any(|l| l.key() == *key))
        {
            let entry = redirected.entry(index).or_insert(true);
            *entry &= only_https;
        }
        all.push(routes);
    }
    for (index, (_, listener)) in listeners.iter_mut().enumerate() {
        let is_plain = !listener.set.has(key!("tls"));
        if redirected.get(&index) == Some(&true) && is_plain {
            listener.set.put(key!("redirect_https"), true);
        }
    }
    for (server, routes) in servers.iter().zip(all) {
        place(server, routes, &defaults, &listeners, world);
    }
    world.target.listeners.extend(listeners.into_iter().map(|(_, listener)| listener));
}

/// True if the only route redirects every request to the same URL over HTTPS.
fn is_to_https(routes: &[Route]) -> bool {
    let [route] = routes else { return false };
    let Action::Redirect(to) = &route.action else { return false };
    let plain = |(key, value): (&str, &Value)| match key {
        "scheme" => *value == "https".into(),
        "keep_query" => *value == true.into(),
        "status" => true,
        _ => false,
    };
    route.matching.conds.is_empty() && to.has(key!("scheme")) && to.entries().iter().all(plain)
}

/// Puts the routes of a server into its listeners and hosts.
fn place(
    server: &Server<'_>,
    mut routes: Vec<Route>,
    defaults: &Defaults,
    listeners: &[((String, bool), Listener)],
    world: &mut World<'_>,
) {
    crate::reconcile::reconcile(&mut routes, "NGINX", None, world.ledger);
    let own: Vec<&((String, bool), Listener)> =
        listeners.iter().filter(|(key, _)| server.listens.iter().any(|l| l.key() == *key)).collect();
    let (redirecting, serving): (Vec<_>, Vec<_>) =
        own.into_iter().partition(|(_, listener)| listener.set.has(key!("redirect_https")));
    if !redirecting.is_empty() && serving.is_empty() {
        let reason = "the redirect is answered by 308, with which clients repeat a POST as a POST, and for every host";
        return world.ledger.changes(routes[0].line, reason, "nothing, unless clients older than 2014 matter");
    }
    let is_default = |key: &(String, bool)| defaults.get(key) == Some(&server.directive.line);
    let (defaults, others): (Vec<_>, Vec<_>) = serving.into_iter().partition(|(key, _)| is_default(key));
    let is_all = listeners.len() == defaults.len() + others.len();
    let names =
        |of: &[&((String, bool), Listener)]| of.iter().map(|(_, listener)| listener.name.clone()).collect::<Vec<_>>();
    if !defaults.is_empty() {
        let all = is_all && others.is_empty();
        add(&routes, &names(&defaults), all, &[], world);
        if !server.hosts.is_empty() {
            note_default(server, world);
        }
    }
    if !others.is_empty() {
        if server.hosts.is_empty() {
            return world.ledger.changes(
                server.directive.line,
                "it has no name and is not the first of its address, so NGINX never takes it",
                "remove it, or give it a host",
            );
        }
        for host in &server.hosts {
            add(&routes, &names(&others), is_all && defaults.is_empty(), std::slice::from_ref(host), world);
        }
    }
}

fn note_default(server: &Server<'_>, world: &mut World<'_>) {
    for directive in server.directive.inner().iter().filter(|d| d.name() == "server_name") {
        let reason =
            "the first server of an address takes every host that no other has, in NGINX too: its routes have no host";
        world.ledger.dropped(directive.line, reason);
    }
}

/// Lines of the default servers of addresses: they get the requests that no other server matches.
type Defaults = BTreeMap<(String, bool), Line>;

fn defaults(servers: &[Server<'_>]) -> Defaults {
    let mut defaults = Defaults::new();
    for wanted in [true, false] {
        for server in servers {
            for listen in server.listens.iter().filter(|listen| listen.is_default || !wanted) {
                defaults.entry(listen.key()).or_insert(server.directive.line);
            }
        }
    }
    defaults
}

fn add(routes: &[Route], listeners: &[String], all_listeners: bool, host: &[Cond], world: &mut World<'_>) {
    for route in routes {
        let mut own = Match::default();
        if !all_listeners {
            own.conds.push(Cond::one_of(Key::Listener, listeners.iter().cloned()));
        }
        own.conds.extend(host.iter().cloned());
        match own.and(&route.matching) {
            Ok(matching) => world.target.routes.push(Route { matching, ..route.clone() }),
            // A condition on the host that its own server never sees.
            Err(_) => world.ledger.dropped(route.line, "no request of this server fulfils it"),
        }
    }
}

impl<'d> Server<'d> {
    fn read(directive: &'d Directive, world: &mut World<'d>) -> Server<'d> {
        world.ledger.carried(directive.line);
        let mut listens: Vec<Listen> = Vec::new();
        let mut has_listen = false;
        for line in directive.inner().iter().filter(|d| d.name() == "listen") {
            has_listen = true;
            if let Some(listen) = listen(line, world) {
                match listens.iter_mut().find(|other| other.key() == listen.key()) {
                    Some(other) => other.is_default |= listen.is_default,
                    None => listens.push(listen),
                }
            }
        }
        if !has_listen {
            listens.push(Listen {
                address: "[::]:80".into(),
                is_tls: false,
                is_default: false,
                takes_proxy: false,
                is_h2c: false,
            });
        }
        let mut server = Server { directive, listens, hosts: Vec::new(), name: "server".to_string() };
        for line in directive.inner().iter().filter(|d| d.name() == "server_name") {
            server.names(line, world);
        }
        server
    }

    fn names(&mut self, directive: &Directive, world: &mut World<'_>) {
        let mut hosts: Vec<String> = Vec::new();
        world.ledger.carried(directive.line);
        for name in directive.from(1) {
            let name = name.to_ascii_lowercase();
            let prefixed = |text: String| Cond::new(Key::Header("Host".into()), Test::Begins(text));
            match name.as_str() {
                "_" | "" | "localhost" | "--" | "!@#" if directive.words.len() == 2 && name != "localhost" => {}
                "$hostname" => world.ledger.changes(
                    directive.line,
                    "`$hostname` is the name of the machine",
                    "write it in match.host",
                ),
                name if name.starts_with('~') => match crate::expression::foreign(&name[1..]) {
                    Ok(()) => self.hosts.push(Cond::new(
                        Key::Header("Host".into()),
                        Test::Regex(crate::expression::whole(&directive_regex(directive, name), true)),
                    )),
                    Err(reason) => world.ledger.changes(
                        directive.line,
                        reason,
                        "write match.host, or header = { Host = { regex = \"...\" } }",
                    ),
                },
                name if name.ends_with(".*") => self.hosts.push(prefixed(name.trim_end_matches('*').to_string())),
                name if name.starts_with('.') => hosts.extend([name[1..].to_string(), format!("*{name}")]),
                "_" | "" => {}
                name => hosts.push(name.to_string()),
            }
        }
        if let Some(first) = hosts.first() {
            self.name = name_of(&first.trim_start_matches("*.").replace('.', "-").replace("${", "").replace('}', ""));
            self.hosts.insert(0, Cond::one_of(Key::Host, hosts));
        }
    }

    fn constants(&self) -> Constants {
        let mut constants = Constants::new();
        let mut open: Vec<&Directive> = self.directive.inner().iter().collect();
        while let Some(directive) = open.pop() {
            if directive.name() == "set" {
                let name = directive.word(1).trim_start_matches('$').to_string();
                if let Some(value) = variable::constant(directive.word(2), &constants) {
                    constants.insert(name, value);
                }
            }
            if directive.name() != "if" {
                open.extend(directive.inner());
            }
        }
        if let Some(Cond { test: Test::OneOf(hosts), .. }) = self.hosts.first()
            && !hosts[0].starts_with('*')
        {
            constants.insert("server_name".to_string(), hosts[0].clone());
        }
        constants
    }

    /// Routes in the order in which NGINX tries them, without hosts and listeners.
    fn routes(&self, http: &'d [Directive], world: &mut World<'d>) -> Vec<Route> {
        let levels: Vec<&'d [Directive]> = vec![http, self.directive.inner()];
        let locations = Locations::collect(&levels);
        let (services, internal) = locations.services(&levels);
        world.services = services;
        let constants = self.constants();
        let mut routes = Routes {
            world,
            constants: &constants,
            named: &locations.named,
            exact: locations.exact_paths(),
            routes: Vec::new(),
            name: self.name.clone(),
        };
        routes.level(self.directive.inner(), &levels, &Match::default(), None, self.directive.line);
        let pages = error_pages(&locations, &levels, routes.world);
        for location in &locations.ordered {
            if !pages.1.contains(&location.directive.line) && !internal.contains(&location.directive.line) {
                routes.location(location);
            }
        }
        let mut routes = routes.routes;
        if !pages.0.is_empty() {
            for route in routes.iter_mut().filter(|route| matches!(route.action, Action::Pool(_))) {
                route.set.put(key!("error_pages"), Value::List(pages.0.clone()));
            }
        }
        for named in locations.named.values() {
            if !world.ledger.is_settled(named.directive.line) {
                world.ledger.dropped(named.directive.line, "nothing leads to it that was carried over");
                settle_all(named.directive.inner(), "its location is not used", world);
            }
        }
        routes
    }
}

fn directive_regex(directive: &Directive, lower: &str) -> String {
    // The expression as it was written: classes such as `\D` must not change.
    let original = directive.from(1).iter().find(|name| name.to_ascii_lowercase() == lower);
    let regex = original.map_or(lower, String::as_str).trim_start_matches('~').to_string();
    // Names of groups are written in another way, and not needed.
    regex.replace("(?<", "(?P<")
}

fn settle_all(directives: &[Directive], reason: &str, world: &mut World<'_>) {
    for directive in directives {
        if !world.ledger.is_settled(directive.line) {
            world.ledger.dropped(directive.line, reason);
        }
        settle_all(directive.inner(), reason, world);
    }
}

/// Pages of `error_page` that a location has on the disk, and the lines of these locations.
fn error_pages(locations: &Locations<'_>, levels: &[&[Directive]], world: &mut World<'_>) -> (Vec<Value>, Vec<Line>) {
    let (mut pages, mut used) = (Vec::new(), Vec::new());
    for directive in group(levels, "error_page") {
        let target = directive.words.last().map_or("", String::as_str);
        let statuses: Vec<u64> = directive.from(1).iter().filter_map(|word| word.parse().ok()).collect();
        let location = locations.exact(target);
        let root = location.and_then(|l| single(&l.levels, "root"));
        let is_plain = statuses.len() + 2 == directive.words.len();
        let own: Vec<u64> = statuses.iter().copied().filter(|status| (400..600).contains(status)).collect();
        match (location, root) {
            (Some(location), Some(root)) if is_plain && !own.is_empty() => {
                let file = format!("{}{target}", root.word(1).trim_end_matches('/'));
                let statuses = Value::List(own.into_iter().map(Value::Int).collect());
                pages.push(Draft::<ErrorPage>::one(key!("status"), statuses).with(key!("file"), file).into());
                used.push(location.directive.line);
                world.ledger.carried(directive.line);
                world.ledger.carried(location.directive.line);
                for inner in location.directive.inner() {
                    world.ledger.dropped_instead(inner.line, "the page is named by its file");
                }
                world.ledger.dropped(directive.line, "the page is for evenkeel's own answers; errors of endpoints pass as they are, as in NGINX without proxy_intercept_errors");
            }
            _ => {
                let todo = "error_pages = [{ status = [502], file = \"FILE.html\" }] in the [[route]]";
                world.ledger.changes(
                    directive.line,
                    "an error is answered by a page from a file, and not by another location or URL",
                    todo,
                );
            }
        }
    }
    for other in levels.iter().flat_map(|level| level.iter()).filter(|d| d.name() == "error_page") {
        if !world.ledger.is_settled(other.line) {
            world.ledger.dropped(other.line, "lines of an inner block replace it, as in NGINX");
        }
    }
    (pages, used)
}

fn listeners(
    http: &[Directive],
    servers: &[Server<'_>],
    defaults: &Defaults,
    world: &mut World<'_>,
) -> Vec<((String, bool), Listener)> {
    let mut listeners: Vec<((String, bool), Listener)> = Vec::new();
    for server in servers {
        let levels: [&[Directive]; 2] = [http, server.directive.inner()];
        for listen in &server.listens {
            let key = listen.key();
            let at = listeners.iter().position(|(other, _)| *other == key).unwrap_or_else(|| {
                let name = listener_name(&key, &listeners);
                listeners.push((key.clone(), Listener { name, bind: vec![key.0.clone()], ..Listener::default() }));
                listeners.len() - 1
            });
            let is_default = defaults.get(&key) == Some(&server.directive.line);
            let listener = &mut listeners[at].1;
            if listen.is_h2c {
                listener.set.put(key!("h2c"), true);
            }
            client_times(&levels, listener, world);
            proxies_in_front(&levels, listen, listener, world);
            if listen.is_tls {
                tls(&levels, is_default, listener, world);
            }
        }
    }
    listeners
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

fn tls(levels: &[&[Directive]], is_default: bool, listener: &mut Listener, world: &mut World<'_>) {
    let certificates = group(levels, "ssl_certificate");
    let keys = group(levels, "ssl_certificate_key");
    for (certificate, key) in certificates.iter().zip(&keys) {
        world.ledger.carried(certificate.line);
        world.ledger.carried(key.line);
        if certificate.word(1).contains('$') && !certificate.word(1).contains("${") {
            world.ledger.changes(
                certificate.line,
                "its name comes from a variable",
                "list each certificate in tls.certificates",
            );
            continue;
        }
        let entry = cert_files(certificate.word(1), key.word(1));
        match listener.set.get(key!("tls.certificates")) {
            // The first of the list is used where no name fits.
            Some(Value::List(list)) if is_default && !list.contains(&entry) => {
                let all: Vec<Value> = std::iter::once(entry).chain(list.iter().cloned()).collect();
                listener.set.put(key!("tls.certificates"), all);
            }
            _ => listener.set.push(key!("tls.certificates"), entry),
        }
    }
    if !listener.set.has(key!("tls.certificates")) {
        listener.set.put(key!("tls.self_signed"), true);
        if let Some(directive) = levels[1].iter().find(|d| d.name() == "listen") {
            let todo = "write tls = { certificates = [{ cert = \"FILE.pem\", key = \"FILE.key\" }] }";
            world.ledger.changes(directive.line, "no certificate was carried over: a self-signed one is used", todo);
        }
    } else {
        listener.set.remove(key!("tls.self_signed"));
    }
    if let Some(directive) = single(levels, "ssl_protocols") {
        let has = |version: &str| directive.from(1).iter().any(|word| word == version);
        match (has("TLSv1.2"), has("TLSv1.3")) {
            (false, true) => drop(listener.set.put(key!("tls.min_version"), "1.3")),
            _ if has("TLSv1") || has("TLSv1.1") => world.ledger.changes(
                directive.line,
                "TLS 1.2 is the oldest version that is accepted",
                "nothing, unless clients of before 2014 matter",
            ),
            _ => {}
        }
        world.ledger.carried(directive.line);
    }
    client_certificates(levels, listener, world);
}

fn client_certificates(levels: &[&[Directive]], listener: &mut Listener, world: &mut World<'_>) {
    let (Some(authority), verify) = (single(levels, "ssl_client_certificate"), single(levels, "ssl_verify_client"))
    else {
        return;
    };
    world.ledger.carried(authority.line);
    let mode = match verify.map(|d| d.word(1)) {
        Some("on") => "required",
        Some("optional" | "optional_no_ca") => "optional",
        _ => return world.ledger.dropped(authority.line, "no certificate of a client is asked for"),
    };
    if let Some(directive) = verify {
        world.ledger.carried(directive.line);
    }
    listener.set.put(key!("tls.client_auth.mode"), mode);
    listener.set.put(key!("tls.client_auth.ca"), authority.word(1));
    if let Some(list) = single(levels, "ssl_crl") {
        listener.set.put(key!("tls.client_auth.crl"), list.word(1));
        world.ledger.carried(list.line);
    }
}
