//! Values and tables of the output, and how they are written as TOML.

use std::fmt::Write;

/// Widest line before a list or table gets a line for each of its elements.
const WIDTH: usize = 110;

/// A value of TOML, without dates, which the language does not need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    Text(String),
    Int(u64),
    /// A number with a fraction, as it is written.
    Fraction(String),
    Bool(bool),
    List(Vec<Value>),
    Table(Table),
}

/// Keys in the order in which they were set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Table {
    pub entries: Vec<(String, Value)>,
}

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

impl From<Table> for Value {
    fn from(table: Table) -> Value {
        Value::Table(table)
    }
}

impl<T: Into<Value>> From<Vec<T>> for Value {
    fn from(list: Vec<T>) -> Value {
        Value::List(list.into_iter().map(Into::into).collect())
    }
}

impl Table {
    /// Makes a table with one key.
    pub fn one(key: &str, value: impl Into<Value>) -> Table {
        Table::default().with(key, value)
    }

    /// The table with one key more.
    pub fn with(mut self, key: &str, value: impl Into<Value>) -> Table {
        self.entries.push((key.to_string(), value.into()));
        self
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub fn get(&self, key: &str) -> Option<&Value> {
        self.entries.iter().find(|(name, _)| name == key).map(|(_, value)| value)
    }

    /// The table under a key, made if it is not there. A value of another kind is replaced.
    pub fn table(&mut self, key: &str) -> &mut Table {
        let at = self.entries.iter().position(|(name, _)| name == key).unwrap_or_else(|| {
            self.entries.push((key.to_string(), Table::default().into()));
            self.entries.len() - 1
        });
        let value = &mut self.entries[at].1;
        if !matches!(value, Value::Table(_)) {
            *value = Table::default().into();
        }
        match value {
            Value::Table(table) => table,
            _ => unreachable!("it was made a table above"),
        }
    }

    /// Sets a key, given as `outer.inner` for tables within. Returns the value that it had.
    pub fn put(&mut self, path: &str, value: impl Into<Value>) -> Option<Value> {
        match path.split_once('.') {
            Some((key, rest)) => self.table(key).put(rest, value),
            None => self.set(path, value.into()),
        }
    }

    /// Sets a key whose name may have dots.
    pub fn set(&mut self, key: &str, value: Value) -> Option<Value> {
        match self.entries.iter_mut().find(|(name, _)| name == key) {
            Some((_, old)) => Some(std::mem::replace(old, value)),
            None => {
                self.entries.push((key.to_string(), value));
                None
            }
        }
    }

    /// Appends to the list under a key, given as in [`Table::put`].
    pub fn push(&mut self, path: &str, value: impl Into<Value>) {
        if let Some((key, rest)) = path.split_once('.') {
            return self.table(key).push(rest, value);
        }
        match self.entries.iter_mut().find(|(name, _)| name == path) {
            Some((_, Value::List(list))) => {
                let value = value.into();
                if !list.contains(&value) {
                    list.push(value);
                }
            }
            _ => drop(self.set(path, Value::List(vec![value.into()]))),
        }
    }

    /// Takes over all keys of another table: tables are merged, other values replaced.
    pub fn merge(&mut self, other: &Table) {
        for (key, value) in &other.entries {
            match value {
                Value::Table(inner) => self.table(key).merge(inner),
                value => drop(self.set(key, value.clone())),
            }
        }
    }
}

/// Writes `key = value` lines.
pub(super) fn write_entries(table: &Table, out: &mut String) {
    for (key, value) in &table.entries {
        write_entry(key, value, out);
    }
}

/// Writes one `key = value` line, or several if it would be too wide.
pub(super) fn write_entry(name: &str, value: &Value, out: &mut String) {
    write_below("", name, value, out);
}

/// Writes a key below the dotted keys in front of it.
fn write_below(above: &str, name: &str, value: &Value, out: &mut String) {
    let (key, flat) = (format!("{above}{}", key(name)), inline(value));
    if key.len() + 3 + flat.len() <= WIDTH {
        let _ = writeln!(out, "{key} = {flat}");
        return;
    }
    match value {
        Value::List(list) => {
            let _ = writeln!(out, "{key} = [");
            for value in list {
                let _ = writeln!(out, "  {},", inline(value));
            }
            out.push_str("]\n");
        }
        // A dotted key for each entry: inline tables over several lines are TOML 1.1 only.
        Value::Table(table) => {
            table.entries.iter().for_each(|(inner, value)| write_below(&format!("{key}."), inner, value, out));
        }
        _ => {
            let _ = writeln!(out, "{key} = {flat}");
        }
    }
}

fn inline(value: &Value) -> String {
    match value {
        Value::Text(text) => quote(text),
        Value::Int(number) => number.to_string(),
        Value::Fraction(number) => number.clone(),
        Value::Bool(on) => on.to_string(),
        Value::List(list) => format!("[{}]", list.iter().map(inline).collect::<Vec<_>>().join(", ")),
        Value::Table(table) if table.is_empty() => "{}".to_string(),
        Value::Table(table) => {
            let each = table.entries.iter().map(|(name, value)| format!("{} = {}", key(name), inline(value)));
            format!("{{ {} }}", each.collect::<Vec<_>>().join(", "))
        }
    }
}

fn key(name: &str) -> String {
    let bare = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b));
    if bare { name.to_string() } else { quote(name) }
}

/// A string of TOML: literal where that saves escapes, basic otherwise.
pub(crate) fn quote(text: &str) -> String {
    if text.contains(['\\', '"']) && !text.contains('\'') && !text.contains(|c: char| c.is_control()) {
        return format!("'{text}'");
    }
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c.is_control() => {
                let _ = write!(out, "\\u{:04X}", c as u32);
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
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
            ("a\nb\u{1}", "\"a\\nb\\u0001\""),
            ("", "\"\""),
        ] {
            assert_eq!(quote(text), written);
        }
    }

    #[test]
    fn wide_tables_become_dotted_keys() {
        let mut table = Table::default();
        table.put("a.b.c", "x".repeat(60));
        table.put("a.b.d", "y".repeat(60));
        table.put("e", 1);
        let mut out = String::new();
        write_entries(&table, &mut out);
        assert_eq!(out, format!("a.b.c = \"{}\"\na.b.d = \"{}\"\ne = 1\n", "x".repeat(60), "y".repeat(60)));
    }
}
