//! Tables of a file that a program writes for a person to complete: see [`Draft`].
//!
//! A [`Plan`](crate::Plan) has every default filled in, and no value that is not valid. A draft has neither: it holds the
//! keys that were set, and values such as `${PORT}` that the environment of the process decides.

pub use crate::quantity::size_text;

use crate::printable::{is_hidden, quote_reference};
use crate::root::ROOT;
use crate::table::{Declared, Key, Kind, Table, key_text};
use std::fmt::{self, Write};
use std::marker::PhantomData;

/// Widest line before a list or table gets a line for each of its elements.
const WIDTH: usize = 110;

/// A type whose keys a draft can have: a part of a plan, or [`File`].
pub trait Drafted {
    /// The table of the keys.
    const TABLE: &'static Table;
}

impl<T: Declared> Drafted for T {
    const TABLE: &'static Table = <T as Declared>::TABLE;
}

/// The top level of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct File;

impl Drafted for File {
    const TABLE: &'static Table = &ROOT;
}

/// A key of the table of `T`, or of a table in it: `basic_auth.file` of a route.
#[derive(Debug)]
pub struct KeyOf<T> {
    path: &'static str,
    row: &'static Key,
    of: PhantomData<fn(T)>,
}

impl<T> Clone for KeyOf<T> {
    fn clone(&self) -> KeyOf<T> {
        *self
    }
}

impl<T> Copy for KeyOf<T> {}

impl<T> fmt::Display for KeyOf<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.path)
    }
}

impl<T> KeyOf<T> {
    /// Values that the key accepts.
    pub fn kind(self) -> Kind {
        self.row.kind
    }
}

impl<T: Drafted> KeyOf<T> {
    /// The key of a path. Panics if there is none: `const { KeyOf::new("body_max") }` does not compile then.
    pub const fn new(path: &'static str) -> KeyOf<T> {
        KeyOf { path, row: row_of(T::TABLE, path.as_bytes()), of: PhantomData }
    }
}

/// Row at a path of names with dots between them.
const fn row_of(table: &'static Table, path: &[u8]) -> &'static Key {
    let mut end = 0;
    while end < path.len() && path[end] != b'.' {
        end += 1;
    }
    let (name, rest) = path.split_at(end);
    let mut at = 0;
    while at < table.keys.len() {
        if is_equal(table.keys[at].name.as_bytes(), name) {
            return match (rest, &table.keys[at].kind) {
                ([], _) => &table.keys[at],
                (
                    [_, inner @ ..],
                    Kind::Table(table)
                    | Kind::TableOr { table, .. }
                    | Kind::TableOrWord { table, .. }
                    | Kind::TableOrBool(table),
                ) => row_of(table, inner),
                _ => panic!("the key has no keys below it"),
            };
        }
        at += 1;
    }
    panic!("the table has no such key")
}

const fn is_equal(a: &[u8], b: &[u8]) -> bool {
    let mut at = 0;
    while at < a.len() && at < b.len() && a[at] == b[at] {
        at += 1;
    }
    at == a.len() && at == b.len()
}

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

impl<T> From<Draft<T>> for Value {
    fn from(draft: Draft<T>) -> Value {
        Value::Table(draft.entries)
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

impl Entries {
    /// A table with one entry.
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

    /// Takes over all entries of another table: tables are merged, lists are joined if asked for, other values replaced.
    fn merge(&mut self, other: &Entries, joins: bool) {
        for (name, value) in other.iter() {
            match value {
                Value::Table(entries) => self.table(name).merge(entries, joins),
                Value::List(all) if joins => all.iter().for_each(|one| self.push(name, one.clone())),
                value => drop(self.set(name, value.clone())),
            }
        }
    }

    fn write(&self, out: &mut String) {
        self.iter().for_each(|(name, value)| write_below("", name, value, out));
    }
}

impl Value {
    /// True if a key of this kind takes such values, tables with all that is in them.
    fn fits(&self, kind: &Kind) -> bool {
        use Value::{Bool, Fraction, Int, List, Table, Text};
        match (self, *kind) {
            (Bool(_), Kind::Bool | Kind::TableOrBool(_)) => true,
            (Int(_), Kind::Int { .. } | Kind::IntOr { .. } | Kind::IntOrText { .. } | Kind::Number { .. }) => true,
            (Fraction(_), Kind::Number { .. }) => true,
            (Text(_), Kind::IntOr { .. } | Kind::IntOrText { .. } | Kind::Duration { .. } | Kind::Size { .. }) => true,
            (Text(_), Kind::Choice(_) | Kind::Text(_) | Kind::TableOrWord { .. } | Kind::Balance) => true,
            (List(all), Kind::List(of)) => all.iter().all(|one| one.fits(of)),
            (List(all), Kind::Tables(of) | Kind::TableOrTables(of)) => all.iter().all(|one| one.fits(&Kind::Table(of))),
            (
                Table(all),
                Kind::Table(of)
                | Kind::TableOr { table: of, .. }
                | Kind::TableOrWord { table: of, .. }
                | Kind::TableOrBool(of)
                | Kind::TableOrTables(of),
            ) => all.iter().all(|(name, value)| of.key(name).is_some_and(|key| value.fits(&key.kind))),
            (short, Kind::TableOr { table, key }) => table.key(key).is_some_and(|key| short.fits(&key.kind)),
            (one, Kind::List(of)) => one.fits(of),
            (Table(all), Kind::Map { of, .. }) => all.iter().all(|(_, value)| value.fits(of)),
            (Table(_), Kind::Balance) => true,
            _ => false,
        }
    }
}

/// Keys of a table of `T` with their values, in the order in which they were set. Only the names of keys are certain:
/// values are checked when the file is read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Draft<T> {
    entries: Entries,
    of: PhantomData<fn(T)>,
}

impl<T> Draft<T> {
    /// A table with one key.
    pub fn one(key: KeyOf<T>, value: impl Into<Value>) -> Draft<T> {
        Draft { entries: Entries::default(), of: PhantomData }.with(key, value)
    }

    /// The table with one key more.
    pub fn with(mut self, key: KeyOf<T>, value: impl Into<Value>) -> Draft<T> {
        self.put(key, value);
        self
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub fn entries(&self) -> &Entries {
        &self.entries
    }

    pub fn has(&self, key: KeyOf<T>) -> bool {
        self.get(key).is_some()
    }

    pub fn get(&self, key: KeyOf<T>) -> Option<&Value> {
        let mut names = key.path.split('.');
        let outer = self.entries.get(names.next()?)?;
        names.try_fold(outer, |value, name| if let Value::Table(entries) = value { entries.get(name) } else { None })
    }

    /// Text of a key; `None` if its value is not a text.
    pub fn text(&self, key: KeyOf<T>) -> Option<&str> {
        if let Some(Value::Text(text)) = self.get(key) { Some(text) } else { None }
    }

    /// Sets a key. Returns the value that it had.
    pub fn put(&mut self, key: KeyOf<T>, value: impl Into<Value>) -> Option<Value> {
        let value = value.into();
        debug_assert!(value.fits(&key.row.kind), "\"{}\" does not take {value:?}", key.path);
        self.above(key).set(key.row.name, value)
    }

    /// Sets a name in a table whose names are the user's, such as those of fields.
    pub fn insert(&mut self, key: KeyOf<T>, name: &str, value: impl Into<Value>) -> Option<Value> {
        let value = value.into();
        debug_assert!(matches!(key.row.kind, Kind::Map { of, .. } if value.fits(of)), "\"{}\": {value:?}", key.path);
        self.above(key).table(key.row.name).set(name, value)
    }

    /// Appends to the list of a key a value that it does not have yet.
    pub fn push(&mut self, key: KeyOf<T>, value: impl Into<Value>) {
        let value = value.into();
        debug_assert!(Value::List(vec![value.clone()]).fits(&key.row.kind), "\"{}\": {value:?}", key.path);
        self.above(key).push(key.row.name, value);
    }

    /// Takes a key out, and returns its value.
    pub fn remove(&mut self, key: KeyOf<T>) -> Option<Value> {
        self.get(key)?;
        let entries = &mut self.above(key).0;
        let at = entries.iter().position(|(own, _)| own == key.row.name)?;
        Some(entries.remove(at).1)
    }

    /// Takes over all keys of another table: tables are merged, other values replaced.
    pub fn merge(&mut self, other: &Draft<T>) {
        self.entries.merge(&other.entries, false);
    }

    /// [`merge`](Self::merge), but lists are joined.
    pub fn join(&mut self, other: &Draft<T>) {
        self.entries.merge(&other.entries, true);
    }

    /// The table that a key is in, which is made if it is not there.
    fn above(&mut self, key: KeyOf<T>) -> &mut Entries {
        let (above, _) = key.path.rsplit_once('.').unwrap_or_default();
        above.split('.').filter(|name| !name.is_empty()).fold(&mut self.entries, Entries::table)
    }
}

impl<T: Drafted> Draft<T> {
    /// Appends the table to a file: comments, its header with this name, and a line for each key.
    pub fn write(&self, name: &str, comments: &[String], out: &mut String) {
        out.push('\n');
        for line in comments {
            // A line of the input must not end the comment.
            let _ = writeln!(out, "# {}", line.replace(char::is_control, " "));
        }
        let _ = writeln!(out, "{}", T::TABLE.path.replace("NAME", &key_text(name)));
        self.entries.write(out);
    }
}

impl Draft<File> {
    /// Appends all tables to a file; those of `defaults` have headers of their own.
    pub fn write_tables(&self, out: &mut String) {
        let mut write = |header: &str, value: &Value| {
            let Value::Table(entries) = value else { return };
            let _ = writeln!(out, "\n[{header}]");
            entries.write(out);
        };
        for (name, value) in self.entries.iter() {
            match value {
                Value::Table(inner) if name == "defaults" => {
                    inner.iter().for_each(|(inner, value)| write(&format!("{name}.{inner}"), value));
                }
                value => write(name, value),
            }
        }
    }
}

/// Writes a key below the dotted keys in front of it: one line, or several if it would be too wide.
fn write_below(above: &str, name: &str, value: &Value, out: &mut String) {
    let (key, flat) = (format!("{above}{}", key_text(name)), inline(value));
    let _ = match value {
        Value::List(list) if key.len() + 3 + flat.len() > WIDTH => {
            let each: String = list.iter().map(|value| format!("  {},\n", inline(value))).collect();
            writeln!(out, "{key} = [\n{each}]")
        }
        // A dotted key for each entry: inline tables over several lines are TOML 1.1 only.
        Value::Table(keys) if key.len() + 3 + flat.len() > WIDTH => {
            keys.iter().for_each(|(inner, value)| write_below(&format!("{key}."), inner, value, out));
            Ok(())
        }
        _ => writeln!(out, "{key} = {flat}"),
    };
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
    use crate::plan::{Listener, Pool, Route};

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

    #[test]
    fn a_draft_has_what_was_set_and_is_read_as_a_file() {
        let mut file: Draft<File> = Draft::default();
        file.put(KeyOf::new("defaults.timeouts.response"), "off");
        file.put(KeyOf::new("telemetry.access_log.path"), "-");
        let mut route: Draft<Route> = Draft::one(KeyOf::new("pool"), "a.b").with(KeyOf::new("body_max"), "1MiB");
        route.insert(KeyOf::new("request_headers.set"), "X-A", "x".repeat(60));
        route.insert(KeyOf::new("request_headers.set"), "X-B", "y".repeat(60));
        route.push(KeyOf::new("request_headers.remove"), "X-C");
        assert_eq!(route.text(KeyOf::new("pool")), Some("a.b"));
        let mut out = String::new();
        file.write_tables(&mut out);
        Draft::<Listener>::one(KeyOf::new("bind"), vec!["${BIND}"]).write("web", &[], &mut out);
        route.write("", &["A line\nof another file.".to_string()], &mut out);
        Draft::<Pool>::one(KeyOf::new("endpoints"), vec!["10.0.0.1:80"]).write("a.b", &[], &mut out);
        assert!(
            out.starts_with(
                "\n[defaults.timeouts]\nresponse = \"off\"\n\n[telemetry]\naccess_log = { path = \"-\" }\n"
            )
        );
        assert!(out.contains("\n# A line of another file.\n[[route]]\n"), "{out}");
        assert!(out.contains("request_headers.set.X-B = \"yyy") && out.contains("\n[pool.\"a.b\"]\n"), "{out}");
        let outcome = crate::parse_str("evenkeel.toml", &out, &|_| Some("127.0.0.1:80".to_string()));
        let plan = outcome.plan.expect("it is valid");
        assert_eq!((plan.routes[0].filters.body_max, plan.listeners[0].bind[0].port()), (Some(1 << 20), 80));
    }

    #[test]
    fn tables_are_merged_and_lists_joined() {
        let allow = |network: &str| Draft::<Route>::one(KeyOf::new("access.allow"), vec![network]);
        let (mut merged, mut joined) = (allow("10.0.0.0/8"), allow("10.0.0.0/8"));
        merged.merge(&allow("10.1.0.0/16").with(KeyOf::new("access.status"), 404));
        joined.join(&allow("10.1.0.0/16"));
        assert_eq!(merged, allow("10.1.0.0/16").with(KeyOf::new("access.status"), 404));
        assert_eq!(joined.get(KeyOf::new("access.allow")), Some(&vec!["10.0.0.0/8", "10.1.0.0/16"].into()));
        assert!(merged.remove(KeyOf::new("access.status")).is_some() && !merged.has(KeyOf::new("access.status")));
    }

    #[test]
    #[should_panic(expected = "no such key")]
    fn a_key_that_is_not_of_the_table_does_not_compile() {
        KeyOf::<Route>::new("basic_auth.fiel");
    }
}
