//! Are there two routes of which neither is more specific?

use crate::code::Code;
use crate::diagnostic::Findings;
use crate::form::{HostPattern, path_shape};
use crate::sections::listener::{Listener, Mode};
use crate::sections::route::Route;
use crate::source::Span;
use std::collections::{BTreeMap, BTreeSet};

/// A route and where it matches.
pub(super) struct Placed {
    pub route: Route,
    pub span: Span,
    /// Whether its match could be read.
    pub whole: bool,
}

/// For each listener and host: every path in one router, as the proxy will do it. A route that names the listener is
/// more specific than one that does not, so the same path may be there once with and once without.
pub(super) fn check_collisions(placed: &[Placed], listeners: &[Listener], findings: &mut Findings) {
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
        .add(Code::SameMatch, second.span, message)
        .see("the first one is here", first.span)
        .help("their order means nothing: make one of them more specific, or remove it");
}

fn path_conflict(first: Option<&Placed>, second: &Placed, with: &str, findings: &mut Findings) {
    let message =
        format!("neither of the paths \"{}\" and \"{with}\" is more specific than the other", second.route.path);
    let finding = findings.add(Code::PathConflict, second.span, message);
    finding.help("at one place in the path there can be either a parameter or a rest, besides fixed text");
    if let Some(first) = first {
        finding.see("the other one is here", first.span);
    }
}
