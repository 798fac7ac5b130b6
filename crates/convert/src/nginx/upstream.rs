//! Pools: `upstream` blocks, and hosts that `proxy_pass` names itself.

use super::lexer::Directive;
use super::time::milliseconds;
use super::variable::field_of;
use crate::ledger::Ledger;
use crate::limits::put_time;
use crate::model::{Draft, Endpoint, Pool, PoolKeys, Value, duration, hashed, name_of};

/// Reads an `upstream` block.
pub(super) fn read(upstream: &Directive, port: u16, ledger: &mut Ledger) -> Pool {
    let mut pool = Pool { name: name_of(upstream.word(1)), ..Pool::default() };
    ledger.carried(upstream.line);
    for directive in upstream.inner() {
        let line = directive.line;
        match directive.name() {
            "server" => server(directive, port, &mut pool, ledger),
            "least_conn" => balance(directive, "leastconn".into(), &mut pool, ledger),
            "least_time" => balance(directive, "peak_ewma".into(), &mut pool, ledger),
            "random" => balance(directive, "random".into(), &mut pool, ledger),
            "ip_hash" => balance(directive, hashed("client-ip"), &mut pool, ledger),
            "hash" => hash(directive, &mut pool, ledger),
            "keepalive" => {
                ledger.carried(line);
                if let Ok(most) = directive.word(1).parse::<u64>() {
                    pool.set.put(key!("limits.idle_per_endpoint"), most.min(65_535));
                }
            }
            "keepalive_timeout" => match milliseconds(directive.word(1)) {
                Some(ms) => {
                    put_time(&mut pool.set, key!("timeouts.upstream_idle"), ms);
                    ledger.carried(line);
                }
                None => ledger.changes(line, "its value was not understood", "set timeouts.upstream_idle"),
            },
            "sticky" => {
                let todo = "sticky = { secret_file = \"FILE\" } in the pool";
                ledger.changes(line, "cookies of persistence are signed here, with a key", todo);
            }
            "resolver" => ledger.dropped(line, "names are resolved while evenkeel runs"),
            _ => {}
        }
    }
    if !pool.set.has(key!("balance")) && pool.endpoints.len() > 1 {
        pool.set.put(key!("balance"), "round_robin");
    }
    pool
}

fn balance(directive: &Directive, value: Value, pool: &mut Pool, ledger: &mut Ledger) {
    pool.set.put(key!("balance"), value);
    ledger.carried(directive.line);
}

fn hash(directive: &Directive, pool: &mut Pool, ledger: &mut Ledger) {
    let key = match directive.word(1) {
        "$remote_addr" | "$binary_remote_addr" => "client-ip".to_string(),
        "$uri" | "$request_uri" | "$document_uri" => "path".to_string(),
        key => match key.strip_prefix('$') {
            Some(name) if name.starts_with("http_") => format!("header:{}", field_of(&name[5..])),
            Some(name) if name.starts_with("cookie_") => format!("cookie:{}", &name[7..]),
            Some(name) if name.starts_with("arg_") => format!("query:{}", &name[4..]),
            _ => {
                let todo = "choose a key that there is: balance = { maglev = { key = \"path\" } }";
                return ledger.changes(directive.line, format!("`{key}` is not a key to hash"), todo);
            }
        },
    };
    if directive.word(1) == "$request_uri" {
        ledger.changes(directive.line, "the path is hashed without its query", "nothing, unless the query matters");
    }
    balance(directive, hashed(key), pool, ledger);
}

fn server(directive: &Directive, port: u16, pool: &mut Pool, ledger: &mut Ledger) {
    ledger.carried(directive.line);
    let line = directive.line;
    let mut endpoint = endpoint(directive.word(1), port);
    let (mut outlier, mut is_off) = (PoolKeys::default(), false);
    for word in directive.from(2) {
        let (name, value) = word.split_once('=').unwrap_or((word, ""));
        let number = value.parse::<u64>().ok();
        match (name, number) {
            ("weight", Some(1)) => {}
            ("weight", Some(weight)) => drop(endpoint.set.put(key!("weight"), weight)),
            ("backup", _) => drop(endpoint.set.put(key!("backup"), true)),
            ("down", _) => drop(endpoint.set.put(key!("drain"), true)),
            ("max_conns", Some(0)) => {}
            ("max_conns", Some(most)) => drop(pool.set.put(key!("limits.requests_per_endpoint"), most)),
            ("max_fails", Some(0)) => is_off = true,
            ("max_fails", Some(most)) => drop(outlier.put(key!("outlier.consecutive_gateway"), most)),
            ("fail_timeout", _) => match milliseconds(value) {
                // Without a time nothing is ever out.
                Some(0) => is_off = true,
                Some(ms) => drop(outlier.put(key!("outlier.eject"), duration(ms.clamp(100, 86_400_000)))),
                None => ledger.changes(line, "fail_timeout was not understood", "set outlier.eject"),
            },
            ("slow_start", _) => match milliseconds(value) {
                Some(ms) => drop(pool.set.put(key!("slow_start"), duration(ms.max(100)))),
                None => ledger.changes(line, "slow_start was not understood", "set slow_start"),
            },
            ("resolve", _) => drop(endpoint.set.put(key!("resolve"), "all")),
            ("service", _) => ledger.changes(
                line,
                "records of SRV are found by discovery",
                "discover = { dns = { name = \"NAME\", type = \"SRV\" } }",
            ),
            ("route" | "drain", _) => ledger.dropped(line, "sticky clients stay by a signed cookie"),
            _ => ledger.changes(
                line,
                format!("`{word}` of a server is not known"),
                "see whether a key of the pool does it",
            ),
        }
    }
    eject(outlier, is_off, directive, pool, ledger);
    pool.endpoints.push(endpoint);
}

/// Sets the ejection of a pool, from the parameters of a server.
fn eject(mut outlier: PoolKeys, is_off: bool, directive: &Directive, pool: &mut Pool, ledger: &mut Ledger) {
    // The longest ejection is never shorter than the first.
    let long = outlier.text(key!("outlier.eject")).filter(|eject| milliseconds(eject).is_some_and(|ms| ms > 300_000));
    if let Some(eject) = long.map(str::to_owned) {
        outlier.put(key!("outlier.eject_max"), eject);
    }
    let value = match is_off {
        true => "off".into(),
        false => match outlier.remove(key!("outlier")) {
            Some(value) => value,
            None => return,
        },
    };
    let before = pool.set.get(key!("outlier")).cloned();
    match before.is_some_and(|before| before != value) {
        true => ledger.changes(
            directive.line,
            "ejection is set for the pool: the first server's numbers count",
            "set outlier of the pool",
        ),
        false => drop(pool.set.put(key!("outlier"), value)),
    }
    if pool.set.text(key!("outlier")) != Some("off") {
        let reason =
            "max_fails counts failures within fail_timeout for each worker; here they count in a row, over all workers";
        ledger.dropped(directive.line, reason);
    }
}

/// An endpoint by the text of an address. A name of several addresses is as many servers in NGINX.
pub(super) fn endpoint(address: &str, port: u16) -> Endpoint {
    let mut set = Draft::default();
    if let Some(path) = address.strip_prefix("unix:") {
        return Endpoint { addr: format!("unix:{}", path.trim_end_matches(':')), set };
    }
    let after_bracket = address.rsplit(']').next().unwrap_or_default();
    let has_port = after_bracket.contains(':');
    let addr = if has_port { address.to_string() } else { format!("{address}:{port}") };
    let host = addr.rsplit_once(':').map_or(addr.as_str(), |(host, _)| host);
    let is_name = host.trim_matches(['[', ']']).parse::<std::net::IpAddr>().is_err()
        && host != "localhost"
        && !host.contains("${");
    if is_name {
        set.put(key!("resolve"), "all");
    }
    Endpoint { addr, set }
}
