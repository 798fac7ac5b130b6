//! Detection of routes that match the same requests equally well.

use super::disjoint::are_disjoint;
use crate::code::Code;
use crate::diagnostic::Findings;
use crate::form::{End, HostPattern, Piece};
use crate::sections::listener::{Listener, Mode};
use crate::sections::matching::{Expected, Match};
use crate::sections::route::Route;
use crate::source::Span;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// A route with the place of its definition.
pub(super) struct Placed {
    pub route: Route,
    pub span: Span,
    /// True if its match was read without errors.
    pub whole: bool,
}

/// Place in the proxy's tree of paths, with the host in front; `true` for internal routes, which have a tree of their
/// own. No two matches at different places are equally specific.
type Place<'p> = (bool, Option<&'p HostPattern>, (Vec<Piece>, End));

#[derive(Clone, Copy)]
struct Entry<'p> {
    route: usize,
    matching: &'p Match,
    order: u32,
}

/// Largest number of matches with the same place, rank and order that are compared in pairs.
const PAIRS_MAX: usize = 100;

/// Reports pairs of routes of which neither is more specific, and which have the same order. A route that names the
/// listener is more specific than a match that does not.
pub(super) fn check_collisions(placed: &[Placed], listeners: &[Arc<Listener>], findings: &mut Findings) {
    // TCP routes have no path; they are checked in `tcp`.
    let matches: Vec<(usize, Vec<Match>)> = placed
        .iter()
        .enumerate()
        .filter(|(_, p)| p.whole && !p.route.is_by_name())
        .map(|(index, p)| (index, p.route.matches()))
        .collect();
    let mut told = BTreeSet::new();
    let mut report = |a: Entry<'_>, b: Entry<'_>| {
        if told.insert((a.route, b.route)) {
            report(&placed[a.route], &placed[b.route], a.matching == b.matching, findings);
        }
    };
    let at = |ignore_case: bool| -> BTreeSet<&str> {
        let names = listeners.iter().filter(|of| of.mode == Mode::Http && of.ignore_case == ignore_case);
        names.map(|listener| &*listener.name).collect()
    };
    check_at(&at(false), false, placed, &matches, &mut report);
    let ignoring = at(true);
    if !ignoring.is_empty() {
        check_at(&ignoring, true, placed, &matches, &mut report);
    }
}

/// Compares the routes of these listeners.
fn check_at<'p>(
    listeners: &BTreeSet<&str>,
    ignore_case: bool,
    placed: &[Placed],
    matches: &'p [(usize, Vec<Match>)],
    report: &mut impl FnMut(Entry<'p>, Entry<'p>),
) {
    let mut places: BTreeMap<Place<'_>, Vec<Entry<'_>>> = BTreeMap::new();
    for (route, matches) in matches {
        let Route { order, internal, .. } = placed[*route].route;
        for matching in matches {
            let any = matching.hosts.is_empty().then_some(None);
            let hosts: BTreeSet<Option<&HostPattern>> = matching.hosts.iter().map(Some).chain(any).collect();
            for (host, form) in
                hosts.into_iter().flat_map(|host| matching.path.forms().into_iter().map(move |f| (host, f)))
            {
                let shape = if ignore_case { form.folded().shape() } else { form.shape() };
                places.entry((internal, host, shape)).or_default().push(Entry { route: *route, matching, order });
            }
        }
    }
    for entries in places.values().filter(|entries| entries.len() > 1) {
        let mut by_listener: BTreeMap<&str, Vec<Entry<'_>>> = BTreeMap::new();
        for entry in entries {
            let names = &placed[entry.route].route.listeners;
            let names: BTreeSet<&str> =
                names.iter().map(|name| &**name).filter(|name| listeners.contains(name)).collect();
            names.into_iter().for_each(|name| by_listener.entry(name).or_default().push(*entry));
        }
        let common = entries.iter().filter(|entry| placed[entry.route].route.listeners.is_empty()).copied().collect();
        by_listener.into_values().chain([common]).for_each(|entries| compare(entries, &mut *report));
    }
}

/// Calls `report` for each pair of matches that have the same rank and order and are not disjoint.
fn compare<'p>(entries: Vec<Entry<'p>>, report: &mut impl FnMut(Entry<'p>, Entry<'p>)) {
    let mut by_rank: BTreeMap<_, Vec<Entry<'_>>> = BTreeMap::new();
    for entry in entries {
        by_rank.entry((entry.matching.rank(), entry.order)).or_default().push(entry);
    }
    for entries in by_rank.into_values() {
        if entries.len() <= PAIRS_MAX {
            pairs(&entries, report);
            continue;
        }
        // Most differ by a single value, so that only those with the same value need a comparison.
        let named = most_compared(&entries);
        let mut by_value: HashMap<&str, Vec<Entry<'_>>> = HashMap::new();
        let mut others = Vec::new();
        for entry in entries {
            match named.and_then(|named| equal_to(entry.matching, named)) {
                Some(values) => values.iter().for_each(|value| by_value.entry(value).or_default().push(entry)),
                None => others.push(entry),
            }
        }
        for same in by_value.into_values() {
            pairs(&same, report);
            others.iter().for_each(|other| _ = same.iter().any(|entry| pair(*other, *entry, report)));
        }
        pairs(&others, report);
    }
}

/// Compares each entry with those before it, up to the first entry that is not disjoint.
fn pairs<'p>(entries: &[Entry<'p>], report: &mut impl FnMut(Entry<'p>, Entry<'p>)) {
    for (at, second) in entries.iter().enumerate() {
        _ = entries[..at].iter().any(|first| pair(*first, *second, report));
    }
}

/// Reports two entries, and returns true, unless they are disjoint.
fn pair<'p>(first: Entry<'p>, second: Entry<'p>, report: &mut impl FnMut(Entry<'p>, Entry<'p>)) -> bool {
    let (first, second) = if first.route <= second.route { (first, second) } else { (second, first) };
    // Alternatives of a route may overlap: they have the same effect.
    let overlap = first.route != second.route && !are_disjoint(first.matching, second.matching);
    if overlap {
        report(first, second);
    }
    overlap
}

/// Expected values of a match: fields, query parameters, cookies and maps.
fn values(matching: &Match) -> [&[(Arc<str>, Expected)]; 4] {
    let criteria = &matching.criteria;
    [&criteria.headers, &criteria.query, &criteria.cookies, &criteria.maps]
}

/// Kind and name of the part that most matches compare with whole values.
fn most_compared<'p>(entries: &[Entry<'p>]) -> Option<(usize, &'p str)> {
    let mut counts: HashMap<(usize, &str), usize> = HashMap::new();
    for entry in entries {
        for (kind, all) in values(entry.matching).into_iter().enumerate() {
            for (name, expected) in all {
                *counts.entry((kind, name)).or_default() += usize::from(!expected.equal.is_empty());
            }
        }
    }
    counts.into_iter().max_by_key(|(named, count)| (*count, std::cmp::Reverse(*named))).map(|(named, _)| named)
}

/// Values of which that must have any.
fn equal_to<'p>(matching: &'p Match, (kind, name): (usize, &str)) -> Option<&'p [Arc<str>]> {
    let (_, expected) = values(matching)[kind].iter().find(|(other, _)| **other == *name)?;
    (!expected.equal.is_empty()).then_some(&expected.equal[..])
}

fn report(first: &Placed, second: &Placed, is_same: bool, findings: &mut Findings) {
    let (one, other) = (&first.route.name, &second.route.name);
    let (code, message, help) = if is_same {
        let message = format!("routes \"{one}\" and \"{other}\" match the same requests");
        (Code::SameMatch, message, "make one of them more specific, remove it, or set \"order\": the lower number wins")
    } else {
        let message =
            format!("routes \"{one}\" and \"{other}\" both match some requests, and neither is more specific");
        let help = "add a key to one of them, or \"not\" with what the other one expects; or set \"order\": the lower number wins";
        (Code::Overlap, message, help)
    };
    findings.add(code, second.span, message).see("the first one is here", first.span).help(help);
}
