//! Paths of Ingresses and their rewriting. Expressions with the usual captures become prefixes. See [`Matched`].

use crate::providers::kubernetes::gateway::rules::{plain, prefix};
use evenkeel_config::plan::{ListenerLimits, PathPattern, Rewrite, Template, compile_regex};

/// Requests that a path takes, and the path that endpoints get.
#[derive(Clone, Debug, PartialEq)]
pub struct Matched {
    pub path: PathPattern,
    /// Expression that the path has to match, too.
    pub regex: Option<String>,
    pub rewrite: Option<Rewrite>,
    /// Reason for which the rewriting cannot be kept.
    pub fault: Option<String>,
}

/// Reads a path. `is_regex`: true if paths are expressions unless they are exact. `target`: the annotation rewrite-target.
///
/// # Errors
/// If it is not a path or an expression.
pub fn read(path: &str, kind: &str, is_regex: bool, target: Option<&str>) -> Result<Matched, String> {
    let is_exact = kind == "Exact";
    let is_path = path.starts_with('/') && path.bytes().all(|b| b.is_ascii_graphic());
    if !is_path {
        return Err(format!("\"{path}\" is not a path"));
    }
    let max = ListenerLimits::default().headers;
    if path.len() > max {
        return Err(format!("it has {} bytes, and the whole head of a request has at most {max}", path.len()));
    }
    let mut matched = Matched { path: PathPattern::Any, regex: None, rewrite: None, fault: None };
    let mut captured = None;
    if is_exact || !is_regex {
        if path.contains(['?', '#']) {
            return Err(format!("\"{path}\" is not a path"));
        }
        matched.path = if is_exact { PathPattern::Pattern(plain(path)) } else { prefix(path) };
    } else {
        captured = expression(path, &mut matched)?;
    }
    if let Some(target) = target {
        match rewrite(path, target, captured) {
            Ok(rewrite) => matched.rewrite = Some(rewrite),
            Err(why) => matched.fault = Some(why),
        }
    }
    Ok(matched)
}

/// Reads an expression. Returns the number of the capture that holds the rest of the path behind the prefix, if any.
fn expression(path: &str, to: &mut Matched) -> Result<Option<u8>, String> {
    let (fixed, rest) = split(path);
    let text = fixed.replace('\\', "");
    let captured = match rest {
        "" => {
            to.path = prefix(&text);
            return Ok(None);
        }
        "$" => {
            to.path = PathPattern::Pattern(plain(&text));
            return Ok(None);
        }
        "(/|$)(.*)" | "(/|$)(.*)$" | "(|/)(.*)" => Some(2),
        "(/|$)" => None,
        "/?(.*)" | "/?(.*)$" => Some(1),
        "(.*)" | "(.*)$" | ".*" if text == "/" => Some(1),
        _ => {
            compile_regex(path).map_err(|why| format!("\"{path}\" is not a regular expression: {why}"))?;
            // Expressions of NGINX match the beginning, in any case.
            to.regex = Some(format!("(?i:{path}).*"));
            let at = text.rfind('/').filter(|at| *at > 0).map_or("", |at| &text[..at]);
            let ends = text.ends_with('/');
            to.path = match ends {
                // All of it are whole segments.
                true => prefix(at),
                false if text.len() > 1 => PathPattern::StartsWith(text.clone()),
                false => PathPattern::Any,
            };
            return Ok((ends && matches!(rest, "(.*)" | "(.*)$")).then_some(1));
        }
    };
    to.path = prefix(&text);
    Ok(captured)
}

/// Splits an expression into literal text at its start, and the rest.
fn split(path: &str) -> (&str, &str) {
    let bytes = path.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let len = if bytes[at] == b'\\' { 2 } else { 1 };
        let is_text = match bytes[at] {
            // An unescaped dot counts as a literal dot, unless it is repeated.
            b'.' => true,
            b'\\' => bytes.get(at + 1).is_some_and(|b| !b.is_ascii_alphanumeric()),
            byte => !b"^$*+?()[]{}|".contains(&byte),
        };
        let is_repeated = bytes.get(at + len).is_some_and(|b| b"*+?{".contains(b));
        if !is_text || is_repeated {
            break;
        }
        at += len;
    }
    path.split_at(at.min(path.len()))
}

fn rewrite(path: &str, target: &str, captured: Option<u8>) -> Result<Rewrite, String> {
    let is_path = target.starts_with('/') && target.bytes().all(|b| b.is_ascii_graphic() && b != b'#');
    if !is_path {
        return Err(format!("\"{target}\" is not a path"));
    }
    let rewrite = Rewrite::default();
    if !target.contains(['$', '?']) {
        return Ok(Rewrite { path: Some(Template::literal(target)), ..rewrite });
    }
    let (base, capture) = target.split_at(target.find('$').unwrap_or(target.len()));
    let wanted = captured.map(|number| format!("${number}"));
    if wanted.as_deref() == Some(capture) && base.ends_with('/') && !base.contains('?') {
        let base = base.trim_end_matches('/');
        let prefix = Template::literal(if base.is_empty() { "/" } else { base });
        return Ok(Rewrite { prefix: Some(prefix), ..rewrite });
    }
    // NGINX replaces the whole path if the expression matches its beginning, in any case.
    let regex = format!("(?i:{path}).*");
    let kept = |why: String| format!("\"{target}\" cannot be kept with this path: {why}");
    compile_regex(&regex).map_err(kept)?;
    let to = Template::of_groups(target, '$', &regex).map_err(kept)?;
    Ok(Rewrite { regex: Some(regex.into()), to: Some(to), ..rewrite })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The path, the expression, and the rewriting, as text.
    fn shown(path: &str, kind: &str, is_regex: bool, target: &str) -> String {
        let target = (!target.is_empty()).then_some(target);
        let matched = match read(path, kind, is_regex || target.is_some(), target) {
            Ok(matched) => matched,
            Err(why) => return format!("error: {why}"),
        };
        let path = match matched.path {
            PathPattern::Any => "*".to_owned(),
            PathPattern::Pattern(path) => format!("= {path}"),
            PathPattern::Prefix(path) => format!("{path}/*"),
            PathPattern::StartsWith(text) => format!("{text}*"),
        };
        let regex = matched.regex.map(|regex| format!(" ~ {regex}")).unwrap_or_default();
        let rewrite = matched.rewrite.map(|rewrite| match (rewrite.prefix, rewrite.path, rewrite.regex) {
            (Some(prefix), ..) => format!(" -> {prefix}..."),
            (_, Some(path), _) => format!(" -> {path}"),
            (.., regex) => {
                format!(" -> {} of {}", rewrite.to.expect("one of them"), regex.expect("with its expression"))
            }
        });
        let fault = matched.fault.map(|_| " !".to_owned()).unwrap_or_default();
        format!("{path}{regex}{}{fault}", rewrite.unwrap_or_default())
    }

    #[test]
    fn paths_without_expressions_are_exact_or_whole_segments() {
        for (path, kind, wanted) in [
            ("/", "Prefix", "*"),
            ("/a", "Prefix", "/a/*"),
            ("/a/", "Prefix", "/a/*"),
            ("/a", "ImplementationSpecific", "/a/*"),
            ("/a", "Exact", "= /a"),
            ("/a/", "Exact", "= /a/"),
            ("/a{b}", "Exact", "= /a{{b}}"),
            ("a", "Exact", "error: \"a\" is not a path"),
            ("/a?b", "Prefix", "error: \"/a?b\" is not a path"),
        ] {
            assert_eq!(shown(path, kind, false, ""), wanted, "{path} {kind}");
        }
    }

    #[test]
    fn the_usual_captures_are_prefixes() {
        for (path, target, wanted) in [
            ("/x(/|$)(.*)", "/$2", "/x/* -> /..."),
            ("/x(/|$)(.*)", "/y/$2", "/x/* -> /y..."),
            ("/x/y(/|$)(.*)", "/$2", "/x/y/* -> /..."),
            ("/x/(.*)", "/$1", "/x/* ~ (?i:/x/(.*)).* -> /..."),
            ("/x/?(.*)", "/$1", "/x/* -> /..."),
            ("/(.*)", "/$1", "* -> /..."),
            ("/(.*)", "/y/$1", "* -> /y..."),
            ("/x", "/", "/x/* -> /"),
            ("/", "/app", "* -> /app"),
            ("/v1.0(/|$)(.*)", "/$2", "/v1.0/* -> /..."),
            ("/v1\\.0(/|$)(.*)", "/$2", "/v1.0/* -> /..."),
            // Others are rewritten by the expression.
            ("/x(/|$)(.*)", "/y$2", "/x/* -> /y{2} of (?i:/x(/|$)(.*)).*"),
            ("/x(.*)", "/$1", "/x* ~ (?i:/x(.*)).* -> /{1} of (?i:/x(.*)).*"),
            ("/u/([0-9]+)/(.*)", "/$2/$1", "/u/* ~ (?i:/u/([0-9]+)/(.*)).* -> /{2}/{1} of (?i:/u/([0-9]+)/(.*)).*"),
            ("/x", "/y?a=b", "/x/* -> /y?a=b of (?i:/x).*"),
            // A group that is not there is a fault.
            ("/x(.*)", "/$2", "/x* ~ (?i:/x(.*)).* !"),
            ("/x(.*)", "/$host", "/x* ~ (?i:/x(.*)).* !"),
        ] {
            assert_eq!(shown(path, "ImplementationSpecific", true, target), wanted, "{path} {target}");
        }
    }

    #[test]
    fn other_expressions_stay_behind_the_text_that_they_begin_with() {
        for (path, wanted) in [
            ("/api/v[0-9]+", "/api/v* ~ (?i:/api/v[0-9]+).*"),
            ("/api/.*", "/api/* ~ (?i:/api/.*).*"),
            ("/.*\\.php$", "* ~ (?i:/.*\\.php$).*"),
            ("/a$", "= /a"),
            ("/colou?r", "/colo* ~ (?i:/colou?r).*"),
            ("/a(", "error: \"/a(\" is not a regular expression: unclosed group"),
        ] {
            assert_eq!(shown(path, "ImplementationSpecific", true, ""), wanted, "{path}");
        }
    }
}
