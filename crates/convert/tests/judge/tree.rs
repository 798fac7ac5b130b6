//! A configuration as a tree of lines, which can be taken out, and its text.

use std::collections::BTreeSet;

/// A line, or a block with the lines in it. `@L0@` and `@L1@` stand for addresses to listen at, with their ports, `@H0@`
/// and `@P0@` for their hosts and ports, `@A@` to `@D@` for endpoints, `@DIR@` for a folder of the test.
#[derive(Clone, Debug)]
pub struct Node {
    pub head: String,
    pub inner: Option<Vec<Node>>,
}

/// Form of lines and blocks.
#[derive(Clone, Copy, Debug)]
pub enum Style {
    /// Blocks are what is indented, as in HAProxy and YAML.
    Indented,
    /// `head;` and `head { ... }`, as in NGINX.
    Semicolons,
    /// `head` and `head { ... }`, as in Caddy.
    Braces,
}

/// A configuration as text, with the places of its nodes.
pub struct Text {
    pub text: String,
    /// First and last line of each node, counted from 1. Nodes are in the order in which they begin. A block without a line
    /// at its end counts with its head.
    lines: Vec<(usize, usize)>,
    /// Nodes that stay, so that requests do not wait: `defaults` of HAProxy with its times and retries.
    kept: BTreeSet<usize>,
}

pub fn line(head: impl Into<String>) -> Node {
    Node { head: head.into(), inner: None }
}

pub fn block(head: impl Into<String>, inner: Vec<Node>) -> Node {
    Node { head: head.into(), inner: Some(inner) }
}

impl Text {
    pub fn of(nodes: &[Node], style: Style) -> Text {
        let mut text = Text { text: String::new(), lines: Vec::new(), kept: BTreeSet::new() };
        let mut at = 1;
        nodes.iter().for_each(|node| text.add(node, style, 0, &mut at));
        text
    }

    fn add(&mut self, node: &Node, style: Style, depth: usize, at: &mut usize) {
        let (number, first) = (self.lines.len(), *at);
        self.lines.push((first, first));
        let end = match (style, &node.inner) {
            (Style::Indented, _) | (Style::Braces, None) => "",
            (Style::Semicolons, None) => ";",
            (Style::Semicolons | Style::Braces, Some(_)) => " {",
        };
        self.push(&format!("{}{end}", node.head), depth, at);
        self.lines[number].1 = *at - 1;
        let Some(inner) = &node.inner else { return };
        let is_defaults = node.head.starts_with("defaults");
        self.kept.extend(is_defaults.then_some(number));
        for node in inner {
            let stays = ["timeout ", "retries "].iter().any(|word| node.head.starts_with(word));
            self.kept.extend((is_defaults && stays).then_some(self.lines.len()));
            self.add(node, style, depth + 1, at);
        }
        if !matches!(style, Style::Indented) {
            self.push("}", depth, at);
            self.lines[number].1 = *at - 1;
        }
    }

    fn push(&mut self, line: &str, depth: usize, at: &mut usize) {
        self.text.push_str(&"    ".repeat(depth));
        self.text.push_str(line);
        self.text.push('\n');
        *at += 1 + line.matches('\n').count();
    }

    /// Numbers of the nodes that begin or end at one of these lines, and may go.
    pub fn nodes_at(&self, lines: &BTreeSet<usize>) -> BTreeSet<usize> {
        let at = |(first, last): &(usize, usize)| lines.contains(first) || lines.contains(last);
        let named = self.lines.iter().enumerate().filter(|(_, node)| at(node)).map(|(number, _)| number);
        named.filter(|number| self.may_go(*number)).collect()
    }

    pub fn may_go(&self, number: usize) -> bool {
        !self.kept.contains(&number)
    }

    /// First and last line of a node.
    pub fn lines_of(&self, number: usize) -> [usize; 2] {
        let (first, last) = self.lines[number];
        [first, last]
    }

    pub fn len(&self) -> usize {
        self.lines.len()
    }
}

/// A tree without the nodes of these numbers, and without what is in them.
pub fn without(nodes: &[Node], gone: &BTreeSet<usize>) -> Vec<Node> {
    fn kept(nodes: &[Node], gone: &BTreeSet<usize>, number: &mut usize, is_gone: bool) -> Vec<Node> {
        let mut all = Vec::new();
        for node in nodes {
            let goes = is_gone || gone.contains(number);
            *number += 1;
            let inner = node.inner.as_ref().map(|inner| kept(inner, gone, number, goes));
            if !goes {
                all.push(Node { head: node.head.clone(), inner });
            }
        }
        all
    }
    kept(nodes, gone, &mut 0, false)
}

#[test]
fn nodes_are_numbered_as_they_are_written() {
    let tree = vec![block("a", vec![line("b"), block("c", vec![line("d")])]), line("e")];
    let text = Text::of(&tree, Style::Semicolons);
    assert_eq!(text.text, "a {\n    b;\n    c {\n        d;\n    }\n}\ne;\n");
    assert_eq!(text.nodes_at(&[3, 7].into()), [2, 4].into());
    assert_eq!(Text::of(&without(&tree, &[2].into()), Style::Semicolons).text, "a {\n    b;\n}\ne;\n");
}
