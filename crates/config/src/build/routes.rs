//! `[[route]]`: references, and no two routes of which neither is more specific.

use super::leads::Leads;
use super::{always, check_name, check_order, contradiction, retry, tcp};
use crate::code::Code;
use crate::diagnostic::Findings;
use crate::form::{Formed, path_shape};
use crate::nearest::suggest;
use crate::plan::{HostPattern, Listener, Mode, PathPattern, Pool, Route, RouteTimeouts};
use crate::read::Section;
use crate::source::Place;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// A route and where it matches.
struct Placed {
    route: Route,
    place: Place,
    /// Whether its match could be read.
    whole: bool,
}

pub(super) fn routes(
    root: &Section,
    defaults: &Section,
    listeners: &[Listener],
    pools: &[Pool],
    findings: &mut Findings,
) -> Vec<Route> {
    let sections = root.sections("route");
    let mut own = own_routes(root, pools, findings);
    if root.set("route").is_none() {
        let rest: Vec<&Pool> =
            pools.iter().filter(|p| !own.iter().any(|r| r.pool == p.name) && !is_answered(p, listeners)).collect();
        let http = listeners.is_empty() || listeners.iter().any(|l| l.mode == Mode::Http);
        let mut routes = if http { catch_all(root, &rest, findings) } else { Vec::new() };
        routes.append(&mut own);
        if !findings.has_errors() {
            check_unused(root, &routes, listeners, findings);
        }
        return routes;
    }
    let mut names = BTreeMap::new();
    for section in sections.iter().filter(|s| s.set("name").is_some()) {
        let name = section.text("name").unwrap_or_default();
        check_name(&name, section.place_of("name"), "routes", &mut names, findings);
    }
    for route in &own {
        check_name(&route.name, root.place_of("listener"), "routes", &mut names, findings);
    }
    let mut taken: BTreeSet<String> = names.into_keys().collect();
    let pool_sections = root.named("pool");
    let pool_sections: HashMap<&str, &Section> = pool_sections.iter().map(|p| (&*p.name, &p.section)).collect();
    let mut placed = Vec::new();
    for section in &sections {
        let pool = |name: &str| pool_sections.get(name).copied();
        let route = one(section, defaults, pool, &mut taken, findings);
        if section.text("pool").is_some() && !pool_sections.contains_key(&*route.pool) {
            unknown_pool(&route.pool, section.place_of("pool"), pools, findings);
        }
        check_references(section, listeners, findings);
        let whole = section.set("match").is_none_or(|m| !m.is_broken());
        placed.push(Placed { route, place: section.section("match").place, whole });
    }
    check_collisions(&placed, listeners, findings);
    for listener in listeners.iter().filter(|l| l.mode == Mode::Tcp) {
        let named = placed.iter().zip(&sections).filter(|(p, _)| p.whole && p.route.listeners.contains(&listener.name));
        tcp::check_routes(listener, &named.map(|(p, s)| (&p.route, s)).collect::<Vec<_>>(), findings);
    }
    let routes: Vec<Route> = placed.into_iter().map(|p| p.route).chain(own).collect();
    // An error may be why something seems unused.
    if !findings.has_errors() {
        check_unused(root, &routes, listeners, findings);
    }
    routes
}

/// The routes that listeners' own pools stand for: they take what no other route of that listener takes.
fn own_routes(root: &Section, pools: &[Pool], findings: &mut Findings) -> Vec<Route> {
    let mut routes = Vec::new();
    for named in root.named("listener") {
        let Some(name) = named.section.text("pool") else { continue };
        let place = named.section.place_of("pool");
        if named.section.word("mode") == Mode::Dns.name() {
            continue;
        }
        if named.section.word("mode") == Mode::Http.name() {
            let message = format!("listener \"{}\" has a pool of its own, but speaks HTTP", named.name);
            let finding = contradiction(&named.section, place, message, "mode", findings);
            finding.help(format!(
                "add [[route]] with pool = \"{name}\" and match = {{ listener = [\"{}\"] }}, or set mode = \"tcp\"",
                named.name
            ));
            continue;
        }
        match pools.iter().find(|p| *p.name == *name) {
            Some(pool) => routes.push(Route {
                name: named.name.as_str().into(),
                listeners: vec![named.name.as_str().into()],
                ..Route::catch_all(pool)
            }),
            None => unknown_pool(&name, place, pools, findings),
        }
    }
    routes
}

/// Whether a pool's endpoints are told to resolvers.
fn is_answered(pool: &Pool, listeners: &[Listener]) -> bool {
    let mut zones = listeners.iter().filter_map(|l| l.zone.as_ref());
    zones.any(|zone| zone.records.iter().any(|r| r.pool == pool.name))
}

/// Without routes, a file with one pool sends everything to it.
fn catch_all(root: &Section, pools: &[&Pool], findings: &mut Findings) -> Vec<Route> {
    match pools {
        [] => Vec::new(),
        [pool] => vec![Route::catch_all(pool)],
        _ => {
            let names: Vec<&str> = pools.iter().map(|p| &*p.name).collect();
            findings
                .add(
                    Code::NothingToDo,
                    root.place_of("pool"),
                    format!("there are {} pools ({}), but no route", pools.len(), names.join(", ")),
                )
                .help(format!("add [[route]] with pool = \"{}\" and a match for each pool", names[0]));
            Vec::new()
        }
    }
}

impl Route {
    /// The route of a plan whose file has none.
    pub(crate) fn catch_all(pool: &Pool) -> Route {
        let t = pool.timeouts;
        Route {
            name: "default".into(),
            listeners: Vec::new(),
            hosts: Vec::new(),
            path: PathPattern::Any,
            alpn: Vec::new(),
            pool: pool.name.clone(),
            timeouts: RouteTimeouts { connect: t.connect, response: t.response, request: t.request, idle: t.idle },
            retry: pool.retry.clone(),
        }
    }

    /// The name of a route that was given none: its first host and its path.
    pub(crate) fn derived_name(hosts: &[HostPattern], path: &PathPattern) -> String {
        match (hosts.first(), path) {
            (None, PathPattern::Any) => "default".to_string(),
            (Some(host), PathPattern::Any) => host.to_string(),
            (None, PathPattern::Pattern(path)) => path.clone(),
            (Some(host), PathPattern::Pattern(path)) => format!("{host}{path}"),
        }
    }
}

fn one<'p>(
    section: &Section,
    defaults: &Section,
    pool_of: impl Fn(&str) -> Option<&'p Section>,
    taken: &mut BTreeSet<String>,
    findings: &mut Findings,
) -> Route {
    let matches = section.section("match");
    let text = |(formed, _)| if let Formed::Text(t) = formed { Some(Arc::from(t)) } else { None };
    let host = |(formed, _)| if let Formed::Host(h) = formed { Some(h) } else { None };
    let hosts: Vec<HostPattern> = matches.formed_list("host").into_iter().filter_map(host).collect();
    let path = match matches.formed("path") {
        Some(Formed::Path(path)) => path,
        _ => PathPattern::Any,
    };
    let name = section.text("name").unwrap_or_else(|| {
        let name = Route::derived_name(&hosts, &path);
        let numbered = (2..).map(|n| format!("{name}-{n}"));
        let free = std::iter::once(name.clone()).chain(numbered).find(|n| !taken.contains(n)).unwrap_or(name);
        taken.insert(free.clone());
        free
    });
    let pool = section.text("pool").unwrap_or_default();
    let timeouts = section.section("timeouts");
    check_order(&timeouts, findings);
    // What a pool that does not exist would set is left to the defaults; that it does not is said elsewhere.
    let inherited = |table: &str| {
        let from_defaults = defaults.section(table);
        let from_pool = pool_of(&pool).map_or_else(|| from_defaults.clone(), |pool| pool.section(table));
        (from_pool, from_defaults)
    };
    let (pool_timeouts, default_timeouts) = inherited("timeouts");
    let chain = [&timeouts, &pool_timeouts, &default_timeouts];
    let request = Section::inherited(&chain, "request");
    let own_retry = section.section("retry");
    let (pool_retry, default_retry) = inherited("retry");
    let retry = retry::retry(&[&own_retry, &pool_retry], &default_retry);
    retry::check(&own_retry, &timeouts, &retry, request, findings);
    Route {
        name: name.into(),
        listeners: matches.formed_list("listener").into_iter().filter_map(text).collect(),
        hosts,
        path,
        alpn: matches.formed_list("alpn").into_iter().filter_map(text).collect(),
        pool: pool.into(),
        timeouts: RouteTimeouts {
            connect: always(&chain, "connect"),
            response: Section::inherited(&chain, "response"),
            request,
            idle: always(&chain, "idle"),
        },
        retry,
    }
}

fn check_references(section: &Section, listeners: &[Listener], findings: &mut Findings) {
    let names: Vec<&str> = listeners.iter().map(|l| &*l.name).collect();
    for (formed, place) in section.section("match").formed_list("listener") {
        let Formed::Text(name) = formed else { continue };
        if !names.contains(&name.as_str()) {
            findings
                .add(Code::UnknownListener, place, format!("there is no listener \"{name}\""))
                .help(if names.is_empty() { "add the listener".to_string() } else { suggest(&name, &names) });
        }
    }
}

fn unknown_pool(name: &str, place: Place, pools: &[Pool], findings: &mut Findings) {
    let names: Vec<&str> = pools.iter().map(|p| &*p.name).collect();
    let help = if names.is_empty() { "add the pool".to_string() } else { suggest(name, &names) };
    findings.add(Code::UnknownPool, place, format!("there is no pool \"{name}\"")).help(help);
}

/// For each listener and host: every path in one router, as the proxy will do it. A route that names the listener is
/// more specific than one that does not, so the same path may be there once with and once without.
fn check_collisions(placed: &[Placed], listeners: &[Listener], findings: &mut Findings) {
    let mut by_host: BTreeMap<Option<&HostPattern>, BTreeSet<usize>> = BTreeMap::new();
    for (index, p) in placed.iter().enumerate().filter(|(_, p)| p.whole) {
        let any = p.route.hosts.is_empty().then_some(None);
        for host in p.route.hosts.iter().map(Some).chain(any) {
            by_host.entry(host).or_default().insert(index);
        }
    }
    let mut told = BTreeSet::new();
    // Sessions have no path: their routes are looked at elsewhere.
    let http: BTreeSet<&str> = listeners.iter().filter(|l| l.mode == Mode::Http).map(|l| &*l.name).collect();
    for indices in by_host.values() {
        let mut naming: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for &index in indices {
            for listener in placed[index].route.listeners.iter().filter(|l| http.contains(&***l)) {
                let of_listener = naming.entry(listener).or_default();
                if of_listener.last() != Some(&index) {
                    of_listener.push(index);
                }
            }
        }
        let is_any = |index: &usize| placed[*index].route.listeners.is_empty();
        let any: Vec<usize> = indices.iter().copied().filter(is_any).collect();
        // Of the listeners that no route of this host names, one is like another.
        let unnamed = (naming.len() < http.len()).then(Vec::new);
        for naming in naming.into_values().chain(unnamed) {
            let naming = naming.iter().map(|index| (*index, true));
            one_router(placed, naming.chain(any.iter().map(|index| (*index, false))), &mut told, findings);
        }
    }
}

/// Inserts routes, each with whether it names the listener; those that do come first. `told` has the pairs that were
/// reported for another listener or host.
fn one_router(
    placed: &[Placed],
    order: impl Iterator<Item = (usize, bool)>,
    told: &mut BTreeSet<(Option<usize>, usize)>,
    findings: &mut Findings,
) {
    let mut router = matchit::Router::new();
    let mut shapes: BTreeMap<String, (usize, bool)> = BTreeMap::new();
    for (index, names) in order {
        let route = &placed[index];
        let pattern = route.route.path.to_string();
        let shape = path_shape(&pattern);
        if let Some(&(first, first_names)) = shapes.get(&shape) {
            if first_names == names && told.insert((Some(first), index)) {
                same_match(&placed[first], route, findings);
            }
            continue;
        }
        if let Err(matchit::InsertError::Conflict { with }) = router.insert(pattern, index) {
            let first = shapes.get(&path_shape(&with)).map(|(first, _)| *first);
            if told.insert((first, index)) {
                path_conflict(first.map(|f| &placed[f]), route, &with, findings);
            }
            continue;
        }
        shapes.insert(shape, (index, names));
    }
}

fn same_match(first: &Placed, second: &Placed, findings: &mut Findings) {
    let message = format!("routes \"{}\" and \"{}\" match the same requests", first.route.name, second.route.name);
    findings
        .add(Code::SameMatch, second.place, message)
        .see("the first one is here", first.place)
        .help("their order means nothing: make one of them more specific, or remove it");
}

fn path_conflict(first: Option<&Placed>, second: &Placed, with: &str, findings: &mut Findings) {
    let message =
        format!("neither of the paths \"{}\" and \"{with}\" is more specific than the other", second.route.path);
    let finding = findings.add(Code::PathConflict, second.place, message);
    finding.help("at one place in the path there can be either a parameter or a rest, besides fixed text");
    if let Some(first) = first {
        finding.see("the other one is here", first.place);
    }
}

fn check_unused(root: &Section, routes: &[Route], listeners: &[Listener], findings: &mut Findings) {
    let leads = Leads::new(routes, listeners);
    for named in root.named("pool") {
        if leads.routes(&named.name).is_empty() && !leads.is_answered(&named.name) {
            findings
                .add(Code::UnusedPool, named.place, format!("no route leads to pool \"{}\"", named.name))
                .help("add a [[route]] to it, or remove it");
        }
    }
    for named in root.named("listener") {
        let is_http = listeners.iter().any(|l| *l.name == *named.name && l.mode == Mode::Http);
        let serves = |r: &Route| (is_http && r.listeners.is_empty()) || r.listeners.iter().any(|l| **l == *named.name);
        if listeners.iter().any(|l| *l.name == *named.name && l.mode == Mode::Dns) {
            continue;
        }
        if !is_http && !routes.iter().any(serves) {
            findings
                .add(Code::NothingToDo, named.place, format!("listener \"{}\" has no pool", named.name))
                .help("set pool = \"NAME\", the pool that its clients get to");
        } else if !routes.iter().any(serves) {
            findings
                .add(
                    Code::UnusedListener,
                    named.place,
                    format!("no route takes requests from listener \"{}\"", named.name),
                )
                .help("it would answer 404 to everything: add a [[route]] for it, or remove it");
        }
    }
}
