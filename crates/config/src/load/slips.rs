//! Small deviations from TOML: comments that start with `//` or `;`, lines that end in `;`, and strings
//! without quotes.

use crate::foreign::address;
use crate::form::Form;
use crate::printable::quote;
use crate::root::ROOT;
use crate::table::{Kind, vocabulary};

/// A deviation, and the text to write instead.
pub(super) struct Slip {
    /// Byte range of the deviation, up to `end`.
    pub start: usize,
    pub end: usize,
    /// Problem, for the message.
    pub message: &'static str,
    pub help: String,
}

/// Recognises the deviation at the byte where the parser stopped.
pub(super) fn slip(text: &str, at: usize) -> Option<Slip> {
    let start = text.get(..at)?.rfind('\n').map_or(0, |end| end + 1);
    let line = text[start..].lines().next()?;
    let at = at - start;
    let (before, rest) = line.split_at_checked(at)?;
    if let Some(mark) = ["//", ";"].into_iter().find(|mark| rest.starts_with(mark)) {
        let (message, help) = match before.ends_with([' ', '\t']) || before.is_empty() || mark == "//" {
            true => ("comments begin with #", format!("write # instead of {mark}")),
            false if rest.trim() == mark => ("lines end without ;", "leave it out".to_string()),
            false => ("a ; does not separate keys", "write each key on a line of its own".to_string()),
        };
        return Some(Slip { start: start + at, end: start + at + mark.len(), message, help });
    }
    unquoted(&text[..start], line, at).map(|slip| Slip { start: start + slip.start, end: start + slip.end, ..slip })
}

/// Recognises a value, or elements of an array, without quotes. `above` is the text before the line.
fn unquoted(above: &str, line: &str, at: usize) -> Option<Slip> {
    let (key, from) = match line.split_once('=') {
        Some((key, _)) => (key.trim(), key.len() + 1),
        None => (key_of_array(above)?, 0),
    };
    let is_key = !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c));
    let (last, words) = (key.rsplit('.').next().unwrap_or(key), vocabulary(&ROOT));
    if !is_key || words.is_guarded(last) || !words.has(last) || at < from {
        return None;
    }
    let value =
        [" #", " //", " ;"].iter().fold(&line[from..], |value, mark| value.split(mark).next().unwrap_or(value)).trim();
    let written = value.trim_end_matches(';');
    let inner = written.strip_prefix('[').and_then(|value| value.strip_suffix(']'));
    let parts: Vec<&str> = inner.unwrap_or(written).split(',').map(str::trim).filter(|part| !part.is_empty()).collect();
    let bare = |part: &str| !part.contains(['"', '\'', '[', ']', '{', '}', '=', ' ', '\\']);
    let is_quoted = |part: &str| part.len() > 1 && part.starts_with('"') && part.ends_with('"');
    if parts.is_empty() || !parts.iter().all(|part| bare(part) || is_quoted(part)) {
        return None;
    }
    let kind = kind(above, key);
    let is_list = inner.is_some() || from == 0 || matches!(kind, Some(Kind::List(_)));
    let written = |part: &&str| match kind {
        _ if is_quoted(part) => part.to_string(),
        Some(Kind::List(Kind::Text(Form::Bind))) => address(part, Form::Bind).unwrap_or_else(|| quote(part)),
        _ if is_list && part.parse::<f64>().is_ok() => part.to_string(),
        _ => quote(part),
    };
    let written = parts.iter().map(written).collect::<Vec<_>>().join(", ");
    let start = from + line[from..].find(value)?;
    let help = match (from, is_list) {
        (0, _) => format!("write {written}"),
        (_, true) => format!("write {key} = [{written}]"),
        (_, false) => format!("write {key} = {written}"),
    };
    let value = if from == 0 { value.trim_end_matches(',') } else { value };
    Some(Slip { start, end: start + value.len(), message: "strings need quotes", help })
}

/// Key of the array that is open at the end of a text.
fn key_of_array(above: &str) -> Option<&str> {
    let (before, after) = above.rsplit_once('=')?;
    let is_open = after.trim_start().starts_with('[') && !after.contains(']');
    is_open.then(|| before.lines().next_back().unwrap_or_default().trim())
}

/// Kind of a key, by the last table header above it.
fn kind(above: &str, key: &str) -> Option<Kind> {
    let header = above.lines().rev().map(str::trim).find(|line| line.starts_with('[') && line.ends_with(']'));
    let path = match header.unwrap_or_default() {
        header if header.starts_with("[listener.") => "[listener.NAME]",
        header if header.starts_with("[pool.") => "[pool.NAME]",
        header => header,
    };
    ROOT.walk().into_iter().find(|table| table.path == path)?.key(key).map(|row| row.kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_has_the_line_to_write() {
        for (text, at, help) in [
            ("// a\n", "//", "write # instead of //"),
            ("[pool.a]\n  ; b\n", ";", "write # instead of ;"),
            ("[listener.a]\nbind = 0.0.0.0:80; # c\n", ".0.0:", "write bind = [\"0.0.0.0:80\"]"),
            ("[pool.a]\nbalance = leastconn // b\n", "least", "write balance = \"leastconn\""),
            ("a = 1 ; b\n", ";", "write # instead of ;"),
            ("a = 1;\n", ";", "leave it out"),
            ("a = 1; b = 2\n", ";", "write each key on a line of its own"),
            ("a = 1 // b\n", "//", "write # instead of //"),
            ("[listener.a]\nbind = 0.0.0.0:80\n", ".0.0:", "write bind = [\"0.0.0.0:80\"]"),
            ("[listener.a]\nbind = [:80, *:81] # c\n", ":80", "write bind = [\"[::]:80\", \"[::]:81\"]"),
            ("[pool.a]\nendpoints = [a:80, \"b:80\"]\n", "a:80", "write endpoints = [\"a:80\", \"b:80\"]"),
            ("[pool.a]\nendpoints = [\n  a:80,\n", "a:80", "write \"a:80\""),
            ("[pool.a]\nendpoints = a:80\n", "a:80", "write endpoints = [\"a:80\"]"),
            ("[pool.a]\nbalance = leastconn\n", "least", "write balance = \"leastconn\""),
        ] {
            let slip = slip(text, text.find(at).expect(text)).expect(text);
            assert_eq!(slip.help, help, "{text}");
        }
    }

    #[test]
    fn other_faults_and_secrets_are_no_slips() {
        for (text, at) in [
            ("[pool.a\n", "pool"),
            ("[pool.a]\nendpoints = [\n", "[\n"),
            ("[a]\nsecret = [\n  abc,\n", "abc"),
            ("[pool.a.sticky]\nsecret = abcdef\n", "abc"),
            ("a = { b = c }\n", "c }"),
            ("a\n", "a"),
            ("", ""),
        ] {
            assert!(slip(text, text.find(at).expect(text)).is_none(), "{text}");
        }
    }
}
