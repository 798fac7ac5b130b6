//! Report of a conversion: every line that was not carried over, in two lists, as text and as JSON.

use serde_json::{Value, json};
use std::fmt::Write;

/// Title of the list of lines whose absence changes nothing.
pub const LOSSLESS: &str = "not carried over, nothing is lost";

/// Title of the list of lines whose absence, or difference, a client or an endpoint can notice.
pub const CHANGES: &str = "not carried over, and this changes";

/// Reason for lines that append the client to X-Forwarded-For.
pub(crate) const FORWARDED: &str =
    "an X-Forwarded-For that a client sent is replaced, not appended to, unless a trusted proxy sent it";

/// Advice on [`FORWARDED`].
pub(crate) const TRUSTED: &str =
    "nothing at the edge; behind other proxies, name their networks in trusted_proxies of the listener";

/// Reason for passwords and requests for permission that are not carried over.
pub(crate) const PROTECTED: &str = "the password or permission is not asked for: all clients are refused";

/// Advice on [`PROTECTED`].
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
    pub changes: Vec<Item>,
    pub lossless: Vec<Item>,
    /// Number of directives that were read.
    pub directives: usize,
    /// Number of those that are in the output as they were, and in no list.
    pub carried: usize,
    /// Number of directives that no translation settled; each is among the changes.
    pub forgotten: usize,
}

impl Report {
    /// Both lists as text for people, the list that needs decisions first.
    pub fn to_text(&self) -> String {
        let mut out = String::new();
        let lists = [(CHANGES, &self.changes), (LOSSLESS, &self.lossless)];
        for (title, items) in lists.into_iter().filter(|(_, items)| !items.is_empty()) {
            let _ = writeln!(out, "{title} ({}):", items.len());
            for item in items {
                let _ = writeln!(out, "  {}:{}: {}", item.file, item.line, item.text);
                let _ = writeln!(out, "      {}", item.reason);
                if !item.todo.is_empty() {
                    let _ = writeln!(out, "      to do: {}", item.todo);
                }
            }
            out.push('\n');
        }
        let _ = writeln!(
            out,
            "{} directives: {} carried over as they are, {} notes on changes, {} without a loss",
            self.directives,
            self.carried,
            self.changes.len(),
            self.lossless.len()
        );
        out
    }

    /// Both lists for a program.
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
            "changes": list(&self.changes),
            "lossless": list(&self.lossless),
        })
    }
}
