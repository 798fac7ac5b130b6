//! Tables of a file that a program writes for a person to complete: see [`Draft`].
//!
//! A [`Plan`](crate::Plan) has every default filled in, and no value that is not valid. A draft has neither: it holds the
//! keys that were set, and values such as `${PORT}` that the environment of the process decides.

// Order: value
mod value;

pub use crate::quantity::size_text;
pub use value::{Entries, Value};

use crate::root::ROOT;
use crate::table::{Declared, Key, Kind, Table, key_text};
use std::fmt::{self, Write};
use std::marker::PhantomData;

/// A type whose keys a draft can have: a part of a plan, or [`File`].
pub trait Drafted {
    const TABLE: &'static Table;
}

impl<T: Declared> Drafted for T {
    const TABLE: &'static Table = <T as Declared>::TABLE;
}

/// Marker of a draft of the top level, whose keys are tables such as `telemetry`.
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

/// Keys of a table of `T` with their values, in the order in which they were set. Only the names of keys are certain:
/// values are checked when the file is read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Draft<T> {
    entries: Entries,
    of: PhantomData<fn(T)>,
}

impl<T> From<Draft<T>> for Value {
    fn from(draft: Draft<T>) -> Value {
        Value::Table(draft.entries)
    }
}

impl<T> Draft<T> {
    pub fn one(key: KeyOf<T>, value: impl Into<Value>) -> Draft<T> {
        Draft { entries: Entries::default(), of: PhantomData }.with(key, value)
    }

    /// The table with an additional key.
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

    /// Sets a name in a table with names of the user's choice, such as field names.
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
        self.above(key).remove(key.row.name)
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

    /// Appends the keys to a file under the header of another table that has them, such as `[filters.NAME]`.
    pub fn write_under(&self, header: &str, out: &mut String) {
        let _ = writeln!(out, "\n{header}");
        self.entries.write(out);
    }

    /// Appends the keys to the table that was written last, which has none of them.
    pub fn write_more(&self, out: &mut String) {
        self.entries.write(out);
    }
}

impl Draft<File> {
    /// Appends all tables to a file.
    pub fn write_tables(&self, out: &mut String) {
        for (name, value) in self.entries.iter() {
            if let Value::Table(entries) = value {
                let _ = writeln!(out, "\n[{name}]");
                entries.write(out);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Listener, Pool, Route};

    #[test]
    fn a_draft_has_what_was_set_and_is_read_as_a_file() {
        let mut file: Draft<File> = Draft::default();
        file.put(KeyOf::new("defaults.timeouts.response"), "off");
        file.put(KeyOf::new("defaults.paths"), "as_sent");
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
                "\n[defaults]\ntimeouts = { response = \"off\" }\npaths = \"as_sent\"\n\n[telemetry]\naccess_log = { path = \"-\" }\n"
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
