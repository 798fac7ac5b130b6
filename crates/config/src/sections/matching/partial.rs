//! Expressions of `regex` that were probably meant to be found anywhere in a value, as in other proxies. The whole value
//! has to match `regex`; `search` is for parts.

use crate::code::Code;
use crate::diagnostic::Findings;
use crate::table::Section;
use crate::tree::quoted;

/// Characters that make an expression more than fixed text.
const OPERATORS: [char; 13] = ['.', '*', '+', '?', '(', ')', '[', ']', '{', '}', '|', '^', '$'];

/// The value that an expression is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::sections) enum Of {
    Path,
    Other,
}

/// Warns of the expression of a section if it was probably meant to match a part of the value.
pub(in crate::sections) fn check(section: &Section, of: Of, findings: &mut Findings) {
    let Some(text) = section.text("regex") else { return };
    let Some(why) = suspicion(&text, of) else { return };
    let (message, help) = match of {
        Of::Path => {
            let whole = format!("{}^{}$", &text[..text.len() - without_flags(&text).len()], bare(&text));
            let message = format!("regex = {} has to match the whole path, but {why}", quoted(&text));
            let help = format!(
                "for a part of the path write search = {0}; for the whole path regex = {1}",
                quoted(&text),
                quoted(&whole)
            );
            (message, help)
        }
        // Without the expression: fields and cookies may have secrets.
        Of::Other => (
            format!("the expression has to match the whole value, but {why}"),
            "for a part of the value write search instead of regex; for the whole value write it between ^ and $"
                .into(),
        ),
    };
    findings.add(Code::OddMatch, section.span_of("regex"), message).help(help);
}

/// Reason to believe that a part was meant; `None` if the expression may well be for the whole value.
fn suspicion(text: &str, of: Of) -> Option<&'static str> {
    let body = without_flags(text);
    let (begins, ends) = (begins_anchored(body), ends_anchored(body));
    if begins && !ends && !ends_open(body) {
        return Some("only its beginning is anchored");
    }
    if ends && !begins && !begins_open(body) {
        return Some("only its end is anchored");
    }
    if of == Of::Path && !begins && cannot_begin_a_path(body) {
        return Some("each path begins with \"/\"");
    }
    // Without an operator, `path` or `equal` would do.
    let is_plain = !begins && !ends && !body.contains(OPERATORS) && !body.contains('\\') && !text.starts_with("(?");
    is_plain.then_some("it is fixed text")
}

/// The expression behind its flags, as in `(?i)`.
fn without_flags(text: &str) -> &str {
    let flags = text.strip_prefix("(?").and_then(|rest| rest.split_once(')'));
    match flags {
        Some((flags, rest)) if flags.bytes().all(|flag| flag.is_ascii_alphabetic() || flag == b'-') => rest,
        _ => text,
    }
}

/// The expression without the groups that it begins with.
fn inside(body: &str) -> &str {
    let mut rest = body;
    while let Some(inner) = rest.strip_prefix("(?:").or_else(|| rest.strip_prefix('(')) {
        rest = inner;
    }
    rest
}

/// The expression without the groups, and the counts of these, that it ends with.
fn inside_end(body: &str) -> &str {
    let mut rest = body;
    while let Some(inner) = rest.strip_suffix(")?").or_else(|| rest.strip_suffix(')')) {
        if is_escaped(inner) {
            return rest;
        }
        rest = inner;
    }
    rest
}

/// True if the character behind this text is escaped by the backslash at its end.
fn is_escaped(before: &str) -> bool {
    before.bytes().rev().take_while(|byte| *byte == b'\\').count() % 2 == 1
}

fn begins_anchored(body: &str) -> bool {
    ["^", "\\A"].iter().any(|anchor| inside(body).starts_with(anchor))
}

fn ends_anchored(body: &str) -> bool {
    let end = inside_end(body);
    end.ends_with("\\z") || end.strip_suffix('$').is_some_and(|before| !is_escaped(before))
}

fn begins_open(body: &str) -> bool {
    [".*", ".+", "[^", "\\S*", "\\S+"].iter().any(|open| inside(body).starts_with(open))
}

fn ends_open(body: &str) -> bool {
    let end = inside_end(body).trim_end_matches('?');
    let ends = |open: &str| end.strip_suffix(open).is_some_and(|before| !is_escaped(before));
    ends(".*") || ends(".+")
}

/// True if the expression begins with fixed text that is not a slash.
fn cannot_begin_a_path(body: &str) -> bool {
    let mut chars = body.chars();
    let first = match chars.next() {
        // Classes such as `\w` may match more than they name, but no punctuation is a class.
        Some('\\') => chars.next().filter(char::is_ascii_punctuation),
        Some(first) => (!OPERATORS.contains(&first)).then_some(first),
        None => None,
    };
    let is_optional = matches!(chars.next(), Some('?' | '*' | '{'));
    first.is_some_and(|first| first != '/') && !is_optional && !body.contains('|')
}

/// The expression without its anchors and flags.
fn bare(text: &str) -> &str {
    let body = without_flags(text);
    let body = body.strip_prefix('^').unwrap_or(body);
    body.strip_suffix('$').filter(|before| !is_escaped(before)).unwrap_or(body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_that_were_meant_for_a_part_are_told_from_others() {
        let partial = [
            r"\.php$",
            "^/admin",
            "(?i)^/admin",
            r"\.(png|jpg)$",
            r"\.php",
            "admin",
            "/admin",
            "^/a|^/b",
            r"^/price\$",
            "/v1$",
        ];
        for text in partial {
            assert!(suspicion(text, Of::Path).is_some(), "{text}");
        }
        let whole = [
            r".*\.php$",
            r".*\.php",
            "/u/[0-9]+",
            "^/u/[0-9]+$",
            "^/admin.*",
            "^/admin(/.*)?",
            "^/admin(/.*)?$",
            "^/a(/|$)",
            "(/a|/b)",
            "/a|/b",
            "[^/]*",
            "^/.+",
            r"/a\.b",
            "(?i)/a",
            r"\w?/a",
            "^(/a|/b)$",
            "/?a",
            "a|/b",
            r"[^.]*\.php$",
            r"(.*)\.php$",
            "(?:^/a$)",
        ];
        for text in whole {
            assert_eq!(suspicion(text, Of::Path), None, "{text}");
        }
        assert_eq!(suspicion("^curl", Of::Other), Some("only its beginning is anchored"));
        assert_eq!(suspicion("curl", Of::Other), Some("it is fixed text"));
        for text in ["beta|alpha", "[0-9]+", "(?i)curl", "Mozilla/.*", "v[12]", r"a\.b"] {
            assert_eq!(suspicion(text, Of::Other), None, "{text}");
        }
    }
}
