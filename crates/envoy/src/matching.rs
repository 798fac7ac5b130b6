//! `match` of a route as a match of a plan, and how two of them stand to each other.

use crate::node::Node;
use evenkeel_config::plan::{Criteria, Expected, HostPattern, Match, PathPattern, Scheme, compile_regex};
use std::borrow::Cow;
use std::sync::Arc;

/// Content types of gRPC, to which Envoy's `grpc` of a match looks.
const GRPC: &str = r"application/grpc(?:\+.*)?";

/// Returns the match of a `RouteMatch`, without hosts.
///
/// # Errors
/// The condition that no match of a plan can have.
pub fn matching(node: &Node<'_>) -> Result<Match, String> {
    let mut matching = path(node)?;
    for header in node.nodes("headers") {
        header_condition(header, &mut matching)?;
    }
    for query in node.nodes("query_parameters") {
        let name = query.text("name").unwrap_or_default();
        let expected = match query.node("string_match") {
            Some(text) => text_condition(text).map_err(|why| format!("query_parameters {name:?}: {why}"))?,
            None => {
                query.number("present_match");
                present(true)
            }
        };
        add(&mut matching.criteria.query, name, expected)?;
    }
    for cookie in node.nodes("cookies") {
        let name = cookie.text("name").unwrap_or_default();
        let expected = cookie.node("string_match").map_or(Ok(present(true)), text_condition);
        let expected = expected.map_err(|why| format!("cookies {name:?}: {why}"))?;
        let side = if cookie.flag("invert_match") { &mut matching.not } else { &mut matching.criteria };
        add(&mut side.cookies, name, expected)?;
    }
    if node.mark("grpc") {
        let expected = Expected { regex: Some(GRPC.into()), ..Expected::default() };
        add(&mut matching.criteria.headers, "content-type", expected)?;
    }
    if let Some(fraction) = node.node("runtime_fraction") {
        let share = fraction.node("default_value").map_or(0.0, share);
        if share < 1.0 {
            return Err("runtime_fraction: a match takes all requests or none".to_owned());
        }
    }
    Ok(matching)
}

/// Returns the match of the path of a `RouteMatch` without its other conditions; of all paths if it cannot be kept either.
pub fn path_alone(node: &Node<'_>) -> Match {
    path(node).unwrap_or_else(|_| Match::all())
}

/// Share of a `FractionalPercent`, 0 to 1.
pub fn share(fraction: &Node<'_>) -> f64 {
    let of = match fraction.number("denominator") {
        0 => 100.0,
        1 => 10_000.0,
        _ => 1_000_000.0,
    };
    (fraction.number("numerator") as f64 / of).min(1.0)
}

fn path(node: &Node<'_>) -> Result<Match, String> {
    let ignores_case = node.wrapped("case_sensitive") == Some(0);
    let by_regex = |regex: String| {
        compile_regex(&regex).map_err(|why| format!("{regex:?} is not a regular expression: {why}"))?;
        let criteria = Criteria { regex: Some(regex.into()), ..Criteria::default() };
        Ok(Match { criteria, ..Match::all() })
    };
    let of = |path: PathPattern| Match { path, ..Match::all() };
    let case = if ignores_case { "(?i)" } else { "" };
    if let Some(text) = node.text("path") {
        return match is_plain(text)? && !ignores_case {
            true => Ok(of(PathPattern::Pattern(braced(text).into()))),
            false => by_regex(format!("{case}{}", escaped(text))),
        };
    }
    if let Some(text) = node.text("path_separated_prefix") {
        let text = text.trim_end_matches('/');
        return match (is_plain(text)? && !ignores_case, text) {
            (_, "") => Ok(Match::all()),
            (true, text) => Ok(of(PathPattern::Prefix(braced(text).into()))),
            (false, text) => by_regex(format!("{case}{}(?:/.*)?", escaped(text))),
        };
    }
    if let Some(regex) = node.node("safe_regex") {
        return by_regex(format!("{case}{}", regex.text("regex").unwrap_or_default()));
    }
    match node.text("prefix") {
        None => Err("it has no path that can be kept: prefix, path, path_separated_prefix or safe_regex".to_owned()),
        Some("" | "/") => Ok(Match::all()),
        Some(text) if ignores_case => by_regex(format!("(?i){}.*", escaped(text))),
        Some(text) => {
            is_plain(text)?;
            Ok(of(PathPattern::StartsWith(text.to_owned())))
        }
    }
}

/// True if a text can be a path pattern; false if only a regular expression can stand for it.
fn is_plain(text: &str) -> Result<bool, String> {
    if !text.is_empty() && !text.starts_with('/')
        || !text.bytes().all(|b| b.is_ascii_graphic() && b != b'?' && b != b'#')
    {
        return Err(format!("{text:?} is not a path"));
    }
    Ok(!text.contains(['*', '(', ')', '^', '$', '~', '\\']))
}

/// Text with the braces doubled that would be parameters.
pub fn braced(text: &str) -> Cow<'_, str> {
    match text.contains(['{', '}']) {
        true => text.replace('{', "{{").replace('}', "}}").into(),
        false => text.into(),
    }
}

/// Regular expression for a text.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if !c.is_ascii_alphanumeric() && c.is_ascii() {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

fn present(is_there: bool) -> Expected {
    Expected { present: Some(is_there), ..Expected::default() }
}

/// Adds a condition. Each name may have a single condition.
fn add(all: &mut Vec<(Arc<str>, Expected)>, name: &str, expected: Expected) -> Result<(), String> {
    match all.iter().find(|(other, _)| **other == *name) {
        Some((_, other)) if *other == expected => Ok(()),
        Some(_) => Err(format!("{name:?} has two conditions")),
        None => {
            all.push((name.into(), expected));
            Ok(())
        }
    }
}

fn header_condition(node: &Node<'_>, matching: &mut Match) -> Result<(), String> {
    let name = node.text("name").unwrap_or_default().to_ascii_lowercase();
    let of_name = |why: String| format!("headers {name:?}: {why}");
    let expected = header_value(node).map_err(of_name)?;
    let is_inverted = node.flag("invert_match");
    let side = if is_inverted { &mut matching.not } else { &mut matching.criteria };
    // Each condition holds by itself; a list of methods has alternatives.
    if name == ":method" && !is_inverted && !side.methods.is_empty() {
        return Err(of_name("it has two conditions".to_owned()));
    }
    match (&*name, &expected.equal[..]) {
        (":method", [method]) => side.methods.push(method.clone()),
        (":method", _) => {
            let regex = expected.regex.as_deref().unwrap_or_default();
            let methods = regex.trim_start_matches('(').trim_end_matches(')').split('|');
            if !regex
                .split('|')
                .all(|m| !m.is_empty() && m.bytes().all(|b| b.is_ascii_uppercase() || b"()".contains(&b)))
            {
                return Err(of_name("a method is compared as a whole".to_owned()));
            }
            side.methods.extend(methods.map(Arc::from));
        }
        (":scheme", [scheme]) => {
            side.scheme = Some(match &**scheme {
                "http" => Scheme::Http,
                "https" => Scheme::Https,
                other => return Err(of_name(format!("{other:?} is not a scheme"))),
            });
        }
        (":authority", _) => add(&mut side.headers, "host", expected)?,
        (pseudo, _) if pseudo.starts_with(':') => return Err(of_name("it is not a condition of routes".to_owned())),
        _ => add(&mut side.headers, &name, expected)?,
    }
    Ok(())
}

fn header_value(node: &Node<'_>) -> Result<Expected, String> {
    if let Some(text) = node.node("string_match") {
        return text_condition(text);
    }
    let unset = Expected::default();
    let text = |name: &'static str| node.text(name).map(Arc::<str>::from);
    if let Some(exact) = text("exact_match") {
        return Ok(Expected { equal: vec![exact], ..unset });
    }
    if let Some(regex) = node.node("safe_regex_match") {
        return regex_condition(regex.text("regex").unwrap_or_default().to_owned());
    }
    for (name, set) in [("prefix_match", 0), ("suffix_match", 1), ("contains_match", 2)] {
        let Some(text) = text(name) else { continue };
        let mut parts = [None, None, None];
        parts[set] = Some(text);
        let [prefix, suffix, contains] = parts;
        return Ok(Expected { prefix, suffix, contains, ..unset });
    }
    match node.has("range_match") {
        true => Err("range_match: a range of numbers is not a condition of routes".to_owned()),
        // Without any of them the field has to be there.
        false => Ok(present(!node.has("present_match") || node.flag("present_match"))),
    }
}

fn text_condition(node: &Node<'_>) -> Result<Expected, String> {
    let ignores_case = node.flag("ignore_case");
    let unset = Expected::default();
    if let Some(regex) = node.node("safe_regex") {
        return regex_condition(regex.text("regex").unwrap_or_default().to_owned());
    }
    let texts = ["exact", "prefix", "suffix", "contains"].map(|name| node.text(name));
    if ignores_case {
        let forms = [("", ""), ("", ".*"), (".*", ""), (".*", ".*")];
        let found = texts.iter().zip(forms).find_map(|(text, form)| text.map(|text| (text, form)));
        let (text, (before, behind)) = found.ok_or("it has no condition that can be kept")?;
        return regex_condition(format!("(?is){before}{}{behind}", escaped(text)));
    }
    let [exact, prefix, suffix, contains] = texts.map(|text| text.map(Arc::<str>::from));
    match (exact, prefix, suffix, contains) {
        (None, None, None, None) => Err("it has no condition that can be kept".to_owned()),
        (Some(exact), ..) => Ok(Expected { equal: vec![exact], ..unset }),
        (None, prefix, suffix, contains) => Ok(Expected { prefix, suffix, contains, ..unset }),
    }
}

fn regex_condition(regex: String) -> Result<Expected, String> {
    compile_regex(&regex).map_err(|why| format!("{regex:?} is not a regular expression: {why}"))?;
    Ok(Expected { regex: Some(regex.into()), ..Expected::default() })
}

/// Returns the host pattern of a domain of a virtual host; `None` for any host.
///
/// # Errors
/// The domain has another wildcard than `*` and `*.x`, or is not a host.
pub fn host(domain: &str) -> Result<Option<HostPattern>, String> {
    let domain = domain.to_ascii_lowercase();
    if domain == "*" {
        return Ok(None);
    }
    // Routes match a host on every port.
    let bare = match domain.rsplit_once(':') {
        Some((host, port)) if port == "*" || port.parse::<u16>().is_ok() && !host.ends_with(':') => host,
        _ => &domain,
    };
    let is_name =
        |name: &str| !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.[]:".contains(&b));
    match bare.strip_prefix("*.") {
        Some(suffix) if is_name(suffix) => Ok(Some(HostPattern::Wildcard(format!(".{suffix}")))),
        None if is_name(bare) => Ok(Some(HostPattern::Exact(bare.to_owned()))),
        _ => Err(format!("domains {domain:?}: it is neither a host, nor \"*.example.com\", nor \"*\"")),
    }
}

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
    let all =
        |outer: &[(Arc<str>, Expected)], inner: &[(Arc<str>, Expected)]| outer.iter().all(|one| inner.contains(one));
    let methods = outer.methods.is_empty()
        || !inner.methods.is_empty() && inner.methods.iter().all(|method| outer.methods.contains(method));
    methods
        && (outer.regex.is_none() || outer.regex == inner.regex)
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
    let differ = |ours: &[(Arc<str>, Expected)], theirs: &[(Arc<str>, Expected)]| {
        ours.iter().any(|(name, expected)| {
            theirs.iter().filter(|(other, _)| other == name).any(|(_, other)| {
                let absent = (expected.present == Some(false)) != (other.present == Some(false));
                let equal = !expected.equal.is_empty() && !other.equal.is_empty();
                absent || equal && expected.equal.iter().all(|value| !other.equal.contains(value))
            })
        })
    };
    let denied = |criteria: &Criteria, not: &Criteria| !not.is_empty() && negates(not, criteria);
    !covers(&one.path, &other.path) && !covers(&other.path, &one.path)
        || begin_apart(one, other)
        || methods
        || a.scheme.is_some() && b.scheme.is_some() && a.scheme != b.scheme
        || differ(&a.headers, &b.headers)
        || differ(&a.query, &b.query)
        || differ(&a.cookies, &b.cookies)
        || denied(a, &other.not)
        || denied(b, &one.not)
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
    let any = |not: &[(Arc<str>, Expected)], of: &[(Arc<str>, Expected)]| not.iter().any(|one| of.contains(one));
    any(&not.headers, &criteria.headers)
        || any(&not.query, &criteria.query)
        || any(&not.cookies, &criteria.cookies)
        || !criteria.methods.is_empty() && criteria.methods.iter().all(|method| not.methods.contains(method))
}

/// Returns the match of requests that fit both.
///
/// # Errors
/// Conditions of the two matches that a single match cannot hold.
pub fn both(one: &Match, other: &Match) -> Result<Match, String> {
    let inner = if covers(&one.path, &other.path) { &other.path } else { &one.path };
    let mut joined = Match { hosts: one.hosts.clone(), path: inner.clone(), ..one.clone() };
    for (into, from) in [(&mut joined.criteria, &other.criteria), (&mut joined.not, &other.not)] {
        match (&into.regex, &from.regex) {
            (Some(ours), Some(theirs)) if ours != theirs => return Err("both have a regular expression".to_owned()),
            (ours, theirs) => into.regex = ours.clone().or(theirs.clone()),
        }
        into.scheme = into.scheme.or(from.scheme);
        for (name, expected) in &from.headers {
            add(&mut into.headers, name, expected.clone())?;
        }
        for (name, expected) in &from.query {
            add(&mut into.query, name, expected.clone())?;
        }
        for (name, expected) in &from.cookies {
            add(&mut into.cookies, name, expected.clone())?;
        }
    }
    let (ours, theirs) = (&one.criteria.methods, &other.criteria.methods);
    joined.criteria.methods = match (ours.is_empty(), theirs.is_empty()) {
        (true, _) => theirs.clone(),
        (_, true) => ours.clone(),
        _ => ours.iter().filter(|method| theirs.contains(method)).cloned().collect(),
    };
    // Excluded methods: the methods that either match excludes.
    let excluded = other.not.methods.iter().filter(|method| !joined.not.methods.contains(method)).cloned();
    let excluded: Vec<_> = excluded.collect();
    joined.not.methods.extend(excluded);
    Ok(joined)
}
