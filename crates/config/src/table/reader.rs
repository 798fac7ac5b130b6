//! The reader: checks a table of the tree against its rows, and reports unknown and missing keys.

use super::row::{Absent, Key, Kind, Table};
use super::section::{Keyed, Located, Named, Section, Value};
use crate::code::Code;
use crate::diagnostic::Findings;
use crate::foreign;
use crate::form::Form;
use crate::nearest::{is_slip, nearest, suggest};
use crate::source::Span;
use crate::tree::{self, Entry, TableNode, Tree, quoted};
use std::cell::RefCell;
use std::collections::HashMap;

/// Reads trees and reports misfits.
pub(crate) struct Reader<'f> {
    pub(super) findings: &'f mut Findings,
    /// Top level of the file, to find the table in which an unknown key is known.
    root: &'static Table,
    /// False if some file could not be read; missing keys are then not reported.
    complete: bool,
    /// User-defined name that replaces NAME in paths of tables.
    name: Option<String>,
}

impl<'f> Reader<'f> {
    pub fn new(root: &'static Table, findings: &'f mut Findings, complete: bool) -> Reader<'f> {
        Reader { findings, root, complete, name: None }
    }

    /// Reads a table. `span` is the place to report missing keys at.
    pub fn table(&mut self, table: &'static Table, node: &TableNode, span: Span) -> Section {
        let mut section = Section::new(table, span, default_of);
        let mut meant = Vec::new();
        for entry in &node.entries {
            match table.key(&entry.key) {
                Some(key) => {
                    let value = self.value(key.name, &key.kind, &entry.node);
                    let located = Located { span: entry.node.span, value };
                    // Habits concern scalars, so the last finding is about this value.
                    if located.is_broken()
                        && let Some(help) = foreign::habit(table.path, key.name, &entry.node.tree)
                        && !(self.findings.is_hidden(entry.node.span) && repeats(&help, &entry.node.tree))
                    {
                        self.findings.advise(help);
                    }
                    section.push(key, located);
                }
                None => meant.extend(self.unknown(table, entry, node)),
            }
        }
        for (key, value) in meant {
            section.add(key, value);
        }
        for key in table.keys {
            if let (Absent::Required(example), None, true) = (&key.absent, section.set(key.name), self.complete) {
                self.findings
                    .add(Code::Missing, span, format!("{} has no \"{}\"", self.path(table), key.name))
                    .help(format!("add {} = {example}", key.name));
            }
        }
        section
    }

    /// Reads a table of tables with user-defined names.
    pub(super) fn named(&mut self, table: &'static Table, node: &TableNode) -> Vec<Named> {
        let mut all = Vec::new();
        for Entry { key, key_span, node } in &node.entries {
            if let Err(misfit) = Form::Name.read(key) {
                self.findings.add(misfit.code, *key_span, misfit.message).help(misfit.help);
            }
            self.name = Some(key.clone());
            match &node.tree {
                Tree::Table(inner) => {
                    let section = self.table(table, inner, *key_span);
                    all.push(Named { name: key.clone(), span: *key_span, section });
                }
                _ => {
                    let (path, seen) = (self.path(table), self.seen(node));
                    let message = format!("{path} is {seen}, but must be a table");
                    self.findings
                        .add(Code::WrongType, node.span, message)
                        .help(format!("write {path} on a line of its own, and its keys below it"));
                }
            }
            self.name = None;
        }
        all
    }

    /// Reads a table with user-defined keys of a form. Findings about a value name its key.
    pub(super) fn map(&mut self, keys: Form, of: &Kind, node: &TableNode) -> Vec<Keyed> {
        let mut all = Vec::new();
        for Entry { key, key_span, node } in &node.entries {
            let is_key = match keys.read(key) {
                Ok(_) => true,
                Err(misfit) => {
                    self.findings.add(misfit.code, *key_span, misfit.message).help(misfit.help);
                    false
                }
            };
            let read = self.value(key, of, node);
            let value = Located { span: node.span, value: if is_key { read } else { Value::Broken } };
            all.push(Keyed { key: key.clone(), span: *key_span, value });
        }
        all
    }

    /// Reports an unknown key. If it is a word of another proxy, returns the key it stands for with its
    /// value, so that the rest of the file is checked as intended.
    fn unknown(&mut self, table: &'static Table, entry: &Entry, beside: &TableNode) -> Option<(&'static Key, Located)> {
        let path = self.path(table);
        let key = &entry.key;
        let seen = if self.findings.hides_within(entry.node.span) { &Tree::Broken } else { &entry.node.tree };
        let known: Vec<&str> = table.keys.iter().map(|k| k.name).collect();
        if known.is_empty() {
            self.findings
                .add(Code::UnknownKey, entry.key_span, format!("unknown key {} in {path}", quoted(key)))
                .help("it has no keys: write {}");
            return None;
        }
        // Advice may repeat values of other keys too.
        let shown = |entry: &&Entry| !self.findings.hides_within(entry.node.span);
        let beside = TableNode { entries: beside.entries.iter().filter(shown).cloned().collect() };
        if let Some(meant) = foreign::key(table.path, key, seen, &beside) {
            self.findings
                .add(Code::UnknownKey, entry.key_span, format!("unknown key {} in {path}", quoted(key)))
                .help(meant.help);
            let row = table.key(meant.key?)?;
            let value = if meant.is_value { self.value(row.name, &row.kind, &entry.node) } else { Value::Broken };
            return Some((row, Located { span: entry.node.span, value }));
        }
        // A key in the wrong table is more likely than a slip that turns it into another table's key.
        let elsewhere: Vec<&str> =
            self.root.walk().into_iter().filter(|t| t.key(key).is_some()).map(|t| t.path).take(4).collect();
        let help = match nearest(key, known.iter().copied()).filter(|word| elsewhere.is_empty() || is_slip(key, word)) {
            None if !elsewhere.is_empty() => {
                format!("\"{key}\" belongs to {}; allowed here: {}", elsewhere.join(", or to "), known.join(", "))
            }
            _ => suggest(key, &known),
        };
        self.findings
            .add(Code::UnknownKey, entry.key_span, format!("unknown key {} in {path}", quoted(key)))
            .help(help);
        None
    }

    /// Path of a table, with the user-defined name filled in.
    fn path(&self, table: &Table) -> String {
        match &self.name {
            Some(name) => {
                table.path.replace("NAME", &name.chars().take(64).flat_map(char::escape_debug).collect::<String>())
            }
            None => table.path.to_string(),
        }
    }
}

/// True if a text has a scalar in it.
fn repeats(help: &str, scalar: &Tree) -> bool {
    match scalar {
        Tree::Text(text) | Tree::Int(_, text) | Tree::Number(_, text) | Tree::Date(text) => {
            help.contains(text.as_str())
        }
        _ => false,
    }
}

/// Table of default values, which belong to no file.
static NOWHERE: Table = Table { path: "", help: "", inherits: false, keys: &[] };

thread_local! {
    /// Parsed default of each row, cached because thousands of tables share it.
    static DEFAULTS: RefCell<HashMap<usize, Option<Value>>> = RefCell::default();
}

/// Default of a row, read as if it were in a file.
pub(super) fn default_of(key: &'static Key) -> Option<Value> {
    // Rows are static, so their address identifies them.
    let at = std::ptr::from_ref(key) as usize;
    if let Some(known) = DEFAULTS.with_borrow(|known| known.get(&at).cloned()) {
        return known;
    }
    let read = read_default(key);
    DEFAULTS.with_borrow_mut(|known| known.insert(at, read.clone()));
    read
}

fn read_default(key: &Key) -> Option<Value> {
    let Absent::Default(text) = key.absent else { return None };
    let mut findings = Findings::default();
    let node = tree::parse_value(text);
    debug_assert!(node.is_some(), "the default of {} is no value: {text}", key.name);
    let node = node?;
    let value = Reader::new(&NOWHERE, &mut findings, true).value(key.name, &key.kind, &node);
    debug_assert!(!findings.has_errors(), "the default of {} does not fit its row: {text}", key.name);
    Some(value)
}
