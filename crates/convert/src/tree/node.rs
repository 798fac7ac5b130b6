//! Nodes of a tree: values, and the directives of the book that they are.

use crate::ledger::{Ledger, Line};

/// Deepest nesting that is read; a deeper text is an error.
pub(super) const DEPTH: usize = 40;
/// Most nodes of a tree, those that aliases repeat counted each time.
pub(super) const NODES: usize = 100_000;

/// A value with the directive that it is, or that stands first in it.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub line: Line,
    pub kind: Kind,
}

#[derive(Clone, Debug)]
pub(crate) enum Kind {
    Text(String),
    List(Vec<Node>),
    /// Keys in the order of the file.
    Map(Vec<(String, Node)>),
}

impl Node {
    /// Returns the value of a key, in any case of letters.
    pub fn get(&self, key: &str) -> Option<&Node> {
        self.entries().iter().find(|(name, _)| name.eq_ignore_ascii_case(key)).map(|(_, node)| node)
    }

    /// The value below several keys, given as `a.b.c`.
    pub fn at(&self, path: &str) -> Option<&Node> {
        path.split('.').try_fold(self, |node, key| node.get(key))
    }

    /// Keys and values of a map; empty for other nodes.
    pub fn entries(&self) -> &[(String, Node)] {
        match &self.kind {
            Kind::Map(entries) => entries,
            _ => &[],
        }
    }

    /// Elements of a list; empty for other nodes.
    pub fn list(&self) -> &[Node] {
        match &self.kind {
            Kind::List(list) => list,
            _ => &[],
        }
    }

    /// Text of a leaf; `None` for lists and maps.
    pub fn text(&self) -> Option<&str> {
        match &self.kind {
            Kind::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Joins this map with another, and lists and maps in them for `depth` levels. Of a value that both have below, the first
    /// counts.
    pub fn joined(self, other: Node, depth: usize, ledger: &mut Ledger) -> Node {
        let line = self.line;
        let kind = match (self.kind, other.kind) {
            (Kind::Map(mut entries), Kind::Map(others)) if depth > 0 => {
                for (name, node) in others {
                    match entries.iter().position(|(known, _)| known.eq_ignore_ascii_case(&name)) {
                        None => entries.push((name, node)),
                        Some(at) => {
                            let (known, first) = entries.remove(at);
                            entries.insert(at, (known, first.joined(node, depth - 1, ledger)));
                        }
                    }
                }
                Kind::Map(entries)
            }
            (Kind::List(mut all), Kind::List(others)) if depth > 0 => {
                all.extend(others);
                Kind::List(all)
            }
            (kind, others) => {
                let other = Node { line: other.line, kind: others };
                other.lost("another file has a value of this name", "rename it, if both are to hold", ledger);
                kind
            }
        };
        Node { line, kind }
    }

    /// Text below some keys, settled as carried over.
    pub fn take(&self, path: &str, ledger: &mut Ledger) -> Option<&str> {
        let node = self.at(path)?;
        let text = node.text()?;
        ledger.carried(node.line);
        Some(text)
    }

    /// Texts of a list or of a leaf with commas, below some keys. They count as carried over.
    pub fn texts(&self, path: &str, ledger: &mut Ledger) -> Vec<String> {
        let Some(node) = self.at(path) else { return Vec::new() };
        match &node.kind {
            Kind::Text(text) => {
                ledger.carried(node.line);
                text.split(',').map(|part| part.trim().to_string()).filter(|part| !part.is_empty()).collect()
            }
            Kind::List(list) => {
                let leaves = list.iter().filter_map(|node| Some((node.line, node.text()?.to_string())));
                leaves.map(|(line, text)| (ledger.carried(line), text).1).collect()
            }
            Kind::Map(_) => Vec::new(),
        }
    }

    /// Texts of a list or of a leaf, each with its directive.
    pub fn leaf_texts(&self) -> Vec<(Line, &str)> {
        let leaves = match &self.kind {
            Kind::List(list) => list.iter().collect(),
            _ => vec![self],
        };
        leaves.into_iter().filter_map(|node| Some((node.line, node.text()?))).collect()
    }

    fn leaves(&self, visit: &mut dyn FnMut(Line)) {
        match &self.kind {
            Kind::Text(_) => visit(self.line),
            Kind::List(list) if list.is_empty() => visit(self.line),
            Kind::List(list) => list.iter().for_each(|node| node.leaves(visit)),
            Kind::Map(entries) if entries.is_empty() => visit(self.line),
            Kind::Map(entries) => entries.iter().for_each(|(_, node)| node.leaves(visit)),
        }
    }

    /// Settles everything in it that is not settled as carried over.
    pub fn carried(&self, ledger: &mut Ledger) {
        self.leaves(&mut |line| {
            if !ledger.is_settled(line) {
                ledger.carried(line)
            }
        });
    }

    /// Settles everything in it that is not settled as left out without a loss.
    pub fn dropped(&self, reason: &str, ledger: &mut Ledger) {
        self.leaves(&mut |line| {
            if !ledger.is_settled(line) {
                ledger.dropped(line, reason)
            }
        });
    }

    /// Settles everything in it that is not settled as left out with a change.
    pub fn lost(&self, reason: &str, todo: &str, ledger: &mut Ledger) {
        self.leaves(&mut |line| {
            if !ledger.is_settled(line) {
                ledger.changes(line, reason, todo)
            }
        });
    }

    /// Settles everything in it that is not settled as missing until a person acts.
    pub fn missing(&self, reason: &str, todo: &str, ledger: &mut Ledger) {
        self.leaves(&mut |line| {
            if !ledger.is_settled(line) {
                ledger.decide(line, reason, todo)
            }
        });
    }

    /// Number of nodes in it, itself included.
    pub fn size(&self) -> usize {
        match &self.kind {
            Kind::Text(_) => 1,
            Kind::List(list) => 1 + list.iter().map(Node::size).sum::<usize>(),
            Kind::Map(entries) => 1 + entries.iter().map(|(_, node)| node.size()).sum::<usize>(),
        }
    }

    /// Puts a leaf below some keys, which are made if they are not there.
    pub fn insert(&mut self, path: &[&str], leaf: Node) {
        let Some((key, rest)) = path.split_first() else {
            *self = leaf;
            return;
        };
        if !matches!(self.kind, Kind::Map(_)) {
            self.kind = Kind::Map(Vec::new());
        }
        let Kind::Map(entries) = &mut self.kind else { return };
        let at = entries.iter().position(|(name, _)| name.eq_ignore_ascii_case(key)).unwrap_or_else(|| {
            entries.push(((*key).to_string(), Node { line: leaf.line, kind: Kind::Map(Vec::new()) }));
            entries.len() - 1
        });
        entries[at].1.insert(rest, leaf);
    }
}
