//! haproxy.cfg: sections, the defaults that they start from, and their counterparts.

// Order: front, compression, global, merging, pool, check, rules, acl, known, server, bind, gathered, lexer, time
mod acl;
mod bind;
mod check;
mod compression;
mod front;
mod gathered;
mod global;
mod known;
mod lexer;
mod merging;
mod pool;
mod rules;
mod server;
mod time;

use crate::ledger::Ledger;
use crate::model::{Action, Key, Target, Value, name_of};
use acl::Acls;
use front::{Backend, Front};
use known::Fate;
use lexer::{Item, Section};
use rules::{Scope, StickTables};
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

/// Reads a haproxy.cfg into a draft of the output.
pub(crate) fn translate(text: &str, file: &Arc<str>, ledger: &mut Ledger) -> Target {
    let sections = lexer::sections(text, file, ledger);
    let mut target = Target::default();
    let process = global::read(&sections, &mut target, ledger);
    let proxies = proxies(&sections, ledger);
    let tables = stick_tables(&proxies);
    let mut backends = BTreeMap::new();
    for proxy in &proxies {
        proxy.treat(&process, &mut target, ledger);
        proxy.read_back(&process, &tables, &mut backends, &mut target, ledger);
    }
    for proxy in proxies.iter().filter(|proxy| proxy.section.kind != "backend") {
        proxy.read_front(&process, &tables, &backends, &mut target, ledger);
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
    target
}

/// A frontend, backend or listen section with the defaults that it starts from.
struct Proxy<'s> {
    section: &'s Section,
    items: Vec<&'s Item>,
    is_tcp: bool,
    acls: Acls,
}

fn proxies<'s>(sections: &'s [Section], ledger: &mut Ledger) -> Vec<Proxy<'s>> {
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
                let is_tcp =
                    items.iter().rev().find(|item| item.word(0) == "mode").is_some_and(|item| item.word(1) == "tcp");
                let mut acls = Acls::new();
                for item in items.iter().filter(|item| item.word(0) == "acl") {
                    acls.entry(item.word(1).to_string()).or_default().extend(acl::read(item.from(2)));
                }
                acls.values_mut().for_each(acl::join);
                proxies.push(Proxy { section, items, is_tcp, acls });
            }
            _ => {}
        }
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
    fn is_front(&self) -> bool {
        self.section.kind != "backend"
    }

    fn is_back(&self) -> bool {
        self.section.kind != "frontend"
    }

    /// Settles the directives in the table of known directives, and directives about the whole process.
    fn treat(&self, process: &global::Process, target: &mut Target, ledger: &mut Ledger) {
        ledger.carried(self.section.line);
        for item in &self.items {
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

    fn read_back(
        &self,
        process: &global::Process,
        tables: &StickTables,
        backends: &mut BTreeMap<String, Backend>,
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
        let mut backend = Backend { has_pool: has_pool && !pool.endpoints.is_empty(), ..Backend::default() };
        if !self.is_tcp {
            backend.compress = compression::read(&self.items, ledger);
        }
        if backend.has_pool {
            target.pools.push(pool);
        } else if has_pool {
            ledger.changes(
                self.section.line,
                "none of its servers was carried over: requests get a 503",
                "add endpoints to a pool of this name",
            );
        }
        if self.section.kind == "backend" {
            backend.rules = self.rules(process, tables, ledger);
        }
        for item in self.items.iter().filter(|item| item.word(0) == "errorfile") {
            let (status, file) = (item.word(1), item.word(2));
            let todo =
                format!("write error_pages = [{{ status = [{status}], errorfile = \"{file}\" }}] into the routes");
            ledger.changes(item.line, "the page is not carried over", todo);
        }
        backends.insert(name.clone(), backend);
    }

    fn rules(&self, process: &global::Process, tables: &StickTables, ledger: &mut Ledger) -> rules::Rules {
        let mut scope = Scope {
            items: &self.items,
            section: &self.section.name,
            acls: &self.acls,
            tables,
            userlists: &process.userlists,
            caches: &process.caches,
            trackers: BTreeMap::new(),
        };
        rules::trackers(&self.items, &mut scope, ledger);
        let rules = rules::read(&self.items, &scope, ledger);
        rules::unused(&self.items, ledger);
        for item in self.items.iter().filter(|item| item.word(0) == "acl") {
            ledger.carried(item.line);
        }
        rules
    }

    /// Returns the port of a listen section with a single address. Servers without a port use it.
    fn port(&self) -> Option<String> {
        let mut binds = self.items.iter().filter(|item| item.word(0) == "bind");
        let address = binds.next()?.word(1).to_string();
        let (_, port) = address.rsplit_once(':')?;
        (binds.next().is_none() && !address.contains(',')).then(|| port.to_string())
    }

    fn read_front(
        &self,
        process: &global::Process,
        tables: &StickTables,
        backends: &BTreeMap<String, Backend>,
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
        let rules = self.rules(process, tables, ledger);
        let front = Front {
            name: &self.section.name,
            line: self.section.line,
            items: &self.items,
            is_tcp: self.is_tcp,
            acls: &self.acls,
            base: &process.crt_base,
            connections: process.connections,
            backends,
            own_pool: own.then(|| name_of(&self.section.name)),
        };
        let (mut listeners, mut routes) = front.read(rules, ledger);
        if listeners.is_empty() {
            return ledger.changes(
                self.section.line,
                "none of its addresses was carried over",
                "add a listener with bind",
            );
        }
        simplify(&mut listeners, &mut routes);
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

    /// True if the section shows statistics and does nothing else.
    fn is_stats(&self, has_pool: bool) -> bool {
        let is = |item: &&Item, word: &str, second: &str| {
            item.word(0) == word && (second.is_empty() || item.word(1) == second)
        };
        let own = &self.section.items;
        let shows = own.iter().any(|item| is(&item, "stats", "uri") || is(&item, "stats", "enable"))
            || own.iter().any(|item| item.word(0) == "http-request" && item.word(1) == "use-service");
        shows && !has_pool && !self.items.iter().any(|item| matches!(item.word(0), "use_backend" | "default_backend"))
    }
}

/// Reports fetches in conditions that compare differently here. The port in a Host is mentioned once per file.
fn compared(proxies: &[Proxy<'_>], ledger: &mut Ledger) {
    let mut is_named = false;
    for item in proxies.iter().filter(|proxy| !proxy.is_tcp).flat_map(|proxy| &proxy.items) {
        let text = item.from(0).join(" ");
        let rule =
            matches!(item.word(0), "acl" | "use_backend" | "redirect" | "http-request" | "http-response" | "block");
        if !rule || !ledger.is_settled(item.line) {
            continue;
        }
        let is_host =
            ["hdr(host)", "hdr_end(host)", "hdr_dom(host)", "hdr(Host)"].iter().any(|fetch| text.contains(fetch));
        if is_host
            && !text.contains("host_only")
            && !text.contains("field(1,:)")
            && !std::mem::replace(&mut is_named, true)
        {
            let reason = "a host is compared without its port: a request for `name:8080` is one for another host in HAProxy, here as in all conditions on the host";
            ledger.changes(item.line, reason, "nothing, unless hosts with a port must not match: header = { Host = \"NAME\" } compares the whole field");
        }
        if text.contains("hdr_dom(host)") {
            let reason = "`hdr_dom` finds a domain anywhere between dots; here it is the end of the host";
            ledger.changes(
                item.line,
                reason,
                "nothing, unless other labels follow it: header = { Host = { contains = \"NAME\" } }",
            );
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
}
