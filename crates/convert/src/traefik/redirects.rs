//! `redirectRegex`: redirects of requests whose URL matches an expression, for the forms that are conditions on a host and
//! the beginning of a path.

use super::effect::{Effect, METHODS, Partial};
use crate::ledger::Ledger;
use crate::model::{Cond, Draft, Key, Match, Test, braced};
use crate::rewriting::put_url;
use crate::tree::Node;
use evenkeel_config::plan::Redirect;

/// URL of an expression: its scheme if it names a single scheme, its host, and the path before the group at its end.
struct Source {
    scheme: Option<&'static str>,
    /// `None` for all hosts.
    host: Option<String>,
    path: String,
    /// True if the expression ends in a group for the rest.
    has_rest: bool,
}

pub(super) fn regex(node: &Node, effect: &mut Effect, ledger: &mut Ledger) {
    let regex = node.take("regex", ledger).unwrap_or_default();
    let replacement = node.take("replacement", ledger).unwrap_or_default();
    let permanent = node.take("permanent", ledger) == Some("true");
    let status = if permanent { 301 } else { 302 };
    let read = source(regex).and_then(|source| Some((target(replacement, &source, status)?, source)));
    let Some((to, source)) = read else {
        let reason = "redirects by expressions are carried over for a host and a path with a group at its end";
        return ledger.decide(node.line, reason, "redirect = { to = \"https://HOST{path}\" } of a [[route]]");
    };
    if source.scheme.is_some_and(|scheme| (scheme == "https") != effect.is_tls) {
        return node.dropped("requests there have another scheme", ledger);
    }
    let mut matching = Match::default();
    if let Some(host) = source.host {
        matching.conds.push(Cond::one_of(Key::Host, [host]));
    }
    if source.path != "/" {
        let test = if source.has_rest { Test::Begins(source.path) } else { Test::OneOf(vec![source.path]) };
        matching.conds.push(Cond::new(Key::Path, test));
    }
    ledger.changes(node.line, METHODS.0, METHODS.1);
    effect.redirects.push(Partial { matching, to, set: effect.set.clone(), line: node.line });
}

fn source(regex: &str) -> Option<Source> {
    let (scheme, rest) = [
        ("^https?://", None),
        ("^http(s)?://", None),
        ("^(https?)://", None),
        ("^(http|https)://", None),
        ("^http://", Some("http")),
        ("^https://", Some("https")),
    ]
    .into_iter()
    .find_map(|(start, scheme)| Some((scheme, regex.strip_prefix(start)?)))?;
    // Groups before the last would shift its number.
    if regex.matches('(').count() > 1 {
        return None;
    }
    let rest = rest.strip_suffix('$').unwrap_or(rest);
    let (fixed, has_rest) = match rest.strip_suffix("(.*)").or_else(|| rest.strip_suffix("(.+)")) {
        Some(fixed) => (fixed, true),
        None => (rest, false),
    };
    let plain = fixed.replace("\\.", "\u{0}").replace("\\/", "/").replace("\\-", "-");
    if plain.contains(|c: char| "\\+*?()[]{}|^$".contains(c)) {
        return None;
    }
    let (host, path) = plain.split_at(plain.find('/')?);
    // A bare dot is any character: in hosts people mean the dot.
    let host = host.replace('\u{0}', ".");
    let path = path.replace('\u{0}', ".");
    if host.contains(':') || host.is_empty() {
        return None;
    }
    Some(Source { scheme, host: Some(host.to_ascii_lowercase()), path, has_rest })
}

fn target(replacement: &str, source: &Source, status: u64) -> Option<Draft<Redirect>> {
    let plain = replacement.replace("${1}", "\u{0}").replace("$1", "\u{0}");
    if plain.contains(['$', '?', '#']) || plain.matches('\u{0}').count() > usize::from(source.has_rest) {
        return None;
    }
    let mut table = Draft::one(key!("status"), status);
    match plain.strip_suffix('\u{0}') {
        // The rest and the query follow the path of the source.
        Some(start) if source.path == "/" => {
            let start = start.strip_suffix('/')?;
            put_url(&mut table, &format!("{}{{path}}", braced(start))).ok()?;
        }
        Some(_) => return None,
        None if plain.contains('\u{0}') => return None,
        None => {
            put_url(&mut table, &braced(&plain)).ok()?;
            table.put(key!("keep_query"), false);
            if !table.has(key!("path")) {
                table.put(key!("path"), "/");
            }
        }
    }
    Some(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn common_expressions_are_conditions_on_the_host() {
        for (regex, replacement, fits) in [
            ("^https?://www\\.example\\.com/(.*)", "https://example.com/${1}", true),
            ("^https://old.example.com/x/(.*)$", "https://example.com/", true),
            ("^https?://a.test/(.*)", "https://b.test/x/$1", true),
            ("^https?://(www|api)\\.a.test/(.*)", "https://a.test/${2}", false),
            ("a.test/(.*)", "https://b.test/$1", false),
            ("^https?://a.test/x(.*)", "https://b.test/$1", false),
        ] {
            let to = source(regex).and_then(|source| target(replacement, &source, 302));
            assert_eq!(to.is_some(), fits, "{regex}");
        }
    }
}
