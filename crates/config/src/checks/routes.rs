//! Which routes are there, and does each lead from listeners that exist to a pool that does?

use super::collisions::{Placed, check_collisions};
use super::leads::Leads;
use super::tcp;
use crate::code::Code;
use crate::diagnostic::Findings;
use crate::form::Formed;
use crate::nearest::suggest;
use crate::sections::listener::{Listener, Mode};
use crate::sections::names::check_name;
use crate::sections::pool::Pool;
use crate::sections::retry;
use crate::sections::route::Route;
use crate::sections::timeouts::check_order;
use crate::source::Span;
use crate::table::Section;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

/// The routes of a file, and those that listeners' own pools stand for.
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
        let leads = Leads::new(&own, listeners);
        let is_rest = |p: &&Pool| leads.routes(&p.name).is_empty() && !leads.is_answered(&p.name);
        let rest: Vec<&Pool> = pools.iter().filter(is_rest).collect();
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
        check_name(&name, section.span_of("name"), "routes", &mut names, findings);
    }
    for route in &own {
        check_name(&route.name, root.span_of("listener"), "routes", &mut names, findings);
    }
    let mut taken: BTreeSet<String> = names.into_keys().collect();
    let pool_sections = root.named("pool");
    let pool_sections: HashMap<&str, &Section> = pool_sections.iter().map(|p| (&*p.name, &p.section)).collect();
    let listener_names: HashSet<&str> = listeners.iter().map(|l| &*l.name).collect();
    let mut placed = Vec::new();
    for section in &sections {
        let pool = section.text("pool").and_then(|name| pool_sections.get(&*name).copied());
        let mut route = Route::over(section, pool, defaults);
        if !section.has("name") {
            route.name = free_name(&route, &mut taken);
        }
        let timeouts = section.section("timeouts");
        check_order(&timeouts, findings);
        retry::check(&section.section("retry"), &timeouts, &route.retry, route.timeouts.request, findings);
        if section.text("pool").is_some() && pool.is_none() {
            unknown_pool(&route.pool, section.span_of("pool"), pools, findings);
        }
        check_references(section, &listener_names, listeners, findings);
        let whole = section.set("match").is_none_or(|m| !m.is_broken());
        placed.push(Placed { route, span: section.section("match").span, whole });
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
        let span = named.section.span_of("pool");
        if named.section.word("mode") == Mode::Dns.name() {
            continue;
        }
        if named.section.word("mode") == Mode::Http.name() {
            let message = format!("listener \"{}\" has a pool of its own, but speaks HTTP", named.name);
            let finding = named.section.contradiction(span, message, "mode", findings);
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
            None => unknown_pool(&name, span, pools, findings),
        }
    }
    routes
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
                    root.span_of("pool"),
                    format!("there are {} pools ({}), but no route", pools.len(), names.join(", ")),
                )
                .help(format!("add [[route]] with pool = \"{}\" and a match for each pool", names[0]));
            Vec::new()
        }
    }
}

/// The name of a route that was given none, with a number if it is taken.
fn free_name(route: &Route, taken: &mut BTreeSet<String>) -> Arc<str> {
    let name = Route::derived_name(&route.hosts, &route.path);
    let numbered = (2..).map(|n| format!("{name}-{n}"));
    let free = std::iter::once(name.clone()).chain(numbered).find(|n| !taken.contains(n)).unwrap_or(name);
    taken.insert(free.clone());
    free.into()
}

fn check_references(section: &Section, known: &HashSet<&str>, listeners: &[Listener], findings: &mut Findings) {
    for (formed, span) in section.section("match").formed_list("listener") {
        let Formed::Text(name) = formed else { continue };
        if !known.contains(name.as_str()) {
            let names: Vec<&str> = listeners.iter().map(|l| &*l.name).collect();
            findings
                .add(Code::UnknownListener, span, format!("there is no listener \"{name}\""))
                .help(if names.is_empty() { "add the listener".to_string() } else { suggest(&name, &names) });
        }
    }
}

fn unknown_pool(name: &str, span: Span, pools: &[Pool], findings: &mut Findings) {
    let names: Vec<&str> = pools.iter().map(|p| &*p.name).collect();
    let help = if names.is_empty() { "add the pool".to_string() } else { suggest(name, &names) };
    findings.add(Code::UnknownPool, span, format!("there is no pool \"{name}\"")).help(help);
}

fn check_unused(root: &Section, routes: &[Route], listeners: &[Listener], findings: &mut Findings) {
    let leads = Leads::new(routes, listeners);
    for named in root.named("pool") {
        if leads.routes(&named.name).is_empty() && !leads.is_answered(&named.name) {
            findings
                .add(Code::UnusedPool, named.span, format!("no route leads to pool \"{}\"", named.name))
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
                .add(Code::NothingToDo, named.span, format!("listener \"{}\" has no pool", named.name))
                .help("set pool = \"NAME\", the pool that its clients get to");
        } else if !routes.iter().any(serves) {
            findings
                .add(
                    Code::UnusedListener,
                    named.span,
                    format!("no route takes requests from listener \"{}\"", named.name),
                )
                .help("it would answer 404 to everything: add a [[route]] for it, or remove it");
        }
    }
}
