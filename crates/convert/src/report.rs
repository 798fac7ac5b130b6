//! Report of a conversion: every line that was not carried over, in three lists in the order in which a person acts, as
//! text and as JSON.

use crate::always::always;
use crate::recognise::From;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Title of the list of lines of which something is missing until a person decides: a protection, a route, a file.
pub const DECIDE: &str = "must decide";

/// Title of the list of lines whose absence, or difference, a client or an endpoint can notice.
pub const CHANGES: &str = "changes";

/// Title of the list of lines whose absence changes nothing.
pub const LOSSLESS: &str = "harmless";

/// Longest text of a directive in a report for people, in characters. JSON has the whole text.
const SHOWN: usize = 60;

/// Most different directives, and most ranges of lines, of a note.
const NAMED: usize = 3;
const RANGES: usize = 8;

/// Reason for lines that append the client to X-Forwarded-For.
pub(crate) const FORWARDED: &str =
    "an X-Forwarded-For that a client sent is replaced, not appended to, unless a trusted proxy sent it";

/// Advice on [`FORWARDED`].
pub(crate) const TRUSTED: &str =
    "nothing at the edge; behind other proxies, name their networks in trusted_proxies of the listener";

/// Reason for passwords and requests for permission that are not carried over.
pub(crate) const PROTECTED: &str = "the password or permission is not asked for: all clients are refused";

/// Reason for other refusals that are not carried over.
pub(crate) const REFUSED: &str = "the refusal is not carried over: all clients are refused";

/// Advice on [`PROTECTED`] and [`REFUSED`].
pub(crate) const OPEN: &str =
    "name the networks that may use it in access of the [[route]], or check clients in the application";

/// Reason and advice for address lists that are not carried over.
pub(crate) const UNKNOWN_LISTS: (&str, &str) = (
    "which of its address lists has the longest network, which decides here, is not known: all clients are refused",
    "write access of the [[route]]; networks in `allow` must not be within networks that are to be refused",
);

/// A line that was not carried over, or not exactly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    pub file: String,
    /// Line in that file, counted from 1.
    pub line: usize,
    /// Text of the directive, on a single line.
    pub text: String,
    pub reason: String,
    /// Advice for the operator; empty if there is nothing to do.
    pub todo: String,
}

/// Account of all directives of a conversion.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Program that the configuration was for.
    pub from: Option<From>,
    /// Path of the input as it was given, for the head.
    pub name: String,
    pub decide: Vec<Item>,
    pub changes: Vec<Item>,
    pub lossless: Vec<Item>,
    /// Number of directives that were read.
    pub directives: usize,
    /// Number of those that are in the output as they were, and in no list.
    pub carried: usize,
    /// Number of directives that no translation settled; each must be decided about.
    pub forgotten: usize,
}

impl Report {
    /// Notes on differences that a client or an endpoint can notice.
    pub fn named(&self) -> impl Iterator<Item = &Item> {
        self.decide.iter().chain(&self.changes)
    }

    /// The lists as text for people: each reason once, with its lines.
    pub fn to_text(&self) -> String {
        let mut out = String::new();
        let of = self.from.map_or(String::new(), |from| format!(", of {from}"));
        let _ = writeln!(out, "{}{of}: {} of {} directives are as they were", self.name, self.carried, self.directives);
        if let Some(from) = self.from {
            let _ = writeln!(out, "\nalways different from {from}:");
            for text in always(from) {
                let _ = writeln!(out, "  {text}");
            }
        }
        let lists = [(DECIDE, &self.decide), (CHANGES, &self.changes), (LOSSLESS, &self.lossless)];
        let names = short_names(lists.iter().flat_map(|(_, items)| *items).map(|item| &*item.file));
        for (title, items) in lists.into_iter().filter(|(_, items)| !items.is_empty()) {
            let _ = writeln!(out, "\n{title} ({}):", items.len());
            groups(items).iter().for_each(|group| group.write(&names, &mut out));
        }
        out
    }

    /// The lists for a program, with an entry for each line.
    pub fn to_json(&self) -> Value {
        let list = |items: &[Item]| -> Vec<Value> {
            let each = items.iter().map(|item| {
                json!({
                    "file": item.file, "line": item.line, "text": item.text, "reason": item.reason, "todo": item.todo,
                })
            });
            each.collect()
        };
        json!({
            "directives": self.directives,
            "carried": self.carried,
            "always": self.from.map_or(Vec::new(), |from| always(from).collect()),
            "decide": list(&self.decide),
            "changes": list(&self.changes),
            "lossless": list(&self.lossless),
        })
    }
}

/// Notes of a list with the same reason.
struct Group<'a> {
    reason: &'a str,
    items: Vec<&'a Item>,
}

/// Groups notes by their reason, in the order of the first of each.
fn groups(items: &[Item]) -> Vec<Group<'_>> {
    let mut at: BTreeMap<&str, usize> = BTreeMap::new();
    let mut groups: Vec<Group<'_>> = Vec::new();
    for item in items {
        let next = groups.len();
        let number = *at.entry(&item.reason).or_insert(next);
        if number == next {
            groups.push(Group { reason: &item.reason, items: Vec::new() });
        }
        groups[number].items.push(item);
    }
    groups
}

impl Group<'_> {
    fn write(&self, names: &BTreeMap<&str, &str>, out: &mut String) {
        let _ = match self.items.as_slice() {
            [item] => {
                let at = if names.len() > 1 {
                    format!("{}:{}", names[&*item.file], item.line)
                } else {
                    format!("line {}", item.line)
                };
                writeln!(out, "  {at} `{}`: {}", shortened(&item.text), self.reason)
            }
            items => {
                writeln!(out, "  {} lines ({}; {}): {}", items.len(), words(items), ranges(items, names), self.reason)
            }
        };
        let mut todos: Vec<&str> = Vec::new();
        for item in self.items.iter().filter(|item| !item.todo.is_empty()) {
            if !todos.contains(&&*item.todo) {
                todos.push(&item.todo);
            }
        }
        for todo in todos {
            let _ = writeln!(out, "      to do: {todo}");
        }
    }
}

/// First words of the directives of a group.
fn words(items: &[&Item]) -> String {
    let mut words: Vec<&str> = Vec::new();
    for item in items {
        let word = short_path(item.text.split(' ').next().unwrap_or_default()).trim_end_matches([':', '.']);
        if words.len() <= NAMED && !words.contains(&word) {
            words.push(word);
        }
    }
    let more = if words.len() > NAMED { ", ..." } else { "" };
    words.truncate(NAMED);
    words.join(", ") + more
}

/// Lines of a group, as ranges where they follow each other.
fn ranges(items: &[&Item], names: &BTreeMap<&str, &str>) -> String {
    let mut ranges: Vec<(&str, usize, usize)> = Vec::new();
    for item in items {
        match ranges.last_mut() {
            Some((file, _, last)) if *file == item.file && (*last..=*last + 1).contains(&item.line) => {
                *last = item.line
            }
            _ => ranges.push((&item.file, item.line, item.line)),
        }
    }
    let mut out = String::new();
    for (number, (file, first, last)) in ranges.iter().take(RANGES).enumerate() {
        let is_same = number > 0 && ranges[number - 1].0 == *file;
        if number > 0 {
            out.push_str(", ");
        }
        if names.len() > 1 && !is_same {
            let _ = write!(out, "{}:", names[file]);
        }
        let _ = if first == last { write!(out, "{first}") } else { write!(out, "{first}-{last}") };
    }
    if ranges.len() > RANGES {
        out.push_str(", ...");
    }
    out
}

/// The shortest end of each path that no other path has.
fn short_names<'a>(files: impl Iterator<Item = &'a str>) -> BTreeMap<&'a str, &'a str> {
    let mut names: BTreeMap<&str, &str> = files.map(|file| (file, file)).collect();
    let all: Vec<&str> = names.keys().copied().collect();
    for (file, name) in &mut names {
        let ends = file.rmatch_indices('/').map(|(at, _)| &file[at + 1..]);
        let is_own = |end: &&str| {
            !end.is_empty()
                && all.iter().filter(|other| *other == end || other.ends_with(&format!("/{end}"))).count() == 1
        };
        *name = ends.chain([*file]).find(is_own).unwrap_or(file);
    }
    names
}

/// The last two names of a long path of keys, such as `routes.match.prefix`.
fn short_path(text: &str) -> &str {
    let end = text.find(|c: char| c == ':' || c.is_whitespace()).unwrap_or(text.len());
    // A directive of HAProxy, not a key.
    if text.starts_with("tune.") {
        return text;
    }
    text[..end].rmatch_indices('.').nth(1).map_or(text, |(at, _)| &text[at + 1..])
}

/// Text of a directive, cut where it is too long for a line.
fn shortened(text: &str) -> String {
    let text = short_path(text);
    match text.char_indices().nth(SHOWN) {
        Some((at, _)) => format!("{}...", &text[..at]),
        None => text.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(file: &str, line: usize, text: &str, reason: &str, todo: &str) -> Item {
        let [file, text, reason, todo] = [file, text, reason, todo].map(str::to_string);
        Item { file, line, text, reason, todo }
    }

    #[test]
    fn notes_of_a_reason_are_written_once_with_their_lines() {
        let lossless = [(1, "a x"), (2, "b"), (3, "c"), (7, "d")].map(|(line, text)| item("f", line, text, "same", ""));
        let changes = vec![item("f", 9, "e f", "other", "nothing"), item("f", 9, "e f", "third", "")];
        let report = Report { lossless: lossless.into(), changes, ..Report::default() };
        let text = report.to_text();
        assert!(text.contains("\nharmless (4):\n  4 lines (a, b, c, ...; 1-3, 7): same\n"), "{text}");
        assert!(text.contains("  line 9 `e f`: other\n      to do: nothing\n  line 9 `e f`: third\n"), "{text}");
    }

    #[test]
    fn files_have_the_shortest_names_that_tell_them_apart() {
        let names = short_names(["/etc/a/x.conf", "/etc/b/x.conf", "/etc/y.conf", "/etc/a/x.conf"].into_iter());
        assert_eq!(names.into_values().collect::<Vec<_>>(), ["a/x.conf", "b/x.conf", "y.conf"]);
        assert_eq!(short_names(["x", "a/x"].into_iter()).into_values().collect::<Vec<_>>(), ["a/x", "x"]);
    }
}
