//! Regular expressions of paths: written as fixed text, text at the start or at the end where they are nothing else, and
//! otherwise as an expression for the whole path in the dialect of evenkeel.

use crate::model::{Test, escape};
use evenkeel_config::plan::{Expression, Extent, captures};
use std::borrow::Cow;
use std::cell::Cell;

/// Returns the alternatives of an expression that may match anywhere in a path, or the reason why it cannot be written.
pub(crate) fn path_tests(regex: &str, ignore_case: bool) -> Result<Vec<Test>, &'static str> {
    foreign(regex)?;
    if !ignore_case && let Some(tests) = simple(regex) {
        return Ok(tests);
    }
    Ok(vec![Test::Regex(whole(regex, ignore_case))])
}

/// Turns an expression that may match anywhere into an expression for the whole value.
pub(crate) fn whole(regex: &str, ignore_case: bool) -> String {
    let case = if ignore_case { "(?i)" } else { "" };
    let parts = alternatives(regex);
    let each = parts.iter().map(|part| {
        let (start, rest) = part.strip_prefix('^').map_or((".*", *part), |rest| ("", rest));
        let rest = if start.is_empty() { rest } else { rest.strip_prefix(".*").unwrap_or(rest) };
        let (rest, end) = match rest.strip_suffix('$').filter(|rest| !is_escaped(rest)) {
            Some(rest) => (rest, ""),
            None => (rest.strip_suffix(".*").filter(|rest| !is_escaped(rest)).unwrap_or(rest), ".*"),
        };
        format!("{start}{rest}{end}")
    });
    format!("{case}{}", each.collect::<Vec<_>>().join("|"))
}

/// True if an expression matches a part of a text; `None` if the expression is wrong.
pub(crate) fn finds(regex: &str, text: &str) -> Option<bool> {
    const SIZE: usize = 1 << 20;
    let (regex, ignore_case) = regex.strip_prefix("(?i)").map_or((regex, false), |regex| (regex, true));
    Some(Expression::compile(&whole(regex, ignore_case), SIZE).ok()?.is_match(text.as_bytes()))
}

/// A text in which `{1}` and so on are replaced by groups of an expression that matches a fixed path.
pub(crate) fn filled(text: &str, regex: &str, path: &str) -> String {
    let found = captures(regex, Extent::Part).and_then(|all| all.find(path.as_bytes(), 0, &Cell::new(u32::MAX)));
    let Some(found) = found else { return text.to_string() };
    (1..10).fold(text.to_string(), |text, number| {
        let group = found.get(number).and_then(|range| path.get(range)).unwrap_or_default();
        text.replace(&format!("{{{number}}}"), group)
    })
}

/// Reason why the `regex` crate does not take an expression of PCRE, if that shows.
pub(crate) fn foreign(regex: &str) -> Result<(), &'static str> {
    if ["(?=", "(?!", "(?<=", "(?<!"].iter().any(|mark| regex.contains(mark)) {
        return Err("it looks ahead or behind, which needs backtracking; expressions here run in linear time");
    }
    let bytes = regex.as_bytes();
    let refers = |pair: &[u8]| pair[0] == b'\\' && (b'1'..=b'9').contains(&pair[1]);
    if bytes.windows(2).any(refers) || regex.contains("(?>") || regex.contains("++") || regex.contains("*+") {
        return Err("it refers back to a group or is possessive, which needs backtracking");
    }
    Ok(())
}

/// An expression without a negative look-ahead for fixed texts at its end, such as `/\.(?!well-known)`: the texts that may
/// follow are written out. Others stay as they are.
pub(crate) fn without_lookahead(regex: &str) -> Cow<'_, str> {
    let written = || {
        let (before, rest) = regex.split_once("(?!").filter(|(before, _)| !is_escaped(before))?;
        let (inner, after) = rest.split_once(')')?;
        let texts = inner.split('|').map(literal).collect::<Option<Vec<String>>>()?;
        let is_short = texts.iter().map(String::len).sum::<usize>() <= LOOKAHEAD;
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let other = other_than(&texts).filter(|_| is_short)?;
        Some(match after {
            "" | ".*" | ".*$" => format!("{before}{other}{after}"),
            "(.*)" | "(.*)$" => format!("{before}({other}.*){}", &after[4..]),
            _ => return None,
        })
    };
    written().map_or(Cow::Borrowed(regex), Cow::Owned)
}

/// Longest texts of a look-ahead that are written out, together, in bytes.
const LOOKAHEAD: usize = 100;

/// Expression for the beginning of a text that begins with none of these; `None` if each text does.
fn other_than(texts: &[&str]) -> Option<String> {
    if texts.contains(&"") {
        return None;
    }
    let mut firsts: Vec<char> = texts.iter().filter_map(|text| text.chars().next()).collect();
    firsts.sort_unstable();
    firsts.dedup();
    let class: String =
        firsts.iter().map(|c| if c.is_alphanumeric() { c.to_string() } else { format!("\\{c}") }).collect();
    let mut all = format!("(?:$|[^{class}]");
    for first in firsts {
        let rests: Vec<&str> = texts.iter().filter_map(|text| text.strip_prefix(first)).collect();
        if let Some(rest) = other_than(&rests) {
            all += &format!("|{}{rest}", escape(&first.to_string()));
        }
    }
    Some(all + ")")
}

/// True if the text ends in a backslash that escapes the next character.
fn is_escaped(text: &str) -> bool {
    text.bytes().rev().take_while(|b| *b == b'\\').count() % 2 == 1
}

/// Alternatives outside brackets.
fn alternatives(regex: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut from, mut in_class, mut escaped) = (Vec::new(), 0_usize, 0, false, false);
    for (at, c) in regex.char_indices() {
        match c {
            _ if escaped => {
                escaped = false;
                continue;
            }
            '\\' => escaped = true,
            '[' => in_class = true,
            ']' => in_class = false,
            _ if in_class => {}
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            '|' if depth == 0 => {
                parts.push(&regex[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&regex[from..]);
    parts
}

/// Tests without an expression, if all alternatives are so simple.
fn simple(regex: &str) -> Option<Vec<Test>> {
    let mut tests = Vec::new();
    for part in alternatives(regex) {
        let (anchored, rest) = part.strip_prefix('^').map_or((false, part), |rest| (true, rest));
        let rest = if anchored { rest } else { rest.strip_prefix(".*").unwrap_or(rest) };
        let (rest, ended) = match rest.strip_suffix('$').filter(|rest| !is_escaped(rest)) {
            Some(rest) => (rest, true),
            None => (rest, false),
        };
        let open_end = [".*", "(.*)"].iter().find_map(|end| rest.strip_suffix(end)).filter(|rest| !is_escaped(rest));
        let below = [("(/.*)?", true), ("(/|$)", false), ("($|/)", false), ("(?:/|$)", false)];
        let below = below.iter().find_map(|(end, wants_end)| rest.strip_suffix(end).filter(|_| ended == *wants_end));
        let (rest, test): (&str, fn(String) -> Test) = match (anchored, ended, open_end, below) {
            (true, _, _, Some(rest)) => (rest, Test::Below),
            (true, _, Some(_), _) | (true, false, None, _) if part.starts_with("^/") => {
                (open_end.unwrap_or(rest), Test::Begins)
            }
            (true, true, None, _) => (rest, |text| Test::OneOf(vec![text])),
            (false, true, None, None) => (rest, Test::Ends),
            _ => return None,
        };
        for text in expanded(rest)? {
            tests.push(test(text));
        }
    }
    let is_path = |test: &Test| match test {
        Test::Begins(text) | Test::Below(text) => text.starts_with('/'),
        Test::OneOf(texts) => texts.iter().all(|text| text.starts_with('/')),
        Test::Ends(text) => !text.is_empty(),
        _ => true,
    };
    tests.iter().all(is_path).then_some(tests)
}

/// Texts that an expression matches: fixed text with at most one group of fixed alternatives. `None` for others.
fn expanded(regex: &str) -> Option<Vec<String>> {
    let Some(open) = regex.find('(').filter(|at| !is_escaped(&regex[..*at])) else {
        return Some(vec![literal(regex)?]);
    };
    let close = open + regex[open..].find(')')?;
    let inner = regex[open + 1..close].strip_prefix("?:").unwrap_or(&regex[open + 1..close]);
    let (before, after) = (literal(&regex[..open])?, literal(&regex[close + 1..])?);
    let texts = inner.split('|').map(|one| Some(format!("{before}{}{after}", literal(one)?)));
    texts.collect::<Option<Vec<_>>>().filter(|texts| texts.len() <= 24)
}

/// Text that an expression matches, if it has no special characters; `None` otherwise.
fn literal(regex: &str) -> Option<String> {
    let mut out = String::new();
    let mut chars = regex.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next()? {
                c if c.is_ascii_punctuation() => out.push(c),
                _ => return None,
            },
            '.' | '+' | '*' | '?' | '(' | ')' | '|' | '[' | ']' | '{' | '}' | '^' | '$' => return None,
            c => out.push(c),
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_ahead_for_fixed_texts_at_the_end_is_written_out() {
        for (regex, fits, others) in [
            (
                "/\\.(?!well-known)",
                &["/.git", "/.", "/.wellknown", "/.well-known/.x", "/.w"][..],
                &["/.well-known/x", "/a"][..],
            ),
            ("^/(?!api|app/)(.*)$", &["/", "/ap", "/app", "/apx", "/x/api"], &["/api", "/apix", "/app/"]),
            ("(?i)^/a(?!b).*", &["/a", "/Ac"], &["/aB"]),
        ] {
            let regex = without_lookahead(regex);
            assert!(foreign(&regex).is_ok(), "{regex}");
            fits.iter().for_each(|path| assert_eq!(finds(&regex, path), Some(true), "{regex} {path}"));
            others.iter().for_each(|path| assert_eq!(finds(&regex, path), Some(false), "{regex} {path}"));
        }
        assert_eq!(filled("{1}", &without_lookahead("^/(?!api)(.*)$"), "/shop/x"), "shop/x");
        assert_eq!(without_lookahead("^/(?!a)b"), "^/(?!a)b");
    }

    #[test]
    fn simple_expressions_become_text() {
        let begins = |texts: &[&str]| texts.iter().map(|t| Test::Begins(t.to_string())).collect::<Vec<_>>();
        let ends = |texts: &[&str]| texts.iter().map(|t| Test::Ends(t.to_string())).collect::<Vec<_>>();
        for (regex, tests) in [
            ("^/api", begins(&["/api"])),
            ("^/(api|auth)/", begins(&["/api/", "/auth/"])),
            ("^/a/.*$", begins(&["/a/"])),
            ("\\.php$", ends(&[".php"])),
            ("\\.(js|css)$", ends(&[".js", ".css"])),
            ("^/login$", vec![Test::OneOf(vec!["/login".into()])]),
            ("^/v1(/.*)?$", vec![Test::Below("/v1".into())]),
            ("^/v1(/|$)", vec![Test::Below("/v1".into())]),
            ("^/u/[0-9]+$", vec![Test::Regex("/u/[0-9]+".into())]),
            ("x", vec![Test::Regex(".*x.*".into())]),
            ("^/a\\.b|\\.c$", vec![Test::Begins("/a.b".into()), Test::Ends(".c".into())]),
        ] {
            assert_eq!(path_tests(regex, false), Ok(tests), "{regex}");
        }
        assert_eq!(path_tests("\\.PNG$", true), Ok(vec![Test::Regex("(?i).*\\.PNG".into())]));
        assert!(path_tests("^/(?!api)", false).is_err() && path_tests("(a)\\1", false).is_err());
    }
}
