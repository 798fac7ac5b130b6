//! `server` lines: endpoints, and the settings that all endpoints of a pool share here.

use super::bind::{MPTCP, PREFIXES, with_base};
use super::gathered::{Gathered, common, unreadable};
use super::lexer::Item;
use super::time::milliseconds;
use crate::ledger::Ledger;
use crate::model::{Draft, Endpoint, Pool, Value, duration};
use evenkeel_config::draft::KeyOf;
use evenkeel_config::plan;
use std::net::IpAddr;

/// Parameters that are left out: their words, the number of values of each, the reason, and advice if something changes
/// without them.
#[rustfmt::skip] // a row is a reason
const LEFT_OUT: &[(&[&str], usize, &str, Option<&str>)] = &[
    (&["cookie"], 1, "the value of the cookie is made from the endpoint's name", None),
    (&["init-addr", "resolvers", "resolve-prefer", "resolve-opts", "resolve-net"], 1, "names are resolved while evenkeel runs, and none that fails stops it", None),
    (
        &[
            "id", "pool-max-conn", "pool-purge-delay", "pool-low-conn", "log-proto", "guid", "ciphers", "ciphersuites", "curves", "ssl-min-ver",
            "ssl-max-ver", "tcp-ut", "max-reuse", "error-limit", "log-bufsize",
        ],
        1, "it is about HAProxy's own machinery, or has a safe default here", None,
    ),
    (&["check-sni", "check-alpn", "check-proto"], 1, "checks speak as requests do", None),
    (&["check-ssl", "check-send-proxy"], 0, "checks speak as requests do", None),
    (
        &["no-tls-tickets", "no-ssl-reuse", "force-tlsv12", "no-sslv3", "no-tlsv10", "no-tlsv11", "enabled", "non-stick", "tfo", "stick", "no-backup", "allow-0rtt"],
        0, "it is the default here, or tunes the machinery", None,
    ),
    (&["observe", "on-error"], 1, "`outlier` ejects endpoints that fail requests, without being asked", None),
    (&["downinter", "fastinter"], 1, "there is one interval between checks", Some("health.interval sets it")),
    (
        &["on-marked-up"], 1, "sessions of backups are left alone when others are up again",
        Some("end them by a shorter timeouts.idle, or have the database close them"),
    ),
    (&["agent-check"], 0, "agents are not asked for weights", Some("load_reports of the pool, or `evenkeel weight`")),
    (&["agent-port", "agent-inter", "agent-addr", "agent-send"], 1, "agents are not asked for weights", Some("load_reports of the pool, or `evenkeel weight`")),
    (&["addr"], 1, "checks go to the endpoint's own address", Some("health.port sets another port")),
    (
        &["track", "redir", "source", "usesrc", "namespace", "minconn", "ws", "hash-key", "set-proxy-v2-tlv-fmt", "shard"],
        1, "it is not available", Some("see whether a key of the pool does it"),
    ),
];

pub(super) fn read(
    item: &Item,
    inherited: &[String],
    base: &str,
    port: Option<&str>,
    pool: &mut Pool,
    gathered: &mut Gathered,
    ledger: &mut Ledger,
) {
    ledger.carried(item.line);
    let is_template = item.word(0) == "server-template";
    let address = item.word(if is_template { 3 } else { 2 });
    let mut set = Draft::default();
    if !is_template {
        set.put(key!("name"), item.word(1));
    }
    if address.starts_with("mptcp") {
        ledger.changes(item.line, MPTCP.0, MPTCP.1);
    }
    let addr = match endpoint_address(address, port) {
        Ok(addr) => addr,
        Err(reason) => {
            return ledger.changes(
                item.line,
                format!("\"{address}\": {reason}"),
                "add the endpoint to the pool by hand",
            );
        }
    };
    let own = item.from(if is_template { 4 } else { 3 });
    let checked = parameters(item, &[inherited, own].concat(), base, gathered, &mut set, ledger);
    match checked {
        true => drop(gathered.check.get_or_insert(item.line)),
        false => drop(gathered.unchecked.get_or_insert(item.line)),
    }
    if is_template {
        set.put(key!("resolve"), "all");
        let reason = "every address of the name is an endpoint, however many there are";
        ledger.dropped(item.line, reason);
    }
    pool.endpoints.push(Endpoint { addr, set });
}

fn endpoint_address(address: &str, port: Option<&str>) -> Result<String, String> {
    let bare = PREFIXES.iter().find_map(|p| address.strip_prefix(p)).unwrap_or(address);
    if let Some(path) = bare.strip_prefix("unix@").or_else(|| bare.starts_with('/').then_some(bare)) {
        return Ok(format!("unix:{path}"));
    }
    if let Some(name) = bare.strip_prefix("abnsz@") {
        return Ok(format!("unix:@{name}"));
    }
    if bare.starts_with("abns@") {
        return Err("its name is filled up with zeros, which only HAProxy does; use abnsz@".to_string());
    }
    if bare.starts_with("fd@") || bare.is_empty() {
        return Err("inherited descriptors are not supported".to_string());
    }
    if bare.starts_with('_') {
        return Err("records of SRV are found by discover = { dns = { name = \"NAME\", type = \"SRV\" } }".to_string());
    }
    let is_v6 = bare.matches(':').count() > 1;
    let (host, own) = match bare.rsplit_once(':') {
        Some((host, own)) if !own.is_empty() && !own.contains(']') => (host, Some(own)),
        Some((host, "")) => (host, None),
        _ => (bare, None),
    };
    let host = match is_v6 && !host.starts_with('[') {
        true => format!("[{host}]"),
        false => host.to_string(),
    };
    let bare_host = host.trim_matches(['[', ']']);
    let ip = bare_host.parse::<IpAddr>().ok();
    if bare_host.is_empty() || bare_host == "*" || ip.is_some_and(|ip| ip.is_unspecified()) {
        return Err("it has no address, which means the address that the client asked for".to_string());
    }
    if own.is_none() && port.is_some() && (bare_host == "localhost" || ip.is_some_and(|ip| ip.is_loopback())) {
        return Err("it is the address of the listener itself: requests would come back".to_string());
    }
    let port = match (own, port) {
        (Some(own), Some(port)) if own.starts_with(['+', '-']) => relative(own, port),
        (Some(own), None) if own.starts_with(['+', '-']) => None,
        (own, port) => {
            Some(own.or(port).ok_or("it has no port, which means the port that the client asked for")?.to_string())
        }
    };
    Ok(format!("{host}:{}", port.ok_or("its port is relative to the client's")?))
}

/// Port that is relative to the port of the listener: `+1000` of 8003 is 9003.
fn relative(own: &str, port: &str) -> Option<String> {
    let port = i32::from(port.parse::<u16>().ok()?).checked_add(own.parse().ok()?)?;
    u16::try_from(port).ok().filter(|port| *port > 0).map(|port| port.to_string())
}

/// Facts of a server line that are known only at its end.
#[derive(Default)]
struct Seen {
    checked: bool,
    tls: bool,
    verify_none: bool,
    has_ca: bool,
    /// Names to request and to verify.
    sni: Option<String>,
    verify_host: Option<String>,
}

/// Reads the parameters of a server. True if it is checked.
fn parameters(
    item: &Item,
    words: &[String],
    base: &str,
    gathered: &mut Gathered,
    set: &mut Draft<plan::Endpoint>,
    ledger: &mut Ledger,
) -> bool {
    let mut seen = Seen::default();
    let mut at = 0;
    while let Some(word) = words.get(at) {
        let value = words.get(at + 1).map_or("", String::as_str);
        let left_out = LEFT_OUT.iter().find(|(names, ..)| names.contains(&word.as_str()));
        if let Some((_, values, reason, todo)) = left_out {
            let reason = format!("`{word}`: {reason}");
            match todo {
                Some(todo) => ledger.changes(item.line, reason, *todo),
                None => ledger.dropped(item.line, reason),
            }
            at += 1 + values;
            continue;
        }
        let taken = flag(word, item, gathered, set, &mut seen, ledger)
            .or_else(|| number(word, value, item, gathered, set, ledger))
            .or_else(|| tls(word, value, base, item, gathered, &mut seen, ledger));
        if taken.is_none() {
            let reason = format!("`{word}` of a server is not known");
            ledger.changes(item.line, reason, "see whether a key of the pool does it");
        }
        at += 1 + taken.unwrap_or(0);
    }
    if seen.tls {
        let has_table = gathered.common.has(key!("tls"));
        match (seen.verify_none, seen.has_ca || has_table) {
            (true, _) => common(key!("tls.verify"), false, item.line, gathered, ledger),
            (false, false) => common(key!("tls"), true, item.line, gathered, ledger),
            (false, true) => {}
        }
        if let (Some(sni), Some(host)) = (&seen.sni, &seen.verify_host)
            && sni != host
        {
            let reason = format!("\"{sni}\" was requested and \"{host}\" verified; here they are one name");
            ledger.changes(item.line, reason, "set tls_name to the name for which the certificate is valid");
        }
        if let Some(name) = seen.verify_host.or(seen.sni) {
            set.put(key!("tls_name"), name.as_str());
        }
    }
    seen.checked
}

/// Reads a parameter without a value. Returns 0, the number of values that it took, or `None` for other parameters.
fn flag(
    word: &str,
    item: &Item,
    gathered: &mut Gathered,
    set: &mut Draft<plan::Endpoint>,
    seen: &mut Seen,
    ledger: &mut Ledger,
) -> Option<usize> {
    match word {
        "check" => seen.checked = true,
        "no-check" => seen.checked = false,
        "ssl" => seen.tls = true,
        "backup" => drop(set.put(key!("backup"), true)),
        "disabled" => drop(set.put(key!("drain"), true)),
        "send-proxy" => common(key!("proxy_protocol"), "v1", item.line, gathered, ledger),
        "send-proxy-v2" | "send-proxy-v2-ssl" | "send-proxy-v2-ssl-cn" => {
            common(key!("proxy_protocol"), "v2", item.line, gathered, ledger);
        }
        _ => return None,
    }
    Some(0)
}

/// Reads a parameter with a number or a time.
fn number(
    word: &str,
    value: &str,
    item: &Item,
    gathered: &mut Gathered,
    set: &mut Draft<plan::Endpoint>,
    ledger: &mut Ledger,
) -> Option<usize> {
    let whole = || value.parse().ok().map(Value::Int);
    let time = |least: u64| milliseconds(value).map(|ms| duration(ms.max(least)).into());
    let (key, read): (KeyOf<plan::Pool>, Option<Value>) = match word {
        "weight" => {
            match whole() {
                None => unreadable(item, ledger),
                Some(Value::Int(1)) => {}
                Some(weight) => drop(set.put(key!("weight"), weight)),
            }
            return Some(1);
        }
        "rise" => (key!("health.rise"), whole()),
        "fall" => (key!("health.fall"), whole()),
        "port" => (key!("health.port"), whole()),
        "maxconn" => (key!("limits.requests_per_endpoint"), whole()),
        "maxqueue" => (key!("queue.max"), whole()),
        "inter" => (key!("health.interval"), time(10)),
        "slowstart" => (key!("slow_start"), time(100)),
        "on-marked-down" => {
            common(key!("on_down"), "close", item.line, gathered, ledger);
            if !gathered.is_tcp {
                let reason = "requests in flight at an endpoint that is down continue; upgraded connections end";
                ledger.changes(item.line, reason, "timeouts.idle of the pool ends them");
            }
            return Some(1);
        }
        _ => return None,
    };
    match read {
        None => unreadable(item, ledger),
        Some(read) => {
            if word == "inter" {
                gathered.interval = milliseconds(value);
            }
            common(key, read, item.line, gathered, ledger);
        }
    }
    Some(1)
}

/// Reads a parameter about TLS or the protocol.
fn tls(
    word: &str,
    value: &str,
    base: &str,
    item: &Item,
    gathered: &mut Gathered,
    seen: &mut Seen,
    ledger: &mut Ledger,
) -> Option<usize> {
    let line = item.line;
    match word {
        "verify" => seen.verify_none = value == "none",
        "ca-file" => {
            seen.has_ca = true;
            common(key!("tls.ca"), with_base(base, value), line, gathered, ledger);
        }
        "crt" => {
            let file = with_base(base, value);
            common(key!("tls.cert"), file.as_str(), line, gathered, ledger);
            common(key!("tls.key"), file, line, gathered, ledger);
        }
        "verifyhost" => seen.verify_host = Some(value.to_string()),
        "sni" => match value.strip_prefix("str(").and_then(|name| name.strip_suffix(')')) {
            Some(name) => seen.sni = Some(name.to_string()),
            None => {
                let reason = format!("the server name is fixed here, and not `{value}`");
                ledger.changes(line, reason, "set tls_name of the endpoint, or tls.server_name of the pool");
            }
        },
        "alpn" | "proto" if value.contains("h2") => common(key!("protocol"), "h2", line, gathered, ledger),
        "alpn" | "proto" => {}
        _ => return None,
    }
    Some(1)
}
