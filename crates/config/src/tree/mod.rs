//! TOML as a tree before interpretation: keys and values with their spans, in the order of the file. Trees of
//! several files can be merged.

pub mod paths;

use crate::code::Code;
use crate::diagnostic::Findings;
use crate::source::{Sources, Span};
use std::collections::HashMap;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

#[derive(Clone, Debug)]
pub struct Node {
    pub span: Span,
    pub tree: Tree,
}

/// A TOML value. Numbers keep their text for messages.
#[derive(Clone, Debug)]
pub enum Tree {
    Text(String),
    /// Whole number; `None` if it does not fit into an `i128`.
    Int(Option<i128>, String),
    /// Number that is not whole.
    Number(f64, String),
    /// `true` or `false`.
    Bool(bool),
    Date(String),
    List(Vec<Node>),
    Table(TableNode),
    /// Placeholder for a value whose error was reported already. Readers skip it silently.
    Broken,
}

#[derive(Clone, Debug, Default)]
pub struct TableNode {
    /// Entries in the order of the file.
    pub entries: Vec<Entry>,
}

#[derive(Clone, Debug)]
pub struct Entry {
    pub key: String,
    pub key_span: Span,
    pub node: Node,
}

impl TableNode {
    /// Value below these keys; `None` if any is missing.
    pub(crate) fn find(&self, path: &[&str]) -> Option<&Node> {
        let (key, below) = path.split_first()?;
        let node = &self.get(key)?.node;
        match &node.tree {
            _ if below.is_empty() => Some(node),
            Tree::Table(table) => table.find(below),
            _ => None,
        }
    }

    /// Entry of a key; `None` if not set.
    pub fn get(&self, key: &str) -> Option<&Entry> {
        self.entries.iter().find(|e| e.key == key)
    }
}

impl Tree {
    /// Name of the type for messages, with its article.
    pub fn type_name(&self) -> &'static str {
        match self {
            Tree::Text(_) => "a string",
            Tree::Int(..) => "a whole number",
            Tree::Number(..) => "a number",
            Tree::Bool(_) => "a boolean",
            Tree::Date(_) => "a date",
            Tree::List(_) => "an array",
            Tree::Table(_) => "a table",
            Tree::Broken => "nothing",
        }
    }

    /// Value for messages: scalars as written, the rest by type.
    pub fn seen(&self) -> String {
        match self {
            Tree::Text(text) => quoted(text),
            Tree::Int(_, text) | Tree::Number(_, text) | Tree::Date(text) => text.clone(),
            Tree::Bool(b) => b.to_string(),
            other => other.type_name().to_string(),
        }
    }
}

/// The text in quotes, cut after 60 characters.
pub(crate) fn quoted(text: &str) -> String {
    let escaped: String = text.chars().take(60).flat_map(|c| c.escape_debug()).collect();
    let escaped = escaped.replace("\\'", "'");
    if text.chars().nth(60).is_some() { format!("\"{escaped}...\"") } else { format!("\"{escaped}\"") }
}

/// Parses a file. A syntax error is reported, and the recovered values are returned with the place of the
/// error.
pub(crate) fn parse(sources: &Sources, file: usize, findings: &mut Findings) -> (Node, Option<Span>) {
    let text = sources.text(file);
    let (table, errors) = DeTable::parse_recoverable(text);
    // The parser recovers, but later errors are often caused by the first.
    let bytes_of = |error: &toml::de::Error| error.span().unwrap_or(text.len()..text.len());
    let first = errors.iter().min_by_key(|e| bytes_of(e).start);
    if let Some(error) = first {
        let span = Span::of(file, bytes_of(error));
        let finding = findings.add(Code::Syntax, span, format!("not TOML: {}", error.message()));
        if error.message().starts_with("duplicate key") {
            finding.help("each key and each [table] may appear once per file; only [[route]] may be repeated");
        }
    }
    (
        Node { span: Span::whole(file), tree: Tree::Table(table_node(file, table.get_ref())) },
        first.map(|e| Span::of(file, bytes_of(e))),
    )
}

/// Parses a value that belongs to no file.
pub(crate) fn parse_value(text: &str) -> Option<Node> {
    DeValue::parse(text).ok().map(|value| node(0, &value))
}

fn table_node(file: usize, table: &DeTable<'_>) -> TableNode {
    let entry = |(key, value): (&Spanned<_>, &Spanned<DeValue<'_>>)| {
        let key_span = Span::of(file, key.span());
        let key: &std::borrow::Cow<'_, str> = key.get_ref();
        Entry { key: key.to_string(), key_span, node: node(file, value) }
    };
    let mut entries: Vec<Entry> = table.iter().map(entry).collect();
    entries.sort_by_key(|e| e.key_span.start);
    TableNode { entries }
}

fn node(file: usize, value: &Spanned<DeValue<'_>>) -> Node {
    let tree = match value.get_ref() {
        DeValue::String(text) => Tree::Text(text.to_string()),
        DeValue::Integer(n) => Tree::Int(i128::from_str_radix(n.as_str(), n.radix()).ok(), n.to_string()),
        DeValue::Float(x) => Tree::Number(x.as_str().parse().unwrap_or(f64::NAN), x.as_str().to_string()),
        DeValue::Boolean(b) => Tree::Bool(*b),
        DeValue::Datetime(date) => Tree::Date(date.to_string()),
        DeValue::Array(values) => Tree::List(values.iter().map(|v| node(file, v)).collect()),
        DeValue::Table(table) => Tree::Table(table_node(file, table)),
    };
    Node { span: Span::of(file, value.span()), tree }
}

/// Trees of several files merged: tables key by key, root-level arrays of tables (`[[route]]`) concatenated.
/// Any other key set by two files is an error that names both places.
#[derive(Debug, Default)]
pub(crate) struct Joined {
    entries: Vec<Joining>,
    /// Index of each key in `entries`.
    at: HashMap<String, usize>,
}

/// A key with its values so far.
#[derive(Debug)]
enum Joining {
    /// Entry that only a single file has so far.
    One(Entry),
    /// Table that several files contribute to.
    Several(String, Span, Span, Joined),
}

impl Joined {
    /// Merges the tree of another file.
    pub fn add(&mut self, table: TableNode, findings: &mut Findings) {
        self.join(table, 0, findings);
    }

    fn join(&mut self, table: TableNode, depth: usize, findings: &mut Findings) {
        for entry in table.entries {
            let Some(&at) = self.at.get(&entry.key) else {
                self.at.insert(entry.key.clone(), self.entries.len());
                self.entries.push(Joining::One(entry));
                continue;
            };
            let existing = &mut self.entries[at];
            // Most keys occur in a single file, so an index is built only when a second file adds to a table.
            if let (Joining::One(Entry { key, key_span, node: Node { span, tree: Tree::Table(a) } }), Tree::Table(_)) =
                (&mut *existing, &entry.node.tree)
            {
                let mut joined = Joined::default();
                joined.join(std::mem::take(a), depth + 1, findings);
                *existing = Joining::Several(std::mem::take(key), *key_span, *span, joined);
            }
            match (existing, entry.node.tree) {
                (Joining::Several(_, _, _, joined), Tree::Table(b)) => joined.join(b, depth + 1, findings),
                (Joining::One(Entry { node: Node { tree: Tree::List(a), .. }, .. }), Tree::List(b)) if depth == 0 => {
                    a.extend(b);
                }
                (Joining::One(Entry { key_span, .. }) | Joining::Several(_, key_span, _, _), _) => {
                    findings
                        .add(
                            Code::KeyInTwoFiles,
                            entry.key_span,
                            format!("\"{}\" is already set in another file", entry.key),
                        )
                        .see("the other one is here", *key_span)
                        .help("keep one of the two; files are merged key by key, and none overrides another");
                }
            }
        }
    }

    /// Returns the merged tree of all files.
    pub fn finish(self) -> TableNode {
        let entry = |joining| match joining {
            Joining::One(entry) => entry,
            Joining::Several(key, key_span, span, joined) => {
                Entry { key, key_span, node: Node { span, tree: Tree::Table(joined.finish()) } }
            }
        };
        TableNode { entries: self.entries.into_iter().map(entry).collect() }
    }
}
