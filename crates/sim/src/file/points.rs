//! Points of an experiment: `vary` and `case` make copies of the file's tree with some values replaced, so that every
//! point is read like a file.

use evenkeel_config::Code;
use evenkeel_config::tables::{Entry, Findings, Node, TableNode, Tree};

/// Maximum points of a file.
const POINTS_MAX: usize = 1000;

const DEPTH_MAX: usize = 12;

/// Tree of a point, with its label.
#[derive(Debug)]
pub(super) struct Variant {
    pub label: String,
    pub x: Option<f64>,
    pub tree: TableNode,
}

/// Path of keys, and the value to put there.
type Setting = (Vec<String>, Node);

/// Value of a key that varies, and its label.
struct Choice {
    label: String,
    x: Option<f64>,
    settings: Vec<Setting>,
}

/// Every combination of cases and varied values. Malformed `case` and `vary` tables are reported when the file is read.
pub(super) fn points(tree: &TableNode, findings: &mut Findings) -> Vec<Variant> {
    let mut axes: Vec<Vec<Choice>> = Vec::new();
    if let Some(Entry { node: Node { tree: Tree::List(cases), .. }, .. }) = tree.get("case") {
        axes.push(cases.iter().filter_map(case).collect());
    }
    if let Some(Entry { node: Node { tree: Tree::Table(vary), .. }, .. }) = tree.get("vary") {
        axes_of(vary, &mut Vec::new(), &mut axes, findings);
    }
    axes.retain(|axis| !axis.is_empty());
    let all = axes.iter().try_fold(1usize, |n, axis| n.checked_mul(axis.len())).unwrap_or(usize::MAX);
    if all > POINTS_MAX {
        let span = tree.get("vary").or(tree.get("case")).map(|entry| entry.key_span);
        if let Some(span) = span {
            let message = format!("there are more than {POINTS_MAX} points: every combination is one");
            findings.add(Code::OutOfRange, span, message).help("vary fewer keys, or let them have fewer values");
        }
        return Vec::new();
    }
    (0..all).map(|point| variant(tree, &axes, point, findings)).collect()
}

/// Tree of a point by number; the last axis changes fastest.
fn variant(tree: &TableNode, axes: &[Vec<Choice>], mut point: usize, findings: &mut Findings) -> Variant {
    let mut chosen: Vec<&Choice> = Vec::new();
    for axis in axes.iter().rev() {
        chosen.push(&axis[point % axis.len()]);
        point /= axis.len();
    }
    chosen.reverse();
    let mut tree = tree.clone();
    for (path, value) in chosen.iter().flat_map(|choice| &choice.settings) {
        if let Err(why) = put(&mut tree, path, value) {
            let message = format!("\"{}\" cannot be set: {why}", path.join("."));
            findings
                .add(Code::UnknownKey, value.span, message)
                .help("write it as a key of this file, as load.users or service.web.server.0.count");
        }
    }
    let labels: Vec<&str> = chosen.iter().map(|choice| choice.label.as_str()).collect();
    let x = if let [only] = chosen[..] { only.x } else { None };
    Variant { label: labels.join(", "), x, tree }
}

fn case(node: &Node) -> Option<Choice> {
    let Tree::Table(table) = &node.tree else { return None };
    let Tree::Text(name) = &table.get("name")?.node.tree else { return None };
    let Tree::Table(set) = &table.get("set")?.node.tree else { return None };
    let mut settings = Vec::new();
    leaves(set, &mut Vec::new(), &mut settings);
    Some(Choice { label: name.clone(), x: None, settings })
}

/// Collects the paths of all values that are not tables. `set = { load.users = 50 }` and `set = { load = { users = 50 }
/// }` mean the same.
fn leaves(table: &TableNode, path: &mut Vec<String>, out: &mut Vec<Setting>) {
    for entry in &table.entries {
        path.push(entry.key.clone());
        match &entry.node.tree {
            Tree::Table(inner) if path.len() < DEPTH_MAX => leaves(inner, path, out),
            _ => out.push((path.clone(), entry.node.clone())),
        }
        path.pop();
    }
}

fn axes_of(table: &TableNode, path: &mut Vec<String>, axes: &mut Vec<Vec<Choice>>, findings: &mut Findings) {
    for entry in &table.entries {
        path.push(entry.key.clone());
        match &entry.node.tree {
            Tree::Table(inner) if path.len() < DEPTH_MAX => axes_of(inner, path, axes, findings),
            Tree::List(values) if !values.is_empty() => axes.push(values.iter().map(|v| choice(path, v)).collect()),
            other => {
                let message = format!("\"{}\" is {}, but must be an array of values", path.join("."), other.seen());
                findings.add(Code::WrongType, entry.node.span, message).help("write load.share = [0.5, 0.9]");
            }
        }
        path.pop();
    }
}

fn choice(path: &[String], node: &Node) -> Choice {
    if let Tree::Table(table) = &node.tree
        && let (Some(label), Some(value), 2) = (table.get("label"), table.get("value"), table.entries.len())
        && let Tree::Text(label) = &label.node.tree
    {
        return Choice { label: label.clone(), x: None, settings: vec![(path.to_vec(), value.node.clone())] };
    }
    let value = match &node.tree {
        Tree::Text(text) => text.clone(),
        other => other.seen(),
    };
    // Labels use the last key that is not an index: `count = 6`.
    let key = path.iter().rev().find(|key| key.parse::<usize>().is_err()).map_or("", String::as_str);
    let x = match &node.tree {
        Tree::Int(Some(n), _) => Some(*n as f64),
        Tree::Number(x, _) => Some(*x),
        Tree::Text(text) => evenkeel_config::tables::duration_ns(text).map(|ns| ns as f64 / 1e9),
        _ => None,
    };
    Choice { label: format!("{key} = {value}"), x, settings: vec![(path.to_vec(), node.clone())] }
}

/// Puts a value at a path. Creates missing tables on the way; array elements must exist.
fn put(table: &mut TableNode, path: &[String], value: &Node) -> Result<(), String> {
    let Some((key, rest)) = path.split_first() else { return Err("it names no key".to_string()) };
    let at = match table.entries.iter().position(|entry| entry.key == *key) {
        Some(at) => at,
        None => {
            let node = Node { span: value.span, tree: Tree::Table(TableNode::default()) };
            table.entries.push(Entry { key: key.clone(), key_span: value.span, node });
            table.entries.len() - 1
        }
    };
    put_into(&mut table.entries[at].node, rest, value)
}

fn put_into(node: &mut Node, path: &[String], value: &Node) -> Result<(), String> {
    let Some((key, rest)) = path.split_first() else {
        *node = value.clone();
        return Ok(());
    };
    match &mut node.tree {
        Tree::Table(table) => put(table, path, value),
        Tree::List(nodes) => {
            let there = nodes.len();
            let element = key.parse::<usize>().ok().and_then(|at| nodes.get_mut(at));
            let element = element.ok_or_else(|| format!("the array has {there} elements, and none is number {key}"))?;
            put_into(element, rest, value)
        }
        other => Err(format!("before .{key} there is {}, which has no keys", other.type_name())),
    }
}
