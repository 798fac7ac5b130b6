//! `reverse_proxy`: a pool, and the filters that stand in its block.

use super::fields::{self, Edit};
use super::lexer::Directive;
use super::value;
use crate::durations::milliseconds;
use crate::ledger::Ledger;
use crate::limits::{fit_endpoints, put_time};
use crate::model::{Draft, Endpoint, FieldKeys, Pool, RouteKeys, Target, Value, hashed, pool_names};
use evenkeel_config::draft::KeyOf;
use evenkeel_config::plan::{self, HealthCheck};

/// A pool, and the changes to requests and responses on the way to it.
pub(super) struct Proxied {
    pub pool: String,
    pub set: RouteKeys,
    pub request: Vec<Edit>,
    pub response: Vec<Edit>,
}

/// Reads a `reverse_proxy` behind its matcher; `None` without an upstream.
pub(super) fn read(
    directive: &Directive,
    words: &[String],
    target: &mut Target,
    ledger: &mut Ledger,
) -> Option<Proxied> {
    let mut pool = Pool::default();
    let mut set = Draft::default();
    let rows = |name: &str| -> Vec<(&Directive, &[String])> {
        let own = directive.block.iter().filter(|row| row.name() == name);
        own.map(|row| (row, row.from(1))).collect()
    };
    let request = fields::read(&rows("header_up"), FieldKeys::REQUEST, &mut set, ledger);
    let response = fields::read(&rows("header_down"), FieldKeys::RESPONSE, &mut set, ledger);
    ledger.carried(directive.line);
    words.iter().for_each(|word| upstream(word, directive, &mut pool, ledger));
    let mut check: Draft<HealthCheck> = Draft::default();
    for row in &directive.block {
        ledger.carried(row.line);
        match row.name() {
            "to" => row.from(1).iter().for_each(|word| upstream(word, row, &mut pool, ledger)),
            name if name.starts_with("health_") => health(row, &mut check, ledger),
            "header_up" | "header_down" | "rewrite" => {}
            "lb_policy" => policy(row, &mut pool, ledger),
            "lb_retries" => match row.word(1).parse::<u64>() {
                Ok(retries) => drop(pool.set.put(key!("retry.attempts"), retries.min(10))),
                Err(_) => ledger.changes(row.line, "its value was not understood", "set retry.attempts of the pool"),
            },
            "fail_duration" => time(row, key!("outlier.eject"), 86_400_000, &mut pool, ledger),
            "max_fails" => match row.word(1).parse::<u64>() {
                Ok(fails) => drop(pool.set.put(key!("outlier.consecutive_gateway"), fails.min(1_000_000))),
                Err(_) => ledger.changes(row.line, "its value was not understood", "set outlier of the pool"),
            },
            "unhealthy_request_count" => match row.word(1).parse::<u64>() {
                Ok(most) => drop(pool.set.put(key!("limits.requests_per_endpoint"), most.min(1_000_000))),
                Err(_) => ledger.changes(row.line, "its value was not understood", "set limits.requests_per_endpoint"),
            },
            "transport" => transport(row, &mut pool, ledger),
            "flush_interval" | "request_buffers" | "response_buffers" | "buffer_requests" | "buffer_responses"
            | "max_buffer_size" | "stream_timeout" | "stream_close_delay" | "verbose_logs" => {
                ledger.dropped(row.line, "bodies pass as they come")
            }
            "lb_try_duration" | "lb_try_interval" => {
                ledger.changes(
                    row.line,
                    "a request that fails is tried again at once, at another endpoint",
                    "retry of the pool",
                );
            }
            "trusted_proxies" => {
                ledger.changes(
                    row.line,
                    "proxies in front are trusted by the listener",
                    "trusted_proxies of the listener",
                );
            }
            "handle_response" | "replace_status" => {
                let reason = "responses of endpoints are not handled by other directives";
                ledger.decide(row.line, reason, "forward_auth, or error_pages with intercept, of the [[route]]");
                row.block.iter().for_each(|inner| inner.lost(reason, "see the keys of a [[route]]", ledger));
            }
            _ => row.block.iter().chain([row]).for_each(|inner| {
                ledger.changes(
                    inner.line,
                    "`reverse_proxy` has no such setting here",
                    "see the keys of pools and routes",
                );
            }),
        }
    }
    if !check.is_empty() {
        if !check.has(key!("http")) {
            check.put(key!("http.path"), "/");
        }
        // In Caddy a single check decides, unless the file sets another number.
        for key in [key!("fall"), key!("rise")] {
            if !check.has(key) {
                check.put(key, 1);
            }
        }
        pool.set.put(key!("health"), check);
    }
    if pool.endpoints.is_empty() {
        ledger.decide(directive.line, "none of its upstreams was carried over", "add a pool with its endpoints");
        return None;
    }
    Some(Proxied { pool: place(pool, target), set, request, response })
}

/// Adds the pool under a free name, or finds an equal pool. Returns the name.
fn place(mut pool: Pool, target: &mut Target) -> String {
    let bases = pool_names(pool.endpoints.first().map_or("", |endpoint| endpoint.addr.as_str()));
    let last = bases.last().cloned().unwrap_or_default();
    for name in bases.into_iter().chain((2..).map(|number| format!("{last}-{number}"))) {
        pool.name = name;
        match target.pools.iter().find(|other| other.name == pool.name) {
            Some(other) if other.endpoints == pool.endpoints && other.set == pool.set => break,
            Some(_) => {}
            None => {
                target.pools.push(pool.clone());
                break;
            }
        }
    }
    pool.name
}

fn upstream(word: &str, row: &Directive, pool: &mut Pool, ledger: &mut Ledger) {
    let word = value::environment(word);
    let (scheme, address) = match word.strip_prefix("unix+h2c/") {
        Some(path) => ("h2c", format!("unix/{path}")),
        None => word.split_once("://").map_or(("", word.clone()), |(scheme, rest)| (scheme, rest.to_string())),
    };
    let address = address.as_str();
    match scheme {
        "https" => drop(pool.set.put(key!("tls"), true)),
        "h2c" => drop(pool.set.put(key!("protocol"), "h2")),
        _ => {}
    }
    if let Some(path) = address.strip_prefix("unix/") {
        let addr = format!("unix:{path}");
        return pool.endpoints.push(Endpoint { addr, set: Draft::default() });
    }
    let without_variables = address.replace("${", "");
    if without_variables.contains('{') || address.contains(['*', ' ']) || address.is_empty() {
        return ledger.decide(
            row.line,
            format!("the upstream \"{address}\" has a variable"),
            "name its endpoints in a pool",
        );
    }
    let port = if scheme == "https" { 443 } else { 80 };
    let bare = address.rsplit(']').next().unwrap_or_default();
    let addr = match (address.strip_prefix(':'), bare.contains(':')) {
        (Some(port), _) => format!("127.0.0.1:{port}"),
        (None, true) => address.trim_end_matches('/').to_string(),
        (None, false) => format!("{}:{port}", address.trim_end_matches('/')),
    };
    // A range of ports is as many endpoints.
    if let Some((host, range)) = addr.rsplit_once(':')
        && let Some((Ok(from), Ok(to))) =
            range.split_once('-').map(|(from, to)| (from.parse::<u16>(), to.parse::<u16>()))
    {
        let ports = from..=to.min(from.saturating_add(99));
        return pool
            .endpoints
            .extend(ports.map(|port| Endpoint { addr: format!("{host}:{port}"), set: Draft::default() }));
    }
    if !pool.endpoints.iter().any(|endpoint| endpoint.addr == addr) {
        pool.endpoints.push(Endpoint { addr, set: Draft::default() });
    }
}

fn policy(row: &Directive, pool: &mut Pool, ledger: &mut Ledger) {
    let balance = match (row.word(1), row.word(2)) {
        ("random" | "random_choose", _) => "random".into(),
        ("round_robin" | "weighted_round_robin", _) => "round_robin".into(),
        ("least_conn", _) => "leastconn".into(),
        ("first", _) => "first".into(),
        ("ip_hash" | "client_ip_hash", _) => hashed("client-ip"),
        ("uri_hash", _) => hashed("path"),
        ("header", name) if !name.is_empty() => hashed(format!("header:{name}")),
        ("query", name) if !name.is_empty() => hashed(format!("query:{name}")),
        ("cookie", name) => {
            pool.stick(if name.is_empty() { "lb" } else { name }, false);
            return;
        }
        _ => return ledger.changes(row.line, "the policy has no counterpart", "set balance of the pool"),
    };
    if row.word(1) == "weighted_round_robin" {
        for (endpoint, weight) in pool.endpoints.iter_mut().zip(row.from(2)) {
            if let Ok(weight) = weight.parse::<u64>() {
                endpoint.set.put(key!("weight"), weight);
            }
        }
        fit_endpoints(&mut pool.endpoints, row.line, ledger);
    }
    if row.word(1) == "random" {
        ledger.dropped(row.line, "of two random endpoints the better one is taken");
    }
    pool.set.put(key!("balance"), balance);
}

fn time(row: &Directive, key: KeyOf<plan::Pool>, most: u64, pool: &mut Pool, ledger: &mut Ledger) {
    match milliseconds(row.word(1)) {
        Some(ms) if ms > 0 => drop(pool.set.put(key, crate::model::duration(ms.clamp(100, most)))),
        _ => ledger.changes(row.line, "its value was not understood", format!("set {key} of the pool")),
    }
}

fn health(row: &Directive, check: &mut Draft<HealthCheck>, ledger: &mut Ledger) {
    let word = row.word(1);
    let number = || word.parse::<u64>().ok();
    let done = match row.name() {
        "health_uri" | "health_path" => word.starts_with('/').then(|| drop(check.put(key!("http.path"), word))),
        "health_port" => {
            number().filter(|port| (1..65_536).contains(port)).map(|port| drop(check.put(key!("port"), port)))
        }
        "health_interval" => {
            milliseconds(word).filter(|ms| *ms > 0).map(|ms| drop(put_time(check, key!("interval"), ms)))
        }
        "health_timeout" => {
            milliseconds(word).filter(|ms| *ms > 0).map(|ms| drop(put_time(check, key!("timeout"), ms)))
        }
        "health_status" => {
            let status: Option<Value> = match word.strip_suffix("xx") {
                Some("2" | "3" | "4" | "5") => Some(word.into()),
                _ => number().filter(|status| (200..600).contains(status)).map(Value::Int),
            };
            status.map(|status| drop(check.put(key!("http.expect"), Value::List(vec![status]))))
        }
        "health_method" if matches!(word, "GET" | "HEAD" | "OPTIONS") => {
            check.put(key!("http.method"), word);
            Some(())
        }
        "health_fails" => number().map(|fails| drop(check.put(key!("fall"), fails.clamp(1, 1000)))),
        "health_passes" => number().map(|passes| drop(check.put(key!("rise"), passes.clamp(1, 1000)))),
        _ => None,
    };
    if done.is_none() {
        row.block.iter().chain([row]).for_each(|inner| {
            ledger.changes(inner.line, "checks have no such setting", "nothing, if the page answers without it");
        });
    }
}

fn transport(row: &Directive, pool: &mut Pool, ledger: &mut Ledger) {
    if row.word(1) != "http" {
        return row.block.iter().chain([row]).for_each(|inner| {
            ledger.changes(inner.line, "endpoints speak HTTP only", "keep a server for FastCGI in front of them");
        });
    }
    for inner in &row.block {
        ledger.carried(inner.line);
        match inner.name() {
            "tls" => {
                if !pool.set.has(key!("tls")) {
                    pool.set.put(key!("tls"), true);
                }
            }
            "tls_insecure_skip_verify" => drop(pool.set.put(key!("tls.verify"), false)),
            "tls_server_name" => drop(pool.set.put(key!("tls.server_name"), inner.word(1))),
            "tls_trusted_ca_certs" => drop(pool.set.put(key!("tls.ca"), inner.word(1))),
            "dial_timeout" => match milliseconds(inner.word(1)) {
                Some(ms) => drop(put_time(&mut pool.set, key!("timeouts.connect"), ms)),
                None => ledger.changes(inner.line, "its value was not understood", "set timeouts.connect"),
            },
            "response_header_timeout" => match milliseconds(inner.word(1)) {
                Some(ms) => drop(put_time(&mut pool.set, key!("timeouts.response"), ms)),
                None => ledger.changes(inner.line, "its value was not understood", "set timeouts.response"),
            },
            "read_timeout" => match milliseconds(inner.word(1)) {
                Some(ms) => drop(put_time(&mut pool.set, key!("timeouts.idle"), ms)),
                None => ledger.changes(inner.line, "its value was not understood", "set timeouts.idle"),
            },
            "versions" if inner.words.iter().any(|word| word == "h2c") => drop(pool.set.put(key!("protocol"), "h2")),
            "versions" if inner.words.iter().any(|word| word == "2") => drop(pool.set.put(key!("protocol"), "auto")),
            "proxy_protocol" => drop(pool.set.put(key!("proxy_protocol"), inner.word(1))),
            "compression"
            | "keepalive"
            | "keepalive_idle_conns"
            | "keepalive_interval"
            | "max_conns_per_host"
            | "write_timeout"
            | "read_buffer"
            | "write_buffer"
            | "versions" => ledger.dropped(inner.line, "connections are kept by the pool itself"),
            _ => inner.block.iter().chain([inner]).for_each(|deep| {
                ledger.changes(deep.line, "the transport has no such setting", "see tls and timeouts of the pool");
            }),
        }
    }
}
