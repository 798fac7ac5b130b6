//! Clusters: pools with their endpoints, checks, limits and ejection.

use super::address::socket;
use crate::durations::milliseconds;
use crate::ledger::Ledger;
use crate::limits::put_time;
use crate::model::{Draft, Endpoint, Entries, Pool, Value, duration, hashed, name_of};
use crate::tree::Node;
use evenkeel_config::plan::HealthCheck;

/// The pool of a cluster; `None` without endpoints, which is reported.
pub(super) fn read(node: &Node, ledger: &mut Ledger) -> Option<Pool> {
    let mut pool = Pool { name: name_of(node.take("name", ledger)?), ..Pool::default() };
    let is_names = node.take("type", ledger) == Some("STRICT_DNS");
    for group in node.at("load_assignment.endpoints").map_or(&[][..], Node::list) {
        let priority = number(group, "priority", ledger).filter(|n| *n > 0);
        let zone = group.take("locality.zone", ledger).map(str::to_string);
        for entry in group.get("lb_endpoints").map_or(&[][..], Node::list) {
            let Some(addr) = entry.at("endpoint.address").and_then(|address| socket(address, ledger)) else { continue };
            let mut set = Draft::default();
            let is_name = addr
                .rsplit_once(':')
                .is_some_and(|(host, _)| host.trim_matches(['[', ']']).parse::<std::net::IpAddr>().is_err());
            if is_names && is_name && !addr.starts_with("unix:") {
                set.put(key!("resolve"), "all");
            }
            if let Some(host) = entry.take("endpoint.hostname", ledger) {
                set.put(key!("host"), host);
            }
            if let Some(weight) = number(entry, "load_balancing_weight", ledger).filter(|n| *n != 1) {
                set.put(key!("weight"), weight.min(65_535));
            }
            if let Some(priority) = priority {
                set.put(key!("priority"), priority.min(15));
            }
            if let Some(zone) = &zone {
                set.put(key!("zone"), zone.as_str());
            }
            if entry.take("health_status", ledger) == Some("DRAINING") {
                set.put(key!("drain"), true);
            }
            if !pool.endpoints.iter().any(|other| other.addr == addr) {
                pool.endpoints.push(Endpoint { addr, set });
            }
        }
    }
    if let Some(ms) = node.take("connect_timeout", ledger).and_then(milliseconds) {
        put_time(&mut pool.set, key!("timeouts.connect"), ms);
    }
    balance(node, &mut pool, ledger);
    if let Some(check) = node.get("health_checks").and_then(|checks| checks.list().first()) {
        health(check, &mut pool, ledger);
    }
    outlier(node, &mut pool, ledger);
    if let Some(breaker) = node.at("circuit_breakers.thresholds").and_then(|list| list.list().first()) {
        if let Some(most) = number(breaker, "max_requests", ledger) {
            let each = most.div_ceil(pool.endpoints.len().max(1) as u64);
            pool.set.put(key!("limits.requests_per_endpoint"), each.min(1_000_000));
            ledger.changes(
                breaker.line,
                "the limit of the cluster is divided among its endpoints",
                "limits.requests_per_endpoint of the pool",
            );
        }
        if let Some(most) = number(breaker, "max_pending_requests", ledger) {
            pool.set.put(key!("queue.max"), most.min(1_000_000));
        }
        breaker.lost("pools have no limit of this kind", "limits and retry of the pool", ledger);
    }
    protocols(node, &mut pool, ledger);
    for key in [
        "load_assignment.cluster_name",
        "dns_lookup_family",
        "respect_dns_ttl",
        "dns_refresh_rate",
        "alt_stat_name",
        "per_connection_buffer_limit_bytes",
        "common_lb_config",
    ] {
        if let Some(inner) = node.at(key) {
            inner.dropped("it is the default here, or names figures", ledger);
        }
    }
    node.lost("a cluster has no such setting here", "see the keys of a pool", ledger);
    if pool.endpoints.is_empty() {
        ledger.changes(node.line, "the cluster has no endpoints here", "name them in a pool, or find them by discover");
        return None;
    }
    Some(pool)
}

fn number(node: &Node, path: &str, ledger: &mut Ledger) -> Option<u64> {
    node.take(path, ledger)?.parse().ok()
}

fn balance(node: &Node, pool: &mut Pool, ledger: &mut Ledger) {
    let policy = node.take("lb_policy", ledger).unwrap_or("ROUND_ROBIN");
    let balance: Option<Value> = match policy {
        "ROUND_ROBIN" => Some("round_robin".into()),
        "LEAST_REQUEST" | "RANDOM" => Some("random".into()),
        "RING_HASH" | "MAGLEV" => Some(hashed("client-ip")),
        _ => None,
    };
    if matches!(policy, "RING_HASH" | "MAGLEV") {
        ledger.changes(
            node.line,
            "the key of the hash stands in the pool: the client's address is one of several",
            "balance = { maglev = { key = \"header:NAME\" } }",
        );
    }
    match balance {
        Some(balance) if pool.endpoints.len() > 1 => drop(pool.set.put(key!("balance"), balance)),
        Some(_) => {}
        None => ledger.changes(node.line, format!("the policy {policy} has no counterpart"), "balance of the pool"),
    }
}

fn health(check: &Node, pool: &mut Pool, ledger: &mut Ledger) {
    let mut health: Draft<HealthCheck> = Draft::default();
    if let Some(http) = check.get("http_health_check") {
        health.put(key!("http.path"), http.take("path", ledger).unwrap_or("/"));
        if let Some(host) = http.take("host", ledger) {
            health.put(key!("http.host"), host);
        }
        http.lost("checks have no such setting", "expect and body of the check", ledger);
    } else if let Some(grpc) = check.get("grpc_health_check") {
        health.put(key!("grpc"), Entries::default());
        if let Some(service) = grpc.take("service_name", ledger) {
            health.put(key!("grpc.service"), service);
        }
        grpc.carried(ledger);
    } else {
        health.put(key!("tcp"), Entries::default());
        if let Some(tcp) = check.get("tcp_health_check") {
            tcp.lost("what is sent and expected is left out", "health.tcp.send and expect", ledger);
        }
    }
    let interval = check.take("interval", ledger).and_then(milliseconds).filter(|ms| *ms > 0).unwrap_or(5000);
    put_time(&mut health, key!("interval"), interval);
    if let Some(ms) = check.take("timeout", ledger).and_then(milliseconds).filter(|ms| *ms > 0) {
        put_time(&mut health, key!("timeout"), ms.min(interval));
    }
    for (key, own) in [("unhealthy_threshold", key!("fall")), ("healthy_threshold", key!("rise"))] {
        if let Some(times) = number(check, key, ledger) {
            health.put(own, times.clamp(1, 1000));
        }
    }
    pool.set.put(key!("health"), health);
    check.lost("checks have no such setting", "health of the pool", ledger);
}

fn outlier(node: &Node, pool: &mut Pool, ledger: &mut Ledger) {
    let Some(outlier) = node.get("outlier_detection") else { return };
    for (key, own) in [
        ("consecutive_5xx", key!("outlier.consecutive_5xx")),
        ("consecutive_gateway_failure", key!("outlier.consecutive_gateway")),
    ] {
        if let Some(times) = number(outlier, key, ledger) {
            pool.set.put(own, times.min(1_000_000));
        }
    }
    let time = |path: &str, ledger: &mut Ledger| outlier.take(path, ledger).and_then(milliseconds).filter(|ms| *ms > 0);
    if let Some(ms) = time("base_ejection_time", ledger) {
        let eject = ms.clamp(100, 86_400_000);
        pool.set.put(key!("outlier.eject"), duration(eject));
        if eject > 300_000 {
            pool.set.put(key!("outlier.eject_max"), duration(eject));
        }
    }
    if let Some(ms) = time("interval", ledger) {
        pool.set.put(key!("outlier.interval"), duration(ms.clamp(100, 3_600_000)));
    }
    if let Some(percent) = number(outlier, "max_ejection_percent", ledger).map(|percent| percent.min(100)) {
        pool.set.put(key!("outlier.eject_at_most"), Value::Fraction(format!("{}.{:02}", percent / 100, percent % 100)));
    }
    outlier.lost("ejection has no such setting here", "outlier of the pool", ledger);
}

fn protocols(node: &Node, pool: &mut Pool, ledger: &mut Ledger) {
    let is_h2 =
        ["http2_protocol_options", "typed_extension_protocol_options"].iter().any(|key| node.get(key).is_some());
    if let Some(options) = node.get("http2_protocol_options") {
        pool.set.put(key!("protocol"), "h2");
        options.dropped("windows and streams have keys of their own in http2 of the pool", ledger);
    }
    if let Some(options) = node.get("typed_extension_protocol_options").filter(|_| is_h2) {
        let explicit = options
            .entries()
            .first()
            .and_then(|(_, options)| options.at("explicit_http_config.http2_protocol_options"));
        if explicit.is_some() {
            pool.set.put(key!("protocol"), "h2");
            options.dropped("the protocol of endpoints is that of the pool", ledger);
        }
    }
    let Some(socket) = node.get("transport_socket") else { return };
    let config = socket.get("typed_config");
    // Envoy verifies no certificate unless an authority is named.
    let ca = config.and_then(|config| config.take("common_tls_context.validation_context.trusted_ca.filename", ledger));
    match ca {
        Some(ca) => drop(pool.set.put(key!("tls.ca"), ca)),
        None => {
            pool.set.put(key!("tls.verify"), false);
            ledger.changes(
                socket.line,
                "certificates of endpoints are not verified, as in Envoy without trusted_ca",
                "leave verify = false out of the pool if they are valid",
            );
        }
    }
    if let Some(name) = config.and_then(|config| config.take("sni", ledger)) {
        pool.set.put(key!("tls.server_name"), name);
    }
    socket.take("name", ledger);
    if let Some(kind) = config.and_then(|config| config.get("@type")) {
        kind.carried(ledger);
    }
    socket.lost("TLS has no such setting here", "tls of the pool", ledger);
}
