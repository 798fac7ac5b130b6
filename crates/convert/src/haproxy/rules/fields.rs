//! Fields of requests and responses that rules set, add or remove.

use super::effect::{Filter, Rules, filter};
use super::sample;
use crate::haproxy::acl::Conj;
use crate::haproxy::lexer::Item;
use crate::ledger::Ledger;
use crate::model::{Cond, Draft, FieldKeys, Key, Match, Test};
use crate::protection::withhold;

/// Fields that a rule sets, adds or removes.
pub(crate) fn fields(
    item: &Item,
    words: &[String],
    conjs: &[Conj],
    is_response: bool,
    rules: &mut Rules,
    ledger: &mut Ledger,
) {
    let (verb, name) = (words[0].as_str(), words.get(1).map_or("", String::as_str));
    if !is_response && verb != "add-header" && !conjs.iter().all(Conj::is_plain) {
        let reason = "its condition asks for a counter, a list in a file or a password";
        return withhold_always(item, words, reason, rules, ledger);
    }
    let value = words.get(2).map_or("", String::as_str);
    if words.iter().any(|word| word == "-m") {
        let todo = "name each field in `remove`";
        return ledger.changes(item.line, "fields are removed by name, not by an expression", todo);
    }
    // A constant scheme is the scheme of the request only if the condition asks for it.
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
            Ok(text) if verb == "set-header" => {
                filter(item, conjs, &Draft::one(key!("send_host"), text.text), rules, ledger)
            }
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
    let keys = if is_response { FieldKeys::RESPONSE } else { FieldKeys::REQUEST };
    let mut set = Draft::default();
    if verb == "del-header" {
        set.push(keys.remove, name);
        return filter(item, conjs, &set, rules, ledger);
    }
    match sample::read(value) {
        Ok(text) => {
            // Fields with a single value. Another line would contradict the line that evenkeel always adds.
            let is_own = name.to_ascii_lowercase().starts_with("x-forwarded-");
            let key = if verb == "set-header" || is_own && !is_response { keys.set } else { keys.add };
            set.insert(key, name, text.text);
            filter(item, conjs, &set, rules, ledger);
        }
        // HAProxy replaces the field of the client by its own.
        Err(reason) if verb == "set-header" && !is_response => {
            withhold(name, item.line, &reason, &mut set, ledger);
            if !set.is_empty() {
                filter(item, conjs, &set, rules, ledger);
            }
        }
        Err(reason) => ledger.changes(item.line, reason, format!("set {name} by hand, or in the application")),
    }
}

/// Removes a field from all requests if the condition of its rule cannot be written: the client's field must not pass
/// where HAProxy replaces it. Only for fields that no standard defines. Other fields do not state who the client is.
pub(crate) fn withhold_always(item: &Item, words: &[String], reason: &str, rules: &mut Rules, ledger: &mut Ledger) {
    let (verb, name) = (words[0].as_str(), words.get(1).map_or("", String::as_str));
    let is_extension = name.get(..2).is_some_and(|start| start.eq_ignore_ascii_case("x-"));
    if item.word(0) != "http-request" || !matches!(verb, "set-header" | "del-header") || !is_extension {
        let todo = "write a [[route]] for it by hand, if another condition can stand for it";
        return ledger.changes(item.line, reason, todo);
    }
    let mut set = Draft::default();
    withhold(name, item.line, reason, &mut set, ledger);
    if !set.is_empty() {
        rules.filters.push(Filter { line: item.line, matching: Match::default(), set, strip: None });
    }
}

/// `reqadd`, `rspadd`, `reqidel`, `rspidel` of versions before 2.1.
pub(crate) fn old_fields(item: &Item, words: &[String], conjs: &[Conj], rules: &mut Rules, ledger: &mut Ledger) {
    let (verb, text) = (words[0].as_str(), words.get(1).map_or("", String::as_str));
    let keys = if verb.starts_with("rsp") { FieldKeys::RESPONSE } else { FieldKeys::REQUEST };
    let mut set = Draft::default();
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
    set.push(keys.remove, name);
    filter(item, conjs, &set, rules, ledger);
}
