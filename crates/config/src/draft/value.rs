//! Values of drafts, and how they are written.

use crate::printable::{is_hidden, quote_reference};
use crate::table::{Kind, key_text};
use std::collections::HashSet;
use std::fmt::Write;

/// Widest line before a list or table gets a line for each of its elements.
const WIDTH: usize = 110;

/// A value of a draft. `${NAME}` in a text is a variable of the environment, as in every file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    Text(String),
    Int(u64),
    /// A number with a fraction, as it is written.
    Fraction(String),
    Bool(bool),
    List(Vec<Value>),
    Table(Entries),
}

/// Names with their values, in the order in which they were set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entries(Vec<(String, Value)>);

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::Text(text.to_string())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Value {
        Value::Text(text)
    }
}

impl From<u64> for Value {
    fn from(number: u64) -> Value {
        Value::Int(number)
    }
}

impl From<bool> for Value {
    fn from(on: bool) -> Value {
        Value::Bool(on)
    }
}

impl<T: Into<Value>> From<Vec<T>> for Value {
    fn from(list: Vec<T>) -> Value {
        Value::List(list.into_iter().map(Into::into).collect())
    }
}

impl From<Entries> for Value {
    fn from(entries: Entries) -> Value {
        Value::Table(entries)
    }
}

impl FromIterator<(String, Value)> for Entries {
    /// Keeps the first value of each name.
    fn from_iter<I: IntoIterator<Item = (String, Value)>>(all: I) -> Entries {
        let mut seen = HashSet::new();
        Entries(all.into_iter().filter(|(name, _)| seen.insert(name.clone())).collect())
    }
}

impl Entries {
    pub fn one(name: &str, value: impl Into<Value>) -> Entries {
        Entries(vec![(name.to_string(), value.into())])
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Value)> {
        self.0.iter().map(|(name, value)| (&**name, value))
    }

    pub fn get(&self, name: &str) -> Option<&Value> {
        self.iter().find(|(own, _)| *own == name).map(|(_, value)| value)
    }

    /// Sets a name. Returns the value that it had.
    pub fn set(&mut self, name: &str, value: impl Into<Value>) -> Option<Value> {
        match self.0.iter_mut().find(|(own, _)| own == name) {
            Some((_, old)) => Some(std::mem::replace(old, value.into())),
            None => {
                if self.0.len() == self.0.capacity() {
                    // Most tables have a key or two, and a file may have many thousands of tables.
                    self.0.reserve_exact(self.0.len().max(1));
                }
                self.0.push((name.to_string(), value.into()));
                None
            }
        }
    }

    /// Appends to the list of a name a value that it does not have yet.
    pub fn push(&mut self, name: &str, value: impl Into<Value>) {
        let value = value.into();
        match self.0.iter_mut().find(|(own, _)| own == name) {
            Some((_, Value::List(list))) if list.contains(&value) => {}
            Some((_, Value::List(list))) => list.push(value),
            _ => drop(self.set(name, Value::List(vec![value]))),
        }
    }

    /// The table of a name, which is made if it is not there. A value of another kind is replaced.
    pub fn table(&mut self, name: &str) -> &mut Entries {
        if !matches!(self.get(name), Some(Value::Table(_))) {
            self.set(name, Entries::default());
        }
        match self.0.iter_mut().find(|(own, _)| own == name) {
            Some((_, Value::Table(entries))) => entries,
            _ => unreachable!("it was made a table above"),
        }
    }

    /// Takes a name out, and returns its value.
    pub fn remove(&mut self, name: &str) -> Option<Value> {
        let at = self.0.iter().position(|(own, _)| own == name)?;
        Some(self.0.remove(at).1)
    }

    /// Takes over all entries of another table: tables are merged, lists are joined if asked for, other values replaced.
    pub(super) fn merge(&mut self, other: &Entries, joins: bool) {
        for (name, value) in other.iter() {
            match value {
                Value::Table(entries) => self.table(name).merge(entries, joins),
                Value::List(all) if joins => all.iter().for_each(|one| self.push(name, one.clone())),
                value => drop(self.set(name, value.clone())),
            }
        }
    }

    /// Appends a line for each entry, or several where one would be too wide.
    pub(super) fn write(&self, out: &mut String) {
        self.iter().for_each(|(name, value)| write_below("", name, value, out));
    }
}

impl Value {
    /// True if a key of this kind takes such values, tables with all that is in them.
    pub(super) fn fits(&self, kind: &Kind) -> bool {
        use Value::{Bool, Fraction, Int, List, Table, Text};
        match (self, *kind) {
            (Bool(_), Kind::Bool | Kind::TableOrBool(_)) => true,
            (Int(_), Kind::Int { .. } | Kind::IntOr { .. } | Kind::IntOrText { .. } | Kind::Number { .. }) => true,
            (Fraction(_), Kind::Number { .. }) => true,
            (Text(_), Kind::IntOr { .. } | Kind::IntOrText { .. } | Kind::Duration { .. } | Kind::Size { .. }) => true,
            (Text(_), Kind::Choice(_) | Kind::Text(_) | Kind::TableOrWord { .. } | Kind::Balance) => true,
            (List(all), Kind::List(of) | Kind::OneOrList(of)) => all.iter().all(|one| one.fits(of)),
            (one, Kind::OneOrList(of)) => one.fits(of),
            (Table(all), Kind::TablesBy { table, .. }) => all.iter().all(|(_, one)| one.fits(&Kind::Table(table))),
            (List(all), Kind::Tables(of) | Kind::TableOrTables(of) | Kind::TablesBy { table: of, .. }) => {
                all.iter().all(|one| one.fits(&Kind::Table(of)))
            }
            (
                Table(all),
                Kind::Table(of)
                | Kind::TableOr { table: of, .. }
                | Kind::TableOrWord { table: of, .. }
                | Kind::TableOrBool(of)
                | Kind::TableOrTables(of),
            ) => all.iter().all(|(name, value)| of.key(name).is_some_and(|key| value.fits(&key.kind))),
            (short, Kind::TableOr { table, key }) => table.key(key).is_some_and(|key| match key.kind {
                Kind::List(of) if !matches!(short, List(_)) => short.fits(of),
                kind => short.fits(&kind),
            }),
            (Table(all), Kind::Map { of, .. }) => all.iter().all(|(_, value)| value.fits(of)),
            (Table(_), Kind::Balance) => true,
            _ => false,
        }
    }
}

/// Writes a key below the dotted keys in front of it: one line, or several if it would be too wide.
fn write_below(above: &str, name: &str, value: &Value, out: &mut String) {
    let key = format!("{above}{}", key_text(name));
    // A long value is not put together only to be measured.
    let is_wide = || width_min(value) > WIDTH || key.len() + 3 + inline(value).len() > WIDTH;
    match value {
        Value::List(list) if is_wide() => {
            let _ = writeln!(out, "{key} = [");
            for value in list {
                let _ = writeln!(out, "  {},", inline(value));
            }
            out.push_str("]\n");
        }
        // A dotted key for each entry: inline tables over several lines are TOML 1.1 only.
        Value::Table(keys) if is_wide() => {
            keys.iter().for_each(|(inner, value)| write_below(&format!("{key}."), inner, value, out));
        }
        _ => {
            let _ = writeln!(out, "{key} = {}", inline(value));
        }
    }
}

/// Least width of a value on a line: each element of a list has a character and a comma with a space.
fn width_min(value: &Value) -> usize {
    match value {
        Value::List(list) => 3 * list.len(),
        Value::Table(keys) => keys.iter().map(|(_, value)| width_min(value)).sum(),
        _ => 0,
    }
}

fn inline(value: &Value) -> String {
    match value {
        Value::Text(text) => quoted(text),
        Value::Int(number) => number.to_string(),
        Value::Fraction(number) => number.clone(),
        Value::Bool(on) => on.to_string(),
        Value::List(list) => format!("[{}]", list.iter().map(inline).collect::<Vec<_>>().join(", ")),
        Value::Table(keys) if keys.is_empty() => "{}".to_string(),
        Value::Table(keys) => {
            let each = keys.iter().map(|(name, value)| format!("{} = {}", key_text(name), inline(value)));
            format!("{{ {} }}", each.collect::<Vec<_>>().join(", "))
        }
    }
}

/// A string of TOML: literal where that saves escapes, basic otherwise. References to the environment stay.
fn quoted(text: &str) -> String {
    match text.contains(['\\', '"']) && !text.contains('\'') && !text.contains(is_hidden) {
        true => format!("'{text}'"),
        false => quote_reference(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_quoted_so_that_they_read_back() {
        for (text, written) in [
            ("a", "\"a\""),
            ("a\"b", "'a\"b'"),
            ("\\.php$", "'\\.php$'"),
            ("it's \"x\"", "\"it's \\\"x\\\"\""),
            ("a\nb\u{1}", "\"a\\nb\\U00000001\""),
            ("${PORT}", "\"${PORT}\""),
            ("", "\"\""),
        ] {
            assert_eq!(quoted(text), written);
        }
    }
}
