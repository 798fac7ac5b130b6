//! Values against their rows. A misfit is reported with the value seen, the values allowed, and the text to
//! write instead.

use super::reader::{Reader, default_of};
use super::row::{Absent, Kind, Table};
use super::section::{Located, Section, Value};
use crate::code::Code;
use crate::foreign;
use crate::form::Form;
use crate::nearest::suggest;
use crate::quantity;
use crate::tree::{Entry, Node, Tree, quoted};

impl Reader<'_> {
    /// Reads the value of `key`.
    pub fn value(&mut self, key: &str, kind: &Kind, node: &Node) -> Value {
        match (*kind, &node.tree) {
            (_, Tree::Broken) => Value::Broken,
            (Kind::Bool, Tree::Bool(b)) => Value::Bool(*b),
            (
                Kind::Int { min, max } | Kind::IntOr { min, max, .. } | Kind::IntOrText { min, max, .. },
                Tree::Int(n, _),
            ) => match n.and_then(|n| u64::try_from(n).ok()).filter(|n| (min..=max).contains(n)) {
                Some(n) => Value::Int(n),
                None => self.out_of_range(key, kind, node),
            },
            (Kind::IntOr { word, .. }, Tree::Text(text)) if text == word => Value::Word(word),
            (Kind::Number { min, max }, Tree::Number(..) | Tree::Int(..)) => {
                let x = match &node.tree {
                    Tree::Number(x, _) => *x,
                    Tree::Int(Some(n), _) => *n as f64,
                    _ => f64::NAN,
                };
                if (min..=max).contains(&x) { Value::Number(x) } else { self.out_of_range(key, kind, node) }
            }
            (Kind::Duration { off: true, .. }, Tree::Text(text)) if text == "off" => Value::Duration(None),
            (Kind::Duration { min, max, .. }, Tree::Text(text)) => match quantity::duration_ns(text) {
                Ok(ns) if (min..=max).contains(&ns) => Value::Duration(Some(ns)),
                Ok(_) => self.out_of_range(key, kind, node),
                Err(why) => {
                    self.misfit(Code::BadDuration, key, kind, node, &why, "write as \"250ms\", \"10s\" or \"1m30s\"")
                }
            },
            (Kind::Duration { .. }, Tree::Int(_, n) | Tree::Number(_, n)) => {
                let n = n.trim_start_matches('-');
                let write = format!("write \"{n}s\" for seconds, \"{n}ms\" for milliseconds");
                self.misfit(Code::BadDuration, key, kind, node, "it has no unit", &write)
            }
            (Kind::Size { off: true, .. }, Tree::Text(text)) if text == "off" => Value::Word("off"),
            (Kind::Size { min, max, .. }, Tree::Text(text)) => match quantity::size(text) {
                Ok(bytes) if (min..=max).contains(&bytes) => Value::Int(bytes),
                Ok(_) => self.out_of_range(key, kind, node),
                Err(why) => {
                    let meant = quantity::size_meant(text).filter(|_| !self.findings.is_hidden(node.span));
                    let write =
                        meant.map_or("write as \"16KiB\" or \"32KB\"".to_owned(), |meant| format!("write \"{meant}\""));
                    self.misfit(Code::BadSize, key, kind, node, &why, &write)
                }
            },
            (Kind::Size { .. }, Tree::Int(n, _)) => {
                let bytes = n.and_then(|n| u64::try_from(n).ok()).unwrap_or(16 << 10);
                let write = format!("write \"{}\"", quantity::size_text(bytes));
                self.misfit(Code::BadSize, key, kind, node, "it has no unit", &write)
            }
            (Kind::Choice(words), Tree::Text(text)) => match words.iter().find(|w| *w == text) {
                Some(word) => Value::Word(word),
                None => {
                    let near = if self.findings.is_hidden(node.span) { "" } else { text };
                    let seen = self.seen(node);
                    let message = format!("\"{key}\" is {seen}, which is not allowed");
                    self.findings.add(Code::NotAllowed, node.span, message).help(suggest(near, words));
                    Value::Broken
                }
            },
            (Kind::Text(form) | Kind::IntOrText { form, .. }, Tree::Text(text)) => self.formed(key, form, (text, node)),
            (Kind::List(of) | Kind::OneOrList(of), Tree::List(nodes)) => self.list(key, of, nodes, node),
            (Kind::OneOrList(of), _) => self.list(key, of, std::slice::from_ref(node), node),
            (Kind::Table(table), Tree::Table(inner)) => Value::Section(self.table(table, inner, node.span)),
            (Kind::TableOr { table, .. } | Kind::TableOrWord { table, .. }, Tree::Table(inner)) => {
                Value::Section(self.table(table, inner, node.span))
            }
            (Kind::TableOrBool(table), Tree::Table(inner)) => Value::Section(self.table(table, inner, node.span)),
            (Kind::TableOrBool(table), Tree::Bool(true)) => Value::Section(Section::new(table, node.span, default_of)),
            (Kind::TableOrBool(_), Tree::Bool(false)) => Value::Bool(false),
            (Kind::TableOrWord { word, .. }, Tree::Text(text)) if text == word => Value::Word(word),
            (Kind::TableOr { table, key }, Tree::Text(_)) if !table.is_number(key) => self.short(table, key, node),
            (Kind::TableOr { table, key }, Tree::List(_)) if table.is_list(key) => self.short(table, key, node),
            (Kind::TableOr { table, key }, Tree::Int(..) | Tree::Number(..)) if table.is_number(key) => {
                self.short(table, key, node)
            }
            (Kind::Open, Tree::Table(_)) => Value::Open,
            (Kind::Named(table), Tree::Table(inner)) => Value::Named(self.named(table, inner)),
            (Kind::Map { keys, of }, Tree::Table(inner)) => Value::Map(self.map(keys, of, inner)),
            (Kind::Tables(table) | Kind::TableOrTables(table) | Kind::TablesBy { table, .. }, Tree::List(nodes)) => {
                self.list(key, &Kind::Table(table), nodes, node)
            }
            (Kind::TablesBy { table, key: by }, Tree::Table(inner)) => {
                let nodes: Vec<Node> = inner.entries.iter().map(|entry| self.keyed_by(by, entry)).collect();
                self.list(key, &Kind::Table(table), &nodes, node)
            }
            (Kind::TableOrTables(table), Tree::Table(_)) => {
                self.list(key, &Kind::Table(table), std::slice::from_ref(node), node)
            }
            (Kind::Balance, Tree::Text(_) | Tree::Table(_)) => self.balance(node),
            _ => self.wrong_type(key, kind, node),
        }
    }

    fn formed(&mut self, key: &str, form: Form, (text, node): (&str, &Node)) -> Value {
        match form.read(text) {
            Ok(formed) => Value::Formed(formed),
            // Messages of these forms have no part of the value.
            Err(misfit) if self.findings.is_hidden(node.span) && !matches!(form, Form::Secret | Form::Users) => {
                let message = format!("the value of \"{key}\" is not {}", form.describe());
                self.findings.add(misfit.code, node.span, message).help(format!("write {}", form.describe()));
                Value::Broken
            }
            Err(misfit) => {
                self.findings.add(misfit.code, node.span, misfit.message).help(misfit.help);
                Value::Broken
            }
        }
    }

    /// Value of a node for messages; its type alone if it may be a secret.
    pub(super) fn seen(&self, node: &Node) -> String {
        if self.findings.is_hidden(node.span) { node.tree.type_name().to_owned() } else { node.tree.seen() }
    }

    fn list(&mut self, key: &str, of: &Kind, nodes: &[Node], node: &Node) -> Value {
        if nodes.is_empty() {
            let message = format!("\"{key}\" is empty, but needs at least one element");
            self.findings.add(Code::OutOfRange, node.span, message).help(format!("each element is {of}"));
            return Value::Broken;
        }
        let read = |n: &Node| Located { span: n.span, value: self.value(key, of, n) };
        Value::List(nodes.iter().map(read).collect())
    }

    /// The table of an entry, with the entry's key as the only value of `by`.
    fn keyed_by(&mut self, by: &str, entry: &Entry) -> Node {
        let Tree::Table(mut table) = entry.node.tree.clone() else { return entry.node.clone() };
        if let Some(other) = table.get(by) {
            let message = format!("\"{by}\" is set in the table for {}, whose key is its {by}", quoted(&entry.key));
            self.findings.add(Code::Contradiction, other.node.span, message).help("leave it out");
        }
        let is_number = !entry.key.is_empty() && entry.key.bytes().all(|byte| byte.is_ascii_digit());
        let tree = match is_number {
            true => Tree::Int(entry.key.parse().ok(), entry.key.clone()),
            false => Tree::Text(entry.key.clone()),
        };
        let list = Tree::List(vec![Node { span: entry.key_span, tree }]);
        let node = Node { span: entry.key_span, tree: list };
        table.entries.retain(|other| other.key != by);
        table.entries.insert(0, Entry { key: by.to_owned(), key_span: entry.key_span, node });
        Node { span: entry.node.span, tree: Tree::Table(table) }
    }

    /// Reads a string or number that stands for a table with a single key.
    fn short(&mut self, table: &'static Table, key: &str, node: &Node) -> Value {
        let mut section = Section::new(table, node.span, default_of);
        if let Some(row) = table.key(key) {
            let value = match (&row.kind, &node.tree) {
                (Kind::List(of), tree) if !matches!(tree, Tree::List(_)) => {
                    Value::List(vec![Located { span: node.span, value: self.value(key, of, node) }])
                }
                (kind, _) => self.value(key, kind, node),
            };
            section.push(row, Located { span: node.span, value });
        }
        Value::Section(section)
    }

    fn out_of_range(&mut self, key: &str, kind: &Kind, node: &Node) -> Value {
        let message = format!("\"{key}\" is {}, which is out of range", self.seen(node));
        self.findings.add(Code::OutOfRange, node.span, message).help(format!("allowed: {kind}"));
        Value::Broken
    }

    fn misfit(&mut self, code: Code, key: &str, kind: &Kind, node: &Node, why: &str, write: &str) -> Value {
        let what = if code == Code::BadSize { "size" } else { "duration" };
        let message = match self.findings.is_hidden(node.span) {
            true => format!("\"{key}\" is not a {what}"),
            false => format!("\"{key}\" is {}, which is not a {what}: {why}", node.tree.seen()),
        };
        self.findings.add(code, node.span, message).help(format!("{write}; allowed: {kind}"));
        Value::Broken
    }

    fn wrong_type(&mut self, key: &str, kind: &Kind, node: &Node) -> Value {
        let (is_hidden, seen) = (self.findings.is_hidden(node.span), self.seen(node));
        let help = match (kind, &node.tree) {
            (Kind::Text(Form::Users), _) => format!("write {}", Form::Users.describe()),
            (Kind::Text(_), _) if is_hidden => "write it in quotes".to_string(),
            _ if is_hidden => match kind.table() {
                Some(table) => format!("write {}", example_of(key, kind, table)),
                None => format!("allowed: {kind}"),
            },
            (Kind::Int { .. } | Kind::IntOr { .. } | Kind::Number { .. }, Tree::Text(text))
                if text.parse::<f64>().is_ok() =>
            {
                format!("write it without quotes: {text}")
            }
            (Kind::Bool | Kind::TableOrBool(_), Tree::Text(text)) if text == "true" || text == "false" => {
                format!("write it without quotes: {text}")
            }
            (Kind::TableOr { key: "addr", .. }, Tree::Int(..)) => {
                format!("write \"127.0.0.1:{seen}\", or the address of the endpoint with this port")
            }
            (Kind::Text(Form::Bind), Tree::Int(..)) => match foreign::address(&seen, Form::Bind) {
                Some(write) => format!("write {write}"),
                None => format!("write it in quotes: \"{seen}\""),
            },
            (Kind::Text(form), Tree::Int(..) | Tree::Number(..) | Tree::Bool(_)) if form.read(&seen).is_err() => {
                format!("allowed: {kind}")
            }
            (Kind::Text(_) | Kind::Choice(_), Tree::Int(..) | Tree::Number(..) | Tree::Bool(_)) => {
                format!("write it in quotes: \"{seen}\"")
            }
            (Kind::List(of), Tree::Text(text)) => {
                let each = |part| match **of {
                    Kind::Text(form @ (Form::Bind | Form::Address)) => foreign::address(part, form),
                    Kind::TableOr { key: "addr", .. } => {
                        foreign::address(part.strip_prefix("https://").unwrap_or(part), Form::Address)
                    }
                    _ => None,
                };
                let parts = text.split([',', ' ']).filter(|part| !part.is_empty());
                let parts: Vec<String> = parts.map(|part| each(part).unwrap_or_else(|| quoted(part))).collect();
                // Text of several words is rarely a single value.
                let several =
                    text.contains(',') || parts.len() == 1 || parts.iter().all(|part| part.contains(['.', ':']));
                let write = if several && !parts.is_empty() { parts.join(", ") } else { seen.clone() };
                let tls = if text.contains("https://") { ", and tls = true in the pool" } else { "" };
                format!("write it as an array: [{write}]{tls}")
            }
            (Kind::List(_), Tree::Int(..) | Tree::Number(..)) => format!("write it as an array: [{seen}]"),
            (Kind::Tables(table), Tree::Table(_)) if table.path.starts_with("[[") => {
                format!("write {}, with two brackets", table.path)
            }
            (Kind::Tables(table) | Kind::TablesBy { table, .. }, _) => {
                format!("write {}", example_of(key, kind, table))
            }
            (Kind::Map { .. }, _) => format!("write {key} = {{ KEY = VALUE }}; allowed: {kind}"),
            (Kind::Named(table), _) => format!("write {} and its keys below it", table.path),
            _ => format!("allowed: {kind}"),
        };
        self.findings
            .add(Code::WrongType, node.span, format!("\"{key}\" is {seen}, but must be {}", kind.type_name()))
            .help(help);
        Value::Broken
    }
}

/// An entry with the keys that a table must have; else with the names of those that it may have.
fn example_of(key: &str, kind: &Kind, table: &Table) -> String {
    let required = table.keys.iter().filter_map(|key| match key.absent {
        Absent::Required(example) => Some(format!("{} = {example}", key.name)),
        _ => None,
    });
    let required: Vec<String> = required.collect();
    let (inner, names) = match required.is_empty() {
        true => ("...".to_owned(), table.keys.iter().map(|key| key.name).collect::<Vec<_>>().join(", ")),
        false => (required.join(", "), String::new()),
    };
    let is_list = matches!(kind, Kind::Tables(_) | Kind::TablesBy { .. });
    let (open, close) = if is_list { ("[{ ", " }]") } else { ("{ ", " }") };
    let of = if names.is_empty() { String::new() } else { format!(", of {names}") };
    format!("{key} = {open}{inner}{close}{of}")
}
