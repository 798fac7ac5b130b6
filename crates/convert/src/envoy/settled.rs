//! Ends of the directives of a file in the book, by what the translation has read of their messages. See [`settle`].

use super::read::{TYPE, field, values};
use crate::ledger::Ledger;
use crate::tree::Node as Table;
use evenkeel_envoy::node::{Extension, Node, Note, Value};
use evenkeel_envoy::schema::Kind;
use std::collections::BTreeMap;

/// Reason for keys that no part of the translation reads.
const NO_COUNTERPART: &str = "this key has no counterpart";

/// Reason for protections.
const UNKEPT: &str = "this protection is not kept";

/// Reason for keys whose absence changes nothing.
const IGNORED: &str = "it concerns logs, figures and buffers, or is the default here";

/// Values by which a protection is off, or a limit is none.
const OFF: [&str; 3] = ["false", "0", "4294967295"];

/// Keys with a reason and advice of their own.
const ADVICE: [(&str, &str, &str); 7] = [
    ("access_log", "the access log is off unless it is set", "telemetry.access_log.path = \"stdout\""),
    ("rate_limits", NO_COUNTERPART, "limits of the [[route]]"),
    ("cors", NO_COUNTERPART, "cors of the [[route]]"),
    ("regex_rewrite", NO_COUNTERPART, "rewrite of the [[route]], with a parameter of its path"),
    ("internal_redirect_policy", NO_COUNTERPART, "redirects are forwarded to clients"),
    ("request_timeout", "the time for a whole request has no limit here", "timeouts.request of the [[route]]"),
    ("max_connections", "pools have no limit of connections", "limits.requests_per_endpoint of the pool"),
];

/// Settles all directives of a table that was read as a message. `todo` is the advice for what is not carried over.
pub(super) fn settle(table: &Table, read: &Node<'_>, todo: &str, ledger: &mut Ledger) {
    if left_out(table, read, todo, ledger) {
        return;
    }
    for note in read.notes() {
        match note {
            Note::Differs(how) => ledger.changes(table.line, how, todo),
            Note::Unkept(field) => named(table, field).for_each(|value| value.lost(UNKEPT, todo, ledger)),
            Note::Lost(..) => {}
        }
    }
    for (value, read) in parts(table, read) {
        one(value, read, todo, ledger);
    }
    for (key, value) in table.entries() {
        let known = field(read.message(), key);
        let is_unset = value.text().is_none() && value.list().is_empty() && value.entries().is_empty();
        let advice = ADVICE.iter().find(|(of, ..)| of == key).filter(|_| !is_unset);
        let with = |reason| advice.map_or((reason, todo), |(_, reason, todo)| (*reason, *todo));
        match known.map(|field| (field.kind, field.name)) {
            None if key == TYPE => value.carried(ledger),
            Some((Kind::Ignored, _)) if advice.is_none() => value.dropped(IGNORED, ledger),
            Some((Kind::Noted, _)) if is_unset || value.text().is_some_and(|text| OFF.contains(&text)) => {
                value.dropped(IGNORED, ledger);
            }
            Some((Kind::Noted, _)) => value.lost(with(UNKEPT).0, with(UNKEPT).1, ledger),
            Some((kind, name)) if !matches!(kind, Kind::Ignored | Kind::Refused) && read.was_read(name) => {
                value.carried(ledger);
            }
            _ => value.lost(with(NO_COUNTERPART).0, with(NO_COUNTERPART).1, ledger),
        }
    }
    table.carried(ledger);
}

/// Settles what is left out, with the reason of the innermost message. True if the whole table is.
fn left_out(table: &Table, read: &Node<'_>, todo: &str, ledger: &mut Ledger) -> bool {
    for (value, read) in parts(table, read) {
        if let Value::Node(node) | Value::Extension(Extension { node: Some(node), .. }) = read {
            left_out(value, node, todo, ledger);
        }
    }
    let mut is_whole = false;
    for note in read.notes() {
        match note {
            Note::Lost(Some(field), why) => named(table, field).for_each(|value| value.lost(&why, todo, ledger)),
            Note::Lost(None, why) => {
                table.lost(&why, todo, ledger);
                is_whole = true;
            }
            Note::Differs(_) | Note::Unkept(_) => {}
        }
    }
    is_whole
}

fn named<'t>(table: &'t Table, name: &str) -> impl Iterator<Item = &'t Table> {
    table.entries().iter().filter(move |(key, _)| key == name).map(|(_, value)| value)
}

/// Parts of a table with the values that they were read as, of the fields that were read.
fn parts<'t, 'r, 'a>(table: &'t Table, read: &'r Node<'a>) -> Vec<(&'t Table, &'r Value<'a>)> {
    // Several keys of a name are one field.
    let (mut before, mut all) = (BTreeMap::<&str, usize>::new(), Vec::new());
    for (key, value) in table.entries() {
        let Some(field) = field(read.message(), key) else { continue };
        if matches!(field.kind, Kind::Ignored | Kind::Noted | Kind::Refused) || !read.was_read(field.name) {
            continue;
        }
        let each = values(field.kind, value);
        let at = before.entry(field.name).or_default();
        let read = read.peek(field.name).skip(*at);
        *at += each.len();
        all.extend(each.into_iter().map(|(_, value)| value).zip(read));
    }
    all
}

fn one(value: &Table, read: &Value<'_>, todo: &str, ledger: &mut Ledger) {
    match read {
        // A duration or a wrapper is one directive.
        Value::Node(_) if value.text().is_some() => value.carried(ledger),
        // An entry of a map, whose key is part of the path of what is in it.
        Value::Node(node) => match node.peek("value").next() {
            Some(inner @ Value::Extension(_)) => one(value, inner, todo, ledger),
            _ => settle(value, node, todo, ledger),
        },
        Value::Extension(Extension { node: Some(node), .. }) => settle(value, node, todo, ledger),
        Value::Extension(Extension { node: None, .. }) => value.dropped("it sets nothing that matters here", ledger),
        Value::Refused => value.lost(NO_COUNTERPART, todo, ledger),
        _ => value.carried(ledger),
    }
}
