//! YAML as a tree. Aliases are replaced by the nodes that they name, within the bound on nodes.

use super::node::{DEPTH, Kind, NODES, Node};
use crate::ledger::{Ledger, Line};
use saphyr_parser::{Event, Parser};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A container that is open, with the key that waits for its value.
struct Open {
    node: Node,
    key: Option<String>,
    anchor: usize,
    /// Names of the keys above it, for the texts of its leaves.
    path: String,
    at: usize,
}

/// Reads all documents of a text. Later documents add to the first.
///
/// # Errors
/// Line and reason, if it is not YAML or exceeds a bound.
pub(super) fn read(text: &str, file: &Arc<str>, ledger: &mut Ledger) -> Result<Node, (usize, String)> {
    let mut reader = Reader { file, ledger, anchors: BTreeMap::new(), open: Vec::new(), root: None, nodes: 0 };
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|error| (error.marker().line().max(1), error.info().to_string()))?;
        let at = span.start.line().max(1);
        reader.event(event, at).map_err(|reason| (at, reason.to_string()))?;
    }
    Ok(match reader.root {
        Some(root) => root,
        None => Node { line: ledger.open(file, 1, "an empty file"), kind: Kind::Map(Vec::new()) },
    })
}

struct Reader<'r> {
    file: &'r Arc<str>,
    ledger: &'r mut Ledger,
    anchors: BTreeMap<usize, Node>,
    open: Vec<Open>,
    root: Option<Node>,
    nodes: usize,
}

impl Reader<'_> {
    fn event(&mut self, event: Event<'_>, at: usize) -> Result<(), &'static str> {
        match event {
            Event::Scalar(text, _, anchor, _) => {
                let waits =
                    self.open.last().is_some_and(|open| matches!(open.node.kind, Kind::Map(_)) && open.key.is_none());
                if waits {
                    if let Some(open) = self.open.last_mut() {
                        open.key = Some(text.into_owned());
                    }
                    return Ok(());
                }
                let line = self.enter(at, &text);
                self.value(Node { line, kind: Kind::Text(text.into_owned()) }, anchor)
            }
            Event::SequenceStart(anchor, _) => self.begin(Kind::List(Vec::new()), anchor, at),
            Event::MappingStart(anchor, _) => self.begin(Kind::Map(Vec::new()), anchor, at),
            Event::SequenceEnd | Event::MappingEnd => self.end(),
            Event::Alias(anchor) => {
                let node = self.anchors.get(&anchor).cloned().ok_or("an alias stands for nothing, or for itself")?;
                self.nodes += node.size();
                if self.nodes > NODES {
                    return Err("aliases repeat too much");
                }
                self.value(node, 0)
            }
            _ => Ok(()),
        }
    }

    /// Name of the value that is read, as `a.b.c`.
    fn path(&self) -> String {
        match self.open.last() {
            None => String::new(),
            Some(Open { path, key: None, .. }) => path.clone(),
            Some(Open { path, key: Some(key), .. }) if path.is_empty() => key.clone(),
            Some(Open { path, key: Some(key), .. }) => format!("{path}.{key}"),
        }
    }

    fn enter(&mut self, at: usize, value: &str) -> Line {
        let path = self.path();
        self.ledger.open(self.file, at, &format!("{path}: {value}"))
    }

    fn begin(&mut self, kind: Kind, anchor: usize, at: usize) -> Result<(), &'static str> {
        if self.open.len() >= DEPTH {
            return Err("it is nested too deeply");
        }
        if self.open.last().is_some_and(|open| matches!(open.node.kind, Kind::Map(_)) && open.key.is_none()) {
            return Err("a key is not a text");
        }
        let path = self.path();
        // Replaced by the line of its first leaf. An empty container gets a separate line.
        self.open.push(Open { node: Node { line: Line::none(), kind }, key: None, anchor, path, at });
        Ok(())
    }

    fn end(&mut self) -> Result<(), &'static str> {
        let Some(mut open) = self.open.pop() else { return Ok(()) };
        let first = match &open.node.kind {
            Kind::List(list) => list.first().map(|node| node.line),
            Kind::Map(entries) => entries.first().map(|(_, node)| node.line),
            Kind::Text(_) => None,
        };
        let empty = if matches!(open.node.kind, Kind::List(_)) { "[]" } else { "{}" };
        open.node.line = match first {
            Some(line) => line,
            None => self.ledger.open(self.file, open.at, &format!("{}: {empty}", open.path)),
        };
        merge(&mut open.node);
        self.value(open.node, open.anchor)
    }

    fn value(&mut self, node: Node, anchor: usize) -> Result<(), &'static str> {
        self.nodes += 1;
        if self.nodes > NODES {
            return Err("it has too many values");
        }
        if anchor != 0 {
            self.anchors.insert(anchor, node.clone());
        }
        match self.open.last_mut() {
            None => match &mut self.root {
                Some(Node { kind: Kind::Map(all), .. }) if matches!(node.kind, Kind::Map(_)) => {
                    all.extend_from_slice(node.entries());
                }
                Some(_) => return Err("a second document is not a table"),
                root => *root = Some(node),
            },
            Some(open) => match &mut open.node.kind {
                Kind::List(list) => list.push(node),
                Kind::Map(entries) => match open.key.take() {
                    Some(key) => entries.push((key, node)),
                    None => return Err("a key is not a text"),
                },
                Kind::Text(_) => {}
            },
        }
        Ok(())
    }
}

/// Takes over the keys of the tables under `<<` that it does not have itself.
fn merge(node: &mut Node) {
    let Kind::Map(entries) = &mut node.kind else { return };
    let (merged, mut own): (Vec<_>, Vec<_>) = std::mem::take(entries).into_iter().partition(|(key, _)| key == "<<");
    for (_, from) in merged {
        let each = match &from.kind {
            Kind::List(list) => list.iter().collect(),
            _ => vec![&from],
        };
        for (key, node) in each.into_iter().flat_map(Node::entries) {
            if !own.iter().any(|(name, _)| name == key) {
                own.push((key.clone(), node.clone()));
            }
        }
    }
    *entries = own;
}
