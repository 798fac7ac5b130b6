//! TOML as a tree. Its reader bounds the nesting.

use super::node::{DEPTH, Kind, NODES, Node};
use crate::ledger::Ledger;
use std::sync::Arc;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Reads a text.
///
/// # Errors
/// Line and reason, if it is not TOML.
pub(super) fn read(text: &str, file: &Arc<str>, ledger: &mut Ledger) -> Result<Node, (usize, String)> {
    let line_of = |at: usize| text.as_bytes().iter().take(at).filter(|byte| **byte == b'\n').count() + 1;
    let table = DeTable::parse(text)
        .map_err(|error| (error.span().map_or(1, |span| line_of(span.start)), error.message().to_string()))?;
    let starts = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
    let mut reader = Reader { starts, file, ledger, nodes: 0 };
    reader.table(table.get_ref(), "", 0, 1).ok_or((1, "it is too large, or nested too deeply".to_string()))
}

struct Reader<'r> {
    /// Places at which lines begin.
    starts: Vec<usize>,
    file: &'r Arc<str>,
    ledger: &'r mut Ledger,
    nodes: usize,
}

impl Reader<'_> {
    fn table(&mut self, table: &DeTable<'_>, path: &str, depth: usize, at: usize) -> Option<Node> {
        // In the order of the file.
        let mut keys: Vec<_> = table.iter().collect();
        keys.sort_by_key(|(key, _)| key.span().start);
        let mut entries = Vec::new();
        for (key, value) in keys {
            let path = if path.is_empty() { key.get_ref().to_string() } else { format!("{path}.{}", key.get_ref()) };
            entries.push((key.get_ref().to_string(), self.value(value, &path, depth + 1)?));
        }
        let line = match entries.first() {
            Some((_, node)) => node.line,
            None => self.ledger.open(self.file, at, &format!("{path} = {{}}")),
        };
        Some(Node { line, kind: Kind::Map(entries) })
    }

    fn value(&mut self, value: &Spanned<DeValue<'_>>, path: &str, depth: usize) -> Option<Node> {
        self.nodes += 1;
        if depth > DEPTH || self.nodes > NODES {
            return None;
        }
        let at = self.starts.partition_point(|start| *start <= value.span().start);
        let text = match value.get_ref() {
            DeValue::Table(table) => return self.table(table, path, depth, at),
            DeValue::Array(list) => {
                let nodes: Vec<Node> =
                    list.iter().map(|value| self.value(value, path, depth + 1)).collect::<Option<_>>()?;
                let line = match nodes.first() {
                    Some(node) => node.line,
                    None => self.ledger.open(self.file, at, &format!("{path} = []")),
                };
                return Some(Node { line, kind: Kind::List(nodes) });
            }
            DeValue::String(text) => text.to_string(),
            DeValue::Integer(number) => number.as_str().to_string(),
            DeValue::Float(number) => number.as_str().to_string(),
            DeValue::Boolean(on) => on.to_string(),
            DeValue::Datetime(time) => time.to_string(),
        };
        let line = self.ledger.open(self.file, at, &format!("{path} = {text}"));
        Some(Node { line, kind: Kind::Text(text) })
    }
}
