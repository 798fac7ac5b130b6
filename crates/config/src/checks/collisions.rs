//! Detection of routes that match the same requests equally well.

use crate::code::Code;
use crate::diagnostic::Findings;
use crate::form::{HostPattern, path_shape};
use crate::sections::listener::{Listener, Mode};
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

/// Inserts every path of each listener and host into one router, as the proxy will. A route that names the
/// listener is more specific than one that does not, so the same path may occur once with and once without.
pub(super) fn check_collisions(placed: &[Placed], listeners: &[Arc<Listener>], findings: &mut Findings) {
    let mut by_host: BTreeMap<Option<&HostPattern>, BTreeSet<usize>> = BTreeMap::new();
    for (index, p) in placed.iter().enumerate().filter(|(_, p)| p.whole) {
        let any = p.route.hosts.is_empty().then_some(None);
        for host in p.route.hosts.iter().map(Some).chain(any) {
            by_host.entry(host).or_default().insert(index);
        }
    }
    let mut told = BTreeSet::new();
    // TCP routes have no path; they are checked in `tcp`.
    let http: BTreeSet<&str> = listeners.iter().filter(|l| l.mode == Mode::Http).map(|l| &*l.name).collect();
    for indices in by_host.values() {
        let mut naming: BTreeMap<&str, BTreeSet<usize>> = BTreeMap::new();
        for &index in indices {
            for listener in placed[index].route.listeners.iter().filter(|l| http.contains(&***l)) {
                naming.entry(listener).or_default().insert(index);
            }
        }
        // Paths of all listeners are inserted once; those of one listener are added and removed again.
        let mut paths = Paths::default();
        let is_any = |index: &&usize| placed[**index].route.listeners.is_empty();
        for &index in indices.iter().filter(is_any) {
            paths.add(placed, index, &mut told, findings);
        }
        for naming in naming.values() {
            let mut own = Own::default();
            for &index in naming {
                paths.add_own(placed, index, &mut own, &mut told, findings);
            }
            paths.remove(own);
        }
    }
}

/// The paths of one host in a router.
#[derive(Default)]
struct Paths {
    router: matchit::Router<usize>,
    /// Route index by path shape: the path without parameter names.
    shapes: HashMap<String, usize>,
}

/// Paths of one listener in addition to the common ones.
#[derive(Default)]
struct Own {
    shapes: HashMap<String, usize>,
    inserted: Vec<String>,
}

/// Pairs already reported for another listener or host.
type Told = BTreeSet<(Option<usize>, usize)>;

impl Paths {
    /// Adds a route of all listeners.
    fn add(&mut self, placed: &[Placed], index: usize, told: &mut Told, findings: &mut Findings) {
        let pattern = placed[index].route.path.to_string();
        let shape = path_shape(&pattern);
        if let Some(&first) = self.shapes.get(&shape) {
            if told.insert((Some(first), index)) {
                same_match(&placed[first], &placed[index], findings);
            }
            return;
        }
        if let Err(matchit::InsertError::Conflict { with }) = self.router.insert(pattern, index) {
            self.conflict(placed, index, &with, &Own::default(), told, findings);
            return;
        }
        self.shapes.insert(shape, index);
    }

    /// Adds a route of one listener.
    fn add_own(&mut self, placed: &[Placed], index: usize, own: &mut Own, told: &mut Told, findings: &mut Findings) {
        let pattern = placed[index].route.path.to_string();
        let shape = path_shape(&pattern);
        if let Some(&first) = own.shapes.get(&shape) {
            if told.insert((Some(first), index)) {
                same_match(&placed[first], &placed[index], findings);
            }
            return;
        }
        // It takes precedence over a common route of that shape, which already occupies the router.
        if !self.shapes.contains_key(&shape) {
            if let Err(matchit::InsertError::Conflict { with }) = self.router.insert(pattern.as_str(), index) {
                self.conflict(placed, index, &with, own, told, findings);
                return;
            }
            own.inserted.push(pattern);
        }
        own.shapes.insert(shape, index);
    }

    fn conflict(
        &self,
        placed: &[Placed],
        index: usize,
        with: &str,
        own: &Own,
        told: &mut Told,
        findings: &mut Findings,
    ) {
        let shape = path_shape(with);
        let first = own.shapes.get(&shape).or_else(|| self.shapes.get(&shape)).copied();
        if told.insert((first, index)) {
            path_conflict(first.map(|f| &placed[f]), &placed[index], with, findings);
        }
    }

    fn remove(&mut self, own: Own) {
        for pattern in own.inserted {
            self.router.remove(pattern);
        }
    }
}

fn same_match(first: &Placed, second: &Placed, findings: &mut Findings) {
    let message = format!("routes \"{}\" and \"{}\" match the same requests", first.route.name, second.route.name);
    findings
        .add(Code::SameMatch, second.span, message)
        .see("the first one is here", first.span)
        .help("their order does not matter: make one of them more specific, or remove it");
}

fn path_conflict(first: Option<&Placed>, second: &Placed, with: &str, findings: &mut Findings) {
    let message =
        format!("neither of the paths \"{}\" and \"{with}\" is more specific than the other", second.route.path);
    let finding = findings.add(Code::PathConflict, second.span, message);
    finding.help("one position in the path can hold either a parameter or a rest, beside fixed text");
    if let Some(first) = first {
        finding.see("the other one is here", first.span);
    }
}
