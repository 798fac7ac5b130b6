//! Rules of a section: http-request, http-response, tcp-request, redirect, with their conditions.

use super::acl::{Acls, Conj, Rate, condition};
use super::lexer::Item;
use super::{redirect, sample};
use crate::ledger::{Ledger, Line};
use crate::model::{Action, Cond, Key, Match, Table, Test, Value};
use crate::protection::closed_by;
use crate::rewriting::stripped;
use std::collections::BTreeMap;

/// Rules of a section, sorted by their effect; each list in the order of the file.
#[derive(Debug, Default)]
pub(super) struct Rules {
    /// Rules that end a request.
    pub finals: Vec<Final>,
    /// Keys of routes whose requests fulfil the conditions.
    pub filters: Vec<Filter>,
    /// Keys of `limits` of the listener.
    pub limits: Table,
}

#[derive(Clone, Debug)]
pub(super) struct Final {
    pub line: Line,
    pub matching: Match,
    pub action: Action,
    pub set: Table,
}

#[derive(Clone, Debug)]
pub(super) struct Filter {
    pub line: Line,
    pub matching: Match,
    pub set: Table,
    /// Path that the requests must be below, if the filter takes it away.
    pub strip: Option<String>,
}

/// Counters of stick-tables by section: each with its period in milliseconds.
pub(super) type StickTables = BTreeMap<String, (Line, BTreeMap<String, u64>)>;

/// Everything that rules of a section refer to.
pub(super) struct Scope<'s> {
    pub section: &'s str,
    pub acls: &'s Acls,
    pub tables: &'s StickTables,
    /// Lines of the userlist of each name.
    pub userlists: &'s BTreeMap<String, Vec<Line>>,
    /// Trackers by number: the key and the table.
    pub trackers: BTreeMap<String, (String, String)>,
}

impl Scope<'_> {
    fn key_of(&self, rate: &Rate) -> (Option<String>, String) {
        let tracker = rate.tracker.clone().unwrap_or_else(|| "0".to_string());
        match self.trackers.get(&tracker) {
            Some((key, table)) => (Some(key.clone()), table.clone()),
            // `src_http_req_rate(TABLE)` names the table itself.
            None if self.tables.contains_key(&tracker) => (Some("src".to_string()), tracker),
            None => (None, self.section.to_string()),
        }
    }
}

/// Notes `track-sc` rules of a section, before its other rules are read.
pub(super) fn trackers(items: &[&Item], scope: &mut Scope<'_>, ledger: &mut Ledger) {
    for item in items {
        let Some(at) = item.words.iter().position(|word| word.starts_with("track-sc") && word.len() > 8) else {
            continue;
        };
        if !matches!(item.word(0), "http-request" | "tcp-request") {
            continue;
        }
        let table = item.words.iter().position(|word| word == "table").map(|n| item.word(n + 1));
        let table = table.unwrap_or(scope.section).to_string();
        let number = item.word(at)["track-sc".len()..].to_string();
        if let Some((line, _)) = scope.tables.get(&table) {
            ledger.carried(*line);
        }
        scope.trackers.insert(number, (item.word(at + 1).to_string(), table));
        ledger.carried(item.line);
    }
}

/// Reads the rules of a section.
pub(super) fn read(items: &[&Item], scope: &Scope<'_>, ledger: &mut Ledger) -> Rules {
    let mut rules = Rules::default();
    // HAProxy tries `monitor-uri` first, then rules for connections, then `http-request`, and `redirect` last.
    let rank = |item: &&&Item| match item.word(0) {
        "monitor-uri" => 0,
        "tcp-request" => 1,
        "redirect" => 3,
        _ => 2,
    };
    let mut ordered: Vec<&&Item> = items.iter().filter(|item| is_rule(item)).collect();
    ordered.sort_by_key(rank);
    for item in ordered {
        rule(item, scope, &mut rules, ledger);
    }
    rules
}

/// True if a rule, whose condition cannot be written for this reason, refuses requests without a password, a token or
/// a permission. A variable has what a script or an agent has decided.
fn asks(item: &Item, name: &str, reason: &str) -> bool {
    let proofs = ["http_auth", "jwt_verify", "jwt_query", "auth_response", "userlist"];
    name == "auth"
        || matches!(name, "deny" | "reject" | "return" | "tarpit" | "silent-drop")
            && (reason.contains("variables")
                || item.words.iter().any(|word| proofs.iter().any(|proof| word.contains(proof))))
}

/// Closes the requests of a match, whose password or permission is not asked for.
fn close(item: &Item, reason: &str, matching: &Match, rules: &mut Rules, ledger: &mut Ledger) {
    let mut set = Table::default();
    closed_by(item.line, reason, &mut set, ledger);
    rules.filters.push(Filter { line: item.line, matching: matching.clone(), set, strip: None });
}

fn is_rule(item: &Item) -> bool {
    matches!(
        item.word(0),
        "http-request"
            | "http-response"
            | "http-after-response"
            | "tcp-request"
            | "redirect"
            | "block"
            | "reqadd"
            | "rspadd"
            | "monitor-uri"
            | "reqdel"
            | "reqidel"
            | "rspdel"
            | "rspidel"
    )
}

fn rule(item: &Item, scope: &Scope<'_>, rules: &mut Rules, ledger: &mut Ledger) {
    let skipped = match (item.word(0), item.word(1)) {
        ("http-request" | "http-response" | "http-after-response", _) => 1,
        ("tcp-request", "connection" | "content" | "session") => 2,
        (
            "redirect" | "block" | "reqadd" | "rspadd" | "monitor-uri" | "reqdel" | "reqidel" | "rspdel" | "rspidel",
            _,
        ) => 0,
        _ => return,
    };
    let words = item.from(skipped);
    let split = words.iter().position(|word| word == "if" || word == "unless").unwrap_or(words.len());
    let (words, tail) = words.split_at(split);
    let Some(name) = words.first().map(String::as_str) else { return };
    if super::known::fate("", &item.words).is_some() || name.starts_with("track-sc") {
        return;
    }
    let conjs = match condition(tail, scope.acls) {
        Ok(conjs) => conjs,
        Err(reason) => {
            let todo = "write a [[route]] for it by hand, if another condition can stand for it";
            if asks(item, name, &reason) {
                let reason = format!("its condition cannot be written: {reason}");
                return close(item, &reason, &Match::default(), rules, ledger);
            }
            return ledger.changes(item.line, format!("its condition cannot be written: {reason}"), todo);
        }
    };
    if conjs.is_empty() {
        return ledger.dropped(item.line, "its condition never holds");
    }
    let is_response = item.word(0).starts_with("http-response") || item.word(0).starts_with("http-after");
    match name {
        "set-header" | "add-header" | "del-header" => fields(item, words, &conjs, is_response, rules, ledger),
        "reqadd" | "rspadd" | "reqdel" | "reqidel" | "rspdel" | "rspidel" => {
            old_fields(item, words, &conjs, rules, ledger)
        }
        "deny" | "reject" | "tarpit" | "silent-drop" | "block" => deny(item, &words[1..], &conjs, scope, rules, ledger),
        "redirect" => match redirect::redirect(&words[1..]) {
            Ok(action) => finals(item, &conjs, action, Table::default(), rules, ledger),
            Err(reason) => ledger.changes(item.line, reason, "write the redirect of a [[route]] by hand"),
        },
        "return" => match redirect::respond(&words[1..], 200) {
            Ok((action, fields)) => {
                let set = if fields.is_empty() { fields } else { Table::one("response_headers", fields) };
                finals(item, &conjs, action, set, rules, ledger);
            }
            Err(reason) => ledger.changes(item.line, reason, "write the response of a [[route]] by hand"),
        },
        "monitor-uri" => {
            let cond = Cond::one_of(Key::Path, [item.word(1)]);
            let conj = Conj { matching: Match::of([cond]), ..Conj::default() };
            finals(item, &[conj], Action::Respond(200.into()), Table::default(), rules, ledger);
            ledger.changes(
                item.line,
                "the answer has no body; HAProxy sends a page",
                "nothing, unless a monitor reads the page",
            );
        }
        "auth" => auth(item, &words[1..], &conjs, scope, rules, ledger),
        "allow" | "accept" => allow(item, tail, rules, ledger),
        "replace-path" | "replace-pathq" | "replace-uri" => {
            let (regex, with) = (words.get(1).map_or("", String::as_str), words.get(2).map_or("", String::as_str));
            rewrite(item, regex, with, &conjs, rules, ledger);
        }
        "set-path" | "set-pathq" | "set-uri" => {
            set_path(item, words.get(1).map_or("", String::as_str), &conjs, rules, ledger)
        }
        "replace-header" | "replace-value" => {
            let todo =
                "set the field to a fixed value with variables: request_headers or response_headers of a [[route]]";
            ledger.changes(item.line, "values are not changed by expressions", todo);
        }
        "use-service" => {
            let todo = "scrape /metrics at `admin.http`, which is a listener of its own";
            ledger.changes(item.line, "metrics are served by the admin's listener, not by this one", todo);
        }
        _ => {}
    }
}

/// Adds a rule that ends a request, for each alternative of its condition.
fn finals(item: &Item, conjs: &[Conj], action: Action, set: Table, rules: &mut Rules, ledger: &mut Ledger) {
    ledger.carried(item.line);
    for conj in conjs {
        if !conj.is_plain() {
            let todo = "limits, access and basic_auth of a [[route]] refuse requests by themselves";
            ledger.changes(item.line, "its condition asks for a counter, a list in a file or a password", todo);
            continue;
        }
        let (matching, action, set) = (conj.matching.clone(), action.clone(), set.clone());
        rules.finals.push(Final { line: item.line, matching, action, set });
    }
}

fn filter(item: &Item, conjs: &[Conj], set: &Table, rules: &mut Rules, ledger: &mut Ledger) {
    ledger.carried(item.line);
    for conj in conjs {
        match conj.is_plain() {
            true => {
                rules.filters.push(Filter {
                    line: item.line,
                    matching: conj.matching.clone(),
                    set: set.clone(),
                    strip: None,
                });
            }
            false => {
                let todo = "see whether every request may have it, and write it in the [[route]]";
                ledger.changes(item.line, "its condition asks for a counter, a list in a file or a password", todo);
            }
        }
    }
}

fn fields(item: &Item, words: &[String], conjs: &[Conj], is_response: bool, rules: &mut Rules, ledger: &mut Ledger) {
    let (verb, name) = (words[0].as_str(), words.get(1).map_or("", String::as_str));
    let value = words.get(2).map_or("", String::as_str);
    if words.iter().any(|word| word == "-m") {
        let todo = "name each field in `remove`";
        return ledger.changes(item.line, "fields are removed by name, not by an expression", todo);
    }
    // A constant scheme is the one of the request only under a condition that asks for it.
    let of_scheme = |conj: &Conj| {
        let is_scheme = |cond: &Cond| cond.key == Key::Scheme && cond.test == Test::OneOf(vec![value.to_string()]);
        conj.matching.conds.iter().any(is_scheme)
    };
    let own = [("x-forwarded-proto", &["%[ssl_fc,iif(https,http)]"][..]), ("x-forwarded-for", &["%[src]", "%ci"])];
    let is_own = |(field, values): &(&str, &[&str])| {
        name.eq_ignore_ascii_case(field)
            && (values.contains(&value)
                || *field == "x-forwarded-proto" && !conjs.is_empty() && conjs.iter().all(of_scheme))
    };
    if !is_response && verb != "del-header" && own.iter().any(is_own) {
        return ledger.dropped(item.line, "the field is always set");
    }
    if !is_response && name.eq_ignore_ascii_case("x-forwarded-for") && verb == "del-header" {
        return ledger.dropped(item.line, "the field is replaced unless a trusted proxy sent it");
    }
    if !is_response && name.eq_ignore_ascii_case("host") {
        return match sample::read(value) {
            Ok(text) if verb == "set-header" => filter(item, conjs, &Table::one("send_host", text.text), rules, ledger),
            _ => ledger.changes(item.line, "Host cannot be added or removed", "send_host of a [[route]] sets it"),
        };
    }
    let steers = [
        "content-length",
        "transfer-encoding",
        "connection",
        "te",
        "trailer",
        "upgrade",
        "keep-alive",
        "proxy-connection",
    ];
    if steers.contains(&name.to_ascii_lowercase().as_str()) {
        return ledger.changes(item.line, format!("{name} steers the message, and cannot be set"), "leave it out");
    }
    let table = if is_response { "response_headers" } else { "request_headers" };
    let mut set = Table::default();
    if verb == "del-header" {
        set.push(&format!("{table}.remove"), name);
        return filter(item, conjs, &set, rules, ledger);
    }
    match sample::read(value) {
        Ok(text) => {
            // These have one value: a line more would contradict the one that is always there.
            let is_own = name.to_ascii_lowercase().starts_with("x-forwarded-");
            let key = if verb == "set-header" || is_own && !is_response { "set" } else { "add" };
            set.table(table).table(key).set(name, text.text.into());
            filter(item, conjs, &set, rules, ledger);
        }
        Err(reason) => ledger.changes(item.line, reason, format!("set {name} by hand, or in the application")),
    }
}

/// `reqadd`, `rspadd`, `reqidel`, `rspidel` of versions before 2.1.
fn old_fields(item: &Item, words: &[String], conjs: &[Conj], rules: &mut Rules, ledger: &mut Ledger) {
    let (verb, text) = (words[0].as_str(), words.get(1).map_or("", String::as_str));
    let table = if verb.starts_with("rsp") { "response_headers" } else { "request_headers" };
    let mut set = Table::default();
    if verb.ends_with("add") {
        let Some((name, value)) = text.split_once(':') else {
            return ledger.changes(item.line, "it is not a field", "leave it out");
        };
        let line = ["set-header".to_string(), name.trim().to_string(), value.trim().to_string()];
        return fields(item, &line, conjs, verb.starts_with("rsp"), rules, ledger);
    }
    let name = text.trim_start_matches('^').trim_end_matches(".*").trim_end_matches(['\\', ' ', ':']);
    if name.is_empty() || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') {
        return ledger.changes(
            item.line,
            "fields are removed by name, not by an expression",
            "name each field in `remove`",
        );
    }
    set.push(&format!("{table}.remove"), name);
    filter(item, conjs, &set, rules, ledger);
}

fn deny(item: &Item, words: &[String], conjs: &[Conj], scope: &Scope<'_>, rules: &mut Rules, ledger: &mut Ledger) {
    let (action, set) = match redirect::respond(words, 403) {
        Ok((action, fields)) if fields.is_empty() => (action, Table::default()),
        Ok((action, fields)) => (action, Table::one("response_headers", fields)),
        Err(reason) => return ledger.changes(item.line, reason, "write the response of a [[route]] by hand"),
    };
    let status = match &action {
        Action::Respond(Value::Int(status)) => *status,
        _ => 403,
    };
    ledger.carried(item.line);
    let counts = conjs.iter().any(|conj| !conj.rates.is_empty());
    if !counts && (matches!(item.word(1), "silent-drop" | "tarpit" | "reject") || item.word(0) == "tcp-request") {
        let reason = format!("requests are answered by {status}, and connections are not dropped or held");
        ledger.changes(item.line, reason, "nothing, or a firewall such as nftables");
    }
    for conj in conjs {
        if let [rate] = conj.rates.as_slice() {
            limit(item, rate, &conj.matching, status, scope, rules, ledger);
            continue;
        }
        if let Some(access) = access(conj, status) {
            let set = Table::one("access", access);
            rules.filters.push(Filter { line: item.line, matching: Match::default(), set, strip: None });
            continue;
        }
        if !conj.auth.is_empty() {
            close(item, "its condition asks for a password", &conj.matching, rules, ledger);
            continue;
        }
        if !conj.is_plain() {
            let todo = "write access or limits in a [[route]]";
            ledger.changes(item.line, "its condition asks for a list in a file or counters beside other things", todo);
            continue;
        }
        if conj.matching.conds.is_empty() && item.word(0) == "tcp-request" {
            ledger.changes(item.line, "it refuses every connection", "remove the listener");
            continue;
        }
        rules.finals.push(Final {
            line: item.line,
            matching: conj.matching.clone(),
            action: action.clone(),
            set: set.clone(),
        });
    }
}

/// The table of `access` for a denial that depends on the client's address alone.
fn access(conj: &Conj, status: u64) -> Option<Table> {
    let mut table = Table::default();
    match (conj.matching.conds.as_slice(), conj.client_files.as_slice()) {
        ([], [(file, negated)]) => table.push(if *negated { "allow_files" } else { "deny_files" }, file.as_str()),
        ([Cond { key: Key::Client, test: Test::OneOf(networks), negated }], []) => {
            drop(table.put(if *negated { "allow" } else { "deny" }, networks.clone()));
        }
        _ => return None,
    }
    if status != 403 {
        table.put("status", status);
    }
    Some(table)
}

/// A denial by a counter as a limit.
fn limit(
    item: &Item,
    rate: &Rate,
    matching: &Match,
    status: u64,
    scope: &Scope<'_>,
    rules: &mut Rules,
    ledger: &mut Ledger,
) {
    let (key, table) = scope.key_of(rate);
    let period = scope.tables.get(&table).and_then(|(_, counters)| counters.get(&rate.counter)).copied();
    if let Some((line, _)) = scope.tables.get(&table) {
        ledger.carried(*line);
    }
    let todo = "write limits in a [[route]], or in the listener";
    let Some(key) = key else {
        return ledger.changes(item.line, "the counter is not of a key that is tracked", todo);
    };
    let most = rate.most.max(1);
    if rate.counter == "conn_cur" && key == "src" {
        rules.limits.put("connections_per_address", most);
        return;
    }
    let (Some(period), "http_req_rate") = (period.filter(|ms| *ms > 0), rate.counter.as_str()) else {
        let reason = format!("`{}` is not a rate of requests", rate.counter);
        return ledger.changes(item.line, reason, todo);
    };
    if status != 429 {
        ledger.changes(
            item.line,
            format!("too many requests are answered by 429, not by {status}"),
            "nothing, unless clients depend on it",
        );
    }
    let reason = format!(
        "the counter over {} becomes a steady rate with a burst of {most}; a client may send up to twice as many in the first period",
        crate::model::duration(period)
    );
    ledger.changes(item.line, reason, "lower the burst if that is too many");
    if key == "src" && matching.conds.is_empty() {
        rules.limits.put("requests_per_address", per_second(most, period));
        rules.limits.put("burst_per_address", most);
        return;
    }
    let key = match key.split_once('(') {
        None if key == "src" => "client".to_string(),
        Some(("hdr" | "req.hdr", name)) => format!("header:{}", name.trim_end_matches(')')),
        Some(("cook" | "req.cook", name)) => format!("cookie:{}", name.trim_end_matches(')')),
        _ => return ledger.changes(item.line, format!("`{key}` is not a key of limits"), todo),
    };
    let limit = Table::one("requests", rate_text(most, period)).with("burst", most).with("key", key);
    let set = Table::one("limits", Value::List(vec![limit.into()]));
    rules.filters.push(Filter { line: item.line, matching: matching.clone(), set, strip: None });
}

fn per_second(most: u64, period_ms: u64) -> Value {
    let thousandths = most.saturating_mul(1_000_000) / period_ms;
    match thousandths.is_multiple_of(1000) && thousandths > 0 {
        true => Value::Int(thousandths / 1000),
        false => Value::Fraction(format!("{}.{:03}", thousandths.max(1) / 1000, thousandths.max(1) % 1000)),
    }
}

/// A rate in the largest unit in which it is a whole number: `"20/s"`, `"30/m"`.
fn rate_text(most: u64, period_ms: u64) -> String {
    for (unit, name) in [(1000, "s"), (60_000, "m"), (3_600_000, "h")] {
        let scaled = most.saturating_mul(unit);
        if scaled >= period_ms && scaled.is_multiple_of(period_ms) {
            return format!("{}/{name}", scaled / period_ms);
        }
    }
    format!("{}/h", (most.saturating_mul(3_600_000) / period_ms).max(1))
}

fn auth(item: &Item, words: &[String], conjs: &[Conj], scope: &Scope<'_>, rules: &mut Rules, ledger: &mut Ledger) {
    let realm = words.iter().position(|word| word == "realm").and_then(|at| words.get(at + 1));
    ledger.carried(item.line);
    for conj in conjs {
        let [(list, true)] = conj.auth.as_slice() else {
            let reason = "its condition does not ask for the passwords of one userlist";
            close(item, reason, &conj.matching, rules, ledger);
            continue;
        };
        let file = format!("{list}.htpasswd");
        for line in scope.userlists.get(list).into_iter().flatten() {
            let todo = format!("write NAME:HASH into {file} for each user");
            ledger.changes(*line, "passwords are read from a file of htpasswd", todo);
        }
        let mut auth = Table::one("file", file);
        if let Some(realm) = realm {
            auth.put("realm", realm.as_str());
        }
        // HAProxy forwards the credentials too.
        auth.put("keep", true);
        let set = Table::one("basic_auth", auth);
        rules.filters.push(Filter { line: item.line, matching: conj.matching.clone(), set, strip: None });
    }
}

/// An exception from the rules below it: the part of it that the language has is a condition of each later rule, and so
/// only rules without condition are exact.
fn allow(item: &Item, tail: &[String], rules: &mut Rules, ledger: &mut Ledger) {
    let _ = rules;
    match tail.is_empty() {
        true => ledger.dropped(item.line, "requests are allowed unless a rule refuses them"),
        false => {
            let todo = "exclude these requests in the rules that follow: not = { ... } in the match of their routes";
            ledger.changes(item.line, "a rule that exempts requests from later rules is not available", todo);
        }
    }
}

fn rewrite(item: &Item, regex: &str, with: &str, conjs: &[Conj], rules: &mut Rules, ledger: &mut Ledger) {
    let Some(prefix) = stripped(regex, with) else {
        let todo = "strip_prefix, or rewrite = { prefix = \"/NEW\" } or { path = \"/x/{id}\" } in a [[route]]";
        return ledger.changes(item.line, "paths are not rewritten by expressions", todo);
    };
    ledger.carried(item.line);
    let reason = format!("prefixes are taken away by segment: {prefix} itself becomes /, and {prefix}x stays");
    ledger.changes(item.line, reason, "nothing, unless clients ask for these two paths");
    let below = Match::of([Cond::new(Key::Path, Test::Below(prefix.clone()))]);
    for conj in conjs.iter().filter(|conj| conj.is_plain()) {
        let Ok(matching) = conj.matching.and(&below) else { continue };
        let set = Table::one("strip_prefix", true);
        rules.filters.push(Filter { line: item.line, matching, set, strip: Some(prefix.clone()) });
    }
}

fn set_path(item: &Item, value: &str, conjs: &[Conj], rules: &mut Rules, ledger: &mut Ledger) {
    if let Some(inner) = value.strip_prefix("%[path,regsub(").and_then(|rest| rest.strip_suffix(")]")) {
        let inner = inner.replace(['"', '\''], "");
        let (regex, with) = inner.split_once(',').unwrap_or((&inner, ""));
        // What is replaced is the beginning; the rest of the path stays.
        let prefix = regex.trim_start_matches('^').trim_end_matches('/');
        let fits = regex.starts_with("^/") && prefix.bytes().all(|b| b.is_ascii_alphanumeric() || b"/-_~".contains(&b));
        if fits && matches!(with, "/" | "") {
            return rewrite(item, &format!("^{prefix}/(.*)"), "/\\1", conjs, rules, ledger);
        }
    }
    if let Some(above) = value.strip_suffix("%[path]").filter(|above| above.starts_with('/')) {
        let set = Table::one("rewrite", Table::one("path", format!("{}{{path}}", above.trim_end_matches('/'))));
        return filter(item, conjs, &set, rules, ledger);
    }
    match sample::read(value) {
        Ok(text) if text.text.starts_with('/') && !text.has_query => {
            filter(item, conjs, &Table::one("rewrite", Table::one("path", text.text)), rules, ledger);
        }
        _ => ledger.changes(item.line, "the path cannot be made of this", "rewrite of a [[route]] sets it"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_written_in_whole_numbers() {
        assert_eq!(
            (rate_text(20, 10_000), rate_text(100, 60_000), rate_text(1, 1000)),
            ("2/s".into(), "100/m".into(), "1/s".into())
        );
        assert_eq!(per_second(20, 10_000), Value::Int(2));
        assert_eq!(per_second(5, 10_000), Value::Fraction("0.500".into()));
    }
}
