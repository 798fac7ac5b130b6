//! Locations of a server as a tree, and the groups of paths for which NGINX tries the same locations.
//!
//! NGINX takes an exact location, or the longest prefix and then, unless that has `^~`, the first expression that matches:
//! those within the prefix first. Each group has the paths with the same longest prefix, and its steps are tried in order.
//! evenkeel takes the longest prefix by itself, so groups need no order among themselves.

use super::lexer::Directive;
use crate::model::Test;
use std::collections::BTreeMap;

/// A location with the levels around it, outermost first.
#[derive(Clone, Debug)]
pub(super) struct Location<'d> {
    pub directive: &'d Directive,
    pub levels: Vec<&'d [Directive]>,
    pub modifier: &'d str,
    pub pattern: &'d str,
    pub inner: Level<'d>,
}

/// Locations of a level, by their kinds.
#[derive(Clone, Debug, Default)]
pub(super) struct Level<'d> {
    pub exact: Vec<Location<'d>>,
    /// With and without `^~`, longest first.
    pub prefixes: Vec<Location<'d>>,
    /// In the order of the file.
    pub regexes: Vec<Location<'d>>,
}

/// All locations of a server.
#[derive(Clone, Debug, Default)]
pub(super) struct Tree<'d> {
    pub top: Level<'d>,
    pub named: BTreeMap<&'d str, Location<'d>>,
}

/// Paths for which the same locations are tried.
#[derive(Debug)]
pub(super) struct Group<'t, 'd> {
    /// Test of the path from its left; `None` for paths that no other group has.
    pub start: Option<Test>,
    pub steps: Vec<Step<'t, 'd>>,
}

/// A location that is tried for the paths of a group.
#[derive(Clone, Debug)]
pub(super) enum Step<'t, 'd> {
    /// The location of an expression.
    Regex(&'t Location<'d>),
    /// A location, but for paths that match these expressions.
    Prefix(&'t Location<'d>, Vec<&'t Location<'d>>),
    /// A redirect to the path of the location, which ends with a slash.
    ToSlash(&'t Location<'d>),
}

impl<'d> Tree<'d> {
    /// The locations below some levels.
    pub fn read(levels: &[&'d [Directive]]) -> Tree<'d> {
        let mut tree = Tree::default();
        tree.top = level(levels, &mut tree.named);
        tree
    }

    /// The location whose pattern is a path, at any level.
    pub fn at(&self, path: &str) -> Option<&Location<'d>> {
        fn find<'t, 'd>(level: &'t Level<'d>, path: &str) -> Option<&'t Location<'d>> {
            let own = level.exact.iter().chain(&level.prefixes).find(|location| location.pattern == path);
            own.or_else(|| level.prefixes.iter().find_map(|location| find(&location.inner, path)))
        }
        find(&self.top, path)
    }

    /// All groups of paths, each once.
    pub fn groups(&self) -> Vec<Group<'_, 'd>> {
        let mut groups = Vec::new();
        visit(&self.top, &Outer::default(), &mut groups);
        if !groups.iter().any(|group| group.start.is_none()) {
            groups.push(Group { start: None, steps: self.top.regexes.iter().map(Step::Regex).collect() });
        }
        groups
    }
}

fn level<'d>(levels: &[&'d [Directive]], named: &mut BTreeMap<&'d str, Location<'d>>) -> Level<'d> {
    let mut all = Level::default();
    for directive in levels.last().into_iter().flat_map(|level| level.iter()).filter(|d| d.name() == "location") {
        let (modifier, pattern) = split(directive);
        let own: Vec<&'d [Directive]> = levels.iter().copied().chain([directive.inner()]).collect();
        let inner = level(&own, named);
        let location = Location { directive, levels: own, modifier, pattern, inner };
        match (modifier, pattern.starts_with('@')) {
            (_, true) => drop(named.insert(pattern, location)),
            ("=", _) => all.exact.push(location),
            ("~" | "~*", _) => all.regexes.push(location),
            _ => all.prefixes.push(location),
        }
    }
    all.prefixes.sort_by_key(|location| std::cmp::Reverse(location.pattern.len()));
    all
}

/// Modifier and pattern of a location. They may be a single word: `=/x`.
fn split(directive: &Directive) -> (&str, &str) {
    match directive.word(1) {
        modifier @ ("=" | "~" | "~*" | "^~") => (modifier, directive.word(2)),
        word => {
            let joined =
                ["^~", "~*", "~", "="].into_iter().find_map(|modifier| Some((modifier, word.strip_prefix(modifier)?)));
            joined.filter(|_| directive.words.len() == 2).unwrap_or(("", word))
        }
    }
}

/// Locations around a level.
#[derive(Clone, Default)]
struct Outer<'t, 'd> {
    base: Option<&'t Location<'d>>,
    /// Prefixes of outer levels that win over those in the level.
    rivals: Vec<&'d str>,
    /// Expressions of outer levels that are tried behind the expressions of the level.
    regexes: Vec<&'t Location<'d>>,
}

impl Outer<'_, '_> {
    /// True if NGINX comes to a location with this pattern.
    fn reaches(&self, pattern: &str) -> bool {
        self.base.is_none_or(|base| pattern.starts_with(base.pattern))
            && !self.rivals.iter().any(|rival| pattern.starts_with(rival))
    }
}

fn visit<'t, 'd>(level: &'t Level<'d>, outer: &Outer<'t, 'd>, groups: &mut Vec<Group<'t, 'd>>) {
    let add = |groups: &mut Vec<Group<'t, 'd>>, start: Option<Test>, steps: Vec<Step<'t, 'd>>| {
        if !groups.iter().any(|group| group.start == start) {
            groups.push(Group { start, steps });
        }
    };
    for location in level.exact.iter().filter(|location| outer.reaches(location.pattern)) {
        let start = Test::OneOf(vec![location.pattern.to_string()]);
        add(groups, Some(start), vec![Step::Prefix(location, Vec::new())]);
    }
    for location in &level.prefixes {
        let Some(bare) = location.pattern.strip_suffix('/').filter(|bare| !bare.is_empty()) else { continue };
        let is_taken = level.exact.iter().chain(&level.prefixes).any(|other| other.pattern == bare);
        if passes(location) && !is_taken && outer.reaches(bare) {
            add(groups, Some(Test::OneOf(vec![bare.to_string()])), vec![Step::ToSlash(location)]);
        }
    }
    for location in level.prefixes.iter().filter(|location| outer.reaches(location.pattern)) {
        let is_last = location.modifier == "^~";
        let own = level.regexes.iter().filter(|_| !is_last);
        let behind: Vec<&Location<'d>> = own.chain(outer.regexes.iter().copied()).collect();
        let longer = |other: &&'t Location<'d>| {
            other.pattern.len() > location.pattern.len() && other.pattern.starts_with(location.pattern)
        };
        let rivals = level.prefixes.iter().filter(longer).map(|other| other.pattern);
        let inner = Outer {
            base: Some(location),
            rivals: outer.rivals.iter().copied().chain(rivals).collect(),
            regexes: behind.clone(),
        };
        visit(&location.inner, &inner, groups);
        let may = |regex: &&&'t Location<'d>| may_match(regex, location.pattern);
        let steps = match is_simple(location, level, outer) {
            true => vec![Step::Prefix(location, behind.iter().filter(may).copied().collect())],
            false => {
                let all = location.inner.regexes.iter().chain(behind.iter().copied());
                all.filter(|regex| may_match(regex, location.pattern))
                    .map(Step::Regex)
                    .chain([Step::Prefix(location, Vec::new())])
                    .collect()
            }
        };
        let start = (location.pattern != "/").then(|| Test::Begins(location.pattern.to_string()));
        add(groups, start, steps);
    }
}

/// True if paths that match an expression of the level may be excluded from a prefix, as no shorter prefix takes them.
fn is_simple(location: &Location<'_>, level: &Level<'_>, outer: &Outer<'_, '_>) -> bool {
    let is_plain = |other: &&Location<'_>| {
        other.modifier != "^~"
            && other.inner.exact.is_empty()
            && other.inner.prefixes.is_empty()
            && other.inner.regexes.is_empty()
    };
    location.pattern != "/"
        && outer.base.is_none()
        && level
            .prefixes
            .iter()
            .filter(|other| location.pattern.starts_with(other.pattern))
            .all(|other| is_plain(&other))
}

/// False if no path below a prefix matches the expression of a location, as far as its fixed beginning shows.
pub(super) fn may_match(regex: &Location<'_>, prefix: &str) -> bool {
    regex.modifier == "~*" || may_match_text(regex.pattern, prefix)
}

/// False if no path that begins with a text matches an expression, as far as its fixed beginning shows.
pub(super) fn may_match_text(regex: &str, start: &str) -> bool {
    let Some(rest) = regex.strip_prefix('^') else { return true };
    if rest.contains('|') && !rest.contains('(') {
        return true;
    }
    let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && !"/_-".contains(c)).unwrap_or(rest.len());
    let mut fixed = &rest[..end];
    if rest[end..].starts_with(['?', '*', '{', '|']) {
        fixed = &fixed[..fixed.len().saturating_sub(1)];
    }
    fixed.starts_with(start) || start.starts_with(fixed) && &rest[end..] != "$"
}

impl Group<'_, '_> {
    /// The group with its paths by segment, where a location replaces a prefix with a slash by another prefix. The path
    /// without the slash belongs to another group.
    pub fn by_segment(mut self, tree: &Tree<'_>) -> Self {
        let replaces = |step: &Step<'_, '_>| match step {
            Step::Prefix(location, _) => location.directive.inner().iter().any(|d| {
                let uri = d.word(1).split_once("://").and_then(|(_, rest)| rest.find('/').map(|at| &rest[at..]));
                d.name() == "proxy_pass" && !d.word(1).contains('$') && uri.is_some_and(|uri| uri.ends_with('/'))
            }),
            _ => false,
        };
        if let Some(Test::Begins(text)) = &self.start
            && let Some(bare) = text.strip_suffix('/')
            && self.steps.iter().any(replaces)
            && tree.at(bare).is_none_or(|other| other.modifier == "=")
        {
            self.start = Some(Test::Below(bare.to_string()));
        }
        self
    }
}

/// True if the location itself has a directive that forwards its requests.
pub(super) fn passes(location: &Location<'_>) -> bool {
    location.directive.inner().iter().any(|d| d.name().ends_with("_pass"))
}
