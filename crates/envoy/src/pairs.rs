//! Relations of two matches of a plan: nested, apart, or with requests in common. See [`both`].

use crate::values::{Named, add, are_disjoint, exclude, fits, implies};
use evenkeel_config::plan::{Cidr, Criteria, Match, PathPattern};
use std::borrow::Cow;

/// True if `outer` matches every path that `inner` matches. Two patterns are nested, or have no path in common.
pub fn covers(outer: &PathPattern, inner: &PathPattern) -> bool {
    use PathPattern::{Any, Pattern, Prefix, StartsWith};
    let below = |text: &str, path: &str| text.strip_prefix(path).is_some_and(|rest| rest.starts_with('/'));
    match (outer, inner) {
        (Any, _) => true,
        (_, Any) => false,
        (StartsWith(start), Pattern(text) | Prefix(text)) => text.starts_with(&*braced(start)),
        (StartsWith(start), StartsWith(text)) => text.starts_with(&**start),
        (Prefix(path), Pattern(text) | Prefix(text)) => text == path || below(text, path),
        (Prefix(path), StartsWith(text)) => below(&braced(text), path),
        (Pattern(path), Pattern(text)) => path == text,
        (Pattern(_), Prefix(_) | StartsWith(_)) => false,
    }
}

/// True if `outer` has no condition that `inner` does not have.
fn includes(outer: &Criteria, inner: &Criteria) -> bool {
    let all = |outer: &Named, inner: &Named| {
        outer
            .iter()
            .all(|(name, expected)| inner.iter().any(|(other, narrower)| other == name && implies(narrower, expected)))
    };
    let methods = outer.methods.is_empty()
        || !inner.methods.is_empty() && inner.methods.iter().all(|method| outer.methods.contains(method));
    let clients = outer.clients.is_empty()
        || !inner.clients.is_empty()
            && inner.clients.iter().all(|one| outer.clients.iter().any(|other| other.contains_network(one)));
    methods
        && clients
        && (outer.regex.is_none() || outer.regex == inner.regex)
        && (outer.search.is_none() || outer.search == inner.search)
        && (outer.scheme.is_none() || outer.scheme == inner.scheme)
        && all(&outer.headers, &inner.headers)
        && all(&outer.query, &inner.query)
        && all(&outer.cookies, &inner.cookies)
}

/// True if each request of `inner` is known to fit `outer` too, whatever their hosts.
pub fn takes_all(outer: &Match, inner: &Match) -> bool {
    let negated = outer.not == inner.not || outer.not.is_empty();
    covers(&outer.path, &inner.path) && includes(&outer.criteria, &inner.criteria) && negated
}

/// True if no request is known to fit both.
pub fn are_apart(one: &Match, other: &Match) -> bool {
    let (a, b) = (&one.criteria, &other.criteria);
    let methods = !a.methods.is_empty() && !b.methods.is_empty() && a.methods.iter().all(|m| !b.methods.contains(m));
    let differ = |ours: &Named, theirs: &Named| {
        ours.iter().any(|(name, expected)| {
            theirs.iter().any(|(other, theirs)| other == name && are_disjoint(expected, theirs))
        })
    };
    let denied = |criteria: &Criteria, not: &Criteria| !not.is_empty() && negates(not, criteria);
    let misses = |ours: &PathPattern, theirs: &Match| {
        whole(ours).is_some_and(|text| {
            theirs.criteria.of_path().any(|(regex, extent)| !fits(regex, extent, &text))
                || theirs.not.of_path().any(|(regex, extent)| fits(regex, extent, &text))
        })
    };
    !covers(&one.path, &other.path) && !covers(&other.path, &one.path)
        || begin_apart(one, other)
        || misses(&one.path, other)
        || misses(&other.path, one)
        || methods
        || a.scheme.is_some() && b.scheme.is_some() && a.scheme != b.scheme
        || !a.clients.is_empty() && !b.clients.is_empty() && common(&a.clients, &b.clients).is_empty()
        || differ(&a.headers, &b.headers)
        || differ(&a.query, &b.query)
        || differ(&a.cookies, &b.cookies)
        || denied(a, &other.not)
        || denied(b, &one.not)
}

/// The only path of a pattern; `None` if it has several. Patterns of Envoy have no parameters.
pub fn whole(path: &PathPattern) -> Option<Cow<'_, str>> {
    match path {
        PathPattern::Pattern(text) if text.contains(['{', '}']) => {
            Some(text.replace("{{", "{").replace("}}", "}").into())
        }
        PathPattern::Pattern(text) => Some(text.into()),
        _ => None,
    }
}

/// Text with the braces doubled that would be parameters.
pub fn braced(text: &str) -> Cow<'_, str> {
    match text.contains(['{', '}']) {
        true => text.replace('{', "{{").replace('}', "}}").into(),
        false => text.into(),
    }
}

/// True if the paths of two matches begin differently, as far as their regular expressions show.
fn begin_apart(one: &Match, other: &Match) -> bool {
    if one.criteria.regex.is_none() && other.criteria.regex.is_none() {
        return false;
    }
    fn starts(matching: &Match) -> [&str; 2] {
        let path = match &matching.path {
            PathPattern::StartsWith(text) => &**text,
            PathPattern::Prefix(text) => &**text,
            PathPattern::Pattern(text) => &**text,
            PathPattern::Any => "",
        };
        // Braces are doubled in some of them.
        let path = path.split(['{', '}']).next().unwrap_or_default();
        [path, matching.criteria.regex.as_deref().map_or("", literal_start)]
    }
    let (ours, theirs) = (starts(one), starts(other));
    ours.iter().any(|a| theirs.iter().any(|b| !a.starts_with(b) && !b.starts_with(a)))
}

/// Returns a text with which every match of a regular expression begins. May be shorter than the longest such text.
fn literal_start(regex: &str) -> &str {
    let regex = regex.strip_prefix('^').unwrap_or(regex);
    if regex.contains('|') {
        return "";
    }
    let (start, rest) = regex.split_at(
        regex.find(['\\', '.', '(', ')', '[', ']', '^', '$', '*', '+', '?', '{', '}']).unwrap_or(regex.len()),
    );
    // A quantifier makes the character before it optional.
    match rest.starts_with(['*', '?', '{']) {
        true => start.char_indices().last().map_or("", |(at, _)| &start[..at]),
        false => start,
    }
}

/// True if `not` excludes every request that fits `criteria`.
fn negates(not: &Criteria, criteria: &Criteria) -> bool {
    let any = |not: &Named, of: &Named| {
        not.iter()
            .any(|(name, excluded)| of.iter().any(|(other, expected)| other == name && implies(expected, excluded)))
    };
    let clients = !criteria.clients.is_empty()
        && criteria.clients.iter().all(|one| not.clients.iter().any(|other| other.contains_network(one)));
    any(&not.headers, &criteria.headers)
        || any(&not.query, &criteria.query)
        || any(&not.cookies, &criteria.cookies)
        || not.regex.is_some() && not.regex == criteria.regex
        || clients
        || !criteria.methods.is_empty() && criteria.methods.iter().all(|method| not.methods.contains(method))
}

/// Networks that lie in both lists. Two networks are nested, or have no address in common.
fn common(ours: &[Cidr], theirs: &[Cidr]) -> Vec<Cidr> {
    let within = |all: &[Cidr], of: &[Cidr]| -> Vec<Cidr> {
        all.iter().filter(|one| of.iter().any(|other| other.contains_network(one))).copied().collect()
    };
    let mut all = within(ours, theirs);
    let more: Vec<_> = within(theirs, ours).into_iter().filter(|one| !all.contains(one)).collect();
    all.extend(more);
    all
}

/// Returns the match of requests that fit both.
///
/// # Errors
/// Conditions of the two matches that a single match cannot hold.
pub fn both(one: &Match, other: &Match) -> Result<Match, String> {
    let inner = if covers(&one.path, &other.path) { &other.path } else { &one.path };
    let mut joined = Match { hosts: one.hosts.clone(), path: inner.clone(), ..one.clone() };
    require(&mut joined.criteria, &other.criteria)?;
    forbid(&mut joined.not, &other.not)?;
    // Expressions add nothing to a whole path. Those that it does not meet set the two apart.
    if whole(&joined.path).is_some() {
        for side in [&mut joined.criteria, &mut joined.not] {
            (side.regex, side.search) = (None, None);
        }
    }
    Ok(joined)
}

/// Adds criteria that have to hold, too.
fn require(into: &mut Criteria, from: &Criteria) -> Result<(), String> {
    match (&into.regex, &from.regex) {
        (Some(ours), Some(theirs)) if ours != theirs => {
            // The whole path as a part of it.
            let whole = format!("^(?:{theirs})$");
            if into.search.as_deref().is_some_and(|search| search != whole) {
                return Err("both have a regular expression".to_owned());
            }
            into.search = Some(whole.into());
        }
        (ours, theirs) => into.regex = ours.clone().or(theirs.clone()),
    }
    match (&into.search, &from.search) {
        (Some(ours), Some(theirs)) if ours != theirs => return Err("both have a regular expression".to_owned()),
        (ours, theirs) => into.search = ours.clone().or(theirs.clone()),
    }
    into.scheme = into.scheme.or(from.scheme);
    if into.methods.is_empty() {
        into.methods.clone_from(&from.methods);
    } else if !from.methods.is_empty() {
        into.methods.retain(|method| from.methods.contains(method));
    }
    if into.clients.is_empty() {
        into.clients.clone_from(&from.clients);
    } else if !from.clients.is_empty() {
        into.clients = common(&into.clients, &from.clients);
    }
    let pairs =
        [(&mut into.headers, &from.headers), (&mut into.query, &from.query), (&mut into.cookies, &from.cookies)];
    for (ours, theirs) in pairs {
        for (name, expected) in theirs {
            add(ours, name, expected.clone())?;
        }
    }
    Ok(())
}

/// Adds criteria that must not hold either.
fn forbid(into: &mut Criteria, from: &Criteria) -> Result<(), String> {
    for (ours, theirs) in [(&mut into.regex, &from.regex), (&mut into.search, &from.search)] {
        *ours = match (ours.take(), theirs) {
            (Some(ours), Some(theirs)) if ours != *theirs => Some(format!("(?:{ours})|(?:{theirs})").into()),
            (ours, theirs) => ours.or(theirs.clone()),
        };
    }
    if into.scheme.is_some() && from.scheme.is_some() && into.scheme != from.scheme {
        return Err("both exclude a scheme".to_owned());
    }
    into.scheme = into.scheme.or(from.scheme);
    let methods: Vec<_> = from.methods.iter().filter(|method| !into.methods.contains(method)).cloned().collect();
    into.methods.extend(methods);
    let clients: Vec<_> = from.clients.iter().filter(|one| !into.clients.contains(one)).copied().collect();
    into.clients.extend(clients);
    let pairs =
        [(&mut into.headers, &from.headers), (&mut into.query, &from.query), (&mut into.cookies, &from.cookies)];
    for (ours, theirs) in pairs {
        for (name, expected) in theirs {
            exclude(ours, name, expected.clone())?;
        }
    }
    Ok(())
}
