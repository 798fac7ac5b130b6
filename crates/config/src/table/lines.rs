//! How is a table written? [`Lines`]: each key that is not at its default, in the order of the rows.

use super::row::Kind;
use crate::printable::quote;
use std::fmt::Write;

/// The keys of one table and their values, as TOML.
#[derive(Debug, Default)]
pub(crate) struct Lines(Vec<(String, String)>);

impl Lines {
    /// Adds a key.
    pub fn add(&mut self, key: &str, value: String) {
        self.0.push((key.to_string(), value));
    }

    /// Adds the keys of another table, as if they were of this one.
    pub fn append(&mut self, mut other: Lines) {
        self.0.append(&mut other.0);
    }

    /// Whether there is no key.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// As a table in braces.
    pub fn braces(&self) -> String {
        match self.is_empty() {
            true => "{}".to_string(),
            false => format!("{{ {} }}", self.joined(", ")),
        }
    }

    /// As the value of a key of this kind: what stands for the table if that is shorter.
    pub fn value(&self, kind: &Kind) -> String {
        match (*kind, self.0.as_slice()) {
            (Kind::TableOr { key, .. }, [(only, value)]) if only == key => value.clone(),
            (Kind::TableOrBool(_), []) => "true".to_string(),
            // "off" stands for no table.
            (Kind::TableOrWord { word, .. }, []) if word != "off" => quote(word),
            _ => self.braces(),
        }
    }

    /// As a table with a header, if there is a key.
    pub fn section(&self, header: &str, out: &mut String) {
        if !self.is_empty() {
            let _ = writeln!(out, "\n{header}\n{}", self.joined("\n"));
        }
    }

    fn joined(&self, between: &str) -> String {
        let lines: Vec<String> = self.0.iter().map(|(key, value)| format!("{key} = {value}")).collect();
        lines.join(between)
    }
}

/// An array.
pub(crate) fn list(items: impl Iterator<Item = String>) -> String {
    format!("[{}]", items.collect::<Vec<_>>().join(", "))
}
