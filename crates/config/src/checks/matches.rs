//! Warnings about matches that probably take something other than was meant, by the syntax of other proxies.

use super::collisions::Placed;
use crate::code::Code;
use crate::diagnostic::Findings;
use crate::form::{HostPattern, PathPattern};
use crate::sections::listener::{Listener, Mode};
use crate::sections::matching::Match;
use crate::sections::route::Route;
use crate::source::Span;
use crate::table::Section;
use crate::tree::quoted;
use std::sync::Arc;

/// Warns of each suspicious match. `all` holds the routes of `sections`, followed by those implied by `pool`
/// of listeners.
pub(super) fn check(sections: &[&Section], all: &[Placed], listeners: &[Arc<Listener>], findings: &mut Findings) {
    let mut paths: Vec<&str> = all.iter().filter_map(|p| literal(&p.route.matching.path)).collect();
    paths.sort_unstable();
    for (section, placed) in sections.iter().zip(all).filter(|(_, placed)| placed.whole) {
        let matches = section.section("match");
        match &placed.route.matching.path {
            PathPattern::Any => {}
            PathPattern::Pattern(path) => {
                let span = matches.span_of("path");
                check_pattern(path, span, findings);
                check_end(path, span, &paths, findings);
                check_root(&placed.route, span, all, findings);
            }
            PathPattern::Prefix(path) => check_pattern(path, matches.span_of("prefix"), findings),
            PathPattern::StartsWith(_) => {}
        }
        for (host, span) in placed.route.matching.hosts.iter().zip(matches.formed_list("host")) {
            check_host(host, span.1, findings);
        }
        check_rest(placed, listeners, findings);
    }
}

/// Text of a path pattern or prefix; `None` for any path.
fn literal(path: &PathPattern) -> Option<&str> {
    match path {
        PathPattern::Any => None,
        PathPattern::Pattern(path) => Some(path),
        PathPattern::Prefix(path) | PathPattern::StartsWith(path) => Some(path),
    }
}

/// Warns of a pattern with syntax of other proxies.
fn check_pattern(path: &str, span: Span, findings: &mut Findings) {
    let mut odd = |message: String, help: String| {
        findings.add(Code::OddMatch, span, message).help(help);
    };
    let is_name = |name: &str| {
        name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
    };
    let with = |segment: &str, instead: &str| quoted(&path.replacen(segment, instead, 1));
    for segment in path.split('/') {
        if let Some(name) = segment.strip_prefix(':').filter(|name| is_name(name)) {
            let message = format!("{} is matched literally, not as a parameter", quoted(segment));
            odd(message, format!("write {}", with(segment, &format!("{{{name}}}"))));
        }
        let inner = segment.strip_prefix('{').and_then(|s| s.strip_suffix('}'));
        if let Some((name, _)) = inner.and_then(|inner| inner.split_once(':')) {
            let message = format!("{} matches any segment: a parameter has a name and no condition", quoted(segment));
            odd(message, format!("write {}", with(segment, &format!("{{{name}}}"))));
            return;
        }
    }
    if path.contains(['[', ']', '^', '|', '\\']) || path.ends_with('$') || path.contains("(?") || path.contains(".+") {
        let message = format!("{} is matched literally: paths are not regular expressions", quoted(path));
        odd(
            message,
            "write fixed text, {name} for one segment, or prefix = \"/PATH\" for everything below it; or regex instead of path"
                .to_string(),
        );
    }
}

/// Warns of a trailing slash, which elsewhere means everything below. `paths` holds all paths, sorted.
fn check_end(path: &str, span: Span, paths: &[&str], findings: &mut Findings) {
    let Some(above) = path.strip_suffix('/').filter(|above| !above.is_empty()) else { return };
    // With another route below or above, the exact path is intended.
    let next = paths.get(paths.partition_point(|other| *other <= path));
    if next.is_some_and(|next| next.starts_with(path)) || paths.binary_search(&above).is_ok() {
        return;
    }
    findings
        .add(Code::OddMatch, span, format!("{} matches only this path, and nothing below it", quoted(path)))
        .help(format!("for everything below it, write prefix = {} instead of path", quoted(above)));
}

/// Warns of `path = "/"` if its listeners have no other path: elsewhere that matches everything.
fn check_root(route: &Route, span: Span, all: &[Placed], findings: &mut Findings) {
    let is_root = |route: &Route| {
        literal(&route.matching.path) == Some("/") && matches!(route.matching.path, PathPattern::Pattern(_))
    };
    let shares_listener = |other: &Route| {
        let (ours, theirs) = (&route.listeners, &other.listeners);
        ours.is_empty() || theirs.is_empty() || ours.iter().any(|name| theirs.contains(name))
    };
    if is_root(route) && all.iter().all(|other| is_root(&other.route) || !shares_listener(&other.route)) {
        findings
            .add(
                Code::OddMatch,
                span,
                "\"/\" matches only the path /, and nothing below it: all other requests get a 404",
            )
            .help("for every path, write prefix = \"/\", or leave path out");
    }
}

fn check_host(host: &HostPattern, span: Span, findings: &mut Findings) {
    let text = host.to_string();
    if text == "_" {
        let message = "\"_\" has no special meaning, and no client sends it as a host";
        findings.add(Code::OddMatch, span, message).help("leave \"host\" out to match every host");
    } else if text.contains('_') {
        let message = format!("{} contains \"_\", which host names cannot have (RFC 952)", quoted(&text));
        findings
            .add(Code::OddMatch, span, message)
            .help("write it as clients send it: most reject such a name, and certificates cannot contain it");
    }
}

/// Warns of a route for everything where every listener has a pool for the rest.
fn check_rest(Placed { route, span, .. }: &Placed, listeners: &[Arc<Listener>], findings: &mut Findings) {
    let takes_all = route.is_plain() && route.matching == Match::all() && route.listeners.is_empty();
    let mut http = listeners.iter().filter(|l| l.mode == Mode::Http);
    if takes_all && http.all(|l| l.pool.is_some()) && listeners.iter().any(|l| l.mode == Mode::Http) {
        let message = format!(
            "route \"{}\" never matches: each listener has a pool for requests that no other route takes",
            route.name
        );
        findings
            .add(Code::OddMatch, *span, message)
            .help("remove it, give it a match, or remove \"pool\" of a listener");
    }
}
