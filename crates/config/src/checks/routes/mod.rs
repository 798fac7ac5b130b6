//! Routes of a plan: from the file and implied by listeners, with checks that their listeners and
//! pools exist.

mod within;

use super::collisions::{Placed, check_collisions};
use super::leads::Leads;
use super::maps::{Maps, check_choice};
use super::{expressions, matches, paths, tcp};
use crate::code::Code;
use crate::diagnostic::Findings;
use crate::form::Formed;
use crate::nearest::Names;
use crate::sections::action::Action;
use crate::sections::filters::{self, sets::with_sets};
use crate::sections::listener::{Listener, Mode};
use crate::sections::map::Map;
use crate::sections::names::check_name;
use crate::sections::pool::Pool;
use crate::sections::retry;
use crate::sections::route::{self, Route};
use crate::sections::timeouts::check_order;
use crate::source::Span;
use crate::table::{Declared, Named, Section};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

/// Builds the routes of the file, and those that `pool` of a listener stands for.
pub(super) fn routes(
    root: &Section,
    defaults: &Section,
    listeners: &[Arc<Listener>],
    (pools, maps): (&[Arc<Pool>], &[Arc<Map>]),
    findings: &mut Findings,
) -> Vec<Route> {
    let maps = Maps::new(maps);
    let sections = root.sections("route");
    let pool_names = Names::new(pools.iter().map(|p| &*p.name));
    let filters = defaults.section("route");
    let has_implied = root.set("route").is_none() || listeners.iter().any(|l| l.mode == Mode::Http && l.pool.is_some());
    if has_implied && defaults.has("route") {
        // Routes that are implied have no section to be checked.
        let implied = Route::blank(filters.span).over(&filters);
        filters::check_shared(&implied, findings);
        check_pools_of_filters(&implied, |name| pools.iter().any(|pool| &*pool.name == name), &pool_names, findings);
    }
    let own = own_routes(root, pools, (&filters, &pool_names), findings);
    if root.set("route").is_none() {
        let mut own: Vec<Route> = own.into_iter().map(|p| p.route).collect();
        let leads = Leads::new(&own, listeners);
        let is_rest = |p: &&Arc<Pool>| leads.routes(&p.name).is_empty() && !leads.is_answered(&p.name);
        let rest: Vec<&Arc<Pool>> =
            if let [only] = pools { vec![only] } else { pools.iter().filter(is_rest).collect() };
        let needs = |l: &Arc<Listener>| l.mode == Mode::Http && l.pool.is_none();
        let mut routes = match listeners.is_empty() || listeners.iter().any(needs) {
            true => catch_all(root, &rest, &filters, findings),
            false => Vec::new(),
        };
        routes.append(&mut own);
        within::check(root, defaults, &routes, listeners, findings);
        if !findings.has_errors() {
            check_unused(root, &routes, listeners, findings);
        }
        return routes;
    }
    // Implied routes of listeners come first: of two with the same name, the other is at fault.
    let mut names = BTreeMap::new();
    for Placed { route, span, .. } in &own {
        check_name(&route.name, *span, "routes", &mut names, findings);
    }
    for section in sections.iter().filter(|s| s.set("name").is_some()) {
        let name = section.text("name").unwrap_or_default();
        check_name(&name, section.span_of("name"), "routes", &mut names, findings);
    }
    let mut free_names = FreeNames { taken: names.into_keys().collect(), next: HashMap::new() };
    let pool_sections: HashMap<&str, &Section> = root.named("pool").iter().map(|p| (&*p.name, &p.section)).collect();
    let known: HashSet<&str> = listeners.iter().map(|l| &*l.name).collect();
    let listener_names = Names::new(listeners.iter().map(|l| &*l.name));
    let mut placed = Vec::new();
    for section in &sections {
        let mut section = with_sets(section, root.named("filters"), findings);
        if takes_requests(&section, listeners) {
            section = section.over(&filters);
        }
        let section = &section;
        let pool = section.text("pool").and_then(|name| pool_sections.get(&*name).copied());
        let mut route = Route::over(section, pool, defaults);
        if !section.has("name") {
            route.name = free_names.take(&route);
        }
        let timeouts = section.section("timeouts");
        check_order(&timeouts, findings);
        retry::check(&section.section("retry"), &timeouts, &route.retry, route.timeouts.request, findings);
        if let Action::Choice(choice) = &route.action {
            let is_pool = |name: &str| pool_sections.contains_key(name);
            check_choice(root, section, &maps, &choice.map, is_pool, &pool_names, findings);
        } else if let Some(name) = section.text("pool").filter(|_| pool.is_none()) {
            unknown_pool(&name, section.span_of("pool"), &pool_names, findings);
        }
        for keyed in section.section("split").map("weights") {
            if !pool_sections.contains_key(&*keyed.key) {
                unknown_pool(&keyed.key, keyed.span, &pool_names, findings);
            }
        }
        check_pools_of_filters(section, |name| pool_sections.contains_key(name), &pool_names, findings);
        check_references(section, &known, &listener_names, findings);
        route::check(section, findings);
        let whole = section.set("match").is_none_or(|m| !m.is_broken());
        placed.push(Placed { route, span: section.section("match").span, whole });
    }
    placed.extend(own);
    fill_choices(&mut placed, listeners, pools, &maps);
    check_collisions(&placed, listeners, findings);
    let mut of_listener: HashMap<&str, Vec<(&Route, &Section)>> = HashMap::new();
    for (placed, section) in placed.iter().zip(&sections).filter(|(p, _)| p.whole) {
        let names: BTreeSet<&str> = placed.route.listeners.iter().map(|l| &**l).collect();
        names.into_iter().for_each(|name| of_listener.entry(name).or_default().push((&placed.route, section)));
    }
    for listener in listeners.iter().filter(|l| matches!(l.mode, Mode::Tcp | Mode::Udp)) {
        let named = of_listener.get(&*listener.name).map_or(&[][..], Vec::as_slice);
        tcp::check_routes(listener, named, findings);
    }
    matches::check(&sections, &placed, listeners, findings);
    expressions::check(root, &sections, (&placed, listeners), findings);
    paths::check(&placed, listeners, findings);
    let routes: Vec<Route> = placed.into_iter().map(|p| p.route).collect();
    within::check(root, defaults, &routes, listeners, findings);
    // With errors present, something may only seem unused.
    if !findings.has_errors() {
        check_unused(root, &routes, listeners, findings);
    }
    routes
}

/// Fills in the pools that maps can choose. If the rows are in a file, these are all pools that requests may reach: not
/// those of sessions, datagrams and DNS answers alone.
fn fill_choices(placed: &mut [Placed], listeners: &[Arc<Listener>], pools: &[Arc<Pool>], maps: &Maps<'_>) {
    if !placed.iter().any(|placed| matches!(placed.route.action, Action::Choice(_))) {
        return;
    }
    let modes: HashMap<&str, Mode> = listeners.iter().map(|listener| (&*listener.name, listener.mode)).collect();
    let records = listeners.iter().filter_map(|l| l.zone.as_ref()).flat_map(|zone| &zone.records);
    let mut others: BTreeSet<&str> = records.map(|record| &*record.pool).collect();
    let mut of_requests = BTreeSet::new();
    for Placed { route, .. } in &*placed {
        let is_of_sessions = |name: &Arc<str>| modes.get(&**name).is_some_and(|mode| *mode != Mode::Http);
        let set = if route.listeners.iter().any(is_of_sessions) { &mut others } else { &mut of_requests };
        set.extend(route.pools().map(|pool| &**pool));
    }
    let may_be = |pool: &&Arc<Pool>| of_requests.contains(&*pool.name) || !others.contains(&*pool.name);
    let all: Vec<Arc<str>> = pools.iter().filter(may_be).map(|pool| pool.name.clone()).collect();
    for Placed { route, .. } in placed {
        if let Action::Choice(choice) = &mut route.action {
            choice.pools = maps.pools(&choice.map, &all);
        }
    }
}

/// Builds the routes that `pool` of a listener stands for: everything that no other route of that listener
/// matches.
fn own_routes(
    root: &Section,
    pools: &[Arc<Pool>],
    (filters, names): (&Section, &Names<'_>),
    findings: &mut Findings,
) -> Vec<Placed> {
    let mut routes = Vec::new();
    let by_name: HashMap<&str, &Pool> = pools.iter().map(|p| (&*p.name, &**p)).collect();
    for named in root.named("listener") {
        let Some(name) = named.section.text("pool") else { continue };
        let span = named.section.span_of("pool");
        let mode = named.section.word("mode");
        if mode == Mode::Dns.name() {
            continue;
        }
        match by_name.get(&*name) {
            Some(pool) => {
                let own = named.name.as_str();
                let whole =
                    if mode == Mode::Http.name() { Route::implied(pool, filters) } else { Route::catch_all(pool) };
                let route = Route { name: own.into(), listeners: vec![own.into()], ..whole };
                routes.push(Placed { route, span, whole: true });
            }
            None => unknown_pool(&name, span, names, findings),
        }
    }
    routes
}

/// True if no listener that the route names relays sessions.
fn takes_requests(route: &Section, listeners: &[Arc<Listener>]) -> bool {
    let named = route.section("match").texts("listener");
    !listeners
        .iter()
        .any(|listener| listener.mode != Mode::Http && named.iter().any(|(name, _)| **name == *listener.name))
}

/// Reports pools of filters that do not exist.
fn check_pools_of_filters(
    route: &Section,
    is_known: impl Fn(&str) -> bool,
    names: &Names<'_>,
    findings: &mut Findings,
) {
    let auth = route.section("forward_auth");
    let pages = route.sections("error_pages");
    for filter in route.sections("mirror").into_iter().chain(pages).chain([&auth]) {
        if let Some(name) = filter.text("pool").filter(|name| !is_known(name)) {
            unknown_pool(&name, filter.span_of("pool"), names, findings);
        }
    }
}

/// Builds the route of a file without any: all requests to the only pool.
fn catch_all(root: &Section, pools: &[&Arc<Pool>], filters: &Section, findings: &mut Findings) -> Vec<Route> {
    match pools {
        [] => Vec::new(),
        [pool] => vec![Route::implied(pool, filters)],
        _ => {
            let names: Vec<&str> = pools.iter().map(|p| &*p.name).collect();
            findings
                .add(
                    Code::NothingToDo,
                    root.span_of("pool"),
                    format!("there are {} pools ({}), but no route", pools.len(), names.join(", ")),
                )
                .help(format!("add [[route]] with pool = \"{}\" and a match for each pool", names[0]));
            Vec::new()
        }
    }
}

/// Unique names for routes without a name.
struct FreeNames {
    taken: BTreeSet<String>,
    /// Next number to try, by derived name. All lower numbers are taken.
    next: HashMap<String, usize>,
}

impl FreeNames {
    /// Name derived from the match, numbered if it is taken.
    fn take(&mut self, route: &Route) -> Arc<str> {
        let name = route.derived_name();
        let next = self.next.entry(name.clone()).or_insert(1);
        loop {
            let free = if *next == 1 { name.clone() } else { format!("{name}-{next}") };
            *next += 1;
            if self.taken.insert(free.clone()) {
                return free.into();
            }
        }
    }
}

fn check_references(section: &Section, known: &HashSet<&str>, names: &Names<'_>, findings: &mut Findings) {
    for (formed, span) in section.section("match").formed_list("listener") {
        let Formed::Text(name) = formed else { continue };
        if !known.contains(name.as_str()) {
            findings
                .add(Code::UnknownListener, span, format!("unknown listener \"{name}\""))
                .help(names.suggest(&name, "add the listener"));
        }
    }
}

fn unknown_pool(name: &str, span: Span, names: &Names<'_>, findings: &mut Findings) {
    findings.add(Code::UnknownPool, span, format!("unknown pool \"{name}\"")).help(names.suggest(name, "add the pool"));
}

fn check_unused(root: &Section, routes: &[Route], listeners: &[Arc<Listener>], findings: &mut Findings) {
    let leads = Leads::new(routes, listeners);
    for named in root.named("pool") {
        if leads.routes(&named.name).is_empty() && !leads.is_answered(&named.name) {
            findings
                .add(Code::UnusedPool, named.span, format!("no route leads to pool \"{}\"", named.name))
                .help("add a [[route]] to it, or remove it");
        }
    }
    let routes = || routes.iter().filter(|route| !route.internal);
    let named: HashSet<&str> = routes().flat_map(|r| &r.listeners).map(|l| &**l).collect();
    let common = routes().any(|r| r.listeners.is_empty());
    for Named { name, span, section } in root.named("listener") {
        let mode = leads.mode_of(name);
        let is_served = named.contains(&**name) || (common && mode == Some(Mode::Http));
        // A listener that redirects every request needs no route.
        let redirects_all = section.switched("redirect_https").is_some() && !section.has("trusted_proxies");
        if is_served || mode == Some(Mode::Dns) || redirects_all {
            continue;
        }
        if mode != Some(Mode::Http) {
            findings
                .add(Code::NothingToDo, *span, format!("listener \"{name}\" has no pool"))
                .help("set pool = \"NAME\", the pool for its clients");
        } else {
            findings
                .add(Code::UnusedListener, *span, format!("no route takes requests from listener \"{name}\""))
                .help("it would answer 404 to everything: set its \"pool\", add a [[route]] for it, or remove it");
        }
    }
}
