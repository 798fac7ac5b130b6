//! Traefik: its dynamic file as YAML or TOML, and labels of a compose file, which are the same keys in another place.

// Order: middleware, auth, service, nested, effect, router, rule, labels
mod auth;
mod effect;
mod labels;
mod middleware;
mod nested;
mod router;
mod rule;
mod service;

use crate::ledger::{Ledger, Line};
use crate::model::{
    Action, Apart, Cond, Draft, Key, Listener, Match, Route, Target, Test, Value, braced, cert_files, name_of,
};
use crate::place::Place;
use crate::tree::{self, Node};
use effect::{Effect, Move};
use router::Router;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Reason and advice for keys that no part of the translation reads.
const UNKNOWN: (&str, &str) =
    ("this key has no counterpart", "look it up in the manual of Traefik, and in the reference of keys here");

/// An entry point that becomes a listener.
#[derive(Default)]
struct Entry {
    bind: Option<String>,
    is_tls: bool,
    redirects: bool,
    acme: Vec<String>,
}

/// Reads a dynamic file or a compose file into a draft of the output.
pub(crate) fn translate(text: &str, file: &Arc<str>, ledger: &mut Ledger) -> Target {
    let root = tree::read(text, file, ledger);
    let labelled = root.get("services").is_some_and(|services| !services.entries().is_empty());
    let gathered = labelled.then(|| labels::gather(&root, ledger));
    let dynamic = gathered.as_ref().unwrap_or(&root);
    let mut target = Target::default();
    let routers = routers(dynamic, ledger);
    let mut entries = entries(dynamic, &routers, ledger);
    let mut routes = Vec::new();
    for router in &routers {
        router.read(dynamic, &mut entries, &mut routes, &mut target, ledger);
    }
    crate::reconcile::reconcile(&mut routes, "Traefik", None, ledger);
    target.routes = routes;
    listeners(dynamic, entries, &mut target, ledger);
    leftovers(dynamic, ledger);
    root.lost(UNKNOWN.0, UNKNOWN.1, ledger);
    target
}

/// Routers of HTTP, in the order in which Traefik tries them.
fn routers<'n>(dynamic: &'n Node, ledger: &mut Ledger) -> Vec<Router<'n>> {
    let mut routers = Vec::new();
    for (name, node) in dynamic.at("http.routers").map_or(&[][..], Node::entries) {
        let length = node.at("rule").and_then(Node::text).map_or(0, str::len) as u64;
        let priority = node.take("priority", ledger).and_then(|priority| priority.parse().ok()).filter(|n| *n > 0);
        routers.push(Router {
            name,
            line: node.get("rule").map_or(node.line, |rule| rule.line),
            node,
            entry_points: node.texts("entryPoints", ledger),
            priority: priority.unwrap_or(length),
            is_tls: node.get("tls").is_some_and(|tls| tls.text() != Some("false")),
        });
    }
    // The sort keeps the order of the file where priorities are equal.
    routers.sort_by_key(|router| std::cmp::Reverse(router.priority));
    routers
}

fn entries(dynamic: &Node, routers: &[Router<'_>], ledger: &mut Ledger) -> BTreeMap<String, Entry> {
    let mut entries: BTreeMap<String, Entry> = BTreeMap::new();
    for (name, node) in dynamic.get("entryPoints").map_or(&[][..], Node::entries) {
        let address = node.take("address", ledger).unwrap_or_default().to_string();
        let is_tls = node.at("http.tls").is_some();
        let redirects = node.at("http.redirections.entryPoint");
        if let Some(to) = redirects {
            to.carried(ledger);
            let reason = "the redirect is answered by 308, on port 443";
            ledger.changes(to.line, reason, "nothing, unless HTTPS has another port");
        }
        if let Some(tls) = node.at("http.tls") {
            tls.carried(ledger);
        }
        let bind = match address.split_once('/').map_or(address.as_str(), |(address, _)| address) {
            port if port.starts_with(':') => format!("[::]{port}"),
            address => address.to_string(),
        };
        let bind = bind.parse::<std::net::SocketAddr>().is_ok().then_some(bind);
        if bind.is_none() {
            ledger.changes(node.line, "it is not an address to listen at", "set bind of the listener");
        }
        entries.insert(name.clone(), Entry { bind, is_tls, redirects: redirects.is_some(), acme: Vec::new() });
    }
    for router in routers {
        let named = if router.entry_points.is_empty() { vec!["web".to_string()] } else { router.entry_points.clone() };
        for name in named {
            let is_new = !entries.contains_key(&name);
            let entry = entries.entry(name.clone()).or_default();
            entry.is_tls |= router.is_tls || is_new && name == "websecure";
            if !is_new || entry.bind.is_some() {
                continue;
            }
            let (bind, known) = match name.as_str() {
                "web" | "http" => ("[::]:80", true),
                "websecure" | "https" => ("[::]:443", true),
                _ => ("[::]:8080", false),
            };
            entry.bind = Some(bind.to_string());
            let line = router.node.get("entryPoints").map_or(router.line, |node| node.line);
            if !known {
                let reason = format!(
                    "the address of the entry point \"{name}\" stands in the static file: port 8080 is a guess"
                );
                ledger.changes(line, reason, "set bind of the listener");
            }
        }
    }
    entries
}

impl Router<'_> {
    fn read(
        &self,
        dynamic: &Node,
        entries: &mut BTreeMap<String, Entry>,
        routes: &mut Vec<Route>,
        target: &mut Target,
        ledger: &mut Ledger,
    ) {
        let rule = self.node.take("rule", ledger).unwrap_or_default();
        let mut is_closed = false;
        let matches = match rule::read(rule) {
            Ok(matches) => matches,
            // A middleware may protect its requests, which must not reach another router.
            Err(reason) if self.node.get("middlewares").is_some() => {
                is_closed = true;
                let reason =
                    format!("the rule cannot be written: {reason}: all clients are refused that it may concern");
                ledger.changes(self.line, reason, "write a [[route]] by hand");
                rule::widest(rule)
            }
            Err(reason) => {
                ledger.decide(self.line, format!("the rule cannot be written: {reason}"), "write a [[route]] by hand");
                return self.node.lost("its router was not carried over", "write the [[route]] by hand", ledger);
            }
        };
        if matches.is_empty() {
            ledger.dropped(self.line, "no request fulfils the rule");
        }
        let effect = self.effect(dynamic, target, ledger);
        let names: Vec<String> =
            if self.entry_points.is_empty() { vec!["web".to_string()] } else { self.entry_points.clone() };
        self.tls(&matches, &names, entries, ledger);
        let service = self.node.take("service", ledger).unwrap_or_default();
        let (action, mut set) = match &effect.action {
            Some(action) => (action.clone(), Draft::default()),
            None if service.ends_with("@internal") => {
                return ledger.changes(
                    self.line,
                    "Traefik's own pages are not here",
                    "the dashboard of [admin], for this machine",
                );
            }
            None => match service::read(service, dynamic.at("http.services"), self, target, ledger) {
                Some(service) => (service.action, service.set),
                None => return,
            },
        };
        set.merge(&effect.set);
        // Entry points that redirect everything have no routes.
        let serving: Vec<String> = names
            .iter()
            .filter(|name| entries.get(*name).is_none_or(|entry| !entry.redirects))
            .map(|name| name_of(name))
            .collect();
        if serving.is_empty() {
            return ledger.dropped(self.line, "its entry points redirect every request");
        }
        for matching in matches {
            for (mut matching, place) in moved(matching, &effect.moves, self.line, ledger) {
                let mut set = set.clone();
                if matches!(action, Action::Pool(_) | Action::Split(_)) {
                    place.put(None, &mut set);
                }
                if is_closed {
                    crate::protection::close(&mut set);
                }
                matching.conds.insert(0, Cond::one_of(Key::Listener, serving.iter().cloned()));
                routes.push(Route {
                    name: self.name.to_string(),
                    comments: Vec::new(),
                    matching,
                    action: action.clone(),
                    set,
                    line: self.line,
                });
            }
        }
    }

    fn effect(&self, dynamic: &Node, target: &mut Target, ledger: &mut Ledger) -> Effect {
        let mut effect = Effect::default();
        for name in self.node.texts("middlewares", ledger) {
            if !middleware::apply(&name, dynamic.at("http.middlewares"), &mut effect, 0, target, ledger) {
                let line = self.node.get("middlewares").map_or(self.line, |node| node.line);
                let reason =
                    format!("the middleware \"{name}\" is not in this file, and may be what protects these requests");
                effect.is_closed = true;
                ledger.decide(line, format!("{reason}: all clients are refused"), "convert the file that has it, too");
            }
        }
        effect::settle(&mut effect);
        effect
    }

    /// Names of certificates that a resolver is asked for.
    fn tls(&self, matches: &[Match], names: &[String], entries: &mut BTreeMap<String, Entry>, ledger: &mut Ledger) {
        let Some(tls) = self.node.get("tls") else { return };
        if tls.take("certResolver", ledger).is_some() {
            let hosts = matches.iter().filter_map(|matching| match matching.find(&Key::Host) {
                Some(Test::OneOf(hosts)) => Some(hosts.clone()),
                _ => None,
            });
            let hosts: Vec<String> = hosts.flatten().collect();
            for name in names {
                if let Some(entry) = entries.get_mut(name) {
                    entry.acme.extend(hosts.iter().filter(|host| !host.contains('*')).cloned());
                }
            }
        }
        for key in ["options", "domains"] {
            if let Some(node) = tls.get(key) {
                node.lost("TLS is set for the listener", "tls of the listener", ledger);
            }
        }
        tls.carried(ledger);
    }
}

/// Requests by the path that endpoints get, behind all changes of it. In their order.
fn moved(matching: Match, moves: &[Move], line: Line, ledger: &mut Ledger) -> Vec<(Match, Place)> {
    let mut states = vec![(matching, Place::default())];
    for change in moves {
        let mut next = Vec::new();
        for (matching, place) in states {
            let place = match change {
                Move::Strip(prefixes) => {
                    next.extend(stripped(matching, &place, prefixes));
                    continue;
                }
                Move::Add(prefix) => place.rewritten(&format!("{}{{path}}", braced(prefix))),
                Move::Replace(path) => Place::Fixed(path.clone()),
                Move::Search { search, to } if place.is_original() => {
                    Place::Searched { search: search.clone(), to: to.clone() }
                }
                Move::Search { .. } => Place::Unknown,
            };
            next.push((matching, place));
        }
        states = next;
    }
    if states.iter().any(|(_, place)| *place == Place::Unknown) {
        let reason = "a route has one rewrite, and its middlewares have several";
        ledger.changes(line, reason, "rewrite of the [[route]]");
    }
    states
}

/// Requests with the first prefix that they have, and at the end those with none of them.
fn stripped(matching: Match, place: &Place, prefixes: &[String]) -> Vec<(Match, Place)> {
    let mut all = Vec::new();
    for prefix in prefixes {
        let Some((cond, behind)) = place.stripped(prefix) else { continue };
        let Some(cond) = cond else {
            all.push((matching, behind));
            return all;
        };
        let begins = Match::of([cond]);
        if matching.implies(&begins) {
            all.push((matching, behind));
            return all;
        }
        match matching.and(&begins) {
            Ok(both) => all.push((both, behind)),
            Err(Apart::Never) => {}
            Err(Apart::Unwritable) => return vec![(matching, Place::Unknown)],
        }
    }
    all.push((matching, place.clone()));
    all
}

fn listeners(dynamic: &Node, entries: BTreeMap<String, Entry>, target: &mut Target, ledger: &mut Ledger) {
    let mut files: Vec<Value> = Vec::new();
    for certificate in dynamic.at("tls.certificates").map_or(&[][..], Node::list) {
        if let (Some(cert), Some(key)) = (certificate.take("certFile", ledger), certificate.take("keyFile", ledger)) {
            files.push(cert_files(cert, key));
        }
        certificate.dropped("certificates are chosen by the names in them", ledger);
    }
    for (name, entry) in entries {
        let Some(bind) = entry.bind else { continue };
        let mut listener = Listener { name: name_of(&name), bind: vec![bind], ..Listener::default() };
        if entry.redirects {
            listener.set.put(key!("redirect_https"), true);
        } else if entry.is_tls && !listener.certify(files.clone(), entry.acme) {
            listener.comments.push("No certificate is in the input: this one is self-signed.".to_string());
        }
        target.listeners.push(listener);
    }
    target
        .routes
        .retain(|route| !matches!(&route.action, Action::Pool(pool) if !target.pools.iter().any(|p| p.name == *pool)));
}

fn leftovers(dynamic: &Node, ledger: &mut Ledger) {
    for (path, reason, todo) in [
        (
            "tcp",
            "routers of TCP are not carried over",
            "a listener with mode = \"tcp\", and routes by host for server names",
        ),
        ("udp", "routers of UDP are not carried over", "a listener with mode = \"udp\" and its pool"),
        (
            "tls.options",
            "options of TLS are those of the listener",
            "tls.min_version and tls.client_auth of the listener",
        ),
        ("tls.stores", "the first certificate is used where none fits", "order tls.certificates of the listener"),
        ("http.serversTransports", "settings of connections to endpoints stand in the pool", "tls of the pool"),
        ("providers", "configuration is read from one file", "include, or the whole in one file"),
        ("certificatesResolvers", "the authority of certificates is set in [acme]", "[acme] with directory and email"),
        ("accessLog", "the access log is off unless it is set", "telemetry.access_log.path = \"stdout\""),
        ("metrics", "metrics are at /metrics of the admin listener", "admin.http.bind"),
    ] {
        if let Some(node) = dynamic.at(path) {
            node.lost(reason, todo, ledger);
        }
    }
    for (path, reason) in [
        ("http.middlewares", "no router uses it"),
        ("http.services", "no router leads to it"),
        ("log", "the log of the process is on standard error"),
        ("api", "the dashboard is the one of [admin]"),
        ("global", "it is about Traefik's own process"),
    ] {
        if let Some(node) = dynamic.at(path) {
            node.dropped(reason, ledger);
        }
    }
    if let Some(points) = dynamic.get("entryPoints") {
        points.lost("this setting of an entry point has no counterpart", "see the keys of a listener", ledger);
    }
}
