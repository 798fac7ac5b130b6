//! Rules of a section: http-request, http-response, tcp-request, redirect, with their conditions.

// Order: bandwidth, fields, refusal, counter, redirect, sample, caching & effect, address
mod address;
mod bandwidth;
mod caching;
mod counter;
mod effect;
mod fields;
mod redirect;
mod refusal;
mod sample;

pub(super) use address::{AddressRule, Verdict, verdict};
pub(super) use bandwidth::{is_filter, unused};
pub(super) use caching::{Caches, section as cache_section};
pub(super) use effect::{Filter, Final, Rules, Scope, StickTables};
pub(super) use refusal::{refuse_all, refuse_files};

use super::acl::{CLIENT, Conj, condition};
use super::lexer::Item;
use crate::ledger::Ledger;
use crate::model::{Action, Cond, Draft, Key, Match, RouteKeys, Test};
use crate::rewriting::stripped;
use address::Stage;
use effect::{close, end, filter, stage};
use fields::{fields, old_fields, withhold_always};
use refusal::{Exception, allow, deny};

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
    // HAProxy tries rules for connections first, then `monitor-uri`, then `http-request`, and `redirect` last.
    let rank = |item: &&&Item| match (item.word(0), stage(item)) {
        ("monitor-uri", _) => 3,
        ("redirect", _) => 5,
        (_, Some(Stage::Connection)) => 0,
        (_, Some(Stage::Session)) => 1,
        (_, Some(Stage::Content)) => 2,
        _ => 4,
    };
    let mut ordered: Vec<&&Item> = items.iter().filter(|item| is_rule(item)).collect();
    ordered.sort_by_key(rank);
    let mut exceptions: Vec<Exception> = Vec::new();
    for item in ordered {
        let before = (rules.finals.len(), rules.filters.len(), rules.limits.clone());
        let (addresses, stage) = (rules.addresses.len(), stage(item));
        rule(item, scope, &mut rules, &mut exceptions, ledger);
        let is_other = before != (rules.finals.len(), rules.filters.len(), rules.limits.clone());
        let refuses = rules.addresses[addresses..].iter().any(|rule| !rule.lets_in);
        for exception in exceptions.iter_mut().filter(|exception| Some(exception.stage) == stage) {
            exception.is_needed |= is_other || refuses && !exception.carried;
        }
    }
    for exception in exceptions {
        exception.settle(ledger);
    }
    rules
}

/// True if a rule that cannot be written refuses or diverts clients by address. `reason`: why its condition cannot be
/// written.
fn refuses_by_address(name: &str, reason: &str) -> bool {
    (is_refusal(name) || name == "redirect") && reason.contains(CLIENT)
}

fn is_refusal(name: &str) -> bool {
    matches!(name, "deny" | "reject" | "return" | "tarpit" | "silent-drop" | "block")
}

/// True if a rule that cannot be written refuses requests without a password, a token or a permission. `reason`: why
/// its condition cannot be written. Variables hold the decisions of scripts and agents.
fn asks(item: &Item, name: &str, reason: &str) -> bool {
    let proofs = ["http_auth", "jwt_verify", "jwt_query", "auth_response", "userlist"];
    name == "auth"
        || is_refusal(name)
            && (reason.contains("variables")
                || item.words.iter().any(|word| proofs.iter().any(|proof| word.contains(proof))))
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

fn rule(item: &Item, scope: &Scope<'_>, rules: &mut Rules, exceptions: &mut Vec<Exception>, ledger: &mut Ledger) {
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
    if name == "cache-store" {
        // It has a condition on responses.
        return caching::store(item, words.get(1).map_or("", String::as_str), scope, ledger);
    }
    let conjs = match condition(tail, scope.acls) {
        Ok(conjs) => conjs,
        Err(_) if name == "accept" => return allow(item, tail, &[], rules, exceptions, ledger),
        Err(reason) => {
            let todo = "write a [[route]] for it by hand, if another condition can stand for it";
            if refuses_by_address(name, &reason) {
                let reason = format!("its condition cannot be written: {reason}; all clients are refused");
                ledger.changes(item.line, reason, "write access of the [[route]] by hand");
                return refuse_all(item, rules);
            }
            if asks(item, name, &reason) {
                let reason = format!("its condition cannot be written: {reason}");
                return close(item, &reason, &Match::default(), rules, ledger);
            }
            let reason = format!("its condition cannot be written: {reason}");
            return match name {
                "set-header" | "del-header" => withhold_always(item, words, &reason, rules, ledger),
                _ => ledger.changes(item.line, reason, todo),
            };
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
            Ok(action) => finals(item, &conjs, action, Draft::default(), rules, ledger),
            Err(reason) => unanswered(item, &conjs, &reason, scope, rules, ledger),
        },
        "return" => match redirect::respond(&words[1..], 200) {
            Ok((action, fields)) => finals(item, &conjs, action, fields, rules, ledger),
            Err(reason) => unanswered(item, &conjs, &reason, scope, rules, ledger),
        },
        "monitor-uri" => {
            let cond = Cond::one_of(Key::Path, [item.word(1)]);
            let conj = Conj { matching: Match::of([cond]), ..Conj::default() };
            finals(item, &[conj], Action::respond(200), Draft::default(), rules, ledger);
            ledger.changes(
                item.line,
                "the answer has no body; HAProxy sends a page",
                "nothing, unless a monitor reads the page",
            );
        }
        "auth" => auth(item, &words[1..], &conjs, scope, rules, ledger),
        "allow" | "accept" => allow(item, tail, &conjs, rules, exceptions, ledger),
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
        "cache-use" => caching::enable(item, words.get(1).map_or("", String::as_str), &conjs, scope, rules, ledger),
        "set-bandwidth-limit" => bandwidth::enable(item, words, &conjs, scope, rules, ledger),
        "use-service" => {
            let todo = "scrape /metrics at `admin.http`, which is a listener of its own";
            ledger.changes(item.line, "metrics are served by the admin's listener, not by this one", todo);
        }
        _ => {}
    }
}

/// Adds a rule that ends a request, for each alternative of its condition.
fn finals(item: &Item, conjs: &[Conj], action: Action, set: RouteKeys, rules: &mut Rules, ledger: &mut Ledger) {
    ledger.carried(item.line);
    for conj in conjs {
        if !conj.client_files.is_empty() && conj.rates.is_empty() && conj.auth.is_empty() {
            // Clients that get this response get no further.
            refuse_files(item, conj, 403, rules, ledger);
            let todo = "nothing, unless clients depend on the answer";
            ledger.changes(item.line, "clients of a list in a file are refused instead of being answered by it", todo);
            continue;
        }
        if !conj.is_plain() {
            let todo = "limits, access and basic_auth of a [[route]] refuse requests by themselves";
            ledger.changes(item.line, "its condition asks for a counter, a list in a file or a password", todo);
            continue;
        }
        end(item, conj.matching.clone(), action.clone(), set.clone(), rules);
    }
}

/// A redirect or response that cannot be written. Clients that it keeps out by their address are refused.
fn unanswered(item: &Item, conjs: &[Conj], reason: &str, scope: &Scope<'_>, rules: &mut Rules, ledger: &mut Ledger) {
    let by_client =
        |conj: &&Conj| !conj.client_files.is_empty() || conj.matching.conds.iter().any(|cond| cond.key == Key::Client);
    let kept_out: Vec<Conj> = conjs.iter().filter(by_client).cloned().collect();
    deny(item, &[], &kept_out, scope, rules, ledger);
    ledger.changes(item.line, reason, "write the answer of a [[route]] by hand");
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
        let mut set = Draft::one(key!("basic_auth.file"), file);
        if let Some(realm) = realm {
            set.put(key!("basic_auth.realm"), realm.as_str());
        }
        // HAProxy forwards the credentials too.
        set.put(key!("basic_auth.keep"), true);
        rules.filters.push(Filter { line: item.line, matching: conj.matching.clone(), set, strip: None });
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
        let set = Draft::one(key!("strip_prefix"), true);
        rules.filters.push(Filter { line: item.line, matching, set, strip: Some(prefix.clone()) });
    }
}

fn set_path(item: &Item, value: &str, conjs: &[Conj], rules: &mut Rules, ledger: &mut Ledger) {
    if let Some(inner) = value.strip_prefix("%[path,regsub(").and_then(|rest| rest.strip_suffix(")]")) {
        let inner = inner.replace(['"', '\''], "");
        let (regex, with) = inner.split_once(',').unwrap_or((&inner, ""));
        // Only the beginning of the path is replaced.
        let prefix = regex.trim_start_matches('^').trim_end_matches('/');
        let fits = regex.starts_with("^/") && prefix.bytes().all(|b| b.is_ascii_alphanumeric() || b"/-_~".contains(&b));
        if fits && matches!(with, "/" | "") {
            return rewrite(item, &format!("^{prefix}/(.*)"), "/\\1", conjs, rules, ledger);
        }
    }
    if let Some(above) = value.strip_suffix("%[path]").filter(|above| above.starts_with('/')) {
        let set = Draft::one(key!("rewrite.path"), format!("{}{{path}}", above.trim_end_matches('/')));
        return filter(item, conjs, &set, rules, ledger);
    }
    match sample::read(value) {
        Ok(text) if text.text.starts_with('/') && !text.has_query => {
            filter(item, conjs, &Draft::one(key!("rewrite.path"), text.text), rules, ledger);
        }
        _ => ledger.changes(item.line, "the path cannot be made of this", "rewrite of a [[route]] sets it"),
    }
}
