//! The merged text of a configuration, with the place of each key: file and line, and the table that a route has it
//! from.

use super::env::Env;
use super::files::Files;
use super::read_from;
use crate::diagnostic::Diagnostic;
use crate::printable::quote;
use crate::root::ROOT;
use crate::secret::masked::{hash_in, holds_key, without_passwords};
use crate::secret::names::is_secret_field;
use crate::sections::filters::sets::DEFAULT_ROUTE;
use crate::source::{Sources, Span};
use crate::table::is_secret;
use crate::tree::{Entry, Node, TableNode, Tree};
use std::collections::HashSet;
use std::fmt::Write;
use std::path::Path;

const MASK: &str = "***";

/// Tables whose entries have names, each a separate table.
const NAMED: [&str; 3] = ["listener", "pool", "filters"];

/// Maps from names of fields, cookies or parameters to their values.
const OF_FIELDS: [&str; 5] = ["set", "add", "header", "cookie", "query"];

/// Reads a file with its includes and variables, and writes the keys of all as a single file. A comment behind each key
/// has the file and line that set it; routes also have the keys of their sets and of `[defaults.route]`. Secrets are
/// masked.
///
/// # Errors
/// The diagnostics, if the file has errors.
pub fn places(files: &dyn Files, path: &Path, env: Env<'_>) -> Result<String, Vec<Diagnostic>> {
    let mut loader = read_from(files, path, env);
    let root = std::mem::take(&mut loader.joined).finish();
    let text = Writer { sources: &loader.sources, root: &root }.text();
    let outcome = loader.built(&root, None);
    if outcome.plan.is_some() { Ok(text) } else { Err(outcome.diagnostics) }
}

struct Writer<'t> {
    sources: &'t Sources,
    root: &'t TableNode,
}

impl Writer<'_> {
    fn text(&self) -> String {
        let mut out = String::new();
        let is_table = |entry: &&Entry| matches!(entry.node.tree, Tree::Table(_) | Tree::List(_));
        self.root.entries.iter().filter(|entry| !is_table(entry)).for_each(|entry| self.entry(entry, "", "", &mut out));
        for Entry { key, node, .. } in self.root.entries.iter().filter(is_table) {
            match &node.tree {
                Tree::Table(table) if NAMED.contains(&&**key) => {
                    for Entry { key: name, node, .. } in &table.entries {
                        self.table(&format!("[{key}.{}]", bare(name)), node, &mut out);
                    }
                }
                Tree::List(nodes) => nodes.iter().for_each(|node| self.table(&format!("[[{key}]]"), node, &mut out)),
                _ => self.table(&format!("[{key}]"), node, &mut out),
            }
        }
        out.trim_start().to_owned()
    }

    fn table(&self, header: &str, node: &Node, out: &mut String) {
        let Tree::Table(table) = &node.tree else { return };
        let _ = writeln!(out, "\n{header}");
        table.entries.iter().for_each(|entry| self.entry(entry, "", "", out));
        if header == "[[route]]" {
            self.inherited(table, out);
        }
    }

    /// Keys that a route has from sets and defaults.
    fn inherited(&self, route: &TableNode, out: &mut String) {
        let mut known: HashSet<&str> = route.entries.iter().map(|entry| &*entry.key).collect();
        let sets = texts(route.find(&["use"]));
        let sets = sets.into_iter().map(|name| (["filters", name], format!(" in [filters.{}]", bare(name))));
        let defaults =
            self.takes_requests(route).then(|| (["defaults", "route"], format!(" in {}", DEFAULT_ROUTE.path)));
        for (path, of) in sets.chain(defaults) {
            let Some(Node { tree: Tree::Table(table), .. }) = self.root.find(&path) else { continue };
            for entry in table.entries.iter().filter(|entry| known.insert(&entry.key)) {
                self.entry(entry, "", &of, out);
            }
        }
    }

    /// True if no listener that the route names relays sessions, which have no filters.
    fn takes_requests(&self, route: &TableNode) -> bool {
        let mode = |name: &&str| match self.root.find(&["listener", name, "mode"]).map(|node| &node.tree) {
            Some(Tree::Text(mode)) => mode == "http",
            _ => true,
        };
        texts(route.find(&["match", "listener"])).iter().all(mode)
    }

    /// Writes a line for a key, or a line for each key below it. `of` follows the place.
    fn entry(&self, Entry { key, key_span, node }: &Entry, above: &str, of: &str, out: &mut String) {
        let path = format!("{above}{}", bare(key));
        let in_map = OF_FIELDS.iter().any(|map| above.ends_with(&format!("{map}.")));
        let is_hidden = is_secret(&ROOT, key) || in_map && is_secret_field(key);
        match &node.tree {
            Tree::Table(table) if !is_hidden && !table.entries.is_empty() => {
                table.entries.iter().for_each(|entry| self.entry(entry, &format!("{path}."), of, out));
            }
            _ => {
                let value = if is_hidden { quote(MASK) } else { value(node) };
                let _ = writeln!(out, "{path} = {value}  # {}{of}", self.place(*key_span));
            }
        }
    }

    fn place(&self, span: Span) -> String {
        format!("{}:{}", self.sources.name(span.file), self.sources.positions(span).0.line)
    }
}

/// Formats a value on a single line, with passwords of URLs and values of secret keys masked.
fn value(node: &Node) -> String {
    match &node.tree {
        Tree::Text(text) if holds_key(text) || hash_in(text).is_some() => quote(MASK),
        Tree::Text(text) => quote(&without_passwords(text)),
        Tree::Int(Some(n), _) => n.to_string(),
        Tree::Int(None, text) | Tree::Number(_, text) | Tree::Date(text) => text.clone(),
        Tree::Bool(is) => is.to_string(),
        Tree::List(nodes) => format!("[{}]", nodes.iter().map(value).collect::<Vec<_>>().join(", ")),
        Tree::Table(table) if table.entries.is_empty() => "{}".to_owned(),
        Tree::Table(table) => {
            let one = |Entry { key, node, .. }: &Entry| {
                let is_hidden = is_secret(&ROOT, key) || is_secret_field(key) && matches!(node.tree, Tree::Text(_));
                let value = if is_hidden { quote(MASK) } else { value(node) };
                format!("{} = {value}", bare(key))
            };
            format!("{{ {} }}", table.entries.iter().map(one).collect::<Vec<_>>().join(", "))
        }
        Tree::Broken => quote(""),
    }
}

fn texts(node: Option<&Node>) -> Vec<&str> {
    let Some(Node { tree: Tree::List(nodes), .. }) = node else { return Vec::new() };
    nodes.iter().filter_map(|node| if let Tree::Text(text) = &node.tree { Some(&**text) } else { None }).collect()
}

/// A key as TOML: bare if possible, else in quotes.
fn bare(key: &str) -> String {
    let is_bare = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if !key.is_empty() && key.chars().all(is_bare) { key.to_owned() } else { quote(key) }
}
