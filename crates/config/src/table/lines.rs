//! Output of a table: [`Lines`] holds the keys that differ from their default, in the order of the rows.

use super::row::Kind;
use crate::printable::quote;
use std::borrow::Cow;
use std::fmt::Write;

/// Keys of a table with their values in TOML.
#[derive(Debug, Default)]
pub(crate) struct Lines(Vec<(String, String)>);

impl Lines {
    pub fn add(&mut self, key: &str, value: String) {
        self.0.push((key.to_string(), value));
    }

    /// Adds the keys of another table to this table.
    pub fn append(&mut self, mut other: Lines) {
        self.0.append(&mut other.0);
    }

    /// True if there are no keys.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Formats an inline table: `{ key = value }`.
    pub fn braces(&self) -> String {
        match self.is_empty() {
            true => "{}".to_string(),
            false => format!("{{ {} }}", self.joined(", ")),
        }
    }

    /// Formats the value of a key of this kind, in its short form if any.
    pub fn value(&self, kind: &Kind) -> String {
        match (*kind, self.0.as_slice()) {
            (Kind::TableOr { key, .. }, [(only, value)]) if only == key => value.clone(),
            (Kind::TableOrBool(_), []) => "true".to_string(),
            // "off" means no table.
            (Kind::TableOrWord { word, .. }, []) if word != "off" => quote(word),
            _ => self.braces(),
        }
    }

    /// Writes the table under a header, unless it is empty.
    pub fn section(&self, header: &str, out: &mut String) {
        if !self.is_empty() {
            self.table(header, out);
        }
    }

    /// Writes the table under a header.
    pub fn table(&self, header: &str, out: &mut String) {
        let _ = writeln!(out, "\n{header}\n{}", self.joined("\n"));
    }

    fn joined(&self, between: &str) -> String {
        let lines: Vec<String> = self.0.iter().map(|(key, value)| format!("{key} = {value}")).collect();
        lines.join(between)
    }
}

/// A user-defined key as TOML: in quotes unless it may stand bare.
pub(super) fn key_text(key: &str) -> Cow<'_, str> {
    let is_bare = !key.is_empty() && key.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_');
    if is_bare { Cow::Borrowed(key) } else { Cow::Owned(quote(key)) }
}

/// Formats an inline array: `[a, b]`.
pub(crate) fn list(items: impl Iterator<Item = String>) -> String {
    format!("[{}]", items.collect::<Vec<_>>().join(", "))
}
