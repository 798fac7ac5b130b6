//! Application of advice to a file, as by a person who types what it says and nothing else.

use evenkeel_config::{Diagnostic, Position};
use std::ops::Range;
use toml::de::DeTable;

/// Applies all exact advice to the text.
pub fn advice(text: &str, diagnostics: &[Diagnostic]) -> String {
    let mut edits: Vec<(Range<usize>, String)> = diagnostics.iter().flat_map(|d| edits(text, d)).collect();
    edits.sort_by_key(|(range, _)| std::cmp::Reverse(range.start));
    // Advice for a part is moot where the whole is replaced.
    let whole = edits.clone();
    edits.retain(|(part, _)| !whole.iter().any(|(w, _)| w != part && w.start <= part.start && part.end <= w.end));
    let apply = |mut text: String, (range, new): (Range<usize>, String)| {
        text.replace_range(range, &new);
        text
    };
    merged(&edits.into_iter().fold(text.to_string(), apply))
}

/// Replacements that the advice of one diagnostic asks for: of an entry, a value, or the first word of
/// headers.
fn edits(text: &str, diagnostic: &Diagnostic) -> Vec<(Range<usize>, String)> {
    let Some(help) = diagnostic.help.as_deref().and_then(|help| help.strip_prefix("here this is [")) else {
        return edit(text, diagnostic).into_iter().collect();
    };
    let (Some((is, _)), Some(key)) = (help.split_once(".NAME], with"), diagnostic.message.split('"').nth(1)) else {
        return Vec::new();
    };
    let header = format!("[{key}.");
    let headers = text.match_indices(&header).map(|(at, _)| at + 1..at + 1 + key.len());
    headers.map(|header| (header, is.to_string())).collect()
}

fn edit(text: &str, diagnostic: &Diagnostic) -> Option<(Range<usize>, String)> {
    let range = diagnostic.at.range.as_ref()?;
    let (start, end) = (byte_of(text, range.start), byte_of(text, range.end));
    let help = diagnostic.help.as_deref()?;
    if let Some(is) = help.strip_prefix("here this is ") {
        let is = longest(is, |is| DeTable::parse(is).is_ok())?;
        if text[..start].trim_end().ends_with('=') {
            return Some((start_of_key(text, start)..end, is));
        }
        return Some((start..end_of_value(text, end), is));
    }
    if let Some(name) = help.strip_prefix("did you mean ").and_then(|help| help.split_once('?')) {
        return Some((start..end, name.0.to_string()));
    }
    let write = help.strip_prefix("write ").or_else(|| help.strip_prefix("add one: "))?;
    if let Some(entry) = longest(write, |write| DeTable::parse(write).is_ok()) {
        return Some((start_of_key(text, start)..end, entry));
    }
    let write = ["it as an array: ", "it without scheme and path: ", "a string for each: "]
        .iter()
        .find_map(|way| write.strip_prefix(way))
        .unwrap_or(write);
    let is_value = |value: &str| DeTable::parse(&format!("x = [{value}]")).is_ok();
    Some((start..end, longest(write, is_value)?))
}

/// Longest prefix, ending at a space or punctuation, that `is` accepts.
fn longest(text: &str, is: impl Fn(&str) -> bool) -> Option<String> {
    let ends = text.char_indices().filter(|(_, c)| " ,;:".contains(*c)).map(|(at, _)| at).chain([text.len()]);
    let ends: Vec<usize> = ends.filter(|end| *end > 0).collect();
    let found = ends.into_iter().rev().map(|end| &text[..end]).find(|text| is(text))?;
    // Advice for another table needs a person.
    let of_another = [" of ", " in ["].iter().any(|of| text[found.len()..].starts_with(of));
    (!of_another).then(|| found.trim_end_matches([',', ' ']).to_string())
}

fn byte_of(text: &str, at: Position) -> usize {
    let above: usize = text.split_inclusive('\n').take(at.line - 1).map(str::len).sum();
    above + text[above..].chars().take(at.col - 1).map(char::len_utf8).sum::<usize>()
}

/// Offset where the key of a value begins.
fn start_of_key(text: &str, value: usize) -> usize {
    let before = text[..value].trim_end_matches([' ', '=', '[']);
    before.rfind(|c: char| !c.is_alphanumeric() && c != '_').map_or(0, |at| at + 1)
}

/// Offset where the entry of a key ends: before a comma, a brace or a line end outside its value.
fn end_of_value(text: &str, key_end: usize) -> usize {
    let (mut depth, mut in_quotes) = (0, false);
    for (at, c) in text[key_end..].char_indices() {
        match c {
            '"' => in_quotes = !in_quotes,
            _ if in_quotes => {}
            ',' | '}' | '\n' if depth == 0 => return text[..key_end + at].trim_end().len(),
            '[' | '{' => depth += 1,
            ']' | '}' => depth -= 1,
            _ => {}
        }
    }
    text.len()
}

/// Merges inline tables under the same key of one table.
fn merged(text: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    let mut table = 0;
    for line in text.lines() {
        let inner = |line: &str| line.split_once(" = { ").map(|(key, rest)| (key.to_string(), rest.to_string()));
        if line.starts_with('[') {
            table = lines.len();
        }
        let first = inner(line).and_then(|(key, rest)| {
            let same = |l: &String| inner(l).is_some_and(|(k, _)| k == key);
            Some((table + lines[table..].iter().position(same)?, rest))
        });
        match first {
            Some((first, rest)) => lines[first] = format!("{}, {rest}", lines[first].trim_end_matches(" }")),
            None => lines.push(line.to_string()),
        }
    }
    lines.join("\n") + "\n"
}
