//! Backends: servers, algorithm, checks, timeouts, persistence.

use super::gathered::{Gathered, unreadable};
use super::lexer::Item;
use super::time::milliseconds;
use super::{check, server};
use crate::ledger::Ledger;
use crate::limits::put_time;
use crate::model::{Entries, Pool, Value, hashed, name_of};
use evenkeel_config::draft::KeyOf;
use evenkeel_config::plan;

// As many as `priority` of an endpoint can name.
const TIERS: u64 = 15;

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
    let mut gathered = Gathered { is_tcp, ..Gathered::default() };
    let defaults: Vec<&&Item> = items.iter().filter(|item| item.word(0) == "default-server").collect();
    for item in items {
        setting(item, &mut pool, &mut gathered, is_tcp, ledger);
    }
    for item in items.iter().filter(|item| matches!(item.word(0), "server" | "server-template")) {
        let inherited: Vec<String> = defaults.iter().flat_map(|item| item.from(1)).cloned().collect();
        defaults.iter().for_each(|item| ledger.carried(item.line));
        server::read(item, &inherited, base, port, &mut pool, &mut gathered, ledger);
        // An address is in a pool once.
        if let Some((last, before)) = pool.endpoints.split_last()
            && before.iter().any(|other| other.addr == last.addr)
        {
            pool.endpoints.pop();
            ledger.changes(item.line, "its address is in the pool already", "raise the weight of the first of them");
        }
    }
    let uses_all = items.iter().any(|item| (item.word(0), item.word(1)) == ("option", "allbackups"));
    if !uses_all {
        rank_backups(&mut pool);
    }
    finish(&mut pool, gathered, is_tcp, ledger);
    pool
}

/// Puts each backup into a tier below the one before it: HAProxy uses only the first that is up.
fn rank_backups(pool: &mut Pool) {
    let backups = pool.endpoints.iter_mut().filter(|endpoint| endpoint.set.has(key!("backup")));
    for (endpoint, tier) in backups.skip(1).zip(2_u64..) {
        endpoint.set.remove(key!("backup"));
        endpoint.set.put(key!("priority"), tier.min(TIERS));
    }
}

fn setting(item: &Item, pool: &mut Pool, gathered: &mut Gathered, is_tcp: bool, ledger: &mut Ledger) {
    let line = item.line;
    let time = |at: usize| milliseconds(item.word(at));
    match (item.word(0), item.word(1)) {
        ("balance", _) => {
            gathered.has_balance = true;
            balance(item, pool, is_tcp, ledger);
        }
        ("timeout", "connect") | ("contimeout", _) => set_time(item, key!("timeouts.connect"), pool, ledger),
        ("timeout", "queue") => set_time(item, key!("queue.timeout"), pool, ledger),
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
                pool.set.put(key!("retry.attempts"), tries.min(10));
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
        ("option" | "http-check" | "tcp-check", _) => check::check(item, gathered, ledger),
        _ => {}
    }
}

fn set_time(item: &Item, key: KeyOf<plan::Pool>, pool: &mut Pool, ledger: &mut Ledger) {
    let at = if item.word(0) == "timeout" { 2 } else { 1 };
    let Some(ms) = milliseconds(item.word(at)) else { return unreadable(item, ledger) };
    ledger.carried(item.line);
    if let Some(note) = put_time(&mut pool.set, key, ms) {
        ledger.changes(item.line, note, "nothing, unless the limit is reached");
    }
}

fn balance(item: &Item, pool: &mut Pool, is_tcp: bool, ledger: &mut Ledger) {
    let (name, argument) = match item.word(1).split_once('(') {
        Some((name, rest)) => (name, rest.trim_end_matches(')')),
        None => (item.word(1), item.word(2)),
    };
    let value = match name {
        "roundrobin" | "static-rr" => "round_robin".into(),
        "leastconn" => "leastconn".into(),
        "first" => "first".into(),
        "random" => match argument.parse::<u64>() {
            Ok(draws @ 2..=16) => Entries::one("random", Entries::one("draws", draws)).into(),
            _ => "random".into(),
        },
        "source" => hashed("client-ip"),
        _ if is_tcp => {
            return ledger.changes(
                item.line,
                format!("`{name}` needs requests, and these are sessions"),
                "choose an algorithm: `evenkeel algorithms`",
            );
        }
        "uri" => hashed("path"),
        "hdr" => hashed(format!("header:{argument}")),
        "url_param" => hashed(format!("query:{argument}")),
        "hash" if argument.contains("hdr(") || argument.contains("cook(") => {
            let inner = argument.split_once('(').map_or("", |(_, inner)| inner.trim_end_matches(')'));
            hashed(format!("{}:{inner}", if argument.contains("hdr(") { "header" } else { "cookie" }))
        }
        other => {
            let todo = "choose an algorithm: `evenkeel algorithms`";
            return ledger.changes(item.line, format!("there is no counterpart of `{other}`"), todo);
        }
    };
    pool.set.put(key!("balance"), value);
    ledger.carried(item.line);
}

fn retry_on(item: &Item, pool: &mut Pool, ledger: &mut Ledger) {
    let mut on: Vec<Value> = Vec::new();
    ledger.carried(item.line);
    for word in item.from(1) {
        match word.as_str() {
            "none" => drop(pool.set.put(key!("retry.attempts"), 0)),
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
        pool.set.put(key!("retry.on"), Value::List(on));
    }
}

fn cookie(item: &Item, pool: &mut Pool, ledger: &mut Ledger) {
    let options = item.from(2);
    let has = |word: &str| options.iter().any(|option| option == word);
    if !has("insert") {
        let todo = "sticky = { cookie = \"NAME\" } sets a cookie of its own";
        return ledger.changes(
            item.line,
            "only cookies that the balancer inserts are supported, not `prefix` and `rewrite`",
            todo,
        );
    }
    pool.stick(item.word(1), has("secure"));
    let reason = "cookies are signed here, so a client with a cookie of HAProxy gets an endpoint anew, once";
    ledger.changes(item.line, reason, "nothing; several instances need the same key: secret_file of sticky");
    if has("indirect") {
        let reason = "`indirect`: endpoints get the cookie too, which HAProxy keeps from them";
        ledger.changes(item.line, reason, "nothing: an application ignores cookies that it does not know");
    }
    let lost = ["domain", "maxidle", "maxlife", "dynamic", "attr", "preserve", "nocache", "postonly"]
        .into_iter()
        .filter(|word| has(word));
    for word in lost {
        ledger.changes(item.line, format!("`{word}` of the cookie is not carried over"), "see the keys of `sticky`");
    }
}

fn finish(pool: &mut Pool, mut gathered: Gathered, is_tcp: bool, ledger: &mut Ledger) {
    if gathered.common.get(key!("tls")) == Some(&true.into()) {
        pool.set.put(key!("tls"), true);
        gathered.common.remove(key!("tls"));
    }
    let checks = gathered.common.remove(key!("health"));
    if gathered.sticks.is_some() && (!gathered.has_balance || pool.endpoints.len() > 1) {
        pool.set.put(key!("balance"), hashed("client-ip"));
    } else if !gathered.has_balance && pool.endpoints.len() > 1 {
        // The default of HAProxy before 3.3.
        pool.set.put(key!("balance"), "round_robin");
    }
    check::exchange(&mut gathered, ledger);
    match (gathered.check, gathered.kind.take()) {
        (Some(_), kind) => {
            if let Some(server) = gathered.unchecked {
                ledger.changes(
                    server,
                    "checks are those of a pool: this server is checked too",
                    "make a pool of those that are not to be checked",
                );
            }
            check::probe(kind.map(|(_, kind)| kind), checks, &gathered, pool);
        }
        (None, Some((line, _))) if !pool.endpoints.is_empty() => {
            ledger.dropped(line, "no server has `check`, so HAProxy sends no checks either");
        }
        _ => {}
    }
    if let Some((ms, line)) = gathered.server_timeout {
        for key in [key!("timeouts.response"), key!("timeouts.idle")].into_iter().skip(usize::from(is_tcp)) {
            if let Some(note) = put_time(&mut pool.set, key, ms) {
                ledger.changes(line, format!("{key}: {note}"), "nothing, unless the limit is reached");
            }
        }
    }
    if let Some(ms) = gathered.tunnel {
        put_time(&mut pool.set, key!("timeouts.idle"), ms);
    }
    let common = std::mem::take(&mut gathered.common);
    pool.set.merge(&common);
}
