//! Paths of the values of a tree, such as `pool.web.endpoints[1].weight`. See [`Paths`].

use super::{Entry, Node, TableNode, Tree, quoted};
use crate::source::Span;
use std::collections::HashMap;
use std::sync::OnceLock;

/// Paths of all values of a tree, by their places. They are made when the first path is asked for: a plan of ten
/// thousand routes has hundreds of thousands, and seldom an error.
pub(crate) struct Paths {
    tree: TableNode,
    all: OnceLock<All>,
}

#[derive(Default)]
struct All {
    paths: Vec<(Span, String)>,
    /// Position in `paths` of the innermost value at a place.
    at: HashMap<Span, usize>,
}

impl Paths {
    pub fn of(tree: TableNode) -> Paths {
        Paths { tree, all: OnceLock::new() }
    }

    /// Path of the innermost value that contains a span; empty for the whole.
    pub fn to(&self, span: Span) -> String {
        let all = self.all.get_or_init(|| {
            let mut all = All::default();
            all.table(&self.tree, "");
            all
        });
        if let Some(at) = all.at.get(&span) {
            return all.paths[*at].1.clone();
        }
        let contains = |(place, _): &&(Span, String)| place.start <= span.start && span.end <= place.end;
        // Of several of the same size, the last is the innermost.
        let innermost = all.paths.iter().rev().filter(contains).min_by_key(|(place, _)| place.end - place.start);
        innermost.map(|(_, path)| path.clone()).unwrap_or_default()
    }
}

impl All {
    fn table(&mut self, table: &TableNode, above: &str) {
        for Entry { key, key_span, node } in &table.entries {
            let dot = if above.is_empty() { "" } else { "." };
            let key = if key.contains('.') { quoted(key) } else { key.clone() };
            let path = format!("{above}{dot}{key}");
            self.add(*key_span, &path);
            self.node(node, &path);
        }
    }

    fn node(&mut self, node: &Node, path: &str) {
        self.add(node.span, path);
        match &node.tree {
            Tree::Table(table) => self.table(table, path),
            Tree::List(nodes) => {
                nodes.iter().enumerate().for_each(|(at, node)| self.node(node, &format!("{path}[{at}]")));
            }
            _ => {}
        }
    }

    fn add(&mut self, place: Span, path: &str) {
        self.at.insert(place, self.paths.len());
        self.paths.push((place, path.to_owned()));
    }
}
