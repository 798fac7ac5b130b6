//! Traefik: its dynamic file as YAML or TOML, and labels of a compose file, which are the same keys in another place.

// Order: middleware, redirects, auth, service, nested, entry, effect, router, rule, labels
mod auth;
mod effect;
mod entry;
mod labels;
mod middleware;
mod nested;
mod redirects;
mod router;
mod rule;
mod service;

use crate::ledger::{Ledger, Line};
use crate::model::{Action, Apart, Cond, Draft, Key, Match, Route, RouteKeys, Target, Test, braced, name_of};
use crate::place::Place;
use crate::tree::{self, Kind, Node};
use effect::{Effect, Move};
use entry::Entry;
use evenkeel_config::plan::Redirect;
use router::Router;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Reason and advice for keys that no part of the translation reads.
const UNKNOWN: (&str, &str) =
    ("this key has no counterpart", "look it up in the manual of Traefik, and in the reference of keys here");

/// Number of maps in each other above the value of a name, as in `http.routers.NAME`.
const NAMES: usize = 3;

/// Reads dynamic files, a compose file or a static file into a draft of the output.
pub(crate) fn translate(texts: &[(Arc<str>, Cow<'_, str>)], ledger: &mut Ledger) -> Target {
    let mut roots = texts.iter().map(|(file, text)| tree::read(text, file, ledger)).collect::<Vec<_>>().into_iter();
    let first = roots.next().unwrap_or_else(|| Node { line: Line::none(), kind: Kind::Map(Vec::new()) });
    // Traefik skips a name that it has already.
    let root = roots.fold(first, |root, other| root.joined(other, NAMES, ledger));
    let labelled = root.get("services").is_some_and(|services| !services.entries().is_empty());
    let gathered = labelled.then(|| labels::gather(&root, ledger));
    let dynamic = gathered.as_ref().unwrap_or(&root);
    let mut target = Target::default();
    let routers = routers(dynamic, ledger);
    let mut entries = entry::read(dynamic, &routers, ledger);
    entry::put_options(dynamic, &routers, &mut entries, ledger);
    let mut routes = Vec::new();
    for router in &routers {
        router.read(dynamic, &mut entries, &mut routes, &mut target, ledger);
    }
    crate::reconcile::reconcile(&mut routes, "Traefik", None, ledger);
    target.routes = routes;
    entry::listeners(dynamic, entries, &mut target, ledger);
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
            names: match node.texts("entryPoints", ledger) {
                names if names.is_empty() => vec!["web".to_string()],
                names => names,
            },
            priority: priority.unwrap_or(length),
            is_tls: node.get("tls").is_some_and(|tls| tls.text() != Some("false")),
        });
    }
    // The sort keeps the order of the file where priorities are equal.
    routers.sort_by_key(|router| std::cmp::Reverse(router.priority));
    routers
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
        let options = entry::options(self, dynamic);
        let is_guarded = self.node.get("middlewares").is_some() || options.is_some();
        let mut is_closed = false;
        let matches = match rule::read(rule) {
            Ok(matches) => matches,
            // A middleware may protect its requests, which must not reach another router.
            Err(reason) if is_guarded => {
                is_closed = true;
                let reason =
                    format!("the rule cannot be written: {reason}: all clients are refused that it may concern");
                ledger.decide(self.line, reason, "write a [[route]] by hand");
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
        self.tls(&matches, entries, ledger);
        // Entry points that redirect everything have no routes.
        let serving: Vec<&String> =
            self.names.iter().filter(|name| entries.get(*name).is_none_or(|entry| !entry.redirects)).collect();
        if serving.is_empty() {
            self.node.dropped("its entry points redirect every request", ledger);
        }
        // Entry points at which its requests pass the same middlewares.
        let mut groups: Vec<(bool, &[String], Vec<&String>)> = Vec::new();
        for name in serving {
            let Some(entry) = entries.get(name) else { continue };
            let is_tls = self.is_tls || entry.is_tls_by_default;
            if entry.is_tls && !is_tls {
                let reason =
                    format!("without `tls`, it gets no requests of the entry point {name}, which has TLS here");
                ledger.decide(self.line, reason, "a listener without TLS at another port");
                continue;
            }
            match groups.iter_mut().find(|group| group.0 == is_tls && group.1 == entry.middlewares) {
                Some(group) => group.2.push(name),
                None => groups.push((is_tls, &entry.middlewares, vec![name])),
            }
        }
        for (is_tls, outer, names) in groups {
            let mut effect = self.effect(outer, is_tls, dynamic, target, ledger);
            if let Some(options) = options.filter(|_| is_tls) {
                entry::guard(options, &names, entries, &mut effect, ledger);
            }
            effect::settle(&mut effect);
            let names: Vec<String> = names.into_iter().map(|name| name_of(name)).collect();
            for matching in &matches {
                self.routes(matching, &effect, &names, is_closed, dynamic, routes, target, ledger);
            }
        }
    }

    /// Adds the routes for an alternative of the rule at some listeners.
    #[allow(clippy::too_many_arguments, reason = "the output, the book and the input are apart")]
    fn routes(
        &self,
        matching: &Match,
        effect: &Effect,
        listeners: &[String],
        is_closed: bool,
        dynamic: &Node,
        routes: &mut Vec<Route>,
        target: &mut Target,
        ledger: &mut Ledger,
    ) {
        let mut add = |mut matching: Match, action: Action, mut set: RouteKeys| {
            if is_closed {
                crate::protection::close(&mut set);
            }
            matching.conds.insert(0, Cond::one_of(Key::Listener, listeners.iter().cloned()));
            routes.push(Route {
                name: self.name.to_string(),
                comments: Vec::new(),
                matching,
                action,
                set,
                line: self.line,
            });
        };
        for redirect in &effect.redirects {
            match matching.and(&redirect.matching) {
                Ok(matching) => add(matching, Action::Redirect(redirect.to.clone()), redirect.set.clone()),
                Err(Apart::Never) => {}
                Err(Apart::Unwritable) => {
                    let reason = "its rule and the expression of the redirect do not fit into one match";
                    ledger.decide(redirect.line, reason, "write the redirect of a [[route]] by hand");
                }
            }
        }
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
        for (matching, place) in moved(matching.clone(), &effect.moves, self.line, ledger) {
            let (mut action, mut set) = (action.clone(), set.clone());
            match &mut action {
                Action::Pool(_) | Action::Split(_) => place.put(None, true, &mut set),
                Action::Redirect(to) => self.redirect_from(&place, to, ledger),
                Action::Respond(_) => {}
            }
            add(matching, action, set);
        }
    }

    /// Puts the path of a redirect behind changes of the path.
    fn redirect_from(&self, place: &Place, to: &mut Draft<Redirect>, ledger: &mut Ledger) {
        match place {
            place if place.is_original() => {}
            Place::Moved { strip, add } if strip.is_empty() => {
                to.put(key!("path"), format!("{}{{path}}", braced(add)));
            }
            Place::Fixed(path) => drop(to.put(key!("path"), braced(path))),
            _ => ledger.changes(
                self.line,
                "the redirect has the path of the client, not that behind other middlewares",
                "path of the redirect",
            ),
        }
    }

    fn effect(
        &self,
        outer: &[String],
        is_tls: bool,
        dynamic: &Node,
        target: &mut Target,
        ledger: &mut Ledger,
    ) -> Effect {
        let mut effect = Effect { is_tls, ..Effect::default() };
        let own = self.node.texts("middlewares", ledger);
        for name in outer.iter().chain(&own) {
            if !middleware::apply(name, dynamic.at("http.middlewares"), &mut effect, 0, target, ledger) {
                let line = self.node.get("middlewares").map_or(self.line, |node| node.line);
                let reason =
                    format!("the middleware \"{name}\" is not in this file, and may be what protects these requests");
                effect.is_closed = true;
                ledger.decide(line, format!("{reason}: all clients are refused"), "convert the file that has it, too");
            }
        }
        effect
    }

    /// Names of certificates that a resolver is asked for.
    fn tls(&self, matches: &[Match], entries: &mut BTreeMap<String, Entry>, ledger: &mut Ledger) {
        let Some(tls) = self.node.get("tls") else { return };
        if tls.take("certResolver", ledger).is_some() {
            let hosts = matches.iter().filter_map(|matching| match matching.find(&Key::Host) {
                Some(Test::OneOf(hosts)) => Some(hosts.clone()),
                _ => None,
            });
            let hosts: Vec<String> = hosts.flatten().collect();
            for name in &self.names {
                if let Some(entry) = entries.get_mut(name) {
                    entry.acme.extend(hosts.iter().filter(|host| !host.contains('*')).cloned());
                }
            }
        }
        if let Some(node) = tls.get("domains") {
            node.lost("TLS is set for the listener", "tls of the listener", ledger);
        }
        tls.carried(ledger);
    }
}

/// Requests by the path that endpoints get, behind all changes of it. In their order.
fn moved(matching: Match, moves: &[Move], line: Line, ledger: &mut Ledger) -> Vec<(Match, Place)> {
    let mut states = vec![(matching, Place::default(), None)];
    for change in moves {
        let mut next = Vec::new();
        for (matching, place, bare) in states {
            let place = match change {
                Move::Strip(prefixes) => {
                    next.extend(stripped(matching, &place, bare, prefixes));
                    continue;
                }
                Move::Add(prefix) => {
                    // A path that is the prefix alone has nothing left, not even a slash.
                    if let Some(path) = &bare {
                        match matching.and(&Match::of([Cond::one_of(Key::Path, [path.as_str()])])) {
                            Ok(whole) => next.push((whole, Place::Fixed(prefix.clone()), None)),
                            Err(Apart::Never) => {}
                            Err(Apart::Unwritable) => {
                                let reason = format!("the path {path} becomes {prefix}/, where Traefik sends {prefix}");
                                ledger.changes(line, reason, "nothing, unless the endpoint tells them apart");
                            }
                        }
                    }
                    place.rewritten(&format!("{}{{path}}", braced(prefix)))
                }
                Move::Replace(path) => Place::Fixed(path.clone()),
                Move::Search { search, to } if place.is_original() => {
                    Place::Searched { search: search.clone(), to: to.clone() }
                }
                Move::Search { .. } | Move::Unknown => Place::Unknown,
            };
            next.push((matching, place, None));
        }
        states = next;
    }
    if states.iter().any(|(_, place, _)| *place == Place::Unknown) {
        let reason = "a route has one rewrite, and its middlewares have several";
        ledger.changes(line, reason, "rewrite of the [[route]]");
    }
    states.into_iter().map(|(matching, place, _)| (matching, place)).collect()
}

/// Requests of a match, their path, and the path of a client of which nothing is left.
type State = (Match, Place, Option<String>);

/// Requests with the first prefix that they have, and at the end those with none of them.
fn stripped(matching: Match, place: &Place, bare: Option<String>, prefixes: &[String]) -> Vec<State> {
    let mut all = Vec::new();
    for prefix in prefixes {
        let Some((cond, behind)) = place.stripped(prefix) else { continue };
        let Some(cond) = cond else {
            all.push((matching, behind, bare));
            return all;
        };
        let whole = if let Test::Begins(start) = &cond.test { Some(start.clone()) } else { None };
        let begins = Match::of([cond]);
        if matching.implies(&begins) {
            all.push((matching, behind, whole));
            return all;
        }
        match matching.and(&begins) {
            Ok(both) => all.push((both, behind, whole)),
            Err(Apart::Never) => {}
            Err(Apart::Unwritable) => return vec![(matching, Place::Unknown, None)],
        }
    }
    all.push((matching, place.clone(), bare));
    all
}

fn leftovers(dynamic: &Node, ledger: &mut Ledger) {
    for (path, reason, todo) in [
        (
            "tcp",
            "routers of TCP are not carried over",
            "a listener with mode = \"tcp\", and routes by host for server names",
        ),
        ("udp", "routers of UDP are not carried over", "a listener with mode = \"udp\" and its pool"),
        ("tls.options", "the listener has no such option", "tls of the listener"),
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
