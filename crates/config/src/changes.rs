//! Differences between two plans, key by key in the terms of their files, to show the changes that a reload did or
//! would do.

use crate::Plan;
use crate::form::pem_digest;
use crate::sections::action::ACTIONS;
use crate::subject::Subject;
use std::collections::{HashMap, HashSet};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Text for a key that a file does not set.
const DEFAULT: &str = "(default)";

/// Most characters of a value that are shown.
const VALUE_MAX: usize = 120;

/// Most lines about routes of which only the order differs. With more, a line counts them: routes of a provider move
/// when a route is added.
const ORDERS_MAX: usize = 3;

/// Tables whose keys are chosen by the user.
const NAMED: [&str; 4] = ["map", "limit", "listener", "pool"];

/// Lists the differences, a line each: `pool shop: balance: "random" -> "leastconn"`, `pool shop: endpoint
/// shop-3 added`. Secrets are masked on both sides, so a changed secret is not a difference.
pub fn changes(before: &Plan, after: &Plan) -> Vec<String> {
    let (old, new) = unchanged(before, after);
    let before = before.to_toml_of(&|subject| !old.contains(&subject));
    let after = after.to_toml_of(&|subject| !new.contains(&subject));
    // Both texts were written by `to_toml`, so they parse.
    let (Ok(old), Ok(new)) = (DeTable::parse(&before), DeTable::parse(&after)) else { return Vec::new() };
    let mut differs = Differs { before: &before, after: &after, lines: Vec::new(), orders: Vec::new() };
    let (old, new) = (old.get_ref(), new.get_ref());
    for name in keys(old, new) {
        match (old.get(&*name), new.get(&*name)) {
            (old, new) if NAMED.contains(&&*name) => differs.named(&name, table(old), table(new)),
            (old, new) if name == "route" => differs.listed("route", "", list(old), list(new), route_name),
            (old, new) => differs.value("", &name, old, new),
        }
    }
    let Differs { mut lines, orders, .. } = differs;
    match orders.len() {
        ..=ORDERS_MAX => lines.extend(orders),
        count => lines.push(format!("order of {count} routes")),
    }
    lines
}

/// Subjects of the one plan and of the other that are equal, which need not be written: with thousands of pools that takes most of the
/// time of a reload.
fn unchanged(before: &Plan, after: &Plan) -> (HashSet<Subject>, HashSet<Subject>) {
    let (mut old, mut new) = (HashSet::new(), HashSet::new());
    let mut note = |pair: (Subject, Subject)| {
        old.insert(pair.0);
        new.insert(pair.1);
    };
    let listeners = twins(&before.listeners, &after.listeners, |listener| &listener.name);
    listeners.into_iter().for_each(|(at, to)| note((Subject::Listener(at), Subject::Listener(to))));
    let pools = twins(&before.pools, &after.pools, |pool| &pool.name);
    // A route is written as it differs from its pool.
    let same: HashSet<&str> = pools.iter().map(|(at, _)| &*before.pools[*at].name).collect();
    for (at, to) in twins(&before.routes, &after.routes, |route| &route.name) {
        if before.routes[at].action.pool().is_none_or(|pool| same.contains(&**pool)) {
            note((Subject::Route(at), Subject::Route(to)));
        }
    }
    pools.iter().for_each(|(at, to)| note((Subject::Pool(*at), Subject::Pool(*to))));
    (old, new)
}

/// Positions of the elements of `old` that have the same name and value in `new`.
fn twins<T: PartialEq>(old: &[T], new: &[T], name: impl Fn(&T) -> &str) -> Vec<(usize, usize)> {
    let mut named: HashMap<&str, usize> = new.iter().enumerate().map(|(at, one)| (name(one), at)).collect();
    let pair = |(at, one)| named.remove(name(one)).filter(|&to| new[to] == *one).map(|to| (at, to));
    old.iter().enumerate().filter_map(pair).collect()
}

type Value<'v> = Spanned<DeValue<'v>>;
type Table<'v> = Option<&'v DeTable<'v>>;

fn table<'v>(value: Option<&'v Value<'v>>) -> Table<'v> {
    value.and_then(|value| value.get_ref().as_table())
}

fn list<'v>(value: Option<&'v Value<'v>>) -> &'v [Value<'v>] {
    value.and_then(|value| value.get_ref().as_array()).map_or(&[], |values| values)
}

/// Keys of both tables: first the keys of `old` in order, then the new keys.
fn keys(old: &DeTable<'_>, new: &DeTable<'_>) -> Vec<String> {
    let mut keys: Vec<String> = old.keys().map(|key| key.get_ref().to_string()).collect();
    keys.extend(new.keys().map(|key| key.get_ref().to_string()).filter(|key| !old.contains_key(&**key)));
    keys
}

/// Name of an endpoint, or its address.
fn endpoint_name(value: &Value<'_>, _: &str) -> String {
    let named = |table: &DeTable<'_>| {
        let text = |key: &str| table.get(key).and_then(|value| value.get_ref().as_str()).map(str::to_owned);
        text("name").or_else(|| text("addr")).unwrap_or_default()
    };
    match value.get_ref() {
        DeValue::String(address) => address.to_string(),
        other => other.as_table().map(named).unwrap_or_default(),
    }
}

/// Name of a route, or the text of its match.
fn route_name(value: &Value<'_>, text: &str) -> String {
    let table = value.get_ref().as_table();
    let named = table.and_then(|table| table.get("name")?.get_ref().as_str().map(str::to_owned));
    let matched = || table.and_then(|table| Some(shown(text, table.get("match")?)));
    named.or_else(matched).unwrap_or_else(|| "for everything".to_owned())
}

/// The text of a value, on a single line.
fn shown(text: &str, value: &Value<'_>) -> String {
    let text = text.get(value.span()).unwrap_or_default();
    let words: Vec<&str> = text.split_whitespace().collect();
    let line = with_digests(&words.join(" "));
    match line.char_indices().nth(VALUE_MAX) {
        Some((end, _)) => format!("{}...", &line[..end]),
        None => line,
    }
}

/// The text, with a digest in place of each PEM string, by which two strings can be told apart.
fn with_digests(text: &str) -> String {
    // Strings are written in double quotes, and PEM has none.
    let part = |part: &str| pem_digest(part).unwrap_or_else(|| format!("\"{part}\""));
    let mut parts = text.split('"');
    let mut out = parts.next().unwrap_or_default().to_owned();
    if !text.contains("-----BEGIN ") {
        return text.to_owned();
    }
    while let (Some(string), Some(behind)) = (parts.next(), parts.next()) {
        out += &part(string);
        out += behind;
    }
    out
}

struct Differs<'t> {
    before: &'t str,
    after: &'t str,
    lines: Vec<String>,
    /// Lines about the order of routes.
    orders: Vec<String>,
}

impl Differs<'_> {
    fn say(&mut self, of: &str, what: &str) {
        self.lines.push(if of.is_empty() { what.to_owned() } else { format!("{of}: {what}") });
    }

    /// Compares tables by name. `kind` is the name's prefix in the output.
    fn named(&mut self, kind: &str, old: Table<'_>, new: Table<'_>) {
        let none = DeTable::new();
        let (old, new) = (old.unwrap_or(&none), new.unwrap_or(&none));
        for name in keys(old, new) {
            let of = format!("{kind} {name}");
            match (old.get(&*name), new.get(&*name)) {
                (None, Some(_)) => self.say("", &format!("{of} added")),
                (Some(_), None) => self.say("", &format!("{of} removed")),
                (old, new) => self.tables(&of, "", table(old), table(new)),
            }
        }
    }

    /// Compares lists of tables, identified by `name`.
    fn listed(
        &mut self,
        kind: &str,
        of: &str,
        old: &[Value<'_>],
        new: &[Value<'_>],
        name: fn(&Value<'_>, &str) -> String,
    ) {
        let names = |all: &[Value<'_>], text: &str| -> HashMap<String, usize> {
            all.iter().enumerate().map(|(at, one)| (name(one, text), at)).collect()
        };
        let (had, has) = (names(old, self.before), names(new, self.after));
        for one in old {
            let called = name(one, self.before);
            match has.get(&called) {
                None => self.say(of, &format!("{kind} {called} removed")),
                Some(&at) => {
                    let prefix = if of.is_empty() { String::new() } else { format!("{of}: ") };
                    let path = format!("{prefix}{kind} {called}");
                    match (one.get_ref().as_table(), new[at].get_ref().as_table()) {
                        (None, None) => {}
                        (old, new) => self.tables(&path, "", old, new),
                    }
                }
            }
        }
        for one in new {
            let called = name(one, self.after);
            if !had.contains_key(&called) {
                self.say(of, &format!("{kind} {called} added"));
            }
        }
    }

    /// Compares the keys of tables. `path` is their place within `of`, with a trailing dot.
    fn tables(&mut self, of: &str, path: &str, old: Table<'_>, new: Table<'_>) {
        let none = DeTable::new();
        let (old, new) = (old.unwrap_or(&none), new.unwrap_or(&none));
        let is_named = old.contains_key("name") && new.contains_key("name");
        let action = |table: &DeTable<'_>| ACTIONS.iter().map(|key| key.name).find(|name| table.contains_key(*name));
        let is_route = of.starts_with("route ") && path.is_empty();
        let actions = action(old).zip(action(new)).filter(|(old, new)| is_route && old != new);
        if let Some((had, has)) = actions {
            let shown = |key: &str, table: &DeTable<'_>, text: &str| {
                format!("{key} {}", table.get(key).map(|value| shown(text, value)).unwrap_or_default())
            };
            let (had, has) = (shown(had, old, self.before), shown(has, new, self.after));
            self.say(of, &format!("action: {had} -> {has}"));
        }
        for key in keys(old, new) {
            if actions.is_some() && ACTIONS.iter().any(|action| action.name == &*key) {
                continue;
            }
            let (old, new) = (old.get(&*key), new.get(&*key));
            match &*key {
                "order" if is_route => {
                    let rest = self.lines.len();
                    self.value(of, "order", old, new);
                    self.orders.extend(self.lines.drain(rest..));
                }
                "endpoints" => self.listed("endpoint", of, list(old), list(new), endpoint_name),
                // Endpoints are matched by their name, or else by their address.
                "name" if of.contains("endpoint ") => {}
                "addr" if of.contains("endpoint ") && !is_named => {}
                _ => self.value(of, &format!("{path}{key}"), old, new),
            }
        }
    }

    fn value(&mut self, of: &str, key: &str, old: Option<&Value<'_>>, new: Option<&Value<'_>>) {
        let tables = (table(old), table(new));
        if (tables.0.is_some() || old.is_none()) && (tables.1.is_some() || new.is_none()) {
            return self.tables(of, &format!("{key}."), tables.0, tables.1);
        }
        let old = old.map_or(DEFAULT.to_owned(), |value| shown(self.before, value));
        let new = new.map_or(DEFAULT.to_owned(), |value| shown(self.after, value));
        if old != new {
            self.say(of, &format!("{key}: {old} -> {new}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(text: &str) -> Plan {
        let outcome = crate::parse_str("test.toml", text, &|_| None);
        outcome.plan.unwrap_or_else(|| panic!("{}", crate::render_text(&outcome.diagnostics, false)))
    }

    const BEFORE: &str = "[listener]\nweb = { bind = ['127.0.0.1:1'] }\nold = { bind = ['127.0.0.1:2'] }\n\
        [[route]]\npool = 'shop'\nmatch = { path = '/shop' }\n[[route]]\nname = 'rest'\npool = 'shop'\n\
        [pool.shop]\nretry = { attempts = 3 }\nendpoints = ['127.0.0.1:3', { name = 'b', addr = '127.0.0.1:4', weight = 2 }]\n";

    #[test]
    fn a_named_endpoint_that_moves_has_a_line() {
        let after = BEFORE.replace("127.0.0.1:4", "127.0.0.1:5");
        let lines = changes(&plan(BEFORE), &plan(&after));
        assert_eq!(lines, ["pool shop: endpoint b: addr: \"127.0.0.1:4\" -> \"127.0.0.1:5\""]);
    }

    #[test]
    fn only_subjects_that_differ_are_written() {
        let after = BEFORE.replace("path = '/shop'", "path = '/shops'");
        let (before, after) = (plan(BEFORE), plan(&after));
        let (old, _) = unchanged(&before, &after);
        let written = before.to_toml_of(&|subject| !old.contains(&subject));
        assert!(written.contains("/shop"), "{written}");
        assert!(
            !written.contains("[pool.") && !written.contains("[listener.") && !written.contains("rest"),
            "{written}"
        );
        assert_eq!(changes(&before, &after).len(), 2, "removed and added");
    }

    #[test]
    fn a_route_that_stays_while_its_pool_changes_has_no_line() {
        let after = BEFORE.replace("attempts = 3", "attempts = 2");
        assert_eq!(changes(&plan(BEFORE), &plan(&after)), ["pool shop: retry.attempts: 3 -> 2"]);
    }

    #[test]
    fn routes_that_only_move_are_counted_behind_all_else() {
        let routes = |orders: std::ops::Range<u32>, more: &str| {
            let routes = orders.enumerate().map(|(n, order)| {
                format!("[[route]]\nname = '{n}'\npool = 'shop'\norder = {order}\nmatch = {{ path = '/{n}' }}\n")
            });
            plan(&format!("{BEFORE}{}{more}", routes.collect::<String>()))
        };
        let more = "[[route]]\nname = 'new'\npool = 'shop'\nmatch = { path = '/new' }\n";
        assert_eq!(changes(&routes(1..5, ""), &routes(2..6, more)), ["route new added", "order of 4 routes"]);
        let few = changes(&routes(1..4, ""), &routes(2..5, more));
        assert_eq!(few[..2], ["route new added", "route 0: order: 1 -> 2"]);
        assert_eq!(few.len(), 4);
    }

    #[test]
    fn actions_and_criteria_of_routes_have_lines() {
        let before =
            BEFORE.replace("name = 'rest'\npool = 'shop'", "name = 'rest'\nsplit = { weights = { shop = 1 } }");
        let lines = changes(&plan(BEFORE), &plan(&before));
        assert_eq!(lines, ["route rest: action: pool \"shop\" -> split { weights = { shop = 1 } }"]);
        let after = before.replace("weights = { shop = 1 }", "weights = { shop = 3 }, key = 'client-ip'").replace(
            "name = 'rest'",
            "name = 'rest'\nmatch = { method = ['GET'], header = { x = '1' } }\nbody_max = '1MiB'",
        );
        let mut lines = changes(&plan(&before), &plan(&after));
        lines.sort();
        let want = [
            "route rest: body_max: (default) -> \"1MiB\"",
            "route rest: match.header.x: (default) -> [\"1\"]",
            "route rest: match.method: (default) -> [\"GET\"]",
            "route rest: split.key: (default) -> \"client-ip\"",
            "route rest: split.weights.shop: 1 -> 3",
        ];
        assert_eq!(lines, want);
    }

    #[test]
    fn every_difference_has_a_line() {
        let after = "[runtime]\nworkers = 3\n[listener]\nweb = { bind = ['127.0.0.1:1', '127.0.0.1:9'] }\n\
            [[route]]\npool = 'shop'\nmatch = { path = '/shop' }\n[[route]]\nname = 'rest'\npool = 'other'\n\
            [pool.shop]\nbalance = 'leastconn'\nretry = { attempts = 2, hedge_after = 'p95' }\n\
            endpoints = [{ name = 'b', addr = '127.0.0.1:4', weight = 5 }, '127.0.0.1:7']\n\
            [pool.other]\nendpoints = ['127.0.0.1:8']\n";
        let lines = changes(&plan(BEFORE), &plan(after));
        let mut want = [
            "runtime.workers: (default) -> 3",
            "listener web: bind: [\"127.0.0.1:1\"] -> [\"127.0.0.1:1\", \"127.0.0.1:9\"]",
            "listener old removed",
            "route rest: pool: \"shop\" -> \"other\"",
            "pool shop: balance: \"random\" -> \"leastconn\"",
            // Written only if hedging is on.
            "pool shop: retry.hedge_budget: (default) -> 0.05",
            "pool shop: retry.hedge_after: (default) -> \"p95\"",
            "pool shop: retry.attempts: 3 -> 2",
            "pool shop: endpoint 127.0.0.1:3 removed",
            "pool shop: endpoint b: weight: 2 -> 5",
            "pool shop: endpoint 127.0.0.1:7 added",
            "pool other added",
        ];
        let mut sorted: Vec<&str> = lines.iter().map(String::as_str).collect();
        sorted.sort_unstable();
        want.sort_unstable();
        assert_eq!(sorted, want);
        assert_eq!(changes(&plan(after), &plan(after)), [""; 0]);
    }
}
