//! How is a pool written, and what of it a route may set for itself?

use super::{Lines, key, list, quote};
use crate::form::{payload_text, percentile_text, status_text};
use crate::plan::{
    Balance, Check, Discover, Endpoint, HealthCheck, LoadReports, Pool, PoolLimits, ProxyVersion, Records, Resolve,
    Retry, Route, RouteTimeouts, Secret, Source, SpeakAs, Sticky,
};
use evenkeel_balance::eligible::PanicMode;
use evenkeel_balance::{concurrency, health, outlier, slow_start};
use std::time::Duration;

pub(super) fn write(pool: &Pool, unset: &Pool, out: &mut String) {
    let mut table = Lines::default();
    table.add(true, "balance", balance(&pool.balance));
    table.inline("limits", limits(&pool.limits, &unset.limits));
    let mut timeouts = upstream_timeouts(Route::catch_all(pool).timeouts, Route::catch_all(unset).timeouts);
    timeouts.time(pool.timeouts.upstream_idle, unset.timeouts.upstream_idle, "upstream_idle");
    table.inline("timeouts", timeouts);
    if let Some(health) = &pool.health {
        table.inline("health", health_check(health));
    }
    match &pool.outlier {
        None => table.add(true, "outlier", quote("off")),
        Some(set) => table.inline("outlier", outlier(set)),
    }
    if let Some(ramp) = &pool.slow_start {
        table.inline("slow_start", slow_start(ramp));
    }
    let mut panic = Lines::default();
    panic.number(pool.panic.healthy_below, unset.panic.healthy_below, "healthy_below");
    panic.add(pool.panic.mode != unset.panic.mode, "mode", quote(panic_mode(pool.panic.mode)));
    table.inline("panic", panic);
    if let (Some(zone), Some(set)) = (&pool.zone, &pool.locality) {
        table.add(true, "locality", format!("{{ zone = {}, spill_at = {:?} }}", quote(zone), set.spill_at));
    }
    if let Some(subset) = &pool.subset {
        let mut lines = Lines::default();
        lines.add(true, "size", subset.size.to_string());
        lines.maybe("instance", subset.instance.as_deref().map(quote));
        table.inline("subset", lines);
    }
    let mut queue = Lines::default();
    queue.number(pool.queue.max, unset.queue.max, "max");
    queue.ns(pool.queue.timeout_ns, unset.queue.timeout_ns, "timeout");
    table.inline("queue", queue);
    table.inline("retry", retry(&pool.retry, &unset.retry));
    if let Some(cookie) = &pool.sticky {
        table.inline("sticky", sticky(cookie));
    }
    if let Some(set) = &pool.load_reports {
        table.add(true, "load_reports", load_reports(set).braces());
    }
    let version = pool.proxy_protocol.map(|version| match version {
        ProxyVersion::V1 => quote("v1"),
        ProxyVersion::V2 => quote("v2"),
    });
    table.maybe("proxy_protocol", version);
    table.add(pool.source == SpeakAs::Client, "source", quote("client"));
    let mut tcp = Lines::default();
    tcp.maybe_time(pool.keepalive, unset.keepalive, "keepalive");
    table.inline("tcp", tcp);
    table.maybe("discover", pool.discover.as_ref().map(discover));
    if pool.endpoints.is_empty() {
        return table.section(&format!("[pool.{}]", key(&pool.name)), out);
    }
    let endpoints: String = pool.endpoints.iter().map(|e| format!("  {},\n", endpoint(e))).collect();
    table.add(true, "endpoints", format!("[\n{endpoints}]"));
    table.section(&format!("[pool.{}]", key(&pool.name)), out);
}

fn balance(balance: &Balance) -> String {
    let unset = Balance::of(balance.algorithm);
    let mut params = Lines::default();
    for param in balance.algorithm.params {
        let value = balance.written(param.name, param.kind);
        params.add(value != unset.written(param.name, param.kind), param.name, value);
    }
    match params.0.is_empty() {
        true => quote(balance.algorithm.name),
        false => format!("{{ {} = {} }}", balance.algorithm.name, params.braces()),
    }
}

fn limits(set: &PoolLimits, unset: &PoolLimits) -> Lines {
    let mut limits = Lines::default();
    limits.number(set.requests_per_endpoint, unset.requests_per_endpoint, "requests_per_endpoint");
    limits.number(set.idle_per_endpoint, unset.idle_per_endpoint, "idle_per_endpoint");
    if let Some(set) = &set.concurrency {
        let unset = concurrency::Settings::default();
        let mut bounds = Lines::default();
        bounds.number(set.min, unset.min, "min");
        bounds.number(set.max, unset.max, "max");
        bounds.add(set.start != unset.start.clamp(set.min, set.max), "start", set.start.to_string());
        bounds.number(set.tolerance, unset.tolerance, "tolerance");
        bounds.ns(set.interval_ns, unset.interval_ns, "interval");
        limits.add(true, "concurrency", if bounds.0.is_empty() { quote("adaptive") } else { bounds.braces() });
    }
    limits
}

pub(super) fn upstream_timeouts(set: RouteTimeouts, unset: RouteTimeouts) -> Lines {
    let mut timeouts = Lines::default();
    timeouts.time(set.connect, unset.connect, "connect");
    timeouts.maybe_time(set.response, unset.response, "response");
    timeouts.maybe_time(set.request, unset.request, "request");
    timeouts.time(set.idle, unset.idle, "idle");
    timeouts
}

fn health_check(set: &HealthCheck) -> Lines {
    let mut lines = Lines::default();
    match &set.check {
        Check::Tcp => lines.add(true, "tcp", "{}".to_string()),
        Check::Udp { send, expect } => {
            let mut udp = Lines::default();
            udp.add(true, "send", quote(&payload_text(send)));
            udp.maybe("expect", expect.as_deref().map(|bytes| quote(&payload_text(bytes))));
            lines.inline("udp", udp);
        }
        Check::Http { method, path, host, expect, body } => {
            let mut http = Lines::default();
            http.add(true, "path", quote(path));
            http.add(method != "GET", "method", quote(method));
            http.maybe("host", host.as_deref().map(quote));
            http.add(*expect != [200..=299], "expect", list(expect.iter().map(status_text)));
            http.maybe("body", body.as_deref().map(quote));
            lines.inline("http", http);
        }
    }
    lines.maybe("port", set.port.map(|port| port.to_string()));
    lines.add(true, "interval", time(set.interval));
    lines.add(true, "jitter", format!("{:?}", set.jitter));
    lines.time(set.timeout, HealthCheck::usual_timeout(set.interval), "timeout");
    let (machine, unset) = (set.machine, health::Settings::default());
    lines.number(machine.fall, unset.fall, "fall");
    lines.number(machine.rise, unset.rise, "rise");
    let initial = match machine.initial {
        health::Initial::CheckFirst => "check-first",
        health::Initial::Healthy => "healthy",
        health::Initial::Unhealthy => "unhealthy",
    };
    lines.add(machine.initial != unset.initial, "initial", quote(initial));
    lines
}

fn outlier(set: &outlier::Settings) -> Lines {
    let unset = outlier::Settings::default();
    let mut lines = Lines::default();
    lines.number(set.consecutive_5xx, unset.consecutive_5xx, "consecutive_5xx");
    lines.number(set.consecutive_gateway, unset.consecutive_gateway, "consecutive_gateway");
    lines.number(set.consecutive_connect, unset.consecutive_connect, "consecutive_connect");
    let rate = set.success_rate.map(|outlier::SuccessRate { deviations, min_requests, min_endpoints }| {
        format!("{{ deviations = {deviations:?}, min_requests = {min_requests}, min_endpoints = {min_endpoints} }}")
    });
    lines.maybe("success_rate", rate);
    let latency = set.latency.map(|outlier::Latency { factor, min_requests }| {
        format!("{{ factor = {factor:?}, min_requests = {min_requests} }}")
    });
    lines.maybe("latency", latency);
    lines.ns(set.interval_ns, unset.interval_ns, "interval");
    lines.ns(set.eject_ns, unset.eject_ns, "eject");
    lines.ns(set.eject_max_ns, unset.eject_max_ns, "eject_max");
    lines.number(set.eject_at_most, unset.eject_at_most, "eject_at_most");
    lines
}

fn slow_start(set: &slow_start::Settings) -> Lines {
    let mut lines = Lines::default();
    lines.add(true, "window", time(Duration::from_nanos(set.window_ns)));
    lines.add(true, "aggression", format!("{:?}", set.aggression));
    lines.add(true, "min_weight", format!("{:?}", set.min_weight));
    lines
}

fn panic_mode(mode: PanicMode) -> &'static str {
    match mode {
        PanicMode::UseAll => "use-all",
        PanicMode::Refuse => "refuse",
    }
}

pub(super) fn retry(set: &Retry, unset: &Retry) -> Lines {
    let (settings, other) = (&set.settings, &unset.settings);
    let mut lines = Lines::default();
    lines.number(settings.attempts, other.attempts, "attempts");
    let words = [(settings.on.connect, "connect"), (settings.on.reset, "reset"), (settings.on.timeout, "timeout")];
    let words = words.into_iter().filter(|(on, _)| *on).map(|(_, word)| quote(word));
    // Statuses that follow each other as one range.
    let runs = settings.on.statuses.chunk_by(|a, b| a + 1 == *b);
    let statuses = runs.filter_map(|run| Some(status_text(&(*run.first()?..=*run.last()?))));
    lines.add(settings.on != other.on, "on", list(words.chain(statuses)));
    lines.add(settings.non_idempotent != other.non_idempotent, "non_idempotent", settings.non_idempotent.to_string());
    lines.number(settings.budget, other.budget, "budget");
    lines.number(settings.budget_floor, other.budget_floor, "budget_floor");
    let backoff = |ns| super::duration_text(Duration::from_nanos(ns));
    let differs = (settings.backoff_ns, settings.backoff_max_ns) != (other.backoff_ns, other.backoff_max_ns);
    let text = format!("{}..{}", backoff(settings.backoff_ns), backoff(settings.backoff_max_ns));
    lines.add(differs, "backoff", quote(&text));
    let duration = |ns: Option<u64>| ns.map(Duration::from_nanos);
    lines.maybe_time(duration(settings.try_timeout_ns), duration(other.try_timeout_ns), "try_timeout");
    let percentile = |retry: &Retry| retry.hedge.map(|hedge| hedge.percentile);
    let after = percentile(set).map_or("off".to_string(), percentile_text);
    lines.add(percentile(set) != percentile(unset), "hedge_after", quote(&after));
    let hedge = set.hedge.filter(|_| set.hedge != unset.hedge);
    lines.maybe("hedge_budget", hedge.map(|hedge| format!("{:?}", hedge.budget)));
    lines
}

/// What is written in the place of a key. Too short to be one, so that nobody runs with it by accident.
const MASK: &str = "***";

fn sticky(set: &Sticky) -> Lines {
    let mut lines = Lines::default();
    lines.add(true, "cookie", quote(&set.cookie));
    match &set.secret {
        Secret::Inline(_) => lines.add(true, "secret", quote(MASK)),
        Secret::File(path) => lines.add(true, "secret_file", quote(&path.display().to_string())),
    }
    lines.maybe("ttl", set.ttl.map(time));
    lines.add(set.path != "/", "path", quote(&set.path));
    lines.add(set.secure, "secure", set.secure.to_string());
    lines.add(true, "same_site", quote(set.same_site.as_str()));
    lines
}

fn load_reports(set: &LoadReports) -> Lines {
    let mut lines = Lines::default();
    lines.add(true, "in_band", set.in_band.to_string());
    lines.add(true, "probe", quote(set.probe.as_str()));
    lines.add(true, "timeout", time(set.timeout));
    lines.add(true, "rate_max", set.rate_max.to_string());
    lines.add(true, "path", quote(&set.path));
    lines.add(true, "in_flight", list(set.in_flight.iter().map(|name| quote(name))));
    lines.add(true, "pass", set.pass.to_string());
    lines
}

fn discover(set: &Discover) -> String {
    let mut lines = Lines::default();
    match &set.source {
        Source::File(path) => lines.add(true, "file", quote(&path.display().to_string())),
        Source::Dns(dns) => {
            let mut table = Lines::default();
            table.add(true, "name", quote(&dns.name));
            let kind = match dns.records {
                Records::Addresses => None,
                Records::A => Some("A"),
                Records::Aaaa => Some("AAAA"),
                Records::Srv => Some("SRV"),
            };
            table.maybe("type", kind.map(quote));
            table.add(dns.port != 0, "port", dns.port.to_string());
            table.add(true, "min_ttl", time(dns.min_ttl));
            lines.inline("dns", table);
        }
    }
    lines.add(set.allow_empty, "allow_empty", "true".to_string());
    lines.braces()
}

fn endpoint(endpoint: &Endpoint) -> String {
    let addr = endpoint.addr.to_string();
    let mut table = Lines::default();
    table.add(true, "addr", quote(&addr));
    table.add(*endpoint.name != *addr, "name", quote(&endpoint.name));
    table.add(endpoint.resolve == Resolve::All, "resolve", quote("all"));
    table.add(endpoint.weight != 1, "weight", endpoint.weight.to_string());
    table.add(endpoint.priority != 0, "priority", endpoint.priority.to_string());
    table.add(endpoint.drain, "drain", endpoint.drain.to_string());
    table.maybe("zone", endpoint.zone.as_deref().map(quote));
    if table.0.len() == 1 { quote(&addr) } else { table.braces() }
}

fn time(duration: Duration) -> String {
    quote(&super::duration_text(duration))
}
