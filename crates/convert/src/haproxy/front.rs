//! Frontends: listeners, and routes in the order of HAProxy's rules.

use super::acl::{Acls, condition};
use super::bind::{self, Bind};
use super::compression;
use super::lexer::Item;
use super::rules::{Filter, Final, Rules};
use super::time::milliseconds;
use crate::ledger::{Ledger, Line};
use crate::limits::timeout;
use crate::model::{Action, Apart, Cond, Key, Listener, Match, Route, Table, Test, Value, name_of};
use crate::protection::{close, is_closed, would_replace};
use crate::report::{OPEN, PROTECTED};
use std::collections::BTreeMap;

/// Most routes that filters with conditions may add to a frontend.
const SPLITS: usize = 200;

/// A frontend, or the front of a listen section, with everything that it needs of the rest of the file.
pub(super) struct Front<'f> {
    pub name: &'f str,
    pub line: Line,
    pub items: &'f [&'f Item],
    pub is_tcp: bool,
    pub acls: &'f Acls,
    pub base: &'f str,
    /// Connections of the process, if the frontend states no number itself.
    pub connections: Option<u64>,
    /// Rules of each backend, by its name in the input.
    pub backends: &'f BTreeMap<String, Backend>,
    /// Name of the pool that a listen section has itself.
    pub own_pool: Option<String>,
}

/// Backend, as frontends see it.
#[derive(Debug, Default)]
pub(super) struct Backend {
    pub rules: Rules,
    pub has_pool: bool,
    /// Table of `compress`, if it compresses responses.
    pub compress: Option<Table>,
}

impl Front<'_> {
    /// Listeners and routes of the frontend.
    pub fn read(&self, rules: Rules, ledger: &mut Ledger) -> (Vec<Listener>, Vec<Route>) {
        ledger.carried(self.line);
        let mut listeners = self.listeners(&rules, ledger);
        let mut rules = rules;
        self.redirects(&mut rules, &mut listeners, ledger);
        // A listener that redirects everything has no routes.
        let serving = listeners.iter().filter(|listener| listener.set.get("redirect_https").is_none());
        let (secure, plain): (Vec<&Listener>, Vec<&Listener>) = serving.partition(|l| l.set.get("tls").is_some());
        let names = |of: &[&Listener]| of.iter().map(|listener| listener.name.clone()).collect::<Vec<_>>();
        let (plain, secure) = (names(&plain), names(&secure));
        let routes = self.routes(rules, &plain, &secure, ledger);
        (listeners, self.in_listeners(routes, &listeners_of(&plain, &secure), ledger))
    }

    fn listeners(&self, rules: &Rules, ledger: &mut Ledger) -> Vec<Listener> {
        let binds: Vec<Bind> = self
            .items
            .iter()
            .filter(|item| item.word(0) == "bind")
            .map(|item| bind::read(item, self.base, ledger))
            .collect();
        let name = name_of(self.name);
        let is_mixed = binds.iter().any(|bind| bind.is_tls) && binds.iter().any(|bind| !bind.is_tls);
        let mut listeners = Vec::new();
        for is_tls in [false, true] {
            let of_kind: Vec<&Bind> =
                binds.iter().filter(|bind| bind.is_tls == is_tls && !bind.addresses.is_empty()).collect();
            if of_kind.is_empty() {
                continue;
            }
            let suffix = if is_mixed && is_tls { "-tls" } else { "" };
            let mut listener = Listener { name: format!("{name}{suffix}"), is_tcp: self.is_tcp, ..Listener::default() };
            for bind in of_kind {
                listener.bind.extend(bind.addresses.iter().cloned());
                merge_lists(&mut listener.set, &bind.set);
            }
            listener.bind.dedup();
            self.settings(&mut listener, ledger);
            if let Some(Value::Table(tls)) =
                listener.set.entries.iter_mut().find(|(key, _)| key == "tls").map(|(_, v)| v)
                && tls.get("certificates").is_some()
            {
                tls.entries.retain(|(key, _)| key != "self_signed");
            }
            if !rules.limits.is_empty() {
                listener.set.table("limits").merge(&rules.limits);
            }
            listeners.push(listener);
        }
        listeners
    }

    fn settings(&self, listener: &mut Listener, ledger: &mut Ledger) {
        let mut client = None;
        let (mut header, mut idle) = (false, false);
        for item in self.items {
            let time = || milliseconds(item.word(if item.word(0) == "timeout" { 2 } else { 1 }));
            match (item.word(0), item.word(1)) {
                ("timeout", "client") | ("clitimeout", _) => client = time().map(|ms| (ms, item.line)),
                ("timeout", "http-request") => header |= set_time(item, "client_header", time(), listener, ledger),
                ("timeout", "http-keep-alive") => idle |= set_time(item, "client_idle", time(), listener, ledger),
                ("maxconn", number) => match number.parse::<u64>() {
                    Ok(most) if most > 0 => {
                        listener.set.put("limits.connections", most);
                        ledger.carried(item.line);
                    }
                    _ => ledger.changes(item.line, "its value was not understood", "set limits.connections by hand"),
                },
                ("errorfile", status) => {
                    let todo = format!(
                        "write the body alone into a file, and error_pages = [{{ status = [{status}], file = \"FILE.html\" }}]"
                    );
                    ledger.changes(item.line, "its file has a head; pages here are bodies only", todo);
                }
                _ => {}
            }
        }
        if listener.set.table("limits").get("connections").is_none() {
            match self.connections {
                Some(most) => drop(listener.set.put("limits.connections", most)),
                None => listener
                    .set
                    .entries
                    .retain(|(key, value)| key != "limits" || !matches!(value, Value::Table(t) if t.is_empty())),
            }
        }
        let Some((ms, line)) = client else { return };
        ledger.carried(line);
        if self.is_tcp {
            return ledger.dropped(line, "in TCP mode `timeouts.idle` of the pool covers both sides");
        }
        let keys = [("client_body", true), ("client_idle", !idle), ("client_header", !header)];
        for (key, _) in keys.into_iter().filter(|(_, wanted)| *wanted) {
            let (value, note) = timeout(key, ms);
            listener.set.put(&format!("timeouts.{key}"), value);
            if let Some(note) = note {
                ledger.changes(line, format!("timeouts.{key}: {note}"), "nothing, unless the limit is reached");
            }
        }
    }

    /// Turns an unconditional redirect to HTTPS into the key of the listener without TLS.
    fn redirects(&self, rules: &mut Rules, listeners: &mut [Listener], ledger: &mut Ledger) {
        let has_tls = listeners.iter().any(|listener| listener.set.get("tls").is_some());
        let is_first = |rule: &Final| {
            let Action::Redirect(Value::Table(to)) = &rule.action else { return false };
            let to_https = to.get("scheme") == Some(&"https".into())
                && to.entries.iter().all(|(key, _)| key == "scheme" || key == "status");
            let of_plain = match rule.matching.conds.as_slice() {
                [] => !has_tls,
                [only] => only.key == Key::Scheme && only.test == Test::OneOf(vec!["http".into()]),
                _ => false,
            };
            to_https && of_plain
        };
        // Rules in front of it would be answered otherwise.
        if rules.finals.first().is_none_or(|rule| !is_first(rule)) {
            return;
        }
        let rule = rules.finals.remove(0);
        for listener in listeners.iter_mut().filter(|listener| listener.set.get("tls").is_none()) {
            listener.set.put("redirect_https", true);
        }
        let reason = "the redirect is answered by 308, with which clients repeat a POST as a POST";
        ledger.changes(rule.line, reason, "nothing, unless clients older than 2014 matter");
    }

    /// Routes in the order of HAProxy: its final rules, `use_backend`, `default_backend`; filters merged in.
    fn routes(&self, rules: Rules, plain: &[String], secure: &[String], ledger: &mut Ledger) -> Vec<Route> {
        let mut routes: Vec<Route> = Vec::new();
        for rule in &rules.finals {
            self.push(&mut routes, rule.line, rule.matching.clone(), rule.action.clone(), rule.set.clone());
        }
        for item in self.items.iter().filter(|item| item.word(0) == "use_backend") {
            self.use_backend(item, &mut routes, ledger);
        }
        let default = self.items.iter().rev().find(|item| item.word(0) == "default_backend");
        for item in self.items.iter().filter(|item| item.word(0) == "default_backend") {
            ledger.carried(item.line);
        }
        match (default, &self.own_pool) {
            (Some(item), _) => self.backend(item.word(1), item.line, Match::default(), &mut routes, ledger),
            (None, Some(_)) => self.backend(self.name, self.line, Match::default(), &mut routes, ledger),
            (None, None) => {}
        }
        for filter in &rules.filters {
            apply(filter, &mut routes, &|_| true, ledger);
        }
        if let Some(compress) = compression::read(self.items, ledger).filter(|_| !self.is_tcp) {
            compression::apply(&compress, routes.iter_mut().map(|route| &mut route.set));
        }
        // The scheme is what the listener says, where one of them speaks only that.
        routes.retain_mut(|route| {
            let known = |scheme: &str| Match::of([Cond::one_of(Key::Scheme, [scheme])]);
            let only = match (plain.is_empty(), secure.is_empty()) {
                (true, false) => known("https"),
                (false, true) if !self.is_tcp => known("http"),
                _ => return true,
            };
            let fits = route.matching.and(&only) != Err(Apart::Never);
            route.matching.conds.retain(|cond| cond.key != Key::Scheme);
            fits
        });
        routes
    }

    fn push(&self, routes: &mut Vec<Route>, line: Line, matching: Match, action: Action, set: Table) {
        let name = match &action {
            Action::Pool(pool) => format!("{}-{pool}", name_of(self.name)),
            Action::Split(_) => format!("{}-split", name_of(self.name)),
            Action::Redirect(_) => format!("{}-redirect", name_of(self.name)),
            Action::Respond(_) => format!("{}-respond", name_of(self.name)),
        };
        routes.push(Route { name, comments: Vec::new(), matching, action, set, line });
    }

    fn use_backend(&self, item: &Item, routes: &mut Vec<Route>, ledger: &mut Ledger) {
        let name = item.word(1);
        if name.contains("%[") {
            let todo = match name.split_once("map").and_then(|(_, rest)| rest.split_once('(')) {
                Some((_, rest)) => {
                    let file = rest.split([',', ')']).next().unwrap_or_default();
                    format!("write a [[route]] for each line of {file}: match.host = [\"KEY\"], pool = \"VALUE\"")
                }
                None => "write a [[route]] for each backend that the expression can name".to_string(),
            };
            return ledger.changes(item.line, "the name of the backend comes from the request", todo);
        }
        match condition(item.from(2), self.acls) {
            Ok(conjs) => {
                ledger.carried(item.line);
                if conjs.is_empty() {
                    ledger.dropped(item.line, "its condition never holds");
                }
                for conj in conjs {
                    match conj.is_plain() {
                        true => self.backend(name, item.line, conj.matching, routes, ledger),
                        false => {
                            let todo = "write a [[route]] with other conditions, or limits";
                            ledger.changes(
                                item.line,
                                "its condition asks for a counter, a list in a file or a password",
                                todo,
                            );
                        }
                    }
                }
            }
            Err(reason) => {
                let todo = format!(
                    "write a [[route]] with pool = \"{}\" by hand, if another condition can stand for it",
                    name_of(name)
                );
                ledger.changes(item.line, format!("its condition cannot be written: {reason}"), todo);
            }
        }
    }

    /// Routes to a backend: its own final rules first, then its pool.
    fn backend(&self, name: &str, line: Line, matching: Match, routes: &mut Vec<Route>, ledger: &mut Ledger) {
        let Some(backend) = self.backends.get(name) else {
            return ledger.changes(line, format!("unknown backend \"{name}\""), "name one that exists");
        };
        let first = routes.len();
        for rule in &backend.rules.finals {
            match matching.and(&rule.matching) {
                Ok(matching) => self.push(routes, rule.line, matching, rule.action.clone(), rule.set.clone()),
                Err(Apart::Never) => {}
                Err(Apart::Unwritable) => {
                    ledger.changes(
                        rule.line,
                        "its condition and that of the frontend do not fit into one match",
                        "write the [[route]] by hand",
                    );
                }
            }
        }
        match backend.has_pool {
            true => self.push(routes, line, matching, Action::Pool(name_of(name)), Table::default()),
            // Without a server, HAProxy answers 503.
            false => self.push(routes, line, matching, Action::Respond(503.into()), Table::default()),
        }
        let mut own = routes.split_off(first);
        for filter in &backend.rules.filters {
            apply(filter, &mut own, &|_| true, ledger);
        }
        if let Some(compress) = &backend.compress {
            compression::apply(compress, own.iter_mut().map(|route| &mut route.set));
        }
        routes.extend(own);
    }

    /// Settles the order, and drops conditions that say nothing.
    fn in_listeners(&self, mut routes: Vec<Route>, listeners: &[String], ledger: &mut Ledger) -> Vec<Route> {
        routes.iter_mut().for_each(by_segment);
        crate::reconcile::reconcile(&mut routes, "HAProxy", ledger);
        for route in &mut routes {
            if self.is_tcp {
                tcp_route(route, ledger);
            }
            let names = std::mem::take(&mut route.matching.conds);
            route.matching.conds =
                std::iter::once(Cond::one_of(Key::Listener, listeners.iter().cloned())).chain(names).collect();
        }
        routes
    }
}

fn listeners_of(plain: &[String], secure: &[String]) -> Vec<String> {
    plain.iter().chain(secure).cloned().collect()
}

/// Reports what a session cannot be matched by.
fn tcp_route(route: &mut Route, ledger: &mut Ledger) {
    let of_session = |cond: &Cond| matches!(cond.key, Key::Host | Key::Listener) && !cond.negated;
    if !route.matching.conds.iter().all(of_session) {
        let todo = "make the listener one of HTTP, or remove the condition";
        ledger.changes(
            route.line,
            "in TCP mode only the server name can be matched, so this condition never held, or only by luck",
            todo,
        );
        route.matching.conds.retain(of_session);
    }
    if !route.set.is_empty() {
        ledger.changes(
            route.line,
            "filters are for requests; this listener balances sessions",
            "make the listener one of HTTP",
        );
        route.set = Table::default();
    }
}

/// Merges the settings of a filter. What is closed stays closed, whatever address lists there are.
fn merge_filter(into: &mut Table, from: &Table) {
    let closed = is_closed(into) || is_closed(from) || would_replace(into, from) || both_allow(into, from);
    merge_lists(into, from);
    if closed {
        close(into);
    }
}

/// True if clients have to be in a list of each: joined, one of them would be enough.
fn both_allow(one: &Table, other: &Table) -> bool {
    let allowed = |set: &Table| match set.get("access") {
        Some(Value::Table(access)) => {
            let lists = ["allow", "allow_files"].map(|key| access.get(key).cloned());
            lists.iter().any(Option::is_some).then_some(lists)
        }
        _ => None,
    };
    allowed(one).zip(allowed(other)).is_some_and(|(one, other)| one != other)
}

/// Merges settings; lists are joined.
fn merge_lists(into: &mut Table, from: &Table) {
    for (key, value) in &from.entries {
        match value {
            Value::Table(inner) => merge_lists(into.table(key), inner),
            Value::List(list) => list.iter().for_each(|value| into.push(key, value.clone())),
            value => drop(into.set(key, value.clone())),
        }
    }
}

fn set_time(item: &Item, key: &str, ms: Option<u64>, listener: &mut Listener, ledger: &mut Ledger) -> bool {
    let Some(ms) = ms else {
        ledger.changes(item.line, "its value was not understood", "set the value by hand");
        return false;
    };
    let (value, note) = timeout(key, ms);
    listener.set.put(&format!("timeouts.{key}"), value);
    ledger.carried(item.line);
    if let Some(note) = note {
        ledger.changes(item.line, note, "nothing, unless the limit is reached");
    }
    true
}

/// Gives a filter to the routes whose requests fulfil its conditions; a route of which only some do is split.
pub(super) fn apply(filter: &Filter, routes: &mut Vec<Route>, wanted: &dyn Fn(&Route) -> bool, ledger: &mut Ledger) {
    let mut out: Vec<Route> = Vec::new();
    let many = routes.len() > SPLITS;
    for mut route in routes.drain(..) {
        let is_open = matches!(route.action, Action::Pool(_)) || !only_forwards(&filter.set);
        if !wanted(&route) || !is_open || route.matching.is_apart(&filter.matching) {
            out.push(route);
            continue;
        }
        if route.matching.implies(&filter.matching) {
            give(&mut route, filter, ledger);
            out.push(route);
            continue;
        }
        let mut given = route.set.clone();
        merge_filter(&mut given, &filter.set);
        if given == route.set {
            out.push(route);
            continue;
        }
        match route.matching.and(&filter.matching) {
            Ok(matching) if !many => {
                let mut narrower = Route { matching, ..route.clone() };
                give(&mut narrower, filter, ledger);
                out.extend([narrower, route]);
            }
            Err(Apart::Never) => out.push(route),
            _ => {
                let todo = "write the filter into the [[route]]s that it is for";
                ledger.changes(
                    filter.line,
                    "its condition does not fit into the match of a route that it concerns",
                    todo,
                );
                // Too few are let in rather than too many.
                if is_closed(&filter.set) || filter.set.get("basic_auth").is_some() {
                    close(&mut route.set);
                }
                out.push(route);
            }
        }
    }
    *routes = out;
}

/// True if the keys only change what endpoints get, so that routes without one do not need them.
fn only_forwards(set: &Table) -> bool {
    set.entries
        .iter()
        .all(|(key, _)| matches!(key.as_str(), "request_headers" | "send_host" | "strip_prefix" | "rewrite"))
}

fn give(route: &mut Route, filter: &Filter, ledger: &mut Ledger) {
    if both_allow(&route.set, &filter.set) && !is_closed(&route.set) && !is_closed(&filter.set) {
        let reason = format!("clients have to be in several address lists at once; {PROTECTED}");
        ledger.changes(filter.line, reason, OPEN);
    }
    let Some(prefix) = &filter.strip else { return merge_filter(&mut route.set, &filter.set) };
    // A route takes away the whole prefix that it matches: what is more than the one to strip is put back.
    let rest = |path: &str| path.trim_end_matches('/').strip_prefix(prefix.as_str()).map(str::to_string);
    let rewrite = match route.matching.find(&Key::Path) {
        Some(Test::Below(path)) => rest(path).map(|rest| ("prefix", rest)),
        Some(Test::Begins(path)) if path.ends_with('/') => rest(path).map(|rest| ("prefix", rest)),
        Some(Test::OneOf(paths)) if paths.len() == 1 => rest(&paths[0]).map(|rest| ("path", rest)),
        _ => None,
    };
    match rewrite {
        Some(("prefix", rest)) if rest.is_empty() => drop(route.set.put("strip_prefix", true)),
        Some((key, rest)) => {
            let path = if rest.is_empty() { "/".to_string() } else { rest };
            route.set.put("rewrite", Table::one(key, path));
        }
        None => {
            let todo = "strip_prefix, or rewrite = { prefix = \"/NEW\" } in a [[route]] with that prefix";
            ledger.changes(
                filter.line,
                "a route that it concerns does not match by the prefix that is taken away",
                todo,
            );
        }
    }
}

/// Matches by segment where a prefix is taken away: it is the matched one.
fn by_segment(route: &mut Route) {
    if route.set.get("strip_prefix").is_none() {
        return;
    }
    for cond in route.matching.conds.iter_mut().filter(|cond| cond.key == Key::Path && !cond.negated) {
        if let Test::Begins(path) = &cond.test
            && path.ends_with('/')
        {
            cond.test = Test::Below(path.trim_end_matches('/').to_string());
        }
    }
}
