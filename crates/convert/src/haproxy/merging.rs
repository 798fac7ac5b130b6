//! Filters, merged into the settings of their routes.

use super::rules::Filter;
use crate::ledger::Ledger;
use crate::model::{Action, Apart, Draft, Key, Route, RouteKeys, Test};
use crate::protection::{close, is_closed, is_shut, shut, would_replace};
use crate::report::UNKNOWN_LISTS;
use evenkeel_config::plan::Rewrite;

/// Most routes that filters with conditions may add to a frontend.
const SPLITS: usize = 200;

/// Adds a filter to the routes whose requests fulfil its conditions. A route is split if only some of its requests do.
pub(super) fn apply(filter: &Filter, routes: &mut Vec<Route>, wanted: &dyn Fn(&Route) -> bool, ledger: &mut Ledger) {
    let mut out: Vec<Route> = Vec::new();
    let many = routes.len() > SPLITS;
    for mut route in routes.drain(..) {
        let is_open = matches!(route.action, Action::Pool(_)) || !only_forwards(&filter.set);
        if !wanted(&route) || !is_open || route.matching.is_apart(&filter.matching) {
            out.push(route);
            continue;
        }
        if route.matching.implies(&filter.matching) {
            give(&mut route, filter, ledger);
            out.push(route);
            continue;
        }
        let mut given = route.set.clone();
        merge_filter(&mut given, &filter.set);
        if given == route.set {
            out.push(route);
            continue;
        }
        match route.matching.and(&filter.matching) {
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
                if filter.set.has(key!("access")) && !is_closed(&filter.set) {
                    shut(&mut route.set);
                } else if is_closed(&filter.set) || filter.set.has(key!("basic_auth")) {
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
    set.entries().iter().all(|(key, _)| {
        matches!(key, "request_headers" | "send_host" | "strip_prefix" | "rewrite" | "bandwidth" | "cache")
    })
}

fn give(route: &mut Route, filter: &Filter, ledger: &mut Ledger) {
    let is_settled = |set: &RouteKeys| is_closed(set) || is_shut(set);
    if lists_clash(&route.set, &filter.set) && !is_settled(&route.set) && !is_settled(&filter.set) {
        ledger.changes(filter.line, UNKNOWN_LISTS.0, UNKNOWN_LISTS.1);
    }
    let Some(prefix) = &filter.strip else { return merge_filter(&mut route.set, &filter.set) };
    // A route removes the whole prefix that it matches. If that is longer than the prefix to strip, the rest is put
    // back.
    let rest = |path: &str| path.trim_end_matches('/').strip_prefix(prefix.as_str()).map(str::to_string);
    let rewrite = match route.matching.find(&Key::Path) {
        Some(Test::Below(path)) => rest(path).map(|rest| (key!("prefix"), true, rest)),
        Some(Test::Begins(path)) if path.ends_with('/') => rest(path).map(|rest| (key!("prefix"), true, rest)),
        Some(Test::OneOf(paths)) if paths.len() == 1 => rest(&paths[0]).map(|rest| (key!("path"), false, rest)),
        _ => None,
    };
    match rewrite {
        Some((_, true, rest)) if rest.is_empty() => drop(route.set.put(key!("strip_prefix"), true)),
        Some((key, _, rest)) => {
            let path = if rest.is_empty() { "/".to_string() } else { rest };
            route.set.put(key!("rewrite"), Draft::<Rewrite>::one(key, path));
        }
        None => {
            let todo = "strip_prefix, or rewrite = { prefix = \"/NEW\" } in a [[route]] with that prefix";
            ledger.changes(
                filter.line,
                "a route that it concerns does not match by the prefix that is taken away",
                todo,
            );
        }
    }
}

/// Matches by segment if a prefix is stripped, since the stripped prefix is the matched prefix.
pub(super) fn by_segment(route: &mut Route) {
    if !route.set.has(key!("strip_prefix")) {
        return;
    }
    for cond in route.matching.conds.iter_mut().filter(|cond| cond.key == Key::Path && !cond.negated) {
        if let Test::Begins(path) = &cond.test
            && path.ends_with('/')
        {
            cond.test = Test::Below(path.trim_end_matches('/').to_string());
        }
    }
}

/// Merges the settings of a filter. A closed route stays closed, whatever its address lists are.
fn merge_filter(into: &mut RouteKeys, from: &RouteKeys) {
    let closed = is_closed(into) || is_closed(from) || would_replace(into, from);
    let is_shut = is_shut(into) || is_shut(from) || !closed && lists_clash(into, from);
    into.join(from);
    match (is_shut, closed) {
        (true, _) => shut(into),
        (false, true) => close(into),
        (false, false) => {}
    }
}

/// True if, once both lists are joined, a network in either list could let in clients that the other list refuses.
fn lists_clash(one: &RouteKeys, other: &RouteKeys) -> bool {
    let allows = |set: &RouteKeys| set.has(key!("access.allow")) || set.has(key!("access.allow_files"));
    let has_both = one.has(key!("access")) && other.has(key!("access"));
    has_both && one.get(key!("access")) != other.get(key!("access")) && (allows(one) || allows(other))
}
