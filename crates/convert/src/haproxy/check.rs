//! Active checks: `option httpchk` and others, `http-check`, `tcp-check`, as the table of `health`.

use super::gathered::Gathered;
use super::lexer::Item;
use crate::ledger::Ledger;
use crate::limits::put_time;
use crate::model::{Draft, Entries, Pool, Value};
use evenkeel_config::plan::HealthCheck;

pub(super) fn check(item: &Item, gathered: &mut Gathered, ledger: &mut Ledger) {
    let line = item.line;
    let mut is = |kind: Draft<HealthCheck>| {
        gathered.kind = Some((line, kind));
        ledger.carried(line);
    };
    let user = || item.words.iter().position(|word| word == "user").map(|at| item.word(at + 1).to_string());
    match (item.word(0), item.word(1)) {
        ("option", "httpchk") => {
            ledger.carried(line);
            gathered.kind = Some((line, Draft::default()));
            httpchk(item, gathered, ledger);
        }
        ("option", "tcp-check") => is(Draft::one(key!("tcp"), Entries::default())),
        ("option", "mysql-check") => is(match user() {
            Some(user) => Draft::one(key!("mysql.user"), user),
            None => Draft::one(key!("mysql"), Entries::default()),
        }),
        ("option", "pgsql-check") => is(match user() {
            Some(user) => Draft::one(key!("postgres.user"), user),
            None => Draft::one(key!("postgres"), Entries::default()),
        }),
        ("option", "redis-check") => is(Draft::one(key!("redis"), Entries::default())),
        ("option", "smtpchk") => is(Draft::one(key!("smtp"), Entries::default())),
        ("option", "ssl-hello-chk" | "ldap-check") => {
            is(Draft::one(key!("tcp"), Entries::default()));
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
    gathered.http.put(key!("http.path"), path);
    set_method(method, item, gathered, ledger);
    let rest = words.get(2..).unwrap_or_default().join(" ");
    let host = rest.split(['\r', '\n', ' ']).skip_while(|part| !part.eq_ignore_ascii_case("host:")).nth(1);
    let glued =
        rest.split(['\r', '\n', ' ']).find_map(|part| part.strip_prefix("Host:")).filter(|host| !host.is_empty());
    if let Some(host) = host.or(glued) {
        gathered.http.put(key!("http.host"), host);
    }
}

fn set_method(method: &str, item: &Item, gathered: &mut Gathered, ledger: &mut Ledger) {
    match method {
        "GET" => drop(gathered.http.remove(key!("http.method"))),
        "HEAD" | "OPTIONS" => drop(gathered.http.put(key!("http.method"), method)),
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
            "uri" => drop(gathered.http.put(key!("http.path"), words.next().map_or("/", String::as_str))),
            "ver" => drop(words.next()),
            "hdr" => {
                let name = words.next().cloned().unwrap_or_default();
                let value = words.next().cloned().unwrap_or_default();
                match name.eq_ignore_ascii_case("host") {
                    true => drop(gathered.http.put(key!("http.host"), value)),
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
            gathered.http.put(key!("http.expect"), Value::List(each.collect()));
            ledger.carried(item.line);
        }
        [kind, text @ ..] if kind == "string" && !text.is_empty() => {
            gathered.http.put(key!("http.body"), text.join(" "));
            gathered.http.put(key!("http.expect"), vec!["200..=599"]);
            ledger.carried(item.line);
        }
        [kind, regex] if kind == "rstatus" => {
            let class = regex.trim_start_matches('^').chars().next().filter(|c| ('2'..='5').contains(c));
            let simple = regex.trim_matches(['^', '$']).trim_start_matches(|c: char| c.is_ascii_digit());
            match class.filter(|_| matches!(simple, "" | ".." | "[0-9][0-9]" | "\\d\\d")) {
                Some(class) => {
                    gathered.http.put(key!("http.expect"), vec![format!("{class}xx")]);
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

/// Sets the exchange of a TCP check: the last exchange before `QUIT`, since it shows the most.
pub(super) fn exchange(gathered: &mut Gathered, ledger: &mut Ledger) {
    let mut exchanges = std::mem::take(&mut gathered.exchanges);
    if let Some((quit, ..)) = exchanges.pop_if(|(send, ..)| send.to_ascii_uppercase().starts_with("QUIT")) {
        gathered.http.put(key!("tcp.quit"), quit);
    }
    let Some((send, expect, _)) = exchanges.pop() else { return };
    if !send.is_empty() {
        gathered.http.put(key!("tcp.send"), send);
    }
    if let Some(expect) = expect {
        gathered.http.put(key!("tcp.expect"), expect);
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

/// Sets `health` of the pool from the probe and from `own`, the check settings of its servers.
pub(super) fn probe(kind: Option<Draft<HealthCheck>>, own: Option<Value>, gathered: &Gathered, pool: &mut Pool) {
    let part = |value: Option<&Value>| value.cloned().unwrap_or_else(|| Entries::default().into());
    let health = match kind {
        // A bare `check` opens a connection, in HTTP mode too.
        None => Draft::one(key!("tcp"), Entries::default()),
        Some(kind) if kind.is_empty() => {
            let mut http = Draft::one(key!("http"), part(gathered.http.get(key!("http"))));
            if !gathered.expects {
                http.put(key!("http.expect"), vec!["2xx", "3xx"]);
            }
            http
        }
        Some(mut kind) => {
            if kind.has(key!("tcp")) {
                kind.merge(&Draft::one(key!("tcp"), part(gathered.http.get(key!("tcp")))));
            }
            kind
        }
    };
    pool.set.put(key!("health"), health);
    if let Some(own) = own {
        pool.set.merge(&Draft::one(key!("health"), own));
    }
    if let Some(ms) = gathered.check_timeout.filter(|ms| *ms > 0) {
        put_time(&mut pool.set, key!("health.timeout"), ms.min(gathered.interval.unwrap_or(2000)));
    }
}
