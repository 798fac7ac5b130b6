//! Contents of a table: a [`Section`] holds typed values by key, and falls back to the defaults of the
//! rows.

use super::balance::Balance;
use super::row::{Key, Kind, Table};
use crate::code::Code;
use crate::diagnostic::Finding;
use crate::diagnostic::Findings;
use crate::form::{Form, Formed};
use crate::source::Span;
use std::collections::HashSet;
use std::time::Duration;

/// A value that fits its row.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    Bool(bool),
    /// Whole number; sizes are bytes.
    Int(u64),
    Number(f64),
    /// Nanoseconds; `None` for `"off"`.
    Duration(Option<u64>),
    Word(&'static str),
    Formed(Formed),
    List(Vec<Located>),
    Section(Section),
    Named(Vec<Named>),
    Map(Vec<Keyed>),
    /// Table without rows; callers inspect the tree.
    Open,
    /// An algorithm with the place of its name.
    Balance(Box<Balance>, Span),
    /// A value that did not fit and was reported.
    Broken,
}

#[derive(Clone, Debug)]
pub(crate) struct Located {
    pub span: Span,
    pub value: Value,
}

impl Located {
    /// True if it, or anything within it, did not fit and was reported.
    pub fn is_broken(&self) -> bool {
        match &self.value {
            Value::Broken => true,
            Value::List(list) => list.iter().any(Located::is_broken),
            Value::Section(section) => section.is_broken(),
            Value::Named(named) => named.iter().any(|n| n.section.is_broken()),
            Value::Map(map) => map.iter().any(|keyed| keyed.value.is_broken()),
            _ => false,
        }
    }
}

impl Located {
    fn each(&self, each: &mut impl FnMut(&Located)) {
        each(self);
        match &self.value {
            Value::List(list) => list.iter().for_each(|one| one.each(each)),
            Value::Section(section) => section.each_value(each),
            Value::Named(named) => named.iter().for_each(|one| one.section.each_value(each)),
            Value::Map(map) => map.iter().for_each(|keyed| keyed.value.each(each)),
            _ => {}
        }
    }
}

/// A table with a user-defined name.
#[derive(Clone, Debug)]
pub struct Named {
    pub name: String,
    pub span: Span,
    pub section: Section,
}

/// A value under a user-defined key.
#[derive(Clone, Debug)]
pub(crate) struct Keyed {
    pub key: String,
    /// Place of the key in its file.
    pub span: Span,
    pub value: Located,
}

/// Values of a table of a file.
#[derive(Clone, Debug)]
pub struct Section {
    table: &'static Table,
    /// Place of the table as a whole.
    pub span: Span,
    fields: Vec<(&'static Key, Located)>,
    defaults: Defaults,
}

/// Reads the default of a row. A function pointer, because the reader of values itself creates sections.
pub(crate) type Defaults = fn(&'static Key) -> Option<Value>;

impl Section {
    pub(crate) fn new(table: &'static Table, span: Span, defaults: Defaults) -> Section {
        Section { table, span, fields: Vec::new(), defaults }
    }

    pub(crate) fn push(&mut self, key: &'static Key, value: Located) {
        self.fields.push((key, value));
    }

    /// Adds a value; named tables are merged with existing tables, since a file may have some under another
    /// proxy's word.
    pub(crate) fn add(&mut self, key: &'static Key, value: Located) {
        match (self.fields.iter_mut().find(|(k, _)| k.name == key.name), value.value) {
            (None, kind) => self.push(key, Located { value: kind, ..value }),
            (Some((_, Located { value: Value::Named(all), .. })), Value::Named(more)) => {
                let known: HashSet<String> = all.iter().map(|named| named.name.clone()).collect();
                all.extend(more.into_iter().filter(|named| !known.contains(&named.name)));
            }
            _ => {}
        }
    }

    /// True if the file sets the key.
    pub fn has(&self, name: &str) -> bool {
        self.set(name).is_some()
    }

    /// True if the file sets the key to a value that fits.
    pub(crate) fn has_read(&self, name: &str) -> bool {
        self.set(name).is_some_and(|set| !matches!(set.value, Value::Broken))
    }

    /// Value that the file sets; `None` for a default.
    pub(crate) fn set(&self, name: &str) -> Option<&Located> {
        debug_assert!(self.table.key(name).is_some(), "{} has no row for {name}", self.table.path);
        self.fields.iter().find(|(key, _)| key.name == name).map(|(_, value)| value)
    }

    /// True if it is a table of this kind.
    pub(crate) fn is_of(&self, table: &'static Table) -> bool {
        std::ptr::eq(self.table, table)
    }

    /// Keys that the file sets and `allowed` lacks, with their values.
    pub(crate) fn set_beside(&self, allowed: &[&str]) -> impl Iterator<Item = (&'static str, &Located)> {
        self.fields.iter().map(|(key, value)| (key.name, value)).filter(|(key, _)| !allowed.contains(key))
    }

    /// True if any value in it did not fit.
    pub fn is_broken(&self) -> bool {
        self.fields.iter().any(|(_, value)| value.is_broken())
    }

    /// Place of the key's value, or of the table if it is not set.
    pub fn span_of(&self, name: &str) -> Span {
        self.set(name).map_or(self.span, |v| v.span)
    }

    /// True if the table has a row for the key.
    pub(crate) fn knows(&self, name: &str) -> bool {
        self.table.key(name).is_some()
    }

    /// Value that the file sets, or the row's default.
    pub(crate) fn value(&self, name: &str) -> Value {
        match self.set(name) {
            Some(located) => located.value.clone(),
            None => self.table.key(name).and_then(self.defaults).unwrap_or(Value::Broken),
        }
    }

    /// Value of a boolean key; false if it did not fit.
    pub fn flag(&self, name: &str) -> bool {
        matches!(self.value(name), Value::Bool(true))
    }

    /// Value of a whole number or size; 0 if it did not fit, since there will be no plan.
    pub fn int(&self, name: &str) -> u64 {
        if let Value::Int(n) = self.value(name) { n } else { 0 }
    }

    /// Value of a whole number as a `T`, whose range the row guarantees.
    pub fn number<T: TryFrom<u64> + Default>(&self, name: &str) -> T {
        T::try_from(self.int(name)).unwrap_or_default()
    }

    /// Value of a number; 0 if it did not fit.
    pub fn float(&self, name: &str) -> f64 {
        if let Value::Number(x) = self.value(name) { x } else { 0.0 }
    }

    /// Nanoseconds of a duration that cannot be `"off"`.
    pub fn ns(&self, name: &str) -> u64 {
        if let Value::Duration(Some(ns)) = self.value(name) { ns } else { 0 }
    }

    /// Value of a duration; `None` for `"off"`.
    pub fn duration(&self, name: &str) -> Option<Duration> {
        if let Value::Duration(ns) = self.value(name) { ns.map(Duration::from_nanos) } else { None }
    }

    /// Value of a key with a choice of words; empty if it did not fit.
    pub fn word(&self, name: &str) -> &'static str {
        if let Value::Word(word) = self.value(name) { word } else { "" }
    }

    pub(crate) fn formed(&self, name: &str) -> Option<Formed> {
        if let Value::Formed(formed) = self.value(name) { Some(formed) } else { None }
    }

    /// Value of a string whose form has no separate type.
    pub fn text(&self, name: &str) -> Option<String> {
        if let Some(Formed::Text(text)) = self.formed(name) { Some(text) } else { None }
    }

    pub(crate) fn list(&self, name: &str) -> Vec<Located> {
        if let Value::List(list) = self.value(name) { list } else { Vec::new() }
    }

    /// Elements of a list of formed strings, with their places.
    pub(crate) fn formed_list(&self, name: &str) -> Vec<(Formed, Span)> {
        let formed = |l: Located| if let Value::Formed(f) = l.value { Some((f, l.span)) } else { None };
        self.list(name).into_iter().filter_map(formed).collect()
    }

    /// An algorithm with its parameters, and the place of its name.
    pub fn balance(&self, name: &str) -> Option<(Balance, Span)> {
        if let Value::Balance(balance, span) = self.value(name) { Some((*balance, span)) } else { None }
    }

    /// Texts of a list, with their places.
    pub fn texts(&self, name: &str) -> Vec<(String, Span)> {
        let text = |(formed, span)| if let Formed::Text(text) = formed { Some((text, span)) } else { None };
        self.formed_list(name).into_iter().filter_map(text).collect()
    }

    /// Durations of a list, in nanoseconds.
    pub fn durations(&self, name: &str) -> Vec<u64> {
        let ns = |l: Located| if let Value::Duration(ns) = l.value { ns } else { None };
        self.list(name).into_iter().filter_map(ns).collect()
    }

    /// Algorithms of a list, with the places of their names.
    pub fn balances(&self, name: &str) -> Vec<(Balance, Span)> {
        let one = |l: Located| if let Value::Balance(b, span) = l.value { Some((*b, span)) } else { None };
        self.list(name).into_iter().filter_map(one).collect()
    }

    /// Table under this key; an empty table if the file has none.
    pub fn section(&self, name: &str) -> Section {
        match (self.value(name), self.table.key(name).map(|k| k.kind)) {
            (Value::Section(section), _) => section,
            (
                _,
                Some(
                    Kind::Table(table)
                    | Kind::TableOr { table, .. }
                    | Kind::TableOrWord { table, .. }
                    | Kind::TableOrBool(table),
                ),
            ) => Section::new(table, self.span, self.defaults),
            _ => Section::new(self.table, self.span, self.defaults),
        }
    }

    /// Table under a key that accepts booleans: `None` if it is `false` or not set.
    pub fn switched(&self, name: &str) -> Option<Section> {
        match self.set(name)?.value {
            Value::Bool(false) => None,
            _ => Some(self.section(name)),
        }
    }

    /// Tables of an array of tables, or of a list whose elements are tables.
    pub fn sections(&self, name: &str) -> Vec<&Section> {
        let Some(Located { value: Value::List(list), .. }) = self.set(name) else { return Vec::new() };
        list.iter().filter_map(|l| if let Value::Section(s) = &l.value { Some(s) } else { None }).collect()
    }

    /// Tables with user-defined names, in the order of the file.
    pub fn named(&self, name: &str) -> &[Named] {
        if let Some(Located { value: Value::Named(named), .. }) = self.set(name) { named } else { &[] }
    }

    /// Values with user-defined keys, in the order of the file.
    pub(crate) fn map(&self, name: &str) -> &[Keyed] {
        if let Some(Located { value: Value::Map(map), .. }) = self.set(name) { map } else { &[] }
    }

    /// Calls `each` with every value that the file sets in this table and in the tables below it.
    pub(crate) fn each_value(&self, each: &mut impl FnMut(&Located)) {
        self.fields.iter().for_each(|(_, value)| value.each(each));
    }

    /// This table with the keys that it does not set taken from `base`.
    pub(crate) fn over(&self, base: &Section) -> Section {
        let mut whole = self.clone();
        for (key, value) in &base.fields {
            if let Some(row) = self.table.key(key.name)
                && !self.has(key.name)
            {
                whole.fields.push((row, value.clone()));
            }
        }
        whole
    }

    /// This table with `below` as the value of `name`.
    pub(crate) fn with(mut self, name: &str, below: Section) -> Section {
        let span = self.span_of(name);
        self.fields.retain(|(key, _)| key.name != name);
        if let Some(row) = self.table.key(name) {
            self.fields.push((row, Located { span, value: Value::Section(below) }));
        }
        self
    }

    /// Names of the keys whose values are files.
    pub(crate) fn files(&self) -> impl Iterator<Item = &'static str> + use<> {
        self.table.keys.iter().filter(|key| matches!(key.kind, Kind::Text(Form::File))).map(|key| key.name)
    }

    /// Reports that `span` contradicts `other`, another key of this table.
    pub(crate) fn contradiction<'f>(
        &self,
        span: Span,
        message: impl Into<String>,
        other: &str,
        findings: &'f mut Findings,
    ) -> &'f mut Finding {
        let finding = findings.add(Code::Contradiction, span, message);
        match self.set(other) {
            Some(other) => finding.see("the other one is here", other.span),
            None => finding,
        }
    }
}
