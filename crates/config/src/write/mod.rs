//! How is a plan written? [`Plan::to_toml`]: what differs from the defaults, in the order of the reference page.

mod pool;
mod zone;

use crate::load::{Outcome, parse_str};
use crate::plan::{
    Cidr, Level, Listener, ListenerLimits, LogFormat, LogTarget, PathPattern, Plan, Pool, Route, Workers,
};
use crate::quantity::{duration_text, size_text};
use std::fmt::Write;
use std::time::Duration;

impl Plan {
    /// The plan of `evenkeel run ADDR ADDR...`: one listener, one pool, everything else as in a file that sets
    /// nothing. It goes through the same reader as a file; its diagnostics point into the equivalent TOML, which is
    /// called "command line".
    pub fn for_addresses(listen: &str, endpoints: &[&str], balance: Option<&str>) -> Outcome {
        let mut text = format!("[listener.web]\nbind = [{}]\n\n[pool.web]\n", quote(listen));
        if let Some(name) = balance {
            let _ = writeln!(text, "balance = {}", quote(name));
        }
        let _ = writeln!(text, "endpoints = [");
        for endpoint in endpoints {
            let _ = writeln!(text, "  {},", quote(endpoint));
        }
        let _ = writeln!(text, "]");
        parse_str("command line", &text, &|_| None)
    }

    /// A file that gives an equal plan, but for secrets in it, for which asterisks stand.
    pub fn to_toml(&self) -> String {
        // The plan of a file that sets nothing knows every default.
        let nothing = Plan::for_addresses("127.0.0.1:1", &["127.0.0.1:2"], None);
        let defaults = nothing.plan.expect("a plan of two good addresses and defaults");
        let mut out = String::from("version = 1\n");
        self.write_process(&defaults, &mut out);
        for listener in &self.listeners {
            write_listener(listener, &defaults.listeners[0], &mut out);
        }
        let implied = self.pools.len() == 1 && self.routes == [Route::catch_all(&self.pools[0])];
        let own = |r: &&Route| {
            self.listeners.iter().any(|l| l.pool.is_some() && r.listeners == [l.name.clone()] && r.name == l.name)
        };
        for route in self.routes.iter().filter(|r| !implied && !own(r)) {
            write_route(route, self.pool(&route.pool), &mut out);
        }
        for pool in &self.pools {
            pool::write(pool, &defaults.pools[0], &mut out);
        }
        out
    }

    fn write_process(&self, defaults: &Plan, out: &mut String) {
        let (runtime, unset) = (&self.runtime, &defaults.runtime);
        let mut table = Lines::default();
        let workers = match runtime.workers {
            Workers::Auto => quote("auto"),
            Workers::Count(n) => n.to_string(),
        };
        table.add(runtime.workers != unset.workers, "workers", workers);
        table.time(runtime.drain_timeout, unset.drain_timeout, "drain_timeout");
        table.add(runtime.watch != unset.watch, "watch", runtime.watch.to_string());
        let mut log = Lines::default();
        log.add(runtime.log.level != unset.log.level, "level", quote(level(runtime.log.level)));
        log.add(runtime.log.format != unset.log.format, "format", quote(format_name(runtime.log.format)));
        table.inline("log", log);
        table.section("[runtime]", out);

        let mut table = Lines::default();
        if let Some(admin) = &self.admin {
            let socket = admin.socket.as_ref().map(|path| format!("unix:{}", path.display()));
            table.maybe("bind", socket.map(|socket| quote(&socket)));
            let http = admin.bind.map(|bind| format!("{{ bind = {} }}", quote(&bind.to_string())));
            table.maybe("http", http);
        }
        table.section("[admin]", out);

        let (metrics, unset) = (&self.telemetry.metrics, &defaults.telemetry.metrics);
        let mut table = Lines::default();
        let mut inner = Lines::default();
        inner.add(metrics.path != unset.path, "path", quote(&metrics.path));
        inner.add(metrics.per_endpoint != unset.per_endpoint, "per_endpoint", metrics.per_endpoint.to_string());
        inner.add(metrics.buckets != unset.buckets, "buckets", format!("{:?}", metrics.buckets));
        table.inline("metrics", inner);
        let path = |to: &LogTarget| match to {
            LogTarget::Stdout => quote("-"),
            LogTarget::File(path) => quote(&path.display().to_string()),
        };
        if let Some(log) = &self.telemetry.access_log {
            table.add(true, "access_log", format!("{{ path = {} }}", path(&log.to)));
        }
        if let Some(journal) = &self.telemetry.journal {
            let pool = quote(&journal.pool);
            table.add(true, "journal", format!("{{ path = {}, pool = {pool} }}", path(&journal.to)));
        }
        table.section("[telemetry]", out);

        let (resolver, unset) = (&self.resolver, &defaults.resolver);
        let mut table = Lines::default();
        let nameservers = resolver.nameservers.iter().map(|addr| quote(&addr.to_string()));
        table.add(resolver.nameservers != unset.nameservers, "nameservers", list(nameservers));
        table.add(resolver.search != unset.search, "search", resolver.search.to_string());
        table.time(resolver.min_ttl, unset.min_ttl, "min_ttl");
        table.time(resolver.max_ttl, unset.max_ttl, "max_ttl");
        table.section("[resolver]", out);
    }
}

fn write_listener(listener: &Listener, unset: &Listener, out: &mut String) {
    let mut table = Lines::default();
    table.add(true, "bind", list(listener.bind.iter().map(|b| quote(&b.to_string()))));

    table.add(listener.mode != unset.mode, "mode", quote(listener.mode.name()));
    table.maybe("pool", listener.pool.as_ref().map(|pool| quote(pool)));
    table.maybe("zone", listener.zone.as_ref().map(|zone| zone::zone(zone).braces()));
    table.networks("accept_proxy_protocol", &listener.accept_proxy_protocol);
    table.networks("trusted_proxies", &listener.trusted_proxies);

    let (set, unset_limits) = (listener.limits, unset.limits);
    let mut limits = Lines::default();
    limits.number(set.connections, unset_limits.connections, "connections");
    limits.number(set.connections_per_address, unset_limits.connections_per_address, "connections_per_address");
    limits.number(set.requests_per_address, unset_limits.requests_per_address, "requests_per_address");
    let burst = ListenerLimits::usual_burst(set.requests_per_address);
    limits.number(set.burst_per_address, burst, "burst_per_address");
    limits.add(set.headers != unset_limits.headers, "headers", quote(&size_text(set.headers as u64)));
    limits.number(set.header_count, unset_limits.header_count, "header_count");
    limits.number(set.requests_per_connection, unset_limits.requests_per_connection, "requests_per_connection");
    table.inline("limits", limits);

    let (set, unset, unset_udp) = (listener.timeouts, unset.timeouts, unset.udp);
    let mut timeouts = Lines::default();
    timeouts.time(set.client_header, unset.client_header, "client_header");
    timeouts.time(set.client_idle, unset.client_idle, "client_idle");
    timeouts.time(set.client_body, unset.client_body, "client_body");
    table.inline("timeouts", timeouts);
    table.maybe(
        "report_load",
        listener.report_load.as_ref().map(|set| {
            let mut reports = Lines::default();
            reports.add(true, "header", set.header.to_string());
            reports.add(true, "udp", set.udp.to_string());
            reports.add(true, "path", quote(&set.path));
            reports.braces()
        }),
    );
    let mut udp = Lines::default();
    udp.time(listener.udp.idle, unset_udp.idle, "idle");
    udp.number(listener.udp.answers, unset_udp.answers, "answers");
    table.inline("udp", udp);
    table.section(&format!("[listener.{}]", key(&listener.name)), out);
}

fn write_route(route: &Route, pool: Option<&Pool>, out: &mut String) {
    let mut table = Lines::default();
    table.add(*route.name != *Route::derived_name(&route.hosts, &route.path), "name", quote(&route.name));
    let mut matches = Lines::default();
    let listeners = route.listeners.iter().map(|l| quote(l));
    matches.add(!route.listeners.is_empty(), "listener", list(listeners));
    let hosts = route.hosts.iter().map(|h| quote(&h.to_string()));
    matches.add(!route.hosts.is_empty(), "host", list(hosts));
    matches.add(route.path != PathPattern::Any, "path", quote(&route.path.to_string()));
    matches.add(!route.alpn.is_empty(), "alpn", list(route.alpn.iter().map(|p| quote(p))));
    table.inline("match", matches);
    table.add(true, "pool", quote(&route.pool));
    if let Some(pool) = pool {
        let unset = Route::catch_all(pool);
        table.inline("timeouts", pool::upstream_timeouts(route.timeouts, unset.timeouts));
        table.inline("retry", pool::retry(&route.retry, &unset.retry));
    }
    table.section("[[route]]", out);
}

/// The keys of one table, each `key = value`.
#[derive(Default)]
struct Lines(Vec<String>);

impl Lines {
    fn add(&mut self, differs: bool, key: &str, value: String) {
        if differs {
            self.0.push(format!("{key} = {value}"));
        }
    }

    fn maybe(&mut self, key: &str, value: Option<String>) {
        self.add(value.is_some(), key, value.unwrap_or_default());
    }

    fn networks(&mut self, key: &str, networks: &[Cidr]) {
        self.add(!networks.is_empty(), key, list(networks.iter().map(|n| quote(&n.to_string()))));
    }

    /// A number, as TOML has it: `{:?}` keeps the point of one that is whole.
    fn number<T: PartialEq + std::fmt::Debug>(&mut self, set: T, unset: T, key: &str) {
        self.add(set != unset, key, format!("{set:?}"));
    }

    fn ns(&mut self, set: u64, unset: u64, key: &str) {
        self.time(Duration::from_nanos(set), Duration::from_nanos(unset), key);
    }

    fn time(&mut self, set: Duration, unset: Duration, key: &str) {
        self.add(set != unset, key, quote(&duration_text(set)));
    }

    fn maybe_time(&mut self, set: Option<Duration>, unset: Option<Duration>, key: &str) {
        self.add(set != unset, key, quote(&set.map_or("off".to_string(), duration_text)));
    }

    fn inline(&mut self, key: &str, inner: Lines) {
        self.add(!inner.0.is_empty(), key, inner.braces());
    }

    fn braces(&self) -> String {
        format!("{{ {} }}", self.0.join(", "))
    }

    fn section(self, header: &str, out: &mut String) {
        if !self.0.is_empty() {
            let _ = writeln!(out, "\n{header}\n{}", self.0.join("\n"));
        }
    }
}

fn level(level: Level) -> &'static str {
    match level {
        Level::Error => "error",
        Level::Warn => "warn",
        Level::Info => "info",
        Level::Debug => "debug",
        Level::Trace => "trace",
    }
}

fn format_name(format: LogFormat) -> &'static str {
    match format {
        LogFormat::Json => "json",
        LogFormat::Text => "text",
    }
}

/// A name as a key: bare unless it has a dot, which would part it.
fn key(name: &str) -> String {
    if name.contains('.') { quote(name) } else { name.to_string() }
}

fn list(items: impl Iterator<Item = String>) -> String {
    format!("[{}]", items.collect::<Vec<_>>().join(", "))
}

/// A text as a TOML string that no environment variable is put into.
fn quote(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.replace("${", "$${").chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => {
                let _ = write!(out, "\\U{:08X}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}
