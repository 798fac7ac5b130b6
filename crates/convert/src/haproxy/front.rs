//! Frontends: listeners, and routes in the order of HAProxy's rules.

use super::acl::{Acls, condition};
use super::bind::{self, Bind};
use super::compression;
use super::lexer::Item;
use super::logic::{CLIENT, Expr};
use super::merging::{append, apply, plain_edits};
use super::pages::{self, Pages};
use super::proxy::{Proxy, World};
use super::refusals::{note_edits, note_pages, refuses_sessions, with_access};
use super::rules::{AddressRule, Filter, Rules, refuse_all, refuse_files, refuse_matching, sample};
use super::samples::Context;
use super::state::State;
use super::time::milliseconds;
use crate::ledger::{Ledger, Line};
use crate::limits::put_time;
use crate::model::{Action, Apart, Cond, Draft, Entries, Key, Listener, Match, Pool, Route, RouteKeys, name_of};
use crate::protection::close;
use evenkeel_config::draft::KeyOf;
use evenkeel_config::plan::{self, Compress};
use std::collections::{BTreeMap, BTreeSet};

/// A frontend, or the front of a listen section, with everything that it needs of the rest of the file.
pub(super) struct Front<'f> {
    pub name: &'f str,
    pub line: Line,
    pub items: &'f [&'f Item],
    pub is_tcp: bool,
    pub acls: &'f Acls,
    pub base: &'f str,
    /// Limits of the heads of requests.
    pub heads: &'f Draft<plan::Listener>,
    /// Connections of the process, if the frontend states no number itself.
    pub connections: Option<u64>,
    pub world: &'f World<'f>,
    pub context: Context<'f>,
    /// Backends by their names in the input.
    pub backends: &'f BTreeMap<String, Backend<'f>>,
    /// Rules of backends that this frontend leads to, in the state that its own rules leave.
    pub rules_of: BTreeMap<String, Rules>,
    pub pages: Pages,
    /// Changes of fields and paths of requests, which are made before the changes of backends.
    pub edits: Vec<Filter>,
    /// Backends that other frontends lead to as well.
    pub shared: &'f BTreeSet<String>,
    /// Name of the pool that a listen section has itself.
    pub own_pool: Option<String>,
}

/// Backend, as frontends see it.
pub(super) struct Backend<'b> {
    pub has_pool: bool,
    /// Table of `compress`, if it compresses responses.
    pub compress: Option<Draft<Compress>>,
    pub pages: Pages,
    pub proxy: &'b Proxy<'b>,
}

impl Front<'_> {
    /// Listeners and routes of the frontend.
    pub fn read(&mut self, rules: Rules, pools: &mut [Pool], ledger: &mut Ledger) -> (Vec<Listener>, Vec<Route>) {
        ledger.carried(self.line);
        self.read_backends(&rules.state, ledger);
        self.edits = rules.filters.iter().filter(|filter| filter.changes_requests()).cloned().collect();
        let listeners = self.listeners(&rules, ledger);
        // A listener that redirects everything has no routes.
        let serving = listeners.iter().filter(|listener| !listener.set.has(key!("redirect_https")));
        let (secure, plain): (Vec<&Listener>, Vec<&Listener>) = serving.partition(|l| l.set.has(key!("tls")));
        let names = |of: &[&Listener]| of.iter().map(|listener| listener.name.clone()).collect::<Vec<_>>();
        let (plain, secure) = (names(&plain), names(&secure));
        let mut routes = self.routes(&rules, &plain, &secure, ledger);
        let backends = self.rules_of.iter().filter_map(|(name, rules)| Some((&self.backends.get(name)?.pages, rules)));
        note_pages(&rules, &self.pages, backends, ledger);
        note_edits(&rules, self.rules_of.values(), ledger);
        self.responses(&rules, &mut routes, pools, ledger);
        if self.is_tcp && refuses_sessions(&routes, &rules.addresses, ledger) {
            return (Vec::new(), Vec::new());
        }
        (listeners, self.in_listeners(routes, &listeners_of(&plain, &secure), ledger))
    }

    fn listeners(&self, rules: &Rules, ledger: &mut Ledger) -> Vec<Listener> {
        let binds: Vec<Bind> = self
            .items
            .iter()
            .filter(|item| item.word(0) == "bind")
            .map(|item| bind::read(item, self.base, &self.context, ledger))
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
                listener.set.join(&bind.set);
            }
            let mut seen = Vec::new();
            listener.bind.retain(|bind| {
                !seen.contains(bind) && {
                    seen.push(bind.clone());
                    true
                }
            });
            self.settings(&mut listener, ledger);
            self.over_quic(&mut listener, ledger);
            if listener.set.has(key!("tls.certificates")) {
                listener.set.remove(key!("tls.self_signed"));
            }
            listener.set.merge(&rules.limits);
            listeners.push(listener);
        }
        listeners
    }

    /// Notes the differences of a listener with HTTP/3.
    fn over_quic(&self, listener: &mut Listener, ledger: &mut Ledger) {
        let has = listener.set.has(key!("http3"));
        let is_quic = |item: &&&Item| item.word(0) == "bind" && item.word(1).contains("quic");
        let Some(item) = self.items.iter().find(is_quic).filter(|_| has) else { return };
        let (reason, todo) = match listener.drop_impossible_h3() {
            true => (
                "HTTP/3 is off, as it needs TLS without the PROXY protocol",
                "a listener with another address for HTTP/3",
            ),
            false => (
                "all addresses of the listener serve HTTP/1, HTTP/2 and HTTP/3, and responses over TCP have Alt-Svc",
                "a listener for each address, if they should differ",
            ),
        };
        ledger.changes(item.line, reason, todo);
    }

    fn settings(&self, listener: &mut Listener, ledger: &mut Ledger) {
        let mut client = None;
        let (mut header, mut idle) = (false, false);
        for item in self.items {
            let time = || milliseconds(item.word(if item.word(0) == "timeout" { 2 } else { 1 }));
            match (item.word(0), item.word(1)) {
                ("timeout", "client") | ("clitimeout", _) => client = time().map(|ms| (ms, item.line)),
                ("timeout", "http-request") => {
                    header |= set_time(item, key!("timeouts.client_header"), time(), listener, ledger)
                }
                ("timeout", "http-keep-alive") => {
                    idle |= set_time(item, key!("timeouts.client_idle"), time(), listener, ledger)
                }
                ("maxconn", number) => match number.parse::<u64>() {
                    Ok(most) if most > 0 => {
                        listener.set.put(key!("limits.connections"), most);
                        ledger.carried(item.line);
                    }
                    _ => ledger.changes(item.line, "its value was not understood", "set limits.connections by hand"),
                },
                _ => {}
            }
        }
        if let Some(most) = self.connections.filter(|_| !listener.set.has(key!("limits.connections"))) {
            listener.set.put(key!("limits.connections"), most);
        }
        if !self.is_tcp {
            listener.set.merge(self.heads);
        }
        if !self.pages.is_empty() && !self.is_tcp {
            listener.set.put(key!("error_pages"), pages::value(&self.pages));
        }
        let Some((ms, line)) = client else {
            if !self.is_tcp {
                let reason = "without `timeout client` HAProxy waits for ever: here a client has 10s for a head, and 60s for \
                              the next request";
                ledger.changes(self.line, reason, "timeouts of the listener set other times");
            }
            return;
        };
        ledger.carried(line);
        if self.is_tcp {
            return ledger.dropped(line, "in TCP mode `timeouts.idle` of the pool covers both sides");
        }
        let keys = [
            (key!("timeouts.client_body"), true),
            (key!("timeouts.client_idle"), !idle),
            (key!("timeouts.client_header"), !header),
        ];
        for (key, _) in keys.into_iter().filter(|(_, wanted)| *wanted) {
            if let Some(note) = put_time(&mut listener.set, key, ms) {
                ledger.changes(line, format!("{key}: {note}"), "nothing, unless the limit is reached");
            }
        }
    }

    /// Reads the rules of the backends that this frontend leads to.
    fn read_backends(&mut self, state: &State, ledger: &mut Ledger) {
        let leads = |item: &&&Item| matches!(item.word(0), "use_backend" | "default_backend");
        for item in self.items.iter().filter(leads) {
            let named: Vec<_> = match item.word(1) {
                expression if expression.contains('%') => self.backends.iter().collect(),
                name => self.backends.get_key_value(name).into_iter().collect(),
            };
            for (name, backend) in named.into_iter().filter(|(_, backend)| !backend.proxy.is_front()) {
                if !self.rules_of.contains_key(name) {
                    let rules = backend.proxy.rules(self.world, state.of_backend(), ledger);
                    self.rules_of.insert(name.clone(), rules);
                }
            }
        }
    }

    /// Routes in the order of HAProxy: its final rules, `use_backend`, `default_backend`; filters merged in.
    fn routes(&self, rules: &Rules, plain: &[String], secure: &[String], ledger: &mut Ledger) -> Vec<Route> {
        let mut routes: Vec<Route> = Vec::new();
        let mut places: BTreeMap<Line, usize> = BTreeMap::new();
        for (place, rule) in rules.finals.iter().enumerate() {
            let set = with_access(&rule.set, &[&rules.addresses[..rule.behind]], ledger);
            self.push(&mut routes, rule.line, rule.matching.clone(), rule.action.clone(), set);
            places.entry(rule.line).or_insert(place);
        }
        let addresses = &rules.addresses;
        let mut diverted: Vec<(usize, Rules)> = Vec::new();
        for item in self.items.iter().filter(|item| item.word(0) == "use_backend") {
            let clients = self.use_backend(item, rules, &mut routes, ledger);
            diverted.push((routes.len(), clients));
        }
        for item in self.items.iter().filter(|item| item.word(0) == "default_backend") {
            ledger.carried(item.line);
        }
        let ends = rules.finals.iter().any(|rule| rule.matching.conds.is_empty());
        match self.default() {
            Some((name, line)) => self.backend(name, line, Match::default(), addresses, &mut routes, ledger),
            // Without a backend, HAProxy responds with 503.
            None if !self.is_tcp && !ends => {
                let set = with_access(&Draft::default(), &[addresses], ledger);
                self.push(&mut routes, self.line, Match::default(), Action::respond(503), set);
            }
            None => {}
        }
        // The last first, since its routes stand behind the others too.
        for (behind, clients) in diverted.into_iter().rev().filter(|(_, clients)| !clients.filters.is_empty()) {
            let mut rest = routes.split_off(behind);
            clients.filters.iter().for_each(|f| apply(f, &mut rest, &|_| true, self.context.maps, ledger));
            routes.extend(rest);
        }
        for filter in rules.filters.iter().filter(|filter| !filter.changes_requests()) {
            let is_behind = |route: &Route| places.get(&route.line).is_none_or(|place| *place >= filter.behind);
            apply(filter, &mut routes, &is_behind, self.context.maps, ledger);
        }
        if let Some(compress) = compression::read(self.items, ledger).filter(|_| !self.is_tcp) {
            compression::apply(&compress, routes.iter_mut().map(|route| &mut route.set));
        }
        // If all listeners use the same scheme, conditions on the scheme are decided here.
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

    /// Name of the backend for all other requests, and the line that says so.
    fn default(&self) -> Option<(&str, Line)> {
        match (self.items.iter().rev().find(|item| item.word(0) == "default_backend"), &self.own_pool) {
            (Some(item), _) => Some((item.word(1), item.line)),
            (None, Some(_)) => Some((self.name, self.line)),
            (None, None) => None,
        }
    }

    fn push(&self, routes: &mut Vec<Route>, line: Line, matching: Match, action: Action, set: RouteKeys) {
        let name = match &action {
            Action::Pool(pool) => format!("{}-{pool}", name_of(self.name)),
            Action::Split(_) => format!("{}-split", name_of(self.name)),
            Action::Redirect(_) => format!("{}-redirect", name_of(self.name)),
            Action::Respond(_) => format!("{}-respond", name_of(self.name)),
        };
        routes.push(Route { name, comments: Vec::new(), matching, action, set, line });
    }

    /// Routes to the backend of a rule. Returns filters that refuse, behind it, clients who would have gone there.
    fn use_backend(&self, item: &Item, rules: &Rules, routes: &mut Vec<Route>, ledger: &mut Ledger) -> Rules {
        let (name, addresses) = (item.word(1), &rules.addresses);
        let mut diverted = Rules::default();
        let read = condition(item.from(2), self.acls, &self.context);
        let mut viewed = rules.state.view(&read, self.context.maps);
        // No other spelling of a host may pass by a backend that refuses.
        if self.behind(item).any(|behind| behind != name && self.refuses_requests(behind)) {
            viewed = viewed.with_exact_hosts();
        }
        if name.contains('%') {
            return self.by_value(item, &viewed, rules, routes, ledger);
        }
        match viewed.alternatives(self.context.maps) {
            Ok(conjs) => {
                ledger.carried(item.line);
                if conjs.is_empty() {
                    ledger.dropped(item.line, "its condition never holds");
                }
                for conj in conjs {
                    if conj.is_plain() {
                        self.backend(name, item.line, conj.matching, addresses, routes, ledger);
                        continue;
                    }
                    let is_list = conj.rates.is_empty() && conj.auth.is_empty();
                    let mut reason = "its condition asks for a counter, a list in a file or a password".to_string();
                    if is_list && (self.refuses(name) || conj.client_files.iter().any(|(_, negated)| *negated)) {
                        // The backends behind it are not for these clients.
                        refuse_files(item, &conj, 403, &mut diverted, ledger);
                        reason.push_str("; its clients are refused");
                    } else if !is_list && self.refuses(name) {
                        // A counter or a password would lead there.
                        refuse_matching(item, conj.matching, &mut diverted);
                        reason.push_str("; requests that it may be for are refused behind it");
                    }
                    ledger.decide(item.line, reason, "write a [[route]] with other conditions, or limits");
                }
            }
            Err(reason) => {
                let todo = format!(
                    "write a [[route]] with pool = \"{}\" by hand, if another condition can stand for it",
                    name_of(name)
                );
                let mut reason = format!("its condition cannot be written: {reason}");
                let is_negated = item.from(2).iter().any(|word| word == "unless" || word.starts_with('!'));
                if reason.contains(CLIENT) && (is_negated || self.refuses(name)) {
                    refuse_all(item, &mut diverted);
                    reason.push_str("; all clients are refused behind it");
                } else if self.refuses(name) {
                    let wide = viewed.widened().alternatives(self.context.maps).unwrap_or_default();
                    let wide = if wide.is_empty() { vec![super::logic::Conj::default()] } else { wide };
                    for conj in wide {
                        self.push(routes, item.line, conj.matching, Action::respond(403), Draft::default());
                    }
                    reason.push_str("; requests that it may be for are refused");
                }
                ledger.changes(item.line, reason, todo);
            }
        }
        diverted
    }

    /// `use_backend %[...]`: the backend that a value names, and the default backend if there is none of that name.
    fn by_value(
        &self,
        item: &Item,
        viewed: &Expr,
        rules: &Rules,
        routes: &mut Vec<Route>,
        ledger: &mut Ledger,
    ) -> Rules {
        let maps = self.context.maps;
        let todo = "write a map, and pool = \"{map.NAME}\" in a [[route]]";
        let mut diverted = Rules::default();
        let (text, conjs) = match (sample(item.word(1), &self.context, &rules.state), viewed.alternatives(maps)) {
            (Ok(text), Ok(conjs)) if conjs.iter().all(|conj| conj.is_plain()) => (text, conjs),
            (unwritable, conjs) => {
                let known = "its condition asks for a counter, a list in a file or a password".to_string();
                let mut reason = unwritable.err().or(conjs.err()).unwrap_or(known);
                // It may lead to a backend that refuses.
                if self.backends.keys().any(|name| self.refuses(name)) {
                    refuse_all(item, &mut diverted);
                    reason.push_str("; all clients are refused behind it");
                }
                ledger.decide(item.line, reason, todo);
                return diverted;
            }
        };
        ledger.carried(item.line);
        let mut rows = Entries::default();
        self.backends.keys().for_each(|name| drop(rows.set(name, name_of(name))));
        let map = Draft::one(key!("from"), text).with(key!("rows"), rows);
        let map = Key::Map(maps.name("backend", &map));
        for conj in conjs {
            for name in self.backends.keys() {
                let named = Match::of([Cond::one_of(map.clone(), [name_of(name)])]);
                if let Ok(matching) = maps.both(&conj.matching, &named) {
                    self.backend(name, item.line, matching, &rules.addresses, routes, ledger);
                }
            }
            match self.default() {
                Some((name, _)) => self.backend(name, item.line, conj.matching, &rules.addresses, routes, ledger),
                None => self.push(routes, item.line, conj.matching, Action::respond(503), Draft::default()),
            }
        }
        diverted
    }

    /// Names of the backends for requests that a `use_backend` is not for.
    fn behind(&self, item: &Item) -> impl Iterator<Item = &str> {
        let choices = self.items.iter().filter(|other| other.word(0) == "use_backend");
        let later = choices.skip_while(move |other| other.line != item.line).skip(1).map(|other| other.word(1));
        later.chain(self.default().map(|(name, _)| name))
    }

    /// True if a backend refuses requests itself, or has no pool.
    fn refuses(&self, name: &str) -> bool {
        self.backends.get(name).is_some_and(|b| !b.has_pool) || self.refuses_requests(name)
    }

    /// True if rules of a backend refuse or answer requests. A name of a value stands for each backend.
    fn refuses_requests(&self, name: &str) -> bool {
        let refuses = |rules: &Rules| {
            rules.finals.iter().any(|rule| matches!(rule.action, Action::Respond(_)))
                || !rules.addresses.is_empty()
                || rules.filters.iter().any(|filter| {
                    [key!("access"), key!("basic_auth"), key!("limits")].iter().any(|key| filter.set.has(*key))
                })
        };
        match name.contains('%') {
            true => self.rules_of.values().any(refuses),
            false => self.rules_of.get(name).is_some_and(refuses),
        }
    }

    /// Changes of the fields of responses: in the pools, which evenkeel's own responses do not come from, or in the routes
    /// to pools that other frontends use as well.
    fn responses(&self, rules: &Rules, routes: &mut [Route], pools: &mut [Pool], ledger: &mut Ledger) {
        let none = Rules::default();
        for (name, backend) in self.backends.iter().filter(|(_, backend)| backend.has_pool) {
            let pool_name = name_of(name);
            let own = self.own_pool.as_ref() == Some(&pool_name) && backend.proxy.is_front();
            let Some(of_backend) = self.rules_of.get(name).or(own.then_some(&none)) else { continue };
            let Some(pool) = pools.iter_mut().find(|pool| pool.name == pool_name) else { continue };
            let is_shared = self.shared.contains(name);
            // Each frontend leaves variables with other values.
            let depends = is_shared && backend.proxy.responses_read_variables("http-response");
            if !pool.set.has(key!("response_headers")) && !depends {
                of_backend.responses.iter().for_each(|(_, edit)| {
                    append(&mut pool.set, key!("response_headers.edits"), edit.clone());
                });
            }
            if !is_shared {
                rules.responses.iter().for_each(|(_, edit)| {
                    append(&mut pool.set, key!("response_headers.edits"), edit.clone());
                });
                continue;
            }
            let leads = |route: &&mut Route| matches!(&route.action, Action::Pool(pool) if *pool == pool_name);
            let of_backend = of_backend.responses.iter().filter(|_| depends);
            let all: Vec<_> = of_backend.chain(&rules.responses).collect();
            for route in routes.iter_mut().filter(leads) {
                for (line, edit) in &all {
                    append(&mut route.set, key!("response_headers.edits"), edit.clone());
                    let reason = "evenkeel's own errors get the change, too, as other frontends share the pool";
                    ledger.changes(*line, reason, "nothing, unless clients depend on it");
                }
            }
        }
    }

    /// Adds routes to a backend: first its final rules, then its pool. `addresses` are rules of the frontend.
    fn backend(
        &self,
        name: &str,
        line: Line,
        matching: Match,
        addresses: &[AddressRule],
        routes: &mut Vec<Route>,
        ledger: &mut Ledger,
    ) {
        let Some(backend) = self.backends.get(name) else {
            return ledger.decide(line, format!("unknown backend \"{name}\""), "name one that exists");
        };
        let first = routes.len();
        let mut is_unclear = false;
        let (none, maps) = (Rules::default(), self.context.maps);
        let rules = self.rules_of.get(name).unwrap_or(&none);
        let mut places: BTreeMap<Line, usize> = BTreeMap::new();
        for (place, rule) in rules.finals.iter().enumerate() {
            places.entry(rule.line).or_insert(place);
            match maps.both(&matching, &rule.matching) {
                Ok(matching) => {
                    let set = with_access(&rule.set, &[addresses, &rules.addresses[..rule.behind]], ledger);
                    self.push(routes, rule.line, matching, rule.action.clone(), set);
                }
                Err(Apart::Never) => {}
                Err(Apart::Unwritable) => {
                    let asks_client = rule.matching.conds.iter().any(|cond| cond.key == Key::Client);
                    is_unclear |= asks_client;
                    let refused = if asks_client { ": all clients are refused" } else { "" };
                    let reason = format!("its condition and that of the frontend do not fit into one match{refused}");
                    ledger.decide(rule.line, reason, "write the [[route]] by hand");
                }
            }
        }
        let mut set = with_access(&Draft::default(), &[addresses, &rules.addresses], ledger);
        if is_unclear {
            close(&mut set);
        }
        match backend.has_pool {
            true => self.push(routes, line, matching, Action::Pool(name_of(name)), set),
            // Without a server, HAProxy responds with 503.
            false => self.push(routes, line, matching, Action::respond(503), set),
        }
        let mut own = routes.split_off(first);
        self.edits.iter().for_each(|filter| apply(filter, &mut own, &|_| true, maps, ledger));
        for filter in &rules.filters {
            let is_behind = |route: &Route| places.get(&route.line).is_none_or(|place| *place >= filter.behind);
            apply(filter, &mut own, &is_behind, maps, ledger);
        }
        if backend.pages != self.pages && !backend.pages.is_empty() {
            own.iter_mut().filter(|route| !route.set.has(key!("error_pages"))).for_each(|route| {
                route.set.put(key!("error_pages"), pages::value(&backend.pages));
            });
        }
        if let Some(compress) = &backend.compress {
            compression::apply(compress, own.iter_mut().map(|route| &mut route.set));
        }
        routes.extend(own);
    }

    /// Settles the order, and drops conditions without effect.
    fn in_listeners(&self, mut routes: Vec<Route>, listeners: &[String], ledger: &mut Ledger) -> Vec<Route> {
        for route in &mut routes {
            plain_edits(&mut route.set, REQUEST_EDITS);
            plain_edits(&mut route.set, RESPONSE_EDITS);
        }
        crate::reconcile::reconcile(&mut routes, "HAProxy", Some(self.context.maps), ledger);
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

const REQUEST_EDITS: [KeyOf<plan::Route>; 4] = [
    key!("request_headers.edits"),
    key!("request_headers.remove"),
    key!("request_headers.set"),
    key!("request_headers.add"),
];

const RESPONSE_EDITS: [KeyOf<plan::Route>; 4] = [
    key!("response_headers.edits"),
    key!("response_headers.remove"),
    key!("response_headers.set"),
    key!("response_headers.add"),
];

fn listeners_of(plain: &[String], secure: &[String]) -> Vec<String> {
    plain.iter().chain(secure).cloned().collect()
}

/// Reports conditions and filters that sessions cannot have, and removes them.
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
        route.set = Draft::default();
    }
}

fn set_time(
    item: &Item,
    key: KeyOf<plan::Listener>,
    ms: Option<u64>,
    listener: &mut Listener,
    ledger: &mut Ledger,
) -> bool {
    let Some(ms) = ms else {
        ledger.changes(item.line, "its value was not understood", "set the value by hand");
        return false;
    };
    ledger.carried(item.line);
    if let Some(note) = put_time(&mut listener.set, key, ms) {
        ledger.changes(item.line, note, "nothing, unless the limit is reached");
    }
    true
}
