//! haproxy.cfg: sections, the defaults that they start from, and their counterparts.

// Order: front, compression, global, proxy, refusals, pages, merging, pool, check, rules, state, acl, logic & criteria, known, server,
// bind, samples, gathered, lexer, time
mod acl;
mod bind;
mod check;
mod compression;
mod criteria;
mod front;
mod gathered;
mod global;
mod known;
mod lexer;
mod logic;
mod merging;
mod pages;
mod pool;
mod proxy;
mod refusals;
mod rules;
mod samples;
mod server;
mod state;
mod time;

use crate::ledger::Ledger;
use crate::model::{Action, Key, Maps, Target, Value, name_of};
use acl::Acls;
use evenkeel_config::Files;
use front::{Backend, Front};
use known::Fate;
use lexer::{Item, Section};
use proxy::{Proxy, World};
use rules::StickTables;
use state::State;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Words of sections that accept clients; in a backend they do nothing.
const FRONT: &[&str] = &["bind", "use_backend", "default_backend", "maxconn", "clitimeout", "monitor-uri"];
/// Words of sections with servers; in a frontend they do nothing.
const BACK: &[&str] = &[
    "server",
    "server-template",
    "default-server",
    "balance",
    "cookie",
    "stick",
    "retries",
    "retry-on",
    "http-check",
    "tcp-check",
    "contimeout",
    "srvtimeout",
];

/// Reads a haproxy.cfg into a draft of the output. Lists and maps are read from `files`.
pub(crate) fn translate(text: &str, file: &Arc<str>, files: &dyn Files, ledger: &mut Ledger) -> Target {
    let mut sections = lexer::sections(text, file, ledger);
    sections.iter_mut().filter(|section| section.kind == "defaults").for_each(acl::own_names);
    let files = &samples::Sole::new(files, &sections);
    let mut target = Target::default();
    let process = global::read(&sections, &mut target, ledger);
    let (groups, maps) = (pages::groups(&sections, ledger), Maps::default());
    let proxies = proxies(&sections, &maps, files, ledger);
    let tables = stick_tables(&proxies);
    let is_script = |word: &String| word.starts_with("lua") || word.contains("spoe");
    let has_scripts = sections.iter().flat_map(|s| &s.items).any(|item| item.words.iter().any(is_script));
    let mut state = State::default();
    state.has_scripts = has_scripts;
    state.set_behind =
        proxies.iter().filter(|proxy| !proxy.is_front()).flat_map(|proxy| rules::variables(&proxy.items)).collect();
    let world = World {
        userlists: &process.userlists,
        caches: &process.caches,
        tables: &tables,
        groups: &groups,
        maps: &maps,
        files,
        state,
    };
    let mut backends = BTreeMap::new();
    for proxy in &proxies {
        proxy.treat(&process, &mut target, ledger);
        proxy.read_back(&process, &world, &mut backends, &mut target, ledger);
    }
    let shared = shared(&proxies);
    let mut read = BTreeSet::new();
    for proxy in proxies.iter().filter(|proxy| proxy.section.kind != "backend") {
        proxy.read_front(&process, &world, &backends, &shared, &mut read, &mut target, ledger);
    }
    // Rules of backends that no frontend leads to.
    for proxy in proxies.iter().filter(|p| p.section.kind == "backend" && !read.contains(&p.section.name)) {
        proxy.rules(&world, world.state.clone(), ledger);
    }
    for pool in &mut target.pools {
        let keys = [
            key!("response_headers.edits"),
            key!("response_headers.remove"),
            key!("response_headers.set"),
            key!("response_headers.add"),
        ];
        merging::plain_edits(&mut pool.set, keys);
    }
    compared(&proxies, ledger);
    finish(&proxies, &process, &mut target, ledger);
    for section in sections.iter().filter(|section| section.kind == "defaults") {
        if ledger.is_settled(section.line) {
            continue;
        }
        let lines = [section.line].into_iter().chain(section.items.iter().map(|item| item.line));
        lines.for_each(|line| ledger.dropped(line, "no frontend, backend or listen starts from these defaults"));
    }
    // The process only has a stats page.
    if target.listeners.is_empty() && target.root.has(key!("admin")) {
        target.pools.clear();
        for proxy in proxies.iter().filter(|proxy| !proxy.is_front()) {
            let reason = "no frontend leads to it, so that its pool is left out";
            ledger.changes(proxy.section.line, reason, "write a listener and a [[route]] for it");
        }
    }
    crate::limits::unshare(&mut target);
    let maps = maps.used_in(|| target.clone().into_toml());
    target.maps = maps;
    target
}

/// Backends that several frontends may lead to.
fn shared(proxies: &[Proxy<'_>]) -> BTreeSet<String> {
    let mut seen: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    let backends = || proxies.iter().filter(|proxy| proxy.is_back()).map(|proxy| proxy.section.name.clone());
    for proxy in proxies.iter().filter(|proxy| proxy.is_front()) {
        for item in proxy.items.iter().filter(|item| matches!(item.word(0), "use_backend" | "default_backend")) {
            let names: Vec<String> = match item.word(1).contains('%') {
                true => backends().collect(),
                false => vec![item.word(1).to_string()],
            };
            names.into_iter().for_each(|name| {
                seen.entry(name).or_default().insert(&proxy.section.name);
            });
        }
    }
    seen.into_iter().filter(|(_, fronts)| fronts.len() > 1).map(|(name, _)| name).collect()
}

fn proxies<'s>(sections: &'s [Section], maps: &Maps, files: &dyn Files, ledger: &mut Ledger) -> Vec<Proxy<'s>> {
    let mut proxies: Vec<Proxy<'s>> = Vec::new();
    let mut defaults: Vec<&Section> = Vec::new();
    // Names of sections that are no frontend, and of those that are no backend.
    let mut names: BTreeSet<(&str, String)> = BTreeSet::new();
    for section in sections {
        match section.kind.as_str() {
            "defaults" => defaults.push(section),
            "frontend" | "backend" | "listen" => {
                let of_kinds = ["frontend", "backend"].into_iter().filter(|kind| section.kind != *kind);
                let is_new = of_kinds.map(|kind| names.insert((kind, name_of(&section.name)))).fold(true, |a, b| a & b);
                if !is_new {
                    ledger.changes(
                        section.line,
                        "another section has this name: rules lead to that one",
                        "give each a name of its own",
                    );
                }
                let named = section.from.as_ref().and_then(|name| defaults.iter().rev().find(|d| d.name == *name));
                let above = named.or(defaults.last());
                let inherited = above.iter().flat_map(|section| &section.items);
                let items: Vec<&Item> = inherited.chain(&section.items).collect();
                if let Some(above) = above {
                    ledger.carried(above.line);
                }
                let mode = items.iter().rfind(|item| item.word(0) == "mode").map(|item| item.word(1));
                let is_tcp = mode.is_none_or(|mode| mode == "tcp");
                let mut proxy = Proxy { section, items, is_tcp, acls: Acls::new() };
                let context = proxy.context(maps, files);
                let mut acls = Acls::new();
                for item in proxy.items.iter().filter(|item| item.word(0) == "acl") {
                    acl::add(item.from(1), &context, &mut acls);
                }
                proxy.acls = acls;
                proxies.push(proxy);
            }
            _ => {}
        }
    }
    // A backend without a mode that a frontend of HTTP leads to is one of HTTP: HAProxy refuses to start.
    let leads = |item: &&Item| matches!(item.word(0), "use_backend" | "default_backend");
    let fronts = proxies.iter().filter(|proxy| proxy.is_front() && !proxy.is_tcp);
    let named: BTreeSet<String> = fronts
        .flat_map(|proxy| proxy.items.iter().copied().filter(leads))
        .map(|item| item.word(1).to_string())
        .collect();
    for proxy in proxies.iter_mut().filter(|proxy| !proxy.is_front() && !proxy.has_mode()) {
        proxy.is_tcp &= !named.contains(&proxy.section.name);
    }
    proxies
}

/// Counters of all stick-tables, with their periods.
fn stick_tables(proxies: &[Proxy<'_>]) -> StickTables {
    let mut tables = StickTables::new();
    for proxy in proxies {
        for item in proxy.items.iter().filter(|item| item.word(0) == "stick-table") {
            let stored = item.words.iter().position(|word| word == "store").map(|at| item.from(at + 1).join(","));
            let mut counters = BTreeMap::new();
            for counter in stored.unwrap_or_default().split(',') {
                let (name, period) = counter.split_once('(').unwrap_or((counter, "0"));
                counters.insert(name.to_string(), time::milliseconds(period.trim_end_matches(')')).unwrap_or(0));
            }
            tables.insert(proxy.section.name.clone(), (item.line, counters));
        }
    }
    tables
}

impl Proxy<'_> {
    /// Settles the directives in the table of known directives, and directives about the whole process.
    fn treat(&self, process: &global::Process, target: &mut Target, ledger: &mut Ledger) {
        ledger.carried(self.section.line);
        self.treat_mode(ledger);
        for item in &self.items {
            if self.is_tcp && proxy::is_of_http(item) {
                ledger.dropped(item.line, "HAProxy ignores rules for HTTP in a section of TCP");
                continue;
            }
            if rules::is_filter(item) {
                continue;
            }
            if (item.word(0), item.word(1)) == ("http-request", "normalize-uri") {
                target.root.put(key!("defaults.paths"), "normalise");
            }
            if let Some(fate) = known::fate("", &item.words) {
                match fate {
                    Fate::Lossless(reason) => ledger.dropped(item.line, reason),
                    Fate::Changes(reason, todo) => ledger.changes(item.line, reason, todo),
                }
                continue;
            }
            match (item.word(0), item.word(1)) {
                ("mode", "http" | "tcp") => ledger.carried(item.line),
                ("mode", "health") => ledger.changes(
                    item.line,
                    "there is no mode that answers OK to every connection",
                    "a [[route]] with respond = 200",
                ),
                ("mode", _) => {
                    ledger.changes(item.line, "the mode is not known", "mode = \"http\" or \"tcp\" of the listener")
                }
                ("log" | "log-format" | "error-log-format" | "no", _)
                | ("option", "httplog" | "tcplog" | "httpslog") => {
                    process.log_line(item, target, ledger);
                }
                ("option", "forwardfor") => forwardfor(item, ledger),
                ("disabled", _) => {
                    ledger.changes(item.line, "a section cannot be turned off", "remove its listener or pool")
                }
                ("enabled", _) => ledger.dropped(item.line, "everything is on"),
                ("stats", _) => process.stats(item, self, target, ledger),
                (
                    "timeout",
                    "client" | "connect" | "server" | "http-request" | "http-keep-alive" | "queue" | "tunnel" | "check",
                ) => {}
                ("timeout", _) => ledger.dropped(item.line, "it is a time of HAProxy's own machinery"),
                _ => {}
            }
        }
    }

    /// Reports a section without a mode, which is one of TCP.
    fn treat_mode(&self, ledger: &mut Ledger) {
        if self.has_mode() || !self.is_tcp {
            return;
        }
        let reason = "without `mode` it balances sessions of TCP, as HAProxy does";
        match self.items.iter().any(|item| proxy::is_of_http(item)) {
            true => ledger.changes(
                self.section.line,
                format!("{reason}, which ignores its rules for HTTP"),
                "write `mode http` into the section, and convert it again, if it is for requests",
            ),
            false => ledger.dropped(self.section.line, reason),
        }
    }

    fn read_back<'p>(
        &'p self,
        process: &global::Process,
        world: &World<'_>,
        backends: &mut BTreeMap<String, Backend<'p>>,
        target: &mut Target,
        ledger: &mut Ledger,
    ) {
        if !self.is_back() {
            return;
        }
        let name = &self.section.name;
        let has_pool = self.items.iter().any(|item| matches!(item.word(0), "server" | "server-template"));
        let port = self.port();
        let pool = pool::read(name, &self.items, self.is_tcp, &process.ca_base, port.as_deref(), ledger);
        let mut backend = Backend {
            has_pool: has_pool && !pool.endpoints.is_empty(),
            compress: None,
            pages: pages::read(&self.items, world.groups, ledger),
            proxy: self,
        };
        if !self.is_tcp {
            backend.compress = compression::read(&self.items, ledger);
        }
        if backend.has_pool {
            target.pools.push(pool);
        } else if has_pool {
            ledger.decide(
                self.section.line,
                "none of its servers was carried over: requests get a 503",
                "add endpoints to a pool of this name",
            );
        }
        backends.insert(name.clone(), backend);
    }

    #[expect(clippy::too_many_arguments, reason = "facts of the file, and parts of the output")]
    fn read_front(
        &self,
        process: &global::Process,
        world: &World<'_>,
        backends: &BTreeMap<String, Backend<'_>>,
        shared: &BTreeSet<String>,
        read: &mut BTreeSet<String>,
        target: &mut Target,
        ledger: &mut Ledger,
    ) {
        let own = self.is_back() && backends.get(&self.section.name).is_some_and(|backend| backend.has_pool);
        if self.is_stats(own) {
            self.metrics(target, ledger);
            for item in &self.items {
                if !ledger.is_settled(item.line) || item.word(0) == "bind" {
                    ledger.dropped(item.line, "it belongs to the stats page, which is the dashboard of `[admin]` here");
                }
            }
            return;
        }
        let mut state = world.state.clone();
        state.captures = self.captures();
        let rules = self.rules(world, state, ledger);
        let mut front = Front {
            name: &self.section.name,
            line: self.section.line,
            items: &self.items,
            is_tcp: self.is_tcp,
            acls: &self.acls,
            base: &process.crt_base,
            heads: &process.heads,
            connections: process.connections,
            world,
            context: self.context(world.maps, world.files),
            backends,
            rules_of: BTreeMap::new(),
            pages: pages::read(&self.items, world.groups, ledger),
            edits: Vec::new(),
            shared,
            own_pool: own.then(|| name_of(&self.section.name)),
        };
        let mut counted = rules.counted.clone();
        let (mut listeners, mut routes) = front.read(rules, &mut target.pools, ledger);
        counted.extend(front.rules_of.values().flat_map(|rules| rules.counted.clone()));
        counted.retain(|name, _| target.limits.iter().all(|(other, _)| other != name));
        target.limits.extend(counted);
        read.extend(front.rules_of.into_keys());
        if listeners.is_empty() {
            return ledger.decide(
                self.section.line,
                "none of its addresses was carried over",
                "add a listener with bind",
            );
        }
        simplify(&mut listeners, &mut routes);
        if self.is_tcp && routes.is_empty() && listeners.iter().all(|listener| listener.pool.is_none()) {
            let reason = "sessions are closed there, as no server takes them: the listener is left out";
            return ledger.decide(self.section.line, reason, "add a pool, and name it in the listener");
        }
        target.listeners.extend(listeners);
        target.routes.extend(routes);
    }

    /// Serves metrics of an exporter's section at the admin's listener.
    fn metrics(&self, target: &mut Target, ledger: &mut Ledger) {
        let port = self.port().unwrap_or_else(|| "9900".to_string());
        for item in self.items.iter().filter(|item| item.word(0) == "http-request" && item.word(1) == "use-service") {
            let bind = format!("127.0.0.1:{port}");
            let reason = format!("metrics are at http://{bind}/metrics, for this machine only");
            ledger.changes(item.line, reason, "open it to a private network with admin.http.bind");
            target.root.put(key!("admin.http.bind"), bind);
        }
    }
}

/// Reports fetches in conditions that compare differently here.
fn compared(proxies: &[Proxy<'_>], ledger: &mut Ledger) {
    for item in proxies.iter().filter(|proxy| !proxy.is_tcp).flat_map(|proxy| &proxy.items) {
        let text = item.from(0).join(" ");
        let rule =
            matches!(item.word(0), "acl" | "use_backend" | "redirect" | "http-request" | "http-response" | "block");
        if !rule || !ledger.is_settled(item.line) {
            continue;
        }
        if text.contains("url_param(") || text.contains("urlp(") {
            let reason = "of a parameter that occurs several times the first is compared, and in HAProxy any of them";
            ledger.changes(item.line, reason, "nothing, unless clients send such queries");
        }
    }
}

fn forwardfor(item: &Item, ledger: &mut Ledger) {
    ledger.dropped(item.line, "X-Forwarded-For is always set");
    ledger.changes(item.line, crate::report::FORWARDED, crate::report::TRUSTED);
    let words = item.from(2);
    if words.iter().any(|word| word == "except") {
        let todo = "name these proxies in trusted_proxies of the listener";
        ledger.changes(
            item.line,
            "`except`: requests of proxies in front keep their field only if they are trusted",
            todo,
        );
    }
    if let Some(at) = words.iter().position(|word| word == "header") {
        let name = words.get(at + 1).map_or("", String::as_str);
        let todo = format!("request_headers = {{ set = {{ {name} = \"{{client.ip}}\" }} }} in the routes");
        ledger.changes(item.line, "the field has its usual name only", todo);
    }
}

/// Writes a route for everything as `pool` of its listeners, if it has nothing else.
fn simplify(listeners: &mut [crate::model::Listener], routes: &mut Vec<crate::model::Route>) {
    let Some(last) = routes.last() else { return };
    let is_rest = last.matching.conds.len() == 1 && last.matching.conds[0].key == Key::Listener;
    if let (Action::Pool(pool), true, true) = (&last.action, is_rest, last.set.is_empty()) {
        let pool = pool.clone();
        for listener in listeners.iter_mut().filter(|l| !l.set.has(key!("redirect_https")) || routes.len() > 1) {
            if !listener.set.has(key!("redirect_https")) {
                listener.pool = Some(pool.clone());
            }
        }
        routes.pop();
    }
}

fn finish(proxies: &[Proxy<'_>], process: &global::Process, target: &mut Target, ledger: &mut Ledger) {
    for proxy in proxies {
        for item in &proxy.items {
            if ledger.is_settled(item.line) {
                continue;
            }
            let word = item.word(0);
            if word == "stick-table" {
                ledger.dropped(item.line, "no rule that was carried over asks for its counters");
            } else if !proxy.is_back()
                && (BACK.contains(&word)
                    || word == "timeout"
                    || word == "option" && (item.word(1).ends_with("chk") || item.word(1).ends_with("check")))
            {
                ledger.dropped(item.line, "it has no effect in a frontend");
            } else if !proxy.is_front() && (FRONT.contains(&word) || word == "timeout") {
                ledger.dropped(item.line, "it has no effect in a backend");
            }
        }
    }
    process.finish(target, ledger);
    let has_server_timeout = |proxy: &Proxy<'_>| {
        proxy
            .items
            .iter()
            .any(|item| item.word(0) == "srvtimeout" || item.word(0) == "timeout" && item.word(1) == "server")
    };
    if proxies.iter().any(|proxy| proxy.is_back() && !proxy.is_tcp && !has_server_timeout(proxy))
        && !target.pools.is_empty()
    {
        // HAProxy waits for ever without the line.
        target.root.put(key!("defaults.timeouts.response"), Value::from("off"));
    }
    let has_time = |proxy: &Proxy<'_>, old: &str, new: &str| {
        proxy.items.iter().any(|item| item.word(0) == old || item.word(0) == "timeout" && item.word(1) == new)
    };
    for proxy in proxies.iter().filter(|proxy| proxy.is_back() && !target.pools.is_empty()) {
        let line = proxy.section.line;
        if !has_time(proxy, "contimeout", "connect") {
            let reason = "without `timeout connect` HAProxy waits for ever: here it is 1s";
            ledger.changes(line, reason, "timeouts.connect of the pool sets another time");
        }
        if !has_server_timeout(proxy) {
            let reason = "without `timeout server` HAProxy waits for ever: here a body or a session may pause for 5m";
            ledger.changes(line, reason, "timeouts.idle of the pool sets another time");
        }
    }
}
