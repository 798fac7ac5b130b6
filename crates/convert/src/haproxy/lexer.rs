//! Words of haproxy.cfg, in sections. Quotes, escapes and continued lines as in section 2.2 of HAProxy's manual.

use crate::ledger::{Ledger, Line};
use std::sync::Arc;

/// Words that begin a section.
const SECTIONS: &[&str] = &[
    "global",
    "defaults",
    "frontend",
    "backend",
    "listen",
    "userlist",
    "peers",
    "resolvers",
    "mailers",
    "cache",
    "http-errors",
    "program",
    "ring",
    "fcgi-app",
    "log-forward",
    "log-profile",
    "crt-store",
    "traces",
    "acme",
];

/// A section with the directives in it.
#[derive(Clone, Debug)]
pub(super) struct Section {
    pub kind: String,
    pub name: String,
    /// Name after `from`: the defaults that the section starts from.
    pub from: Option<String>,
    pub line: Line,
    pub items: Vec<Item>,
}

/// A directive of a section. Its first word is its name.
#[derive(Clone, Debug)]
pub(super) struct Item {
    pub line: Line,
    pub words: Vec<String>,
}

impl Item {
    /// A word by its number, empty if there are fewer.
    pub fn word(&self, at: usize) -> &str {
        self.words.get(at).map_or("", String::as_str)
    }

    /// Words from the number `at` on; none if there are fewer.
    pub fn from(&self, at: usize) -> &[String] {
        self.words.get(at..).unwrap_or_default()
    }
}

/// Reads sections. Lines before the first are entered as directives outside of any.
pub(super) fn sections(text: &str, file: &Arc<str>, ledger: &mut Ledger) -> Vec<Section> {
    let mut sections: Vec<Section> = Vec::new();
    for (number, line) in joined(text) {
        let words = words(&line);
        let Some(first) = words.first() else { continue };
        let entry = ledger.open(file, number, &masked(&words, &line));
        if first.starts_with('.') && first.len() > 1 {
            let reason = "a condition of HAProxy's preprocessor: the lines under it were read as if it held";
            ledger.changes(entry, reason, "keep the lines of one branch, and convert that");
            continue;
        }
        if SECTIONS.contains(&first.as_str()) {
            let from = words.iter().position(|word| word == "from").and_then(|at| words.get(at + 1)).cloned();
            let name = words.get(1).filter(|name| *name != "from").cloned().unwrap_or_default();
            sections.push(Section { kind: first.clone(), name, from, line: entry, items: Vec::new() });
            // Old files have the address of a frontend behind its name.
            if matches!(first.as_str(), "frontend" | "listen") && words.len() > 2 && words[2] != "from" {
                let bind: Vec<String> = std::iter::once("bind".to_string()).chain(words[2..].iter().cloned()).collect();
                sections.last_mut().expect("it was pushed above").items.push(Item { line: entry, words: bind });
            }
            continue;
        }
        match sections.last_mut() {
            Some(section) => section.items.push(Item { line: entry, words }),
            None => ledger.changes(entry, "it stands outside of any section", "move it into one"),
        }
    }
    sections
}

/// The line, with everything behind the keyword of a password masked.
fn masked(words: &[String], line: &str) -> String {
    let is_secret = |word: &String| matches!(word.as_str(), "password" | "insecure-password" | "auth");
    match words.iter().position(is_secret) {
        Some(at) if matches!(words[0].as_str(), "user" | "stats") => format!("{} ...", words[..=at].join(" ")),
        _ => line.to_string(),
    }
}

/// Lines with their numbers; a backslash at the end continues a line.
fn joined(text: &str) -> Vec<(usize, String)> {
    let mut lines: Vec<(usize, String)> = Vec::new();
    let mut continues = false;
    for (index, line) in text.lines().enumerate() {
        let line = line.trim_end_matches('\r');
        let (line, more) = match line.strip_suffix('\\').filter(|line| !line.ends_with('\\')) {
            Some(line) => (line, true),
            None => (line, false),
        };
        match lines.last_mut().filter(|_| continues) {
            Some((_, last)) => last.push_str(line),
            None => lines.push((index + 1, line.to_string())),
        }
        continues = more;
    }
    lines
}

/// Words of a line. `$NAME` and `${NAME}` within double quotes become `${NAME}`, as evenkeel writes them.
pub(super) fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut is_word) = (Vec::new(), String::new(), false);
    let mut chars = line.chars().peekable();
    let mut quote = None;
    while let Some(c) = chars.next() {
        match (quote, c) {
            (Some('\''), '\'') | (Some('"'), '"') => quote = None,
            (Some('\''), c) => word.push(c),
            (None, '\'' | '"') => {
                quote = Some(c);
                is_word = true;
            }
            (_, '\\') => {
                is_word = true;
                match chars.next() {
                    Some('n') => word.push('\n'),
                    Some('r') => word.push('\r'),
                    Some('t') => word.push('\t'),
                    Some(c) if "\\ \"'#$".contains(c) => word.push(c),
                    // In a regular expression it means something.
                    Some(c) => word.extend(['\\', c]),
                    None => {}
                }
            }
            // A hash of a password begins with it.
            (_, '$')
                if (quote.is_some() || words.first().is_none_or(|word| word != "user"))
                    && chars.peek().is_some_and(|c| c.is_ascii_alphabetic() || *c == '_' || *c == '{') =>
            {
                let is_braced = chars.next_if_eq(&'{').is_some();
                let mut name = String::new();
                while let Some(c) =
                    chars.next_if(|c| if is_braced { *c != '}' } else { c.is_ascii_alphanumeric() || *c == '_' })
                {
                    name.push(c);
                }
                if is_braced {
                    chars.next();
                }
                is_word = true;
                word.push_str(&format!("${{{}}}", name.trim_end_matches("[*]")));
            }
            (None, '#') => break,
            (None, c) if c.is_whitespace() => {
                if std::mem::take(&mut is_word) {
                    // A copy has no room to spare, and a file may have 200,000 words.
                    words.push(word.clone());
                    word.clear();
                }
            }
            (_, c) => {
                is_word = true;
                word.push(c);
            }
        }
    }
    if is_word {
        words.push(word);
    }
    words.shrink_to_fit();
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_have_quotes_escapes_and_variables() {
        for (line, wanted) in [
            ("a b # c", vec!["a", "b"]),
            ("a 'b c' \"d e\"", vec!["a", "b c", "d e"]),
            ("a\\ b \\#", vec!["a b", "#"]),
            ("path_reg \\.php$", vec!["path_reg", "\\.php$"]),
            ("bind \"$HOST:${PORT}\" '$X'", vec!["bind", "${HOST}:${PORT}", "$X"]),
            ("\"\" x", vec!["", "x"]),
            ("   ", vec![]),
        ] {
            assert_eq!(words(line), wanted, "{line}");
        }
    }

    #[test]
    fn lines_may_be_continued() {
        assert_eq!(joined("a \\\nb\nc"), [(1, "a b".to_string()), (3, "c".to_string())]);
    }
}
