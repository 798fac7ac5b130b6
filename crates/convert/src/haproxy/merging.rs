//! Filters, merged into the settings of their routes.

use super::acl::fits;
use super::rules::{Edit, Filter, as_sent};
use crate::ledger::Ledger;
use crate::model::{Action, Apart, Draft, Entries, Maps, Match, Route, RouteKeys, Value};
use crate::protection::{close, is_closed, would_replace};
use crate::report::UNKNOWN_LISTS;
use evenkeel_config::draft::KeyOf;

/// Most routes that filters with conditions may add to a frontend.
const SPLITS: usize = 200;

/// Adds a filter to the routes whose requests fulfil its conditions. A route is split if only some of its requests do.
pub(super) fn apply(
    filter: &Filter,
    routes: &mut Vec<Route>,
    wanted: &dyn Fn(&Route) -> bool,
    maps: &Maps,
    ledger: &mut Ledger,
) {
    let mut out: Vec<Route> = Vec::new();
    let many = routes.len() > SPLITS;
    for mut route in routes.drain(..) {
        let forwards = filter.edit.as_ref().map_or_else(|| only_forwards(&filter.set), |edit| !edit.is_response);
        let is_open = matches!(route.action, Action::Pool(_)) || !forwards;
        if !wanted(&route) || !is_open || route.matching.is_apart(&filter.matching) {
            out.push(route);
            continue;
        }
        if route.matching.implies(&filter.matching) {
            give(&mut route, filter, ledger);
            out.push(route);
            continue;
        }
        if let Some(edit) = filter.edit.as_ref().filter(|edit| !edit.splits) {
            let mut conds = route.matching.beyond(&filter.matching);
            // That a path does not end with one text follows from its end with another.
            let wanted = Match::of(conds.iter().filter(|cond| !cond.negated).cloned());
            let follows = |excluded: &Match| route.matching.is_apart(excluded) || wanted.is_apart(excluded);
            conds.retain(|cond| !cond.negated || !follows(&Match::of([cond.clone().negate()])));
            let when = as_sent(conds).table();
            change(&mut route, edit, Some(when));
            out.push(route);
            continue;
        }
        let mut given = route.set.clone();
        merge_filter(&mut given, &filter.set);
        if given == route.set && filter.edit.is_none() {
            out.push(route);
            continue;
        }
        match maps.both(&route.matching, &filter.matching) {
            Ok(matching) if !many => {
                let mut narrower = Route { matching, ..route.clone() };
                give(&mut narrower, filter, ledger);
                out.extend([narrower, route]);
            }
            Err(Apart::Never) => out.push(route),
            _ => {
                let todo = "write the filter into the [[route]]s that it is for";
                ledger.changes(
                    filter.line,
                    "its condition does not fit into the match of a route that it concerns",
                    todo,
                );
                // Too few are let in rather than too many.
                if filter.set.has(key!("access")) || filter.set.has(key!("basic_auth")) {
                    close(&mut route.set);
                }
                out.push(route);
            }
        }
    }
    *routes = out;
}

/// True if the keys change only requests to endpoints and their responses. Routes without a pool do not need such keys.
fn only_forwards(set: &RouteKeys) -> bool {
    set.entries()
        .iter()
        .all(|(key, _)| matches!(key, "request_headers" | "send_host" | "rewrite" | "bandwidth" | "cache"))
}

fn give(route: &mut Route, filter: &Filter, ledger: &mut Ledger) {
    if let Some(edit) = &filter.edit {
        return change(route, edit, None);
    }
    // Its condition excludes the requests that a rule before it changes.
    if filter.set.has(key!("rewrite")) {
        route.set.remove(key!("rewrite"));
    }
    if lists_clash(&route.set, &filter.set) && !is_closed(&route.set) && !is_closed(&filter.set) {
        ledger.decide(filter.line, UNKNOWN_LISTS.0, UNKNOWN_LISTS.1);
    }
    merge_filter(&mut route.set, &filter.set);
}

/// Adds a change of fields to a route, with its condition.
fn change(route: &mut Route, edit: &Edit, when: Option<Entries>) {
    let mut entry = when.map(|when| Entries::one("when", when)).unwrap_or_default();
    edit.change.iter().for_each(|(key, value)| drop(entry.set(key, value.clone())));
    let key = if edit.is_response { key!("response_headers.edits") } else { key!("request_headers.edits") };
    append(&mut route.set, key, entry);
}

/// Adds a change of fields behind the others, even if it is there already: a field may be added twice.
pub(super) fn append<T>(set: &mut Draft<T>, edits: KeyOf<T>, entry: Entries) {
    let mut all = match set.remove(edits) {
        Some(Value::List(all)) => all,
        _ => Vec::new(),
    };
    all.push(Value::Table(entry));
    set.put(edits, Value::List(all));
}

/// Writes the first changes without a condition as separate keys: `set` instead of `edits = [{ set }]`.
pub(super) fn plain_edits<T>(set: &mut Draft<T>, keys: [KeyOf<T>; 4]) {
    let [edits, remove, fixed, add] = keys;
    let Some(Value::List(all)) = set.remove(edits) else { return };
    let mut rest = all.into_iter().peekable();
    let mut seen: Vec<String> = Vec::new();
    while let Some(Value::Table(entry)) = rest.peek() {
        let Some((kind, names)) = names(entry) else { break };
        // `remove` comes first, and `add` last.
        let is_behind = |name: &String| {
            let is = |other: &String| {
                other.split_once(' ').is_some_and(|(verb, other)| verb != "remove" && fits(name, other))
            };
            seen.iter().any(is)
        };
        let is_added = |name: &String| seen.contains(&format!("add {name}"));
        let clashes = match kind {
            "remove" => names.iter().any(is_behind),
            "set" => names.iter().any(is_added),
            _ => false,
        };
        if clashes {
            break;
        }
        seen.extend(names.iter().map(|name| format!("{kind} {name}")));
        for (_, value) in entry.iter() {
            match (kind, value) {
                ("remove", Value::List(names)) => names.iter().for_each(|name| push_new(set, remove, name)),
                ("set", Value::Table(fields)) => {
                    fields.iter().for_each(|(name, value)| put_field(set, fixed, name, value));
                }
                (_, Value::Table(fields)) => {
                    fields.iter().for_each(|(name, value)| add_field(set, add, name, value));
                }
                _ => {}
            }
        }
        rest.next();
    }
    let rest: Vec<Value> = rest.collect();
    if !rest.is_empty() {
        set.put(edits, Value::List(rest));
    }
}

/// Kind of a change without a condition, and the names of its fields.
fn names(entry: &Entries) -> Option<(&str, Vec<String>)> {
    let mut keys = entry.iter();
    let (kind, value) = keys.next().filter(|(kind, _)| *kind != "when")?;
    let names = match value {
        Value::List(names) => names
            .iter()
            .filter_map(|name| match name {
                Value::Text(name) => Some(name.to_ascii_lowercase()),
                _ => None,
            })
            .collect(),
        Value::Table(fields) => fields.iter().map(|(name, _)| name.to_ascii_lowercase()).collect(),
        _ => return None,
    };
    keys.next().is_none().then_some((kind, names))
}

fn push_new<T>(set: &mut Draft<T>, key: KeyOf<T>, value: &Value) {
    let is_there = matches!(set.get(key), Some(Value::List(all)) if all.contains(value));
    if !is_there {
        set.push(key, value.clone());
    }
}

/// Sets a field under the spelling that it has already.
fn put_field<T>(set: &mut Draft<T>, key: KeyOf<T>, name: &str, value: &Value) {
    let spelt = match set.get(key) {
        Some(Value::Table(fields)) => {
            fields.iter().map(|(other, _)| other.to_string()).find(|o| o.eq_ignore_ascii_case(name))
        }
        _ => None,
    };
    set.insert(key, spelt.as_deref().unwrap_or(name), value.clone());
}

/// Adds a field, which may have several values.
fn add_field<T>(set: &mut Draft<T>, key: KeyOf<T>, name: &str, value: &Value) {
    let old = match set.get(key) {
        Some(Value::Table(fields)) => {
            fields.iter().find(|(other, _)| other.eq_ignore_ascii_case(name)).map(|(n, v)| (n.to_string(), v.clone()))
        }
        _ => None,
    };
    match old {
        None => drop(set.insert(key, name, value.clone())),
        Some((name, Value::List(mut all))) => {
            all.push(value.clone());
            set.insert(key, &name, Value::List(all));
        }
        Some((name, first)) => drop(set.insert(key, &name, Value::List(vec![first, value.clone()]))),
    }
}

/// Merges the settings of a filter. A closed route stays closed, whatever its address lists are.
fn merge_filter(into: &mut RouteKeys, from: &RouteKeys) {
    let closed = is_closed(into) || is_closed(from) || would_replace(into, from) || lists_clash(into, from);
    into.join(from);
    if closed {
        close(into);
    }
}

/// True if, once both lists are joined, a network in either list could let in clients that the other list refuses.
fn lists_clash(one: &RouteKeys, other: &RouteKeys) -> bool {
    let allows = |set: &RouteKeys| set.has(key!("access.allow")) || set.has(key!("access.allow_files"));
    let has_both = one.has(key!("access")) && other.has(key!("access"));
    has_both && one.get(key!("access")) != other.get(key!("access")) && (allows(one) || allows(other))
}
