//! Checks of routes that are reached from within: by error pages that name them, and by internal redirects.

use crate::code::Code;
use crate::diagnostic::Findings;
use crate::nearest::Names;
use crate::sections::error_pages::ErrorPage;
use crate::sections::listener::{Listener, Mode};
use crate::sections::route::{ROUTE, Route};
use crate::table::{Declared, Section};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Statuses of requests that evenkeel refuses, so that no endpoint is to serve them.
const REFUSED: [u16; 4] = [400, 401, 403, 429];

/// An error page from a route.
struct Page<'p> {
    section: &'p Section,
    /// Listener, route or set of filters that has it.
    owner: &'p Section,
    /// Names of the listeners whose requests may get the page; `None` = the listeners of the routes that share it.
    listeners: Option<Vec<String>>,
}

/// Checks the names of error pages, and that something leads to each internal route.
pub(super) fn check(
    root: &Section,
    defaults: &Section,
    routes: &[Route],
    listeners: &[Arc<Listener>],
    findings: &mut Findings,
) {
    let sections = root.sections("route");
    let shared = defaults.section("route");
    let by_name: HashMap<&str, &Route> = routes.iter().map(|route| (&*route.name, route)).collect();
    let names = Names::new(routes.iter().map(|route| &*route.name));
    let mut led_to = HashSet::new();
    for page in pages(root, &sections, &shared, listeners) {
        let Some(name) = page.section.text("route") else { continue };
        let span = page.section.span_of("route");
        match by_name.get(&*name) {
            Some(route) => {
                led_to.insert(&*route.name);
                check_target(route, &page, findings);
            }
            None => {
                let help = names.suggest(&name, "add a [[route]] with this name");
                findings.add(Code::UnknownRoute, span, format!("unknown route \"{name}\"")).help(help);
            }
        }
    }
    check_internal(&sections, routes, &led_to, findings);
}

/// Error pages of all tables.
fn pages<'p>(
    root: &'p Section,
    routes: &[&'p Section],
    shared: &'p Section,
    listeners: &[Arc<Listener>],
) -> Vec<Page<'p>> {
    let of = |owner: &'p Section, listeners: Option<Vec<String>>| {
        let pages = owner.sections("error_pages").into_iter();
        pages.map(move |section| Page { section, owner, listeners: listeners.clone() })
    };
    let http = || listeners.iter().filter(|l| l.mode == Mode::Http).map(|l| l.name.to_string()).collect();
    let of_route = |route: &&'p Section| {
        let named: Vec<String> = route.section("match").texts("listener").into_iter().map(|(name, _)| name).collect();
        of(route, Some(if named.is_empty() { http() } else { named }))
    };
    let of_listeners = root.named("listener").iter().flat_map(|l| of(&l.section, Some(vec![l.name.clone()])));
    let of_sets = root.named("filters").iter().flat_map(|set| of(&set.section, None));
    routes.iter().flat_map(of_route).chain(of_listeners).chain(of_sets).chain(of(shared, None)).collect()
}

/// Reports a route that cannot answer for an error page.
fn check_target(route: &Route, page: &Page<'_>, findings: &mut Findings) {
    let (name, section, span) = (&route.name, page.section, page.section.span_of("route"));
    let is_missing = |on: &&String| !route.listeners.iter().any(|listener| **listener == ***on);
    let missing = page.listeners.iter().flatten().find(is_missing).filter(|_| !route.listeners.is_empty());
    if let Some(listener) = missing {
        let message = format!("route \"{name}\" has no requests of listener \"{listener}\", which may get the page");
        findings.add(Code::Contradiction, span, message).help("name a route of all listeners that may get the page");
    }
    let takes_page = |methods: &[Arc<str>]| methods.is_empty() || methods.iter().any(|method| &**method == "GET");
    if !route.matches().iter().any(|matching| takes_page(&matching.criteria.methods)) {
        let message = format!(
            "route \"{name}\" is not for GET, and an error page is asked for with GET or HEAD: the body of the client's \
             request is gone by then"
        );
        findings.add(Code::Contradiction, span, message).help("name a route that takes GET");
    }
    if section.has("path") {
        return;
    }
    let is_own = page.owner.is_of(&ROUTE) && page.owner.text("name").is_some_and(|own| *own == **name);
    if is_own {
        let message = format!("the page of route \"{name}\" is from the route itself, which has failed by then");
        findings.add(Code::Contradiction, span, message).help("name another route, or set \"path\"");
    }
    let statuses = ErrorPage::of(section).statuses;
    let refused = REFUSED.into_iter().find(|status| statuses.iter().any(|range| range.contains(status)));
    if let Some(status) = refused.filter(|_| route.action.pools().next().is_some()) {
        let message = format!(
            "route \"{name}\" sends requests that evenkeel refuses with {status} to endpoints, by the client's path"
        );
        let help = "set \"path\", the path of the page; or leave 400, 401, 403 and 429 out of \"status\"";
        findings.add(Code::AtOdds, span, message).help(help);
    }
}

/// Warns of internal routes that nothing leads to, and of internal redirects that no route answers.
fn check_internal(sections: &[&Section], routes: &[Route], led_to: &HashSet<&str>, findings: &mut Findings) {
    let redirects = routes.iter().any(|route| !route.filters.internal_redirects.is_empty());
    let is_answered = routes.iter().any(|route| route.internal && !route.is_by_name());
    for section in sections {
        let is_named = || section.text("name").is_some_and(|name| led_to.contains(&*name));
        let is_matched = redirects && section.has("match");
        if section.flag("internal") && !is_matched && !is_named() {
            let why = if redirects { "it has no \"match\"" } else { "no route has \"internal_redirects\"" };
            let message = format!("nothing leads to this internal route: no error page names it, and {why}");
            let help = "name it in \"route\" of error_pages, or set its \"match\", and internal_redirects = \"X-Accel-Redirect\" in \
                the route whose endpoints lead to it";
            findings.add(Code::AtOdds, section.span_of("internal"), message).help(help);
        }
        if section.has("internal_redirects") && !is_answered {
            let message = "no internal route has a match, so that each internal redirect would be a 404";
            let help = "set internal = true and \"match\" in the [[route]] that is to answer";
            findings.add(Code::AtOdds, section.span_of("internal_redirects"), message).help(help);
        }
    }
}
