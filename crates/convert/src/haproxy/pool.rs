//! Backends: servers, algorithm, checks, timeouts, persistence.

use super::bind::with_base;
use super::lexer::Item;
use super::time::milliseconds;
use crate::ledger::{Ledger, Line};
use crate::limits::timeout;
use crate::target::{Endpoint, Pool, Table, Value, duration, name_of};

/// Settings of a backend that come together from several lines.
#[derive(Default)]
struct Gathered {
    check: Option<Line>,
    kind: Option<(Line, Table)>,
    unchecked: Option<Line>,
    http: Table,
    expects: bool,
    check_timeout: Option<u64>,
    interval: Option<u64>,
    server_timeout: Option<(u64, Line)>,
    tunnel: Option<u64>,
    sticks: Option<Line>,
    has_balance: bool,
    /// Sends of a check by TCP, each with the answer that is expected to it.
    exchanges: Vec<(String, Option<String>, Line)>,
    /// Values of the first server for settings that are those of a pool here.
    common: Table,
}

/// Reads the part of a section that concerns its servers. `base` is `ca-base` of the global section.
pub(super) fn read(
    name: &str,
    items: &[&Item],
    is_tcp: bool,
    base: &str,
    port: Option<&str>,
    ledger: &mut Ledger,
) -> Pool {
    let mut pool = Pool { name: name_of(name), ..Pool::default() };
    let mut gathered = Gathered::default();
    let defaults: Vec<&&Item> = items.iter().filter(|item| item.word(0) == "default-server").collect();
    for item in items {
        setting(item, &mut pool, &mut gathered, is_tcp, ledger);
    }
    for item in items.iter().filter(|item| matches!(item.word(0), "server" | "server-template")) {
        let inherited: Vec<String> = defaults.iter().flat_map(|item| item.from(1)).cloned().collect();
        defaults.iter().for_each(|item| ledger.carried(item.line));
        server(item, &inherited, base, port, &mut pool, &mut gathered, ledger);
    }
    finish(&mut pool, gathered, is_tcp, ledger);
    pool
}

fn setting(item: &Item, pool: &mut Pool, gathered: &mut Gathered, is_tcp: bool, ledger: &mut Ledger) {
    let line = item.line;
    let time = |at: usize| milliseconds(item.word(at));
    match (item.word(0), item.word(1)) {
        ("balance", _) => {
            gathered.has_balance = true;
            balance(item, pool, is_tcp, ledger);
        }
        ("timeout", "connect") | ("contimeout", _) => set_time(item, "timeouts.connect", "connect", pool, ledger),
        ("timeout", "queue") => set_time(item, "queue.timeout", "queue", pool, ledger),
        ("timeout", "server") | ("srvtimeout", _) => {
            let at = if item.word(0) == "timeout" { 2 } else { 1 };
            match time(at) {
                Some(ms) => gathered.server_timeout = Some((ms, line)),
                None => return unreadable(item, ledger),
            }
            ledger.carried(line);
        }
        ("timeout", "tunnel") => match time(2) {
            Some(ms) => {
                gathered.tunnel = Some(ms);
                ledger.carried(line);
            }
            None => unreadable(item, ledger),
        },
        ("timeout", "check") => match time(2) {
            Some(ms) => {
                gathered.check_timeout = Some(ms);
                ledger.carried(line);
            }
            None => unreadable(item, ledger),
        },
        ("retries", _) => match item.word(1).parse::<u64>() {
            Ok(tries) => {
                pool.set.put("retry.attempts", tries.min(10));
                ledger.carried(line);
            }
            Err(_) => unreadable(item, ledger),
        },
        ("retry-on", _) => retry_on(item, pool, ledger),
        ("cookie", _) => cookie(item, pool, ledger),
        ("stick", _) => {
            gathered.sticks = Some(line);
            let what = item.from(1).join(" ");
            match what.starts_with("on src") || what.starts_with("match src") || what.starts_with("store-request src") {
                true => {
                    ledger.dropped(line, "the client's address is hashed: it stays at its endpoint without a table")
                }
                false => {
                    gathered.sticks = None;
                    let todo = "sticky by cookie, or balance = { maglev = { key = \"header:NAME\" } }";
                    ledger.changes(line, "clients are not remembered in a table", todo);
                }
            }
        }
        ("option" | "http-check" | "tcp-check", _) => check(item, gathered, ledger),
        _ => {}
    }
}

fn unreadable(item: &Item, ledger: &mut Ledger) {
    ledger.changes(item.line, "its value was not understood", "set the value by hand");
}

fn set_time(item: &Item, path: &str, key: &str, pool: &mut Pool, ledger: &mut Ledger) {
    let at = if item.word(0) == "timeout" { 2 } else { 1 };
    let Some(ms) = milliseconds(item.word(at)) else { return unreadable(item, ledger) };
    let (value, note) = timeout(key, ms);
    pool.set.put(path, value);
    ledger.carried(item.line);
    if let Some(note) = note {
        ledger.changes(item.line, note, "nothing, unless the limit is reached");
    }
}

fn balance(item: &Item, pool: &mut Pool, is_tcp: bool, ledger: &mut Ledger) {
    let (name, argument) = match item.word(1).split_once('(') {
        Some((name, rest)) => (name, rest.trim_end_matches(')')),
        None => (item.word(1), item.word(2)),
    };
    let maglev = |key: String| Value::from(Table::one("maglev", Table::one("key", key)));
    let value = match name {
        "roundrobin" | "static-rr" => "round_robin".into(),
        "leastconn" => "leastconn".into(),
        "first" => "first".into(),
        "random" => match argument.parse::<u64>() {
            Ok(draws @ 2..=16) => Table::one("random", Table::one("draws", draws)).into(),
            _ => "random".into(),
        },
        "source" => maglev("client-ip".into()),
        _ if is_tcp => {
            return ledger.changes(
                item.line,
                format!("`{name}` needs requests, and these are sessions"),
                "choose an algorithm: `evenkeel algorithms`",
            );
        }
        "uri" => maglev("path".into()),
        "hdr" => maglev(format!("header:{argument}")),
        "url_param" => maglev(format!("query:{argument}")),
        "hash" if argument.contains("hdr(") || argument.contains("cook(") => {
            let inner = argument.split_once('(').map_or("", |(_, inner)| inner.trim_end_matches(')'));
            maglev(format!("{}:{inner}", if argument.contains("hdr(") { "header" } else { "cookie" }))
        }
        other => {
            let todo = "choose an algorithm: `evenkeel algorithms`";
            return ledger.changes(item.line, format!("there is no counterpart of `{other}`"), todo);
        }
    };
    pool.set.put("balance", value);
    ledger.carried(item.line);
}

fn retry_on(item: &Item, pool: &mut Pool, ledger: &mut Ledger) {
    let mut on: Vec<Value> = Vec::new();
    ledger.carried(item.line);
    for word in item.from(1) {
        match word.as_str() {
            "none" => drop(pool.set.put("retry.attempts", 0)),
            "conn-failure" => on.push("connect".into()),
            "empty-response" | "junk-response" => on.push("reset".into()),
            "response-timeout" => on.push("timeout".into()),
            "all-retryable-errors" => on.extend(["connect", "reset", "timeout", "500..=504"].map(Value::from)),
            "0rtt-rejected" => ledger.dropped(item.line, "requests are not taken from early data"),
            status if status.parse::<u64>().is_ok_and(|n| (400..600).contains(&n)) => {
                on.push(status.parse::<u64>().unwrap_or(500).into());
            }
            other => ledger.changes(
                item.line,
                format!("`{other}` is not a condition of retries"),
                "see retry.on in the reference",
            ),
        }
    }
    on.dedup();
    if !on.is_empty() {
        pool.set.put("retry.on", Value::List(on));
    }
}

fn cookie(item: &Item, pool: &mut Pool, ledger: &mut Ledger) {
    let options = item.from(2);
    let has = |word: &str| options.iter().any(|option| option == word);
    if !has("insert") {
        let todo = "sticky = { secret_file = \"FILE\" } sets a cookie of its own";
        return ledger.changes(
            item.line,
            "only cookies that the balancer inserts are supported, not `prefix` and `rewrite`",
            todo,
        );
    }
    let mut sticky = Table::one("cookie", item.word(1)).with("secret_file", "/etc/evenkeel/sticky.key");
    if has("secure") {
        sticky.put("secure", true);
    }
    pool.set.put("sticky", sticky);
    pool.comments.push("Make the key of the cookie first: openssl rand -hex 32 > /etc/evenkeel/sticky.key".to_string());
    let reason = "cookies are signed here, so a client with a cookie of HAProxy gets an endpoint anew, once";
    ledger.changes(item.line, reason, "make the file of `secret_file`: openssl rand -hex 32");
    let lost = ["domain", "maxidle", "maxlife", "dynamic", "attr", "preserve"].into_iter().filter(|word| has(word));
    for word in lost {
        ledger.changes(item.line, format!("`{word}` of the cookie is not carried over"), "see the keys of `sticky`");
    }
}

fn check(item: &Item, gathered: &mut Gathered, ledger: &mut Ledger) {
    let line = item.line;
    let mut is = |kind: &str, table: Table| {
        gathered.kind = Some((line, Table::one(kind, table)));
        ledger.carried(line);
    };
    let user = || item.words.iter().position(|word| word == "user").map(|at| item.word(at + 1).to_string());
    match (item.word(0), item.word(1)) {
        ("option", "httpchk") => {
            ledger.carried(line);
            gathered.kind = Some((line, Table::default()));
            httpchk(item, gathered, ledger);
        }
        ("option", "tcp-check") => is("tcp", Table::default()),
        ("option", "mysql-check") => is("mysql", user().map(|user| Table::one("user", user)).unwrap_or_default()),
        ("option", "pgsql-check") => is("postgres", user().map(|user| Table::one("user", user)).unwrap_or_default()),
        ("option", "redis-check") => is("redis", Table::default()),
        ("option", "smtpchk") => is("smtp", Table::default()),
        ("option", "ssl-hello-chk" | "ldap-check") => {
            is("tcp", Table::default());
            let reason = "the check opens a connection and says nothing";
            ledger.changes(line, reason, "nothing, or check over HTTP: health = { http = \"/PATH\" }");
        }
        ("http-check", "send") => http_send(item, gathered, ledger),
        ("http-check", "expect") => http_expect(item, gathered, ledger),
        ("tcp-check", "connect") => {
            ledger.carried(line);
            if item.words.len() > 2 {
                ledger.changes(line, "a check connects once, to one port", "health.port sets another port");
            }
        }
        ("tcp-check", "send" | "send-binary") => {
            let hex = if item.word(1) == "send" { "" } else { "hex:" };
            gathered.exchanges.push((format!("{hex}{}", item.word(2)), None, line));
            ledger.carried(line);
        }
        ("tcp-check", "expect") if matches!(item.word(2), "string" | "binary") => {
            let hex = if item.word(2) == "string" { "" } else { "hex:" };
            ledger.carried(line);
            let expected = format!("{hex}{}", item.from(3).join(" "));
            match gathered.exchanges.last_mut() {
                Some((_, answer, _)) => *answer = Some(expected),
                None => gathered.exchanges.push((String::new(), Some(expected), line)),
            }
        }
        ("tcp-check", "expect") => {
            let todo = "write health.tcp.expect with fixed text";
            ledger.changes(line, "an answer is compared with fixed text only", todo);
        }
        _ => {}
    }
}

/// `option httpchk [METHOD] [PATH] [VERSION]`, with fields behind the version in old files.
fn httpchk(item: &Item, gathered: &mut Gathered, ledger: &mut Ledger) {
    let words = item.from(2);
    let (method, path) = match words {
        [] => ("OPTIONS", "/"),
        [path] => ("OPTIONS", path.as_str()),
        [method, path, ..] => (method.as_str(), path.as_str()),
    };
    gathered.http.put("http.path", path);
    set_method(method, item, gathered, ledger);
    let rest = words.get(2..).unwrap_or_default().join(" ");
    let host = rest.split(['\r', '\n', ' ']).skip_while(|part| !part.eq_ignore_ascii_case("host:")).nth(1);
    let glued =
        rest.split(['\r', '\n', ' ']).find_map(|part| part.strip_prefix("Host:")).filter(|host| !host.is_empty());
    if let Some(host) = host.or(glued) {
        gathered.http.put("http.host", host);
    }
}

fn set_method(method: &str, item: &Item, gathered: &mut Gathered, ledger: &mut Ledger) {
    match method {
        "GET" => gathered.http.table("http").entries.retain(|(key, _)| key != "method"),
        "HEAD" | "OPTIONS" => drop(gathered.http.put("http.method", method)),
        other => ledger.changes(
            item.line,
            format!("checks are not sent by {other}, but by GET"),
            "nothing, if the page answers GET",
        ),
    }
}

fn http_send(item: &Item, gathered: &mut Gathered, ledger: &mut Ledger) {
    ledger.carried(item.line);
    let mut words = item.from(2).iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "meth" => set_method(words.next().map_or("GET", String::as_str), item, gathered, ledger),
            "uri" => drop(gathered.http.put("http.path", words.next().map_or("/", String::as_str))),
            "ver" => drop(words.next()),
            "hdr" => {
                let name = words.next().cloned().unwrap_or_default();
                let value = words.next().cloned().unwrap_or_default();
                match name.eq_ignore_ascii_case("host") {
                    true => drop(gathered.http.put("http.host", value)),
                    false => ledger.changes(
                        item.line,
                        format!("checks have no field {name}"),
                        "nothing, if the page answers without it",
                    ),
                }
            }
            other => ledger.changes(
                item.line,
                format!("checks have no `{other}`"),
                "nothing, if the page answers without it",
            ),
        }
    }
}

fn http_expect(item: &Item, gathered: &mut Gathered, ledger: &mut Ledger) {
    let words = item.from(2);
    gathered.expects = true;
    match words {
        [kind, statuses] if kind == "status" => {
            let each = statuses.split(',').map(|status| match status.split_once('-') {
                Some((from, to)) => Value::Text(format!("{from}..={to}")),
                None => status.parse::<u64>().map_or_else(|_| status.into(), Value::Int),
            });
            gathered.http.put("http.expect", Value::List(each.collect()));
            ledger.carried(item.line);
        }
        [kind, text @ ..] if kind == "string" && !text.is_empty() => {
            gathered.http.put("http.body", text.join(" "));
            gathered.http.put("http.expect", vec!["200..=599"]);
            ledger.carried(item.line);
        }
        [kind, regex] if kind == "rstatus" => {
            let class = regex.trim_start_matches('^').chars().next().filter(|c| ('2'..='5').contains(c));
            let simple = regex.trim_matches(['^', '$']).trim_start_matches(|c: char| c.is_ascii_digit());
            match class.filter(|_| matches!(simple, "" | ".." | "[0-9][0-9]" | "\\d\\d")) {
                Some(class) => {
                    gathered.http.put("http.expect", vec![format!("{class}xx")]);
                    ledger.carried(item.line);
                }
                None => ledger.changes(
                    item.line,
                    "statuses are listed, not matched by an expression",
                    "write health.http.expect = [\"2xx\", \"3xx\"]",
                ),
            }
        }
        _ => {
            gathered.expects = false;
            let todo = "write health.http.expect with the statuses, and body with a text";
            ledger.changes(item.line, "an answer is compared by status and fixed text only", todo);
        }
    }
}

fn server(
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
    let mut set = Table::default();
    if !is_template {
        set.put("name", item.word(1));
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
    let checked = parameters(item, &[inherited, own].concat(), base, pool, gathered, &mut set, ledger);
    match checked {
        true => drop(gathered.check.get_or_insert(item.line)),
        false => drop(gathered.unchecked.get_or_insert(item.line)),
    }
    if is_template {
        set.put("resolve", "all");
        let reason = "every address of the name is an endpoint, however many there are";
        ledger.dropped(item.line, reason);
    }
    pool.endpoints.push(Endpoint { addr, set });
}

fn endpoint_address(address: &str, port: Option<&str>) -> Result<String, String> {
    let bare =
        ["ipv4@", "ipv6@", "tcp4@", "tcp6@", "tcp@"].iter().find_map(|p| address.strip_prefix(p)).unwrap_or(address);
    if let Some(path) = bare.strip_prefix("unix@").or_else(|| bare.starts_with('/').then_some(bare)) {
        return Ok(format!("unix:{path}"));
    }
    if bare.starts_with("abns@") || bare.starts_with("fd@") || bare.is_empty() {
        return Err("abstract sockets and inherited descriptors are not supported".to_string());
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
    let port = own.or(port).ok_or("it has no port, which means the port that the client asked for")?;
    if port.starts_with(['+', '-']) {
        return Err("its port is relative to the client's".to_string());
    }
    let host = if host.is_empty() || host == "*" || host == "0.0.0.0" {
        return Err("it has no address".to_string());
    } else {
        host
    };
    Ok(format!("{host}:{port}"))
}

fn parameters(
    item: &Item,
    words: &[String],
    base: &str,
    pool: &mut Pool,
    gathered: &mut Gathered,
    set: &mut Table,
    ledger: &mut Ledger,
) -> bool {
    let (mut checked, mut tls, mut verify_none, mut has_ca) = (false, false, false, false);
    let mut words = words.iter().map(String::as_str);
    let line = item.line;
    while let Some(word) = words.next() {
        let mut value = || words.next().unwrap_or_default();
        match word {
            "check" => checked = true,
            "no-check" => checked = false,
            "backup" => drop(set.put("priority", 1)),
            "disabled" => drop(set.put("drain", true)),
            "weight" => match value().parse::<u64>() {
                Ok(1) => {}
                Ok(weight) => drop(set.put("weight", weight)),
                Err(_) => unreadable(item, ledger),
            },
            "inter" => match milliseconds(value()) {
                Some(ms) => {
                    gathered.interval = Some(ms);
                    common("health.interval", duration(ms).into(), line, gathered, ledger);
                }
                None => unreadable(item, ledger),
            },
            "rise" | "fall" => match value().parse::<u64>() {
                Ok(times) => common(&format!("health.{word}"), times.into(), line, gathered, ledger),
                Err(_) => unreadable(item, ledger),
            },
            "port" => match value().parse::<u64>() {
                Ok(port) => common("health.port", port.into(), line, gathered, ledger),
                Err(_) => unreadable(item, ledger),
            },
            "maxconn" => match value().parse::<u64>() {
                Ok(most) => common("limits.requests_per_endpoint", most.into(), line, gathered, ledger),
                Err(_) => unreadable(item, ledger),
            },
            "slowstart" => match milliseconds(value()) {
                Some(ms) => common("slow_start", duration(ms.max(100)).into(), line, gathered, ledger),
                None => unreadable(item, ledger),
            },
            "maxqueue" => match value().parse::<u64>() {
                Ok(most) => common("queue.max", most.into(), line, gathered, ledger),
                Err(_) => unreadable(item, ledger),
            },
            "ssl" => tls = true,
            "verify" => verify_none = value() == "none",
            "ca-file" => {
                has_ca = true;
                let file = with_base(base, value());
                common("tls.ca", file.into(), line, gathered, ledger);
            }
            "crt" => {
                let file = with_base(base, value());
                common("tls.cert", file.as_str().into(), line, gathered, ledger);
                common("tls.key", file.into(), line, gathered, ledger);
            }
            "sni" => {
                let name = value();
                match name.strip_prefix("str(").and_then(|name| name.strip_suffix(')')) {
                    Some(name) => common("tls.server_name", name.into(), line, gathered, ledger),
                    None => ledger.changes(
                        line,
                        format!("the server name is fixed here, and not `{name}`"),
                        "set tls.server_name of the pool",
                    ),
                }
            }
            "verifyhost" => {
                let name = value();
                common("tls.server_name", name.into(), line, gathered, ledger);
            }
            "send-proxy" => common("proxy_protocol", "v1".into(), line, gathered, ledger),
            "send-proxy-v2" | "send-proxy-v2-ssl" | "send-proxy-v2-ssl-cn" => {
                common("proxy_protocol", "v2".into(), line, gathered, ledger)
            }
            "alpn" | "proto" => {
                if value().contains("h2") {
                    common("protocol", "h2".into(), line, gathered, ledger);
                }
            }
            "cookie" => {
                value();
                ledger.dropped(line, "the value of the cookie is made from the endpoint's name");
            }
            "init-addr" | "resolvers" | "resolve-prefer" | "resolve-opts" | "resolve-net" => {
                value();
                ledger.dropped(line, "names are resolved while evenkeel runs, and none that fails stops it");
            }
            "id" | "pool-max-conn" | "pool-purge-delay" | "pool-low-conn" | "log-proto" | "guid" | "ciphers"
            | "ciphersuites" | "curves" | "ssl-min-ver" | "ssl-max-ver" | "tcp-ut" | "max-reuse" | "error-limit"
            | "log-bufsize" => {
                value();
                ledger.dropped(line, format!("`{word}` is about HAProxy's own machinery, or has a safe default here"));
            }
            "check-ssl" | "check-sni" | "check-alpn" | "check-proto" | "check-send-proxy" | "no-tls-tickets"
            | "no-ssl-reuse" | "force-tlsv12" | "no-sslv3" | "no-tlsv10" | "no-tlsv11" | "enabled" | "non-stick"
            | "tfo" | "stick" | "no-backup" | "allow-0rtt" => {
                if matches!(word, "check-sni" | "check-alpn" | "check-proto") {
                    value();
                }
                ledger.dropped(line, "checks speak as requests do, and the rest is the default here");
            }
            "downinter" | "fastinter" => {
                value();
                ledger.changes(
                    line,
                    format!("`{word}`: there is one interval between checks"),
                    "health.interval sets it",
                );
            }
            "on-marked-down" | "on-marked-up" => {
                let action = value();
                let reason = format!("`{word} {action}`: sessions of an endpoint that is down are left alone");
                ledger.changes(line, reason, "end them by a shorter timeouts.idle, or have the database close them");
            }
            "observe" | "on-error" => {
                value();
                ledger.dropped(line, "`outlier` ejects endpoints that fail requests, without being asked");
            }
            "agent-check" | "agent-port" | "agent-inter" | "agent-addr" | "agent-send" => {
                if word != "agent-check" {
                    value();
                }
                ledger.changes(
                    line,
                    "agents are not asked for weights",
                    "load_reports of the pool, or `evenkeel weight`",
                );
            }
            "addr" => {
                let address = value();
                ledger.changes(
                    line,
                    format!("checks go to the endpoint's own address, not to {address}"),
                    "health.port sets another port",
                );
            }
            "track"
            | "redir"
            | "source"
            | "usesrc"
            | "namespace"
            | "minconn"
            | "ws"
            | "hash-key"
            | "set-proxy-v2-tlv-fmt"
            | "shard" => {
                let value = value();
                ledger.changes(
                    line,
                    format!("`{word} {value}` is not available"),
                    "see whether a key of the pool does it",
                );
            }
            other => ledger.changes(
                line,
                format!("`{other}` of a server is not known"),
                "see whether a key of the pool does it",
            ),
        }
    }
    if tls {
        if verify_none {
            common("tls.verify", false.into(), line, gathered, ledger);
        } else if !has_ca && gathered.common.get("tls").is_none() {
            common("tls", true.into(), line, gathered, ledger);
        }
    }
    let _ = pool;
    checked
}

/// Notes a value that all endpoints of a pool share here. The first server's counts; others that differ are reported.
fn common(path: &str, value: Value, line: Line, gathered: &mut Gathered, ledger: &mut Ledger) {
    let mut probe = gathered.common.clone();
    match probe.put(path, value.clone()) {
        Some(old) if old != value => {
            let reason = format!("{path} is a key of the pool: the value of its first server counts for all");
            ledger.changes(line, reason, "make a pool of the servers that differ");
        }
        _ => gathered.common = probe,
    }
}

fn finish(pool: &mut Pool, mut gathered: Gathered, is_tcp: bool, ledger: &mut Ledger) {
    if let Some(Value::Bool(true)) = gathered.common.get("tls") {
        pool.set.put("tls", true);
    }
    let mut health = gathered.common.table("health").clone();
    gathered.common.entries.retain(|(key, value)| key != "health" && !(key == "tls" && *value == Value::Bool(true)));
    if !gathered.has_balance && gathered.sticks.is_some() {
        pool.set.put("balance", Table::one("maglev", Table::one("key", "client-ip")));
    } else if gathered.sticks.is_some() && pool.endpoints.len() > 1 {
        pool.set.put("balance", Table::one("maglev", Table::one("key", "client-ip")));
    } else if !gathered.has_balance && pool.endpoints.len() > 1 {
        // The default of HAProxy before 3.3.
        pool.set.put("balance", "round_robin");
    }
    exchange(&mut gathered, ledger);
    match (gathered.check, gathered.kind.take()) {
        (Some(_), kind) => {
            if let Some(server) = gathered.unchecked {
                ledger.changes(
                    server,
                    "checks are those of a pool: this server is checked too",
                    "make a pool of those that are not to be checked",
                );
            }
            probe(kind.map(|(_, kind)| kind), &mut gathered, &mut health);
            pool.set.put("health", health);
        }
        (None, Some((line, _))) if !pool.endpoints.is_empty() => {
            ledger.dropped(line, "no server has `check`, so HAProxy sends no checks either");
        }
        _ => {}
    }
    if let Some((ms, line)) = gathered.server_timeout {
        let keys: &[&str] = if is_tcp { &["idle"] } else { &["response", "idle"] };
        for key in keys {
            let (value, note) = timeout(key, ms);
            pool.set.put(&format!("timeouts.{key}"), value);
            if let Some(note) = note {
                ledger.changes(line, format!("timeouts.{key}: {note}"), "nothing, unless the limit is reached");
            }
        }
    }
    if let Some(ms) = gathered.tunnel {
        pool.set.put("timeouts.idle", timeout("idle", ms).0);
    }
    let common = std::mem::take(&mut gathered.common);
    pool.set.merge(&common);
}

/// The exchange of a check by TCP: the last one before the goodbye, which shows the most.
fn exchange(gathered: &mut Gathered, ledger: &mut Ledger) {
    let mut exchanges = std::mem::take(&mut gathered.exchanges);
    if let Some((quit, ..)) = exchanges.pop_if(|(send, ..)| send.to_ascii_uppercase().starts_with("QUIT")) {
        gathered.http.put("tcp.quit", quit);
    }
    let Some((send, expect, _)) = exchanges.pop() else { return };
    if !send.is_empty() {
        gathered.http.put("tcp.send", send);
    }
    if let Some(expect) = expect {
        gathered.http.put("tcp.expect", expect);
    }
    for (.., line) in exchanges {
        let todo = "nothing, or one of the checks for redis, smtp, mysql and postgres";
        ledger.changes(
            line,
            "a check sends once, and expects one answer: the last exchange is the one that is kept",
            todo,
        );
    }
}

/// Completes the table of `health` with the probe.
fn probe(kind: Option<Table>, gathered: &mut Gathered, health: &mut Table) {
    let mut whole = Table::default();
    match kind {
        // A bare `check` opens a connection, in HTTP mode too.
        None => drop(whole.put("tcp", Table::default())),
        Some(kind) if kind.is_empty() => {
            let mut http = gathered.http.table("http").clone();
            if !gathered.expects {
                http.put("expect", vec!["2xx", "3xx"]);
            }
            whole.put("http", http);
        }
        Some(mut kind) => {
            if kind.get("tcp").is_some() {
                kind.table("tcp").merge(&gathered.http.table("tcp").clone());
            }
            whole.merge(&kind);
            for (key, value) in kind.entries {
                whole.set(&key, value);
            }
        }
    }
    whole.merge(health);
    if let Some(ms) = gathered.check_timeout.filter(|ms| *ms > 0) {
        let interval = gathered.interval.unwrap_or(2000);
        whole.put("timeout", timeout("timeout", ms.min(interval)).0);
    }
    *health = whole;
}
