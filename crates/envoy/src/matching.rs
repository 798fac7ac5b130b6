//! `match` of a route as a match of a plan.

use crate::node::Node;
use crate::pairs::{braced, whole};
use crate::values::{add, escaped, exclude, fits, integers, meets, present, regex_condition, text_condition};
use evenkeel_config::plan::{Criteria, Expected, HostPattern, Match, PathPattern, Scheme, compile_regex};
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
            None if query.has("present_match") && !query.flag("present_match") => {
                exclude(&mut matching.not.query, name, present(true))?;
                continue;
            }
            None => present(true),
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
    if fraction(node).is_some_and(|share| share > 0.0 && share < 1.0) {
        return Err("runtime_fraction: a match takes all requests or none".to_owned());
    }
    if let Some(text) = whole(&matching.path) {
        if !matching.criteria.of_path().all(|(regex, extent)| fits(regex, extent, &text)) {
            return Err(format!("the path {text:?} does not meet the other conditions"));
        }
        matching.criteria.search = None;
    }
    Ok(matching)
}

/// True if a `RouteMatch` takes no request.
pub fn is_never(node: &Node<'_>) -> bool {
    fraction(node) == Some(0.0)
}

fn fraction(node: &Node<'_>) -> Option<f64> {
    Some(node.node("runtime_fraction")?.node("default_value").map_or(0.0, share))
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

/// Adds a condition on a field.
///
/// # Errors
/// The condition that no match of a plan can have.
pub fn header_condition(node: &Node<'_>, matching: &mut Match) -> Result<(), String> {
    let name = node.text("name").unwrap_or_default().to_ascii_lowercase();
    let of_name = |why: String| format!("headers {name:?}: {why}");
    let expected = header_value(node).map_err(of_name)?;
    let is_inverted = node.flag("invert_match");
    match &*name {
        ":method" => method(&expected, is_inverted, matching),
        ":scheme" => scheme(&expected, is_inverted, matching),
        ":path" => whole_path(&expected, is_inverted, matching),
        // Every request has a host.
        ":authority" if is_inverted => exclude(&mut matching.not.headers, "host", expected),
        ":authority" => add(&mut matching.criteria.headers, "host", expected),
        pseudo if pseudo.starts_with(':') => Err("it is not a condition of routes".to_owned()),
        name => field(name, expected, is_inverted, node.flag("treat_missing_header_as_empty"), matching),
    }
    .map_err(of_name)
}

/// Adds a condition on a field that requests may have.
fn field(
    name: &str,
    expected: Expected,
    is_inverted: bool,
    missing_is_empty: bool,
    matching: &mut Match,
) -> Result<(), String> {
    let Match { criteria, not, .. } = matching;
    if let Some(is_there) = expected.present {
        // A negated criterion makes a match hardly more specific.
        return match is_there != is_inverted {
            true => add(&mut criteria.headers, name, present(true)),
            false => exclude(&mut not.headers, name, present(true)),
        };
    }
    let fits_empty = missing_is_empty && meets(&expected, "");
    match is_inverted {
        false if fits_empty => Err("it may be absent or have a value".to_owned()),
        false => add(&mut criteria.headers, name, expected),
        true => {
            // Envoy inverts the condition on the value, not the presence.
            if !missing_is_empty || fits_empty {
                add(&mut criteria.headers, name, present(true))?;
            }
            exclude(&mut not.headers, name, expected)
        }
    }
}

fn method(expected: &Expected, is_inverted: bool, matching: &mut Match) -> Result<(), String> {
    let regex = expected.regex.as_deref().unwrap_or_default();
    let mut all = expected.equal.clone();
    if all.is_empty() {
        all = regex.trim_start_matches('(').trim_end_matches(')').split('|').map(Arc::from).collect();
    }
    if all.iter().any(|method| method.is_empty() || !method.bytes().all(|b| b.is_ascii_uppercase())) {
        return Err("a method is compared as a whole".to_owned());
    }
    match is_inverted {
        true => matching.not.methods.extend(all),
        false if matching.criteria.methods.is_empty() => matching.criteria.methods = all,
        // Each condition holds by itself; a list of methods has alternatives.
        false => return Err("it has two conditions".to_owned()),
    }
    Ok(())
}

fn scheme(expected: &Expected, is_inverted: bool, matching: &mut Match) -> Result<(), String> {
    let scheme = match expected.equal.first().map(|scheme| &**scheme) {
        Some("http") => Scheme::Http,
        Some("https") => Scheme::Https,
        _ => return Err("it is compared with http or https".to_owned()),
    };
    let side = if is_inverted { &mut matching.not } else { &mut matching.criteria };
    match side.scheme.replace(scheme) {
        Some(_) => Err("it has two conditions".to_owned()),
        None => Ok(()),
    }
}

/// Adds a condition on the path with its query, of which only the beginning is compared alike.
fn whole_path(expected: &Expected, is_inverted: bool, matching: &mut Match) -> Result<(), String> {
    let start = expected.prefix.as_deref().filter(|start| !start.contains('?'));
    let start = start.ok_or("it is the path with its query, of which a beginning is compared here")?;
    let side = if is_inverted { &mut matching.not } else { &mut matching.criteria };
    match side.search.replace(format!("^{}", escaped(start)).into()) {
        Some(_) => Err("it has two conditions".to_owned()),
        None => Ok(()),
    }
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
    if let Some(range) = node.node("range_match") {
        let [start, end] = ["start", "end"].map(|name| range.number(name).cast_signed());
        return regex_condition(integers(start, end).ok_or("range_match: no number is in the range")?);
    }
    // Without any of them the field has to be there.
    Ok(present(!node.has("present_match") || node.flag("present_match")))
}

/// A domain with a wildcard that no host pattern has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OddDomain {
    /// `a.*`, with the text before the star.
    Start(String),
    /// `*-a.test`, with the text behind the star.
    End(String),
}

impl OddDomain {
    /// Reads a domain; `None` if it is not one of these.
    pub fn of(domain: &str) -> Option<OddDomain> {
        let domain = domain.to_ascii_lowercase();
        let is_text = |text: &str| text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b));
        match (domain.strip_suffix('*'), domain.strip_prefix('*')) {
            (Some(start), _) if !start.is_empty() && is_text(start) => Some(OddDomain::Start(start.to_owned())),
            (_, Some(end)) if !end.is_empty() && is_text(end) => Some(OddDomain::End(end.to_owned())),
            _ => None,
        }
    }

    /// Value of `Host` with one of these domains, whatever its port.
    pub fn expected(all: &[&OddDomain]) -> Expected {
        let each = all.iter().map(|domain| match domain {
            OddDomain::Start(text) => format!("{}[^:]+", escaped(text)),
            OddDomain::End(text) => format!("[^:]+{}", escaped(text)),
        });
        let regex = format!("(?i:{})(?::[0-9]*)?", each.collect::<Vec<_>>().join("|"));
        Expected { regex: Some(regex.into()), ..Expected::default() }
    }
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
