//! Path patterns: `/x`, `/users/{id}/posts`, `/v1/{*rest}`, and prefixes by segment and by text.

use super::pieces::{self, End, Pieces, Wrong};
use crate::code::Code;
use crate::form::misfit::Misfit;
use crate::tree::quoted;
use std::fmt;

pub(in crate::form) fn read(text: &str) -> Result<PathPattern, Misfit> {
    if let Some(misfit) = spelled_otherwise(text) {
        return Err(misfit);
    }
    plain(text)?;
    if unbraced_star(text) {
        let (before, after) = text.split_once('*').unwrap_or((text, ""));
        let help = match (before.trim_end_matches('/'), after) {
            ("", "") => "leave path out to match every path".to_string(),
            (above, "") => format!("write prefix = {} instead of path, for it and everything below it", quoted(above)),
            _ => "write {name} for one segment, as \"/users/{id}/posts\", or {*rest} at the end".to_string(),
        };
        return Err(bad(text, "* has no meaning outside braces", help));
    }
    match pieces::parse(text) {
        Ok(_) => Ok(PathPattern::Pattern(text.to_string())),
        Err(Wrong::MisplacedRest) => {
            Err(bad(text, "a rest must be a whole segment at the end", "write \"/v1/{*rest}\", with nothing after it"))
        }
        Err(Wrong::TwoParameters) => {
            Err(bad(text, "a segment has two parameters", "one parameter between two slashes, as \"/img-{id}.png\""))
        }
        Err(Wrong::Braces) => Err(bad(
            text,
            "its braces do not match",
            "write {name} for one segment, {*rest} for the rest, {{ and }} for braces themselves",
        )),
    }
}

/// Parses the beginning of a path, without parameters.
pub(in crate::form) fn start(text: &str) -> Result<PathPattern, Misfit> {
    plain(text)?;
    Ok(PathPattern::StartsWith(text.to_string()))
}

/// Error for the path notations of other proxies.
fn spelled_otherwise(text: &str) -> Option<Misfit> {
    let in_place = |key: &str, path: &str| format!("write {key} = {}", quoted(path));
    // Traefik: Path(`/x`) and PathPrefix(`/x`).
    if let Some((function, rest)) = text.split_once('(').filter(|(function, _)| function.starts_with("Path")) {
        let path = rest.trim_end_matches(')').trim_matches(['`', '"', '\'']);
        if path.starts_with('/') && plain(path).is_ok() {
            let key = if function == "PathPrefix" { "prefix" } else { "path" };
            return Some(bad(text, "it is a rule of Traefik", in_place(key, path)));
        }
    }
    // NGINX: = /x, ^~ /x, ~ regex, ~* regex.
    let (modifier, rest) = text.split_once(' ').unwrap_or(("", text));
    match modifier {
        "=" => return Some(bad(text, "it has a modifier of NGINX", in_place("path", rest.trim()))),
        "^~" => return Some(bad(text, "it has a modifier of NGINX", in_place("prefix", rest.trim()))),
        _ => {}
    }
    let is_regex = ["~", "~*"].contains(&modifier) || text.starts_with(['^', '~']) || text.starts_with("(?");
    if !(is_regex || text.contains(".*") && text.contains('/')) {
        return None;
    }
    // Fixed beginning of the regex, up to the last slash or to its end.
    let regex = if modifier.starts_with('~') { rest.trim() } else { text.trim_start_matches('~') };
    let whole = regex.trim_start_matches('^').trim_end_matches('$');
    let regex = regex.trim_start_matches("(?i)").trim_start_matches('^');
    let meta = regex.find(['[', '(', '.', '*', '+', '?', '\\', '|', '$', '{', '^']).unwrap_or(regex.len());
    let fixed = &regex[..meta];
    let is_whole = matches!(&regex[meta..], "" | ".*" | "(.*)" | ".*$" | "(.*)$" | "(/.*)?$" | "(/|$)" | "($|/)");
    let fixed = if is_whole { fixed } else { fixed.rfind('/').map_or("", |at| &fixed[..at]) };
    let help = match (&regex[meta..], fixed.trim_end_matches('/')) {
        ("$", _) if regex.starts_with('/') => in_place("path", &regex[..meta]),
        (_, "") => "write fixed text and {name} for one segment, as path = \"/users/{id}\", or prefix = \"/PATH\" for \
                    everything below it"
            .to_string(),
        (_, path) if is_whole => in_place("prefix", path),
        (_, path) => {
            format!("{}, which takes more; or fixed text and {{name}} for one segment", in_place("prefix", path))
        }
    };
    Some(bad(
        text,
        "it is a regular expression",
        format!("{help}; or as a regular expression: regex = {}", quoted(whole)),
    ))
}

/// Parses a path that stands for everything below it. A trailing slash has no meaning.
pub(in crate::form) fn prefix(text: &str) -> Result<PathPattern, Misfit> {
    if let Some(misfit) = spelled_otherwise(text) {
        return Err(misfit);
    }
    let path = text.trim_end_matches('/');
    if path.is_empty() && !text.is_empty() {
        return Ok(PathPattern::Any);
    }
    let without_rest = path.split(['*']).next().unwrap_or_default().trim_end_matches(['{', '/']);
    if without_rest.len() < path.len() && text.starts_with('/') {
        let write = if without_rest.is_empty() { "/" } else { without_rest };
        return Err(bad(text, "a prefix takes everything below it anyway", format!("write {}", quoted(write))));
    }
    match read(path)? {
        PathPattern::Pattern(path) => Ok(PathPattern::Prefix(path)),
        other => Ok(other),
    }
}

/// Checks the rules of every path: absolute, without query, in visible ASCII.
pub(in crate::form) fn plain(text: &str) -> Result<(), Misfit> {
    if !text.starts_with('/') {
        let with_slash = quoted(&format!("/{text}"));
        return Err(bad(text, "it does not start with a slash", format!("write {with_slash}")));
    }
    if text.contains(['?', '#']) {
        return Err(bad(text, "it has a query or a fragment", "only the path is matched: leave out what follows it"));
    }
    if !text.bytes().all(|b| b.is_ascii_graphic()) {
        let help = "write other characters as clients send them, percent-encoded: \"%20\"";
        return Err(bad(text, "only visible ASCII characters can be in it", help));
    }
    Ok(())
}

/// Checks a request target: a path with an optional query.
pub(in crate::form) fn target(text: &str) -> Result<(), Misfit> {
    let (path, query) = text.split_once('?').unwrap_or((text, ""));
    plain(path)?;
    match query.bytes().all(|b| b.is_ascii_graphic() && b != b'#') {
        true => Ok(()),
        false => Err(bad(text, "its query has other characters", "write them percent-encoded, as \"%20\"")),
    }
}

/// Checks the `Path` of a cookie, in which `;` would end the attribute (RFC 6265, section 4.1.1).
pub(in crate::form) fn of_cookie(text: &str) -> Result<(), Misfit> {
    plain(text)?;
    match text.contains(';') {
        true => Err(bad(text, "a cookie cannot have one with \";\"", "name the folder above it, or \"/\"")),
        false => Ok(()),
    }
}

fn bad(text: &str, why: &str, help: impl Into<String>) -> Misfit {
    Misfit::new(Code::BadPath, format!("{} is not a path: {why}", quoted(text)), help)
}

fn unbraced_star(text: &str) -> bool {
    text.bytes().enumerate().any(|(at, b)| b == b'*' && !text[..at].ends_with('{'))
}

/// Paths that a route matches.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PathPattern {
    Any,
    /// Pattern without or with a rest: `/x`, `/users/{id}/posts`, `/v1/{*rest}`, which also matches `/v1/`.
    Pattern(String),
    /// A pattern without a rest and without a trailing slash, and everything below it: `/v1` matches `/v1`,
    /// `/v1/` and `/v1/x`, but not `/v10`.
    Prefix(String),
    /// Every path that begins with this text.
    StartsWith(String),
}

impl PathPattern {
    /// Forms of the paths that match, two at most.
    pub fn forms(&self) -> Vec<Pieces> {
        // A pattern was parsed when it was read.
        let parsed = |pattern: &str| pieces::parse(pattern).unwrap_or(Pieces::of_text("", End::Open));
        match self {
            PathPattern::Any => vec![Pieces::of_text("", End::Open)],
            PathPattern::Pattern(pattern) => vec![parsed(pattern)],
            PathPattern::Prefix(path) => {
                let path = parsed(path);
                vec![path.then("", End::Whole), path.then("/", End::Open)]
            }
            PathPattern::StartsWith(text) => vec![Pieces::of_text(text, End::Open)],
        }
    }
}

impl fmt::Display for PathPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PathPattern::Any => f.write_str("/{*rest}"),
            PathPattern::Pattern(p) => f.write_str(p),
            PathPattern::Prefix(p) => write!(f, "{p}/{{*rest}}"),
            PathPattern::StartsWith(text) => write!(f, "{text}*"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_patterns() {
        for text in ["/", "/x", "/users/{id}/posts", "/v1/{*rest}", "/img-{id}.png", "/a{{b}}"] {
            assert!(read(text).is_ok(), "{text}");
        }
        for text in ["", "x", "/a b", "/a?b", "/v1/*", "/{*rest}/x", "/{a}{b}", "/{", "/{}", "/ä", "/}"] {
            assert!(read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn what_others_write_has_a_fix() {
        for (text, help) in [
            ("/v1/*", "prefix = \"/v1\""),
            ("/v1*", "prefix = \"/v1\""),
            ("/*", "leave path out"),
            ("/*/posts", "{name} for one segment"),
            ("^/v[0-9]+/", "{name} for one segment"),
            ("^/api/v[0-9]+/", "prefix = \"/api\""),
            ("^/api/.*", "prefix = \"/api\""),
            ("/api/.*", "prefix = \"/api\""),
            ("^/login$", "path = \"/login\""),
            ("~ \\.php$", "{name} for one segment"),
            ("~* ^/static/", "prefix = \"/static\""),
            ("= /x", "path = \"/x\""),
            ("^~ /x", "prefix = \"/x\""),
            ("PathPrefix(`/api`)", "prefix = \"/api\""),
            ("Path(`/api`)", "path = \"/api\""),
            ("x", "\"/x\""),
        ] {
            let misfit = read(text).expect_err(text);
            assert!(misfit.help.contains(help), "{text}: {misfit:?}");
        }
    }

    #[test]
    fn reads_prefixes() {
        for (text, path) in
            [("/api", "/api"), ("/api/", "/api"), ("/users/{id}", "/users/{id}"), ("/a{{b}}", "/a{{b}}")]
        {
            assert_eq!(prefix(text), Ok(PathPattern::Prefix(path.to_string())));
        }
        assert_eq!(prefix("/"), Ok(PathPattern::Any));
        for (text, help) in [
            ("", "write \"/\""),
            ("api", "\"/api\""),
            ("/api/*", "write \"/api\""),
            ("/api/{*rest}", "write \"/api\""),
            ("/*", "write \"/\""),
            ("/{a}{b}", "one parameter"),
        ] {
            let misfit = prefix(text).expect_err(text);
            assert!(misfit.help.contains(help), "{text}: {misfit:?}");
        }
    }

    #[test]
    fn reads_targets_and_paths_of_cookies() {
        assert!(target("/healthz?full=1&x=a?b").is_ok() && of_cookie("/app").is_ok());
        for text in ["", "healthz", "/a b", "/a?b c", "/a?b#c", "/a#b"] {
            assert!(target(text).is_err(), "{text}");
        }
        for text in ["", "/;", "/a?b"] {
            assert!(of_cookie(text).is_err(), "{text}");
        }
    }
}
