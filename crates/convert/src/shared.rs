//! Keys that several tables repeat, written once, as a person would: timeouts in `[defaults.timeouts]`, filters in
//! `[filters.NAME]`, and a prefix instead of a path and the paths below it.

use crate::model::{Cond, FilterSet, Key, Match, Route, RouteKeys, Target, Test, Value};
use evenkeel_config::draft::{File, KeyOf};
use evenkeel_config::plan;

/// Most routes that are compared with each other. More are written as they are.
const COMPARED: usize = 400;

/// Keys of routes that a set of filters may have, but for filters with counters of the route.
const FILTERS: [KeyOf<plan::Route>; 16] = [
    key!("request_headers"),
    key!("response_headers"),
    key!("send_host"),
    key!("cookies"),
    key!("error_pages"),
    key!("intercept"),
    key!("internal_redirects"),
    key!("access"),
    key!("jwt"),
    key!("basic_auth"),
    key!("forward_auth"),
    key!("cors"),
    key!("body_max"),
    key!("compress"),
    key!("cache"),
    key!("mirror"),
];

/// Timeouts of pools, and the keys of their defaults.
const OF_POOLS: [(KeyOf<plan::Pool>, KeyOf<File>); 3] = [
    (key!("timeouts.connect"), key!("defaults.timeouts.connect")),
    (key!("timeouts.response"), key!("defaults.timeouts.response")),
    (key!("timeouts.idle"), key!("defaults.timeouts.idle")),
];

/// Timeouts of listeners, and the keys of their defaults.
const OF_LISTENERS: [(KeyOf<plan::Listener>, KeyOf<File>); 3] = [
    (key!("timeouts.client_header"), key!("defaults.timeouts.client_header")),
    (key!("timeouts.client_body"), key!("defaults.timeouts.client_body")),
    (key!("timeouts.client_idle"), key!("defaults.timeouts.client_idle")),
];

/// Writes repeated keys once.
pub(crate) fn share(target: &mut Target) {
    if target.routes.len() <= COMPARED {
        join_prefixes(&mut target.routes);
        share_filters(target);
    }
    share_timeouts(target);
}

/// Moves timeouts that all pools, or all listeners, have in common to the defaults.
fn share_timeouts(target: &mut Target) {
    for (key, default) in OF_POOLS {
        let mut all = target.pools.iter().map(|pool| pool.set.get(key));
        let Some(Some(first)) = all.next() else { continue };
        if target.pools.len() > 1 && !target.root.has(default) && all.all(|other| other == Some(first)) {
            let value = first.clone();
            target.root.put(default, value);
            target.pools.iter_mut().for_each(|pool| remove_with_table(&mut pool.set, key, key!("timeouts")));
        }
    }
    for (key, default) in OF_LISTENERS {
        let mut all = target.listeners.iter().map(|listener| listener.set.get(key));
        let Some(Some(first)) = all.next() else { continue };
        if target.listeners.len() > 1 && !target.root.has(default) && all.all(|other| other == Some(first)) {
            let value = first.clone();
            target.root.put(default, value);
            let listeners = target.listeners.iter_mut();
            listeners.for_each(|listener| remove_with_table(&mut listener.set, key, key!("timeouts")));
        }
    }
}

/// Removes a key, and the table that it was in if that is empty then.
fn remove_with_table<T>(set: &mut evenkeel_config::draft::Draft<T>, key: KeyOf<T>, table: KeyOf<T>) {
    set.remove(key);
    if matches!(set.get(table), Some(Value::Table(entries)) if entries.is_empty()) {
        set.remove(table);
    }
}

/// Filters that some routes have in common: where each key stands in [`FILTERS`], and its value.
type Common = Vec<(usize, Value)>;

/// Moves filters that at least two routes have in common, with at least two values, to sets that the routes name. The
/// set that saves most is made first; no two sets of a route have the same key.
fn share_filters(target: &mut Target) {
    loop {
        let all: Vec<Common> = target.routes.iter().map(filters_of).collect();
        let has = |of: &Common, set: &Common| set.iter().all(|filter| of.contains(filter));
        // The common filters of two routes are a candidate: no other set saves more.
        let mut candidates: Vec<Common> = Vec::new();
        for (number, one) in all.iter().enumerate() {
            for other in &all[number + 1..] {
                let common: Common = one.iter().filter(|filter| other.contains(filter)).cloned().collect();
                let size: usize = common.iter().map(|(_, value)| values(value)).sum();
                if size >= 2 && !candidates.contains(&common) {
                    candidates.push(common);
                }
            }
        }
        let saves = |set: &Common| {
            let routes = all.iter().filter(|of| has(of, set)).count();
            (routes - 1) * set.iter().map(|(_, value)| values(value)).sum::<usize>()
        };
        // A single key of two routes is as short where it is.
        let is_worth = |set: &&Common| set.len() > 1 || all.iter().filter(|of| has(of, set)).count() > 2;
        // The first of equals, so that the order of the file decides.
        let Some(best) = candidates.iter().filter(is_worth).rev().max_by_key(|set| saves(set)).cloned() else { return };
        let name = free_name(&best, &target.filters);
        for (route, of) in target.routes.iter_mut().zip(&all).filter(|(_, of)| has(of, &best)) {
            debug_assert!(best.len() <= of.len());
            best.iter().for_each(|(at, _)| drop(route.set.remove(FILTERS[*at])));
            route.set.push(key!("use"), name.as_str());
        }
        let mut set = RouteKeys::default();
        best.into_iter().for_each(|(at, value)| drop(set.put(FILTERS[at], value)));
        target.filters.push(FilterSet { name, set });
    }
}

fn filters_of(route: &Route) -> Common {
    let value = |(at, key): (usize, &KeyOf<plan::Route>)| route.set.get(*key).map(|value| (at, value.clone()));
    FILTERS.iter().enumerate().filter_map(value).collect()
}

/// Number of values in a value.
fn values(value: &Value) -> usize {
    match value {
        Value::Table(entries) => entries.iter().map(|(_, value)| values(value)).sum(),
        Value::List(all) => all.iter().map(values).sum(),
        _ => 1,
    }
}

/// Name of a set after its content, with a number if another set has it.
fn free_name(set: &Common, taken: &[FilterSet]) -> String {
    let keys: Vec<String> = set.iter().map(|(at, _)| FILTERS[*at].to_string()).collect();
    let has = |names: &[&str]| keys.iter().any(|key| names.contains(&&**key));
    let base = match () {
        () if has(&["basic_auth", "forward_auth", "jwt"]) => "auth",
        () if has(&["access"]) => "access",
        () if keys.iter().all(|key| key.ends_with("_headers") || key == "send_host") => "fields",
        () => "shared",
    };
    let is_free = |name: &String| taken.iter().all(|other| other.name != *name);
    let mut names = std::iter::once(base.to_string()).chain((2..).map(|number| format!("{base}-{number}")));
    names.find(is_free).unwrap_or_default()
}

/// Joins a route for a path and a route for the paths below it, if they do the same, to a route for the prefix.
fn join_prefixes(routes: &mut Vec<Route>) {
    let mut at = 0;
    while at < routes.len() {
        let joined = exact(&routes[at].matching).and_then(|path| {
            let other = routes.iter().position(|other| is_below(&routes[at], other, &path))?;
            is_alone(routes, at, other, &path).then_some((other, path))
        });
        let Some((other, path)) = joined else {
            at += 1;
            continue;
        };
        let below = routes[other].matching.conds.iter_mut().find(|cond| cond.key == Key::Path && !cond.negated);
        below.expect("it has the paths below").test = Test::Below(path);
        let comments = std::mem::take(&mut routes[at].comments);
        let more: Vec<String> = comments.into_iter().filter(|line| !routes[other].comments.contains(line)).collect();
        routes[other].comments.extend(more);
        routes.remove(at);
    }
}

/// The only path that a match accepts, if a prefix can be made of it.
fn exact(matching: &Match) -> Option<String> {
    match matching.find(&Key::Path) {
        Some(Test::OneOf(paths)) if paths.len() == 1 && paths[0].len() > 1 && !paths[0].ends_with('/') => {
            Some(paths[0].clone())
        }
        _ => None,
    }
}

/// True if a route treats the paths below `path` as another route treats the path itself.
fn is_below(one: &Route, other: &Route, path: &str) -> bool {
    let rest = |route: &Route| -> Vec<Cond> {
        let mut conds: Vec<Cond> =
            route.matching.conds.iter().filter(|cond| cond.key != Key::Path || cond.negated).cloned().collect();
        conds.sort();
        conds
    };
    let below = Test::Begins(format!("{path}/"));
    let paths = other.matching.conds.iter().filter(|cond| cond.key == Key::Path && !cond.negated);
    let depends = [key!("strip_prefix"), key!("rewrite"), key!("restore_prefix")];
    paths.map(|cond| &cond.test).eq([&below])
        && one.action == other.action
        && one.set == other.set
        && !depends.iter().any(|key| one.set.has(*key))
        && rest(one) == rest(other)
}

/// True if no third route comes between the path and a prefix of the same length, by evenkeel's precedence.
fn is_alone(routes: &[Route], one: usize, other: usize, path: &str) -> bool {
    let third = routes.iter().enumerate().filter(|(at, _)| *at != one && *at != other);
    third.map(|(_, route)| &route.matching).all(|matching| {
        let is_shorter = |cond: &Cond| match &cond.test {
            Test::Begins(text) | Test::Below(text) => text.len() < path.len(),
            _ => false,
        };
        let mut paths = matching.conds.iter().filter(|cond| cond.key == Key::Path && !cond.negated);
        matching.is_apart(&routes[one].matching) || paths.all(is_shorter)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::Line;
    use crate::model::{Action, Draft, Pool};

    fn route(name: &str, test: Test, set: RouteKeys) -> Route {
        Route {
            name: name.into(),
            comments: Vec::new(),
            matching: Match::of([Cond::new(Key::Path, test)]),
            action: Action::Pool("p".into()),
            set,
            line: Line::none(),
        }
    }

    fn below(path: &str) -> Test {
        Test::Begins(format!("{path}/"))
    }

    fn exactly(path: &str) -> Test {
        Test::OneOf(vec![path.into()])
    }

    #[test]
    fn filters_that_two_routes_repeat_become_a_set() {
        let fields = || {
            let mut set = RouteKeys::default();
            set.insert(key!("request_headers.set"), "X-A", "1");
            set.insert(key!("request_headers.set"), "X-B", "2");
            set
        };
        let routes = vec![
            route("a", below("/a"), fields().with(key!("body_max"), "1MiB")),
            route("b", below("/b"), fields().with(key!("body_max"), "1MiB")),
            route("c", below("/c"), fields()),
            route("d", below("/d"), Draft::one(key!("body_max"), "2MiB")),
        ];
        let mut target = Target { routes, ..Target::default() };
        share(&mut target);
        let used: Vec<usize> = target.routes.iter().map(|r| r.set.get(key!("use")).map_or(0, values)).collect();
        assert_eq!(used, [1, 1, 1, 0]);
        let names: Vec<&str> = target.filters.iter().map(|set| &*set.name).collect();
        assert_eq!(names, ["fields"]);
        assert!(target.filters[0].set.has(key!("request_headers.set")));
        assert!(target.routes.iter().all(|route| !route.set.has(key!("request_headers"))));
    }

    #[test]
    fn a_path_and_the_paths_below_it_become_a_prefix_unless_another_route_comes_between() {
        let both = || vec![route("a", exactly("/a"), Draft::default()), route("b", below("/a"), Draft::default())];
        let mut routes = both();
        join_prefixes(&mut routes);
        assert_eq!(routes.len(), 1);
        assert_eq!(routes[0].matching.find(&Key::Path), Some(&Test::Below("/a".into())));
        for between in [Test::Below("/a".into()), Test::Begins("/a".into()), Test::Ends("a".into())] {
            let mut routes = both();
            routes.push(route("c", between, Draft::one(key!("body_max"), "1MiB")));
            join_prefixes(&mut routes);
            assert_eq!(routes.len(), 3);
        }
        let mut routes = both();
        routes[1].action = Action::Pool("q".into());
        join_prefixes(&mut routes);
        assert_eq!(routes.len(), 2);
    }

    #[test]
    fn timeouts_of_all_pools_become_defaults() {
        let pool = |idle: &str| Pool {
            set: Draft::one(key!("timeouts.connect"), "5s").with(key!("timeouts.idle"), idle),
            ..Pool::default()
        };
        let mut target = Target { pools: vec![pool("1m"), pool("2m")], ..Target::default() };
        share(&mut target);
        assert_eq!(target.root.text(key!("defaults.timeouts.connect")), Some("5s"));
        assert!(!target.root.has(key!("defaults.timeouts.idle")) && target.pools[0].set.has(key!("timeouts.idle")));
        assert!(!target.pools[0].set.has(key!("timeouts.connect")));
    }
}
