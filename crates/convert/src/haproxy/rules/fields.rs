//! Rules that change fields, as edits of routes in the order of the rules.

use super::effect::{Edit, Filter, Rules, Scope, filter};
use super::sample;
use crate::expression::{foreign, whole};
use crate::haproxy::acl::is_of_field;
use crate::haproxy::criteria::{self, Atom};
use crate::haproxy::lexer::Item;
use crate::haproxy::logic::{Conj, Expr};
use crate::haproxy::state::{Change, Source};
use crate::ledger::Ledger;
use crate::model::{Cond, Draft, Entries, Key, Maps, Match, RouteKeys, Test, Value, braced, escape};
use crate::protection::{can_be_withheld, is_field};

/// Fields that steer a message, which no rule may change.
const STEERS: [&str; 8] =
    ["content-length", "transfer-encoding", "connection", "te", "trailer", "upgrade", "keep-alive", "proxy-connection"];

/// The condition of a rule as it was read, and as a condition on the request as the client sent it.
pub(crate) struct Condition {
    pub raw: Expr,
    pub viewed: Expr,
    /// Condition that also holds for clients that an `allow` took out.
    pub with_allowed: Expr,
}

/// A rule on a field of requests.
pub(crate) fn fields(
    item: &Item,
    words: &[String],
    condition: &Condition,
    scope: &Scope<'_>,
    rules: &mut Rules,
    ledger: &mut Ledger,
) {
    let verb = words[0].as_str();
    let value = words.get(2).map_or("", String::as_str);
    let name = match named(words) {
        Ok(name) => name,
        Err((reason, todo)) => return ledger.changes(item.line, reason, todo),
    };
    let name = name.as_str();
    let replaced = (verb == "replace-header").then(|| replaced(name, value, words.get(3).map_or("", String::as_str)));
    if let Some(Ok((test, value))) = replaced {
        // The line is set if the expression matches in it.
        let viewed = condition.viewed.clone().and(rules.state.view(&test, scope.context.maps));
        let raw = condition.raw.clone().and(test);
        let condition = Condition { raw, with_allowed: viewed.clone(), viewed };
        let words = ["set-header".to_string(), name.to_string(), value];
        return fields(item, &words, &condition, scope, rules, ledger);
    }
    let text = sample::read(value, scope.context, &rules.state);
    let change = changed(verb, value, &text);
    let edit = match (verb, text) {
        ("del-header", _) => Ok(one("remove", vec![name.to_string()])),
        (_, Err(reason)) => Err(reason),
        ("set-header", Ok(text)) => Ok(one("set", Entries::one(name, text))),
        // Fields with a single value. Another line would contradict the line that evenkeel always adds.
        ("add-header", Ok(text)) if name.to_ascii_lowercase().starts_with("x-forwarded-") => {
            Ok(one("set", Entries::one(name, text)))
        }
        ("add-header", Ok(text)) => Ok(one("add", Entries::one(name, text))),
        _ => Err(NOT_CHANGED.to_string()),
    };
    if name.eq_ignore_ascii_case("host") {
        host(
            item,
            verb,
            edit.is_ok().then(|| sample::read(value, scope.context, &rules.state)),
            condition,
            scope,
            rules,
            ledger,
        );
    } else if STEERS.contains(&name.to_ascii_lowercase().as_str()) {
        ledger.changes(item.line, format!("{name} steers the message, and cannot be set"), "leave it out");
    } else if is_own(verb, name, value, condition) {
        ledger.dropped(item.line, "the field is always set");
    } else if name.eq_ignore_ascii_case("x-forwarded-for") && verb == "del-header" {
        ledger.dropped(item.line, "the field is replaced unless a trusted proxy sent it");
    } else {
        match edit {
            Ok(edit) => edits(item, verb, name, edit, condition, scope, rules, ledger),
            Err(reason) => withheld(item, verb, name, &reason, condition, scope, rules, ledger),
        }
    }
    rules.state.change_field(name, condition.viewed.clone(), change);
}

/// Reason for values whose parts an expression names.
const NOT_CHANGED: &str = "values are not changed by expressions";

/// Condition on a field that an expression matches in, and the value of `set-header` for its lines.
///
/// # Errors
/// Reason why there is none.
fn replaced(name: &str, regex: &str, with: &str) -> Result<(Expr, String), String> {
    foreign(regex)?;
    let is_whole = matches!(regex, "(.*)" | "^(.*)" | "(.*)$" | "^(.*)$" | ".*" | "^.*$");
    let (mut value, mut chars) = (String::new(), with.chars());
    while let Some(c) = chars.next() {
        match (c, if c == '\\' { chars.next() } else { None }) {
            (_, Some('0')) if is_whole => value.push_str(&format!("%[req.fhdr({name})]")),
            (_, Some('1')) if is_whole && regex.contains('(') => value.push_str(&format!("%[req.fhdr({name})]")),
            ('\\', Some(other)) if !other.is_ascii_alphanumeric() => value.push(other),
            ('\\', _) => return Err(NOT_CHANGED.to_string()),
            ('%', _) => return Err(NOT_CHANGED.to_string()),
            (c, _) => value.push(c),
        }
    }
    let test = if is_whole { Test::Present } else { Test::Regex(whole(regex, false)) };
    Ok((Cond::new(Key::Header(name.to_string()), test).into(), value))
}

/// Name of the field of a rule, with a star behind the beginning of several names.
///
/// # Errors
/// Reason and advice if an expression names the fields, or no field has the name.
fn named(words: &[String]) -> Result<String, (&'static str, &'static str)> {
    let name = words.get(1).map_or("", String::as_str);
    let method = words.iter().position(|word| word == "-m").map(|at| words.get(at + 1).map_or("", String::as_str));
    match method {
        None | Some("str") if !is_field(name) => {
            Err(("the name of its field has characters that no name has", "write the name alone, without a colon"))
        }
        None | Some("str") => Ok(name.to_string()),
        Some("beg") if !name.is_empty() => Ok(format!("{name}*")),
        Some(_) => Err(("fields are removed by name, not by an expression", "name each field in `remove`")),
    }
}

fn one(key: &str, value: impl Into<Value>) -> Entries {
    Entries::one(key, value)
}

fn changed(verb: &str, value: &str, text: &Result<String, String>) -> Change {
    let source = match text {
        Ok(_) if !value.contains('%') => Source::Text(value.to_string()),
        Ok(text) => Source::Template(text.clone()),
        Err(_) => Source::Unknown,
    };
    match verb {
        "set-header" => Change::Set(source),
        "add-header" => Change::Add(source),
        "del-header" => Change::Delete,
        _ => Change::Replace,
    }
}

/// True for a field that evenkeel always sets to this value.
fn is_own(verb: &str, name: &str, value: &str, condition: &Condition) -> bool {
    let scheme = Cond::one_of(Key::Scheme, [value]);
    let of_scheme = condition.raw == Expr::from(scheme.clone())
        || value == "http" && condition.raw == Expr::from(Cond::one_of(Key::Scheme, ["https"])).not();
    let own = [("x-forwarded-proto", &["%[ssl_fc,iif(https,http)]"][..]), ("x-forwarded-for", &["%[src]", "%ci"])];
    verb != "del-header"
        && own.iter().any(|(field, values)| {
            name.eq_ignore_ascii_case(field)
                && (values.contains(&value) && condition.raw == Expr::Const(true)
                    || *field == "x-forwarded-proto" && of_scheme)
        })
}

/// `set-header Host`, which is a key of routes.
fn host(
    item: &Item,
    verb: &str,
    text: Option<Result<String, String>>,
    condition: &Condition,
    scope: &Scope<'_>,
    rules: &mut Rules,
    ledger: &mut Ledger,
) {
    let conjs = condition.viewed.alternatives(scope.context.maps);
    match (text, verb, conjs) {
        (Some(Ok(text)), "set-header", Ok(conjs)) if !text.contains('{') => {
            filter(item, &conjs, &Draft::one(key!("send_host"), text), rules, ledger);
        }
        _ => ledger.changes(
            item.line,
            "endpoints get the client's Host, their own, or fixed text",
            "send_host of a [[route]] sets it",
        ),
    }
}

/// Adds a change of fields for the requests of a condition.
#[expect(clippy::too_many_arguments, reason = "facts of a rule")]
fn edits(
    item: &Item,
    verb: &str,
    name: &str,
    change: Entries,
    condition: &Condition,
    scope: &Scope<'_>,
    rules: &mut Rules,
    ledger: &mut Ledger,
) {
    let maps = scope.context.maps;
    // Conditions of edits see the fields as the edits before them left them.
    let reads = |expr: &Expr| expr.has(&|atom| rules.state.reads_changed(atom, maps));
    let stopped = &rules.state.stopped;
    let (expr, splits) = match () {
        () if !reads(&condition.viewed) => (condition.viewed.clone(), false),
        () if !reads(stopped) && holds_there(&condition.raw, rules, maps) => {
            (condition.raw.clone().and(stopped.clone().or(rules.state.allowed_clients.clone()).not()), false)
        }
        () => (condition.viewed.clone(), true),
    };
    // A request that fulfils several alternatives must get such a change once.
    let is_once = verb == "add-header" || reads_itself(name, &change);
    let lower = name.to_ascii_lowercase();
    let is_own = |atom: &Atom| is_of_field(atom, &lower) && !matches!(atom, Atom::Is(Cond { test: Test::Present, .. }));
    let (expr, splits) = match is_once && expr.has(&is_own) {
        // An alternative would see the change of another alternative.
        true if !expr.alternatives(maps).is_ok_and(|all| all.len() < 2) => (condition.viewed.clone(), true),
        _ => (expr, splits),
    };
    let conjs = if is_once { expr.apart(maps) } else { expr.alternatives(maps) };
    match conjs {
        Ok(conjs) if conjs.iter().all(Conj::is_plain) => {
            ledger.carried(item.line);
            for conj in conjs {
                push(item, conj.matching, &change, splits, rules);
            }
        }
        Ok(_) => {
            let reason = "its condition asks for a counter, a list in a file or a password";
            withheld(item, verb, name, reason, condition, scope, rules, ledger);
        }
        Err(reason) => {
            let reason = format!("its condition cannot be written: {reason}");
            withheld(item, verb, name, &reason, condition, scope, rules, ledger);
        }
    }
}

/// True if a change writes a field with the value that the field has.
fn reads_itself(name: &str, change: &Entries) -> bool {
    let name = format!("{{header.{}", name.to_ascii_lowercase());
    let reads = |text: &str| {
        let text = text.to_ascii_lowercase();
        text.split(&name).skip(1).any(|rest| rest.starts_with(['}', '|']))
    };
    let is = |(_, value): (&str, &Value)| match value {
        Value::Table(fields) => fields.iter().any(|(_, value)| matches!(value, Value::Text(text) if reads(text))),
        _ => false,
    };
    change.iter().any(is)
}

/// True if a condition means the same in an edit: it reads fields as they are by then, and nothing else that has changed.
fn holds_there(raw: &Expr, rules: &Rules, maps: &Maps) -> bool {
    // The host is changed behind all edits.
    let is_field = |atom: &Atom| {
        matches!(atom, Atom::Field(_) | Atom::Is(Cond { key: Key::Header(_), .. })) && !is_of_field(atom, "host")
    };
    let is_other = |atom: &Atom| !is_field(atom) && rules.state.view(&atom.clone().into(), maps) != atom.clone().into();
    !raw.has(&is_other)
}

fn push(item: &Item, matching: Match, change: &Entries, splits: bool, rules: &mut Rules) {
    let edit = Edit { is_response: false, change: change.clone(), splits };
    let filter = Filter { edit: Some(edit), ..Filter::new(item.line, matching, RouteKeys::default(), rules) };
    rules.filters.push(filter);
}

/// Notes a field that cannot be set, and removes it from all requests: the client's field must not pass where HAProxy
/// replaces it. Without its condition only fields that no standard defines are removed.
#[expect(clippy::too_many_arguments, reason = "facts of a rule")]
fn withheld(
    item: &Item,
    verb: &str,
    name: &str,
    reason: &str,
    condition: &Condition,
    scope: &Scope<'_>,
    rules: &mut Rules,
    ledger: &mut Ledger,
) {
    let todo = format!("set {name} by hand, or in the application");
    let is_extension = name.get(..2).is_some_and(|start| start.eq_ignore_ascii_case("x-"));
    let conjs = condition.viewed.alternatives(scope.context.maps).ok().filter(|all| all.iter().all(Conj::is_plain));
    if verb == "add-header" || !can_be_withheld(name) || conjs.is_none() && !is_extension {
        return ledger.changes(item.line, reason, todo);
    }
    ledger.changes(item.line, format!("{reason}: the field is removed"), todo);
    let change = one("remove", vec![name.to_string()]);
    for conj in conjs.unwrap_or_else(|| vec![Conj::default()]) {
        push(item, conj.matching, &change, true, rules);
    }
}

/// `reqadd`, `rspadd`, `reqidel`, `rspidel` of versions before 2.1, as a rule of today.
pub(crate) fn of_old(words: &[String]) -> Option<(bool, Vec<String>)> {
    let (verb, text) = (words[0].as_str(), words.get(1).map_or("", String::as_str));
    let is_response = verb.starts_with("rsp");
    if verb.ends_with("add") {
        let (name, value) = text.split_once(':')?;
        return Some((is_response, vec!["set-header".into(), name.trim().into(), value.trim().into()]));
    }
    let name = text.trim_start_matches('^').trim_end_matches(".*").trim_end_matches(['\\', ' ', ':']);
    let is_name = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    is_name.then(|| (is_response, vec!["del-header".into(), name.into()]))
}

/// A rule on a field of responses. `after` is true for `http-after-response`, which evenkeel's own responses get too.
pub(crate) fn of_response(
    item: &Item,
    words: &[String],
    tail: &[String],
    after: bool,
    scope: &Scope<'_>,
    rules: &mut Rules,
    ledger: &mut Ledger,
) {
    let verb = words[0].as_str();
    let value = words.get(2).map_or("", String::as_str);
    let todo = "response_headers of a [[route]], or in the application";
    let name = match named(words) {
        Ok(name) => name,
        Err((reason, todo)) => return ledger.changes(item.line, reason, todo),
    };
    let name = name.as_str();
    if STEERS.contains(&name.to_ascii_lowercase().as_str()) {
        return ledger.changes(item.line, format!("{name} steers the message, and cannot be set"), "leave it out");
    }
    let text = match value.contains("%[res.") || value.contains("%[capture.res") {
        _ if rules.state.has_status && value.contains("%[status") => {
            Err("a rule before it changes the status".to_string())
        }
        true => Err("fields of the response are no variables".to_string()),
        false => sample::read(value, scope.context, &rules.state),
    };
    let mut is = None;
    let mut edit = match (verb, text) {
        ("del-header", _) => one("remove", vec![name.to_string()]),
        ("replace-header" | "replace-value", _) if words.len() < 4 => {
            return ledger.changes(item.line, NOT_CHANGED, todo);
        }
        (_, Err(reason)) => return ledger.changes(item.line, reason, todo),
        ("set-header", Ok(text)) => one("set", Entries::one(name, text)),
        ("add-header", Ok(text)) => one("add", Entries::one(name, text)),
        ("replace-header", _) => match replaced(name, value, words.get(3).map_or("", String::as_str)) {
            Ok((test, text)) if !text.contains('%') => {
                is = Some(test);
                one("set", Entries::one(name, braced(&text)))
            }
            _ => return ledger.changes(item.line, NOT_CHANGED, todo),
        },
        _ => return ledger.changes(item.line, NOT_CHANGED, todo),
    };
    match when(tail, scope, rules) {
        Err(reason) => return ledger.changes(item.line, reason, todo),
        Ok(None) => return ledger.dropped(item.line, "its condition never holds"),
        Ok(Some(when)) if when.is_empty() && is.is_none() => {}
        Ok(Some(mut when)) => {
            if let Some(Expr::Is(atom)) = is
                && let Atom::Is(Cond { test, .. }) = &*atom
            {
                let value = match test {
                    Test::Regex(regex) => Entries::one("regex", regex.as_str()),
                    _ => Entries::one("present", true),
                };
                when.table("header").set(name, value);
            }
            let mut with = Entries::one("when", when);
            edit.iter().for_each(|(key, value)| drop(with.set(key, value.clone())));
            edit = with;
        }
    }
    ledger.carried(item.line);
    if !after {
        return rules.responses.push((item.line, edit));
    }
    let edit = Edit { is_response: true, change: edit, splits: false };
    let all = Filter::new(item.line, Match::default(), Draft::default(), rules);
    // All responses get it, also from rules before it.
    let filter = Filter { edit: Some(edit), behind: 0, ..all };
    rules.filters.push(filter);
}

/// The condition of a rule for responses, as `when` of an edit; `None` if it never holds.
///
/// # Errors
/// Reason why it cannot be written.
fn when(tail: &[String], scope: &Scope<'_>, rules: &Rules) -> Result<Option<Entries>, String> {
    let mut when = Entries::default();
    let unwritable = || Err(format!("its condition cannot be written: {}", tail.join(" ")));
    let Some(first) = tail.first() else { return Ok(Some(when)) };
    if first != "if" || tail.iter().any(|word| matches!(word.as_str(), "or" | "||")) {
        return unwritable();
    }
    for part in tail[1..].split(|word| word == "}").filter(|part| !part.is_empty()) {
        let (negated, words) = match part.first().map(String::as_str) {
            Some("{") => (false, &part[1..]),
            Some("!{") => (true, &part[1..]),
            Some("!") if part.get(1).is_some_and(|word| word == "{") => (true, &part[2..]),
            _ => return unwritable(),
        };
        let word = |at: usize| words.get(at).map_or("", String::as_str);
        let name = word(0).strip_prefix("res.hdr(").and_then(|rest| rest.strip_suffix(')'));
        match (word(0), name) {
            ("status", _) if rules.state.has_status => return Err("a rule before it changes the status".to_string()),
            ("status", _) if !negated => {
                let each = words[1..].iter().map(|status| status.replacen(':', "..=", 1));
                when.set("status", each.collect::<Vec<_>>());
            }
            (_, Some(name)) if word(1) == "-m" && word(2) == "found" => {
                when.table("header").set(name, Entries::one("present", !negated));
            }
            (_, Some(name)) if !negated && words.len() == 2 && !word(1).starts_with('-') => {
                when.table("header").set(name, word(1));
            }
            (text, _) if text.starts_with("var(") => {
                let read = criteria::read(words, scope.context);
                let read = rules.state.view_of_response(&if negated { read.not() } else { read }, scope.context.maps);
                let conjs = read.alternatives(scope.context.maps)?;
                match conjs.as_slice() {
                    [] => return Ok(None),
                    [one] if one.is_plain() && one.matching.conds.is_empty() => {}
                    [one] if one.is_plain() && when.get("request").is_none() && !reads_fields(&one.matching) => {
                        drop(when.set("request", as_sent(one.matching.conds.clone()).table()));
                    }
                    _ => return unwritable(),
                }
            }
            _ => return unwritable(),
        }
    }
    Ok(Some(when))
}

fn reads_fields(matching: &Match) -> bool {
    matching.conds.iter().any(|cond| matches!(cond.key, Key::Header(_)) && cond.test != Test::Present)
}

/// Conditions of a change of fields, with the path as an expression: other tests of paths decode `%61` there.
pub(crate) fn as_sent(mut conds: Vec<Cond>) -> Match {
    let mut paths = conds.iter_mut().filter(|cond| cond.key == Key::Path && !cond.negated);
    if let (Some(cond), None) = (paths.next(), paths.next()) {
        let search = match &cond.test {
            Test::OneOf(paths) if paths.len() == 1 => Some(format!("^{}$", escape(&paths[0]))),
            Test::Begins(path) => Some(format!("^{}", escape(path))),
            _ => None,
        };
        cond.test = search.map_or_else(|| cond.test.clone(), Test::Search);
    }
    Match { conds }
}
