//! Settles the directives of a file in the book, by the fields that the translation has read. See [`settle`].

use super::read::{TYPE, field, values};
use crate::ledger::Ledger;
use crate::tree::Node as Table;
use evenkeel_envoy::node::{Extension, Node, Note, Value};
use evenkeel_envoy::schema::{self, Kind, Message};
use std::collections::BTreeMap;

/// Reason for keys that no part of the translation reads.
const NO_COUNTERPART: &str = "this key has no counterpart";

/// Reason for keys that protect clients or endpoints.
const UNKEPT: &str = "this protection is not kept";

/// Reason for keys whose absence changes nothing.
const IGNORED: &str = "it concerns logs, figures, buffers or the resolution of names, or is the default here";

/// Values by which a protection is off, or a limit is none.
const OFF: [&str; 3] = ["false", "0", "4294967295"];

/// Keys with a reason and advice that their message does not have.
const OF_KEYS: [(&str, &str, &str); 9] = [
    ("access_log", "the access log is off unless it is set", "telemetry.access_log.path = \"stdout\""),
    ("rate_limits", NO_COUNTERPART, "limits of the [[route]]"),
    ("cors", NO_COUNTERPART, "cors of the [[route]]"),
    ("regex_rewrite", NO_COUNTERPART, "redirect of the [[route]], with groups of the search of its match"),
    ("internal_redirect_policy", NO_COUNTERPART, "redirects are forwarded to clients"),
    ("request_timeout", "the time for a whole request has no limit here", "timeouts.request of the [[route]]"),
    ("max_connections", "pools have no limit of connections", "limits.requests_per_endpoint of the pool"),
    ("lb_policy", NO_COUNTERPART, "balance of the pool"),
    ("type", NO_COUNTERPART, "endpoints of the pool, or discover"),
];

/// Keys that refuse requests, which are let through here.
const REFUSALS: [&str; 1] = ["path_with_escaped_slashes_action"];

/// Messages without which requests are not answered, or not as before.
static WHOLE: [&Message; 5] =
    [&schema::LISTENER, &schema::FILTER_CHAIN, &schema::VIRTUAL_HOST, &schema::ROUTE, &schema::CLUSTER];

/// Advice on parts of messages that are not carried over. Other messages have the advice of the message around them.
static OF_MESSAGES: [(&Message, &str); 20] = [
    (&schema::LISTENER, "see the keys of a listener"),
    (&schema::FILTER_CHAIN, "match.host of a [[route]], or a listener for each chain"),
    (&schema::DOWNSTREAM_TLS, "tls of the listener"),
    (&schema::MANAGER, "see timeouts, limits and trusted_proxies of the listener"),
    (&schema::HTTP_FILTER, "see the filters of a [[route]]: limits, cors, access and others"),
    (&schema::VIRTUAL_HOST, "match and other keys of a [[route]]"),
    (&schema::ROUTE, "see the keys of a [[route]]"),
    (&schema::ROUTE_MATCH, "match of a [[route]]"),
    (&schema::ROUTE_ACTION, "see the keys of a [[route]], and compare a request through both"),
    (&schema::RETRY_POLICY, "retry of the [[route]]"),
    (&schema::MIRROR_POLICY, "mirror of the [[route]]"),
    (&schema::REDIRECT, "redirect of the [[route]]"),
    (&schema::DIRECT_RESPONSE, "respond of the [[route]]"),
    (&schema::HEADER_OPTION, "request_headers or response_headers of the [[route]]"),
    (&schema::CLUSTER, "see the keys of a pool"),
    (&schema::UPSTREAM_TLS, "tls of the pool"),
    (&schema::ASSIGNMENT, "endpoints of the pool"),
    (&schema::HEALTH_CHECK, "health of the pool"),
    (&schema::OUTLIER_DETECTION, "outlier of the pool"),
    (&schema::THRESHOLDS, "limits, queue and retry of the pool"),
];

/// Settles all directives of a table that was read as a message.
pub(super) fn settle(table: &Table, read: &Node<'_>, ledger: &mut Ledger) {
    within(table, read, "", ledger);
}

/// Settles the directives of a table within another. `around`: advice of the outer table.
fn within(table: &Table, read: &Node<'_>, around: &str, ledger: &mut Ledger) {
    let todo = advice(read.message()).unwrap_or(around);
    if left_out(table, read, todo, ledger) {
        return;
    }
    for note in read.notes() {
        match note {
            Note::Differs(how) => ledger.changes(table.line, how, todo),
            Note::Unkept(field) if REFUSALS.contains(&field) => {
                named(table, field).for_each(|value| value.missing(UNKEPT, todo, ledger))
            }
            Note::Unkept(field) => named(table, field).for_each(|value| value.lost(UNKEPT, todo, ledger)),
            Note::Lost(..) => {}
        }
    }
    for (value, read) in parts(table, read) {
        part(value, read, todo, ledger);
    }
    for (key, value) in table.entries() {
        let is_unset = value.text().is_none() && value.list().is_empty() && value.entries().is_empty();
        let is_off = is_unset || value.text().is_some_and(|text| OFF.contains(&text));
        let of_key = OF_KEYS.iter().find(|(of, ..)| of == key).filter(|_| !is_unset);
        let mut lost = |reason| {
            let (reason, todo) = of_key.map_or((reason, todo), |(_, reason, todo)| (*reason, *todo));
            value.lost(reason, todo, ledger);
        };
        match field(read.message(), key).map(|field| (field.kind, field.name)) {
            None if key == TYPE => value.carried(ledger),
            Some((Kind::Ignored, _)) if of_key.is_none() => value.dropped(IGNORED, ledger),
            Some((Kind::Noted | Kind::Minor, _)) if is_off => value.dropped(IGNORED, ledger),
            Some((Kind::Noted, _)) => lost(UNKEPT),
            Some((Kind::Ignored | Kind::Minor | Kind::Refused, _)) => lost(NO_COUNTERPART),
            Some((_, name)) if read.was_read(name) => value.carried(ledger),
            _ => lost(NO_COUNTERPART),
        }
    }
    table.carried(ledger);
}

fn advice(of: &Message) -> Option<&'static str> {
    OF_MESSAGES.iter().find(|(message, _)| std::ptr::eq(*message, of)).map(|(_, todo)| *todo)
}

/// Settles the parts that are left out, with the reason of the innermost message. True if the whole table is left out.
fn left_out(table: &Table, read: &Node<'_>, around: &str, ledger: &mut Ledger) -> bool {
    let todo = advice(read.message()).unwrap_or(around);
    for (value, read) in parts(table, read) {
        if let Value::Node(node) | Value::Extension(Extension { node: Some(node), .. }) = read {
            left_out(value, node, todo, ledger);
        }
    }
    let mut is_whole = false;
    for note in read.notes() {
        match note {
            Note::Lost(Some(field), why) => {
                let todo = OF_KEYS.iter().find(|(of, ..)| *of == field).map_or(todo, |(.., todo)| todo);
                let is_refusal = REFUSALS.contains(&field);
                named(table, field).for_each(|value| match is_refusal {
                    true => value.missing(&why, todo, ledger),
                    false => value.lost(&why, todo, ledger),
                });
            }
            Note::Lost(None, why) => {
                match WHOLE.iter().any(|of| std::ptr::eq(*of, read.message())) {
                    true => table.missing(&why, todo, ledger),
                    false => table.lost(&why, todo, ledger),
                }
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
    // Several keys with the same name are a single repeated field.
    let (mut before, mut all) = (BTreeMap::<&str, usize>::new(), Vec::new());
    for (key, value) in table.entries() {
        let Some(field) = field(read.message(), key) else { continue };
        let is_read = !matches!(field.kind, Kind::Ignored | Kind::Minor | Kind::Noted | Kind::Refused);
        if !is_read || !read.was_read(field.name) {
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

fn part(value: &Table, read: &Value<'_>, todo: &str, ledger: &mut Ledger) {
    match read {
        // A duration or a wrapper is a single directive.
        Value::Node(_) if value.text().is_some() => value.carried(ledger),
        // An entry of a map. Its key is part of the paths of its contents.
        Value::Node(node) => match node.peek("value").next() {
            Some(inner @ Value::Extension(_)) => part(value, inner, todo, ledger),
            _ => within(value, node, todo, ledger),
        },
        Value::Extension(Extension { node: Some(node), .. }) => within(value, node, todo, ledger),
        // A type whose settings are not known here, such as the router.
        Value::Extension(Extension { node: None, .. }) => {
            value.take(TYPE, ledger);
            if !value.entries().is_empty() {
                value.lost(NO_COUNTERPART, todo, ledger);
            }
        }
        Value::Refused => value.lost(NO_COUNTERPART, todo, ledger),
        _ => value.carried(ledger),
    }
}
