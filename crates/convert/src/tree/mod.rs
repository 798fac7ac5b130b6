//! Configurations written as YAML or TOML, as a tree. Its leaves are the directives of the book.

// Order: toml, yaml, node
mod node;
mod toml;
mod yaml;

use crate::ledger::Ledger;
use std::sync::Arc;

pub(crate) use node::{Kind, Node};

/// Reads a text as YAML or TOML, whichever it looks like. A syntax error is entered in the book.
pub(crate) fn read(text: &str, file: &Arc<str>, ledger: &mut Ledger) -> Node {
    let is_toml = text.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with('#'));
    let is_toml = is_toml.is_some_and(|line| {
        line.starts_with('[') || line.split(['=', ':']).next().is_some_and(|key| line[key.len()..].starts_with('='))
    });
    let read = if is_toml { toml::read(text, file, ledger) } else { yaml::read(text, file, ledger) };
    read.unwrap_or_else(|(line, reason)| {
        let entry = ledger.open(file, line, text.lines().nth(line.saturating_sub(1)).unwrap_or_default());
        ledger.decide(entry, format!("the file cannot be read: {reason}"), "correct it, and convert again");
        Node { line: entry, kind: Kind::Map(Vec::new()) }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(text: &str) -> (Node, Ledger) {
        let mut ledger = Ledger::default();
        let node = read(text, &"f".into(), &mut ledger);
        (node, ledger)
    }

    #[test]
    fn both_languages_give_the_same_tree() {
        for text in ["a:\n  b: [x, 'y']\n  c: 1\n", "[a]\nb = [\"x\", 'y']\nc = 1\n"] {
            let (node, mut ledger) = tree(text);
            assert_eq!(node.texts("a.b", &mut ledger), ["x", "y"]);
            assert_eq!(node.take("A.c", &mut ledger), Some("1"));
            assert_eq!((ledger.into_report().forgotten, node.get("z").is_none()), (0, true));
        }
    }

    #[test]
    fn aliases_are_followed_and_bounded() {
        let (node, mut ledger) = tree("x: &x {a: 1}\ny:\n  <<: *x\n  b: 2\n");
        assert_eq!((node.take("y.a", &mut ledger), node.take("y.b", &mut ledger)), (Some("1"), Some("2")));
        let mut bomb = "a0: &a0 [x]\n".to_string();
        for n in 1..60 {
            bomb.push_str(&format!("a{n}: &a{n} [{}]\n", vec![format!("*a{}", n - 1); 9].join(", ")));
        }
        let (_, ledger) = tree(&bomb);
        assert!(ledger.into_report().named().any(|item| item.reason.contains("cannot be read")));
    }

    #[test]
    fn broken_and_deep_files_are_reported() {
        for text in ["a: [", "a: b: c", &"[".repeat(100_000), "a:\n ", "[a", "x = ", "a: *b"] {
            tree(text);
        }
        assert!(tree(&format!("a: {}", "[".repeat(100))).1.into_report().named().count() == 1);
    }
}
