//! Rows: a [`Table`] of [`Key`]s, the source of the reader's ranges and defaults, the JSON Schema and the
//! reference page.

use crate::form::Form;
use crate::quantity::{duration_text, size_text};
use std::fmt;
use std::time::Duration;

/// A table of the configuration.
#[derive(Debug)]
pub struct Table {
    /// Place in the file: `[pool.NAME]`, `limits of [pool.NAME]`.
    pub path: &'static str,
    pub help: &'static str,
    /// True if keys that are not set come from another table, which `help` names.
    pub inherits: bool,
    /// Keys in the order of the docs.
    pub keys: &'static [Key],
}

#[derive(Clone, Copy, Debug)]
pub struct Key {
    pub name: &'static str,
    /// Values that the key accepts.
    pub kind: Kind,
    /// Effect of leaving the key out.
    pub absent: Absent,
    pub help: &'static str,
    /// Reason for the default; empty if there is nothing to add.
    pub why: &'static str,
}

impl Key {
    /// True if the key must be set.
    pub(crate) fn is_required(&self) -> bool {
        matches!(self.absent, Absent::Required(_))
    }
}

/// Effect of leaving a key out.
#[derive(Clone, Copy, Debug)]
pub enum Absent {
    /// Default value in TOML syntax, quotes included.
    Default(&'static str),
    /// The key must be set; this is an example, as TOML.
    Required(&'static str),
    /// Effect in words, for example that a feature is off.
    Means(&'static str),
}

/// Values that a key accepts. Ranges are inclusive.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// `true` or `false`.
    Bool,
    /// Whole number from `min` to `max`.
    Int {
        min: u64,
        max: u64,
    },
    /// Whole number from `min` to `max`, or `word`.
    IntOr {
        min: u64,
        max: u64,
        word: &'static str,
    },
    /// Whole number from `min` to `max`, or a string of a form.
    IntOrText {
        min: u64,
        max: u64,
        form: Form,
    },
    /// Number from `min` to `max`.
    Number {
        min: f64,
        max: f64,
    },
    /// Duration from `min` to `max` nanoseconds.
    Duration {
        min: u64,
        max: u64,
        /// True if `"off"` is accepted too.
        off: bool,
    },
    /// Size from `min` to `max` bytes.
    Size {
        min: u64,
        max: u64,
        /// True if `"off"` is accepted too.
        off: bool,
    },
    /// String from a list of words.
    Choice(&'static [&'static str]),
    /// String of a certain form.
    Text(Form),
    /// Array that has an element or more.
    List(&'static Kind),
    /// Value, or an array of values; read as a list.
    OneOrList(&'static Kind),
    Table(&'static Table),
    /// Table, or a string or number that stands for `{ KEY = it }`.
    TableOr {
        table: &'static Table,
        /// Key that a plain value stands for.
        key: &'static str,
    },
    /// Table, or `word`.
    TableOrWord {
        table: &'static Table,
        word: &'static str,
    },
    /// Table; or `true` for an empty table, `false` for none.
    TableOrBool(&'static Table),
    /// Table of tables with user-defined names.
    Named(&'static Table),
    /// Table whose keys are user-defined, each with a value of the same kind; may be empty.
    Map {
        keys: Form,
        of: &'static Kind,
    },
    /// Array of tables: `[[NAME]]`.
    Tables(&'static Table),
    /// Table, or an array of tables; read as a list.
    TableOrTables(&'static Table),
    /// Array of tables, or a table of tables, whose keys are values of a key of these; read as a list.
    TablesBy {
        table: &'static Table,
        /// Key with a list of values.
        key: &'static str,
    },
    /// Table without rows, for callers that inspect the tree.
    Open,
    /// Algorithm: its name, or a table with its name as the only key and its parameters as value.
    Balance,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = |table: &Table| table.keys.iter().map(|k| k.name).collect::<Vec<_>>().join(", ");
        let time = |ns: u64| duration_text(Duration::from_nanos(ns));
        match *self {
            Kind::Bool => f.write_str("true or false"),
            Kind::Int { min, max } if min == max => write!(f, "{min}"),
            Kind::Int { min, max } => write!(f, "a whole number from {min} to {max}"),
            Kind::IntOr { min, max, word } => write!(f, "\"{word}\", or a whole number from {min} to {max}"),
            Kind::IntOrText { min, max, form } => {
                write!(f, "{}, or a whole number from {min} to {max}", form.describe())
            }
            Kind::Number { min, max } => write!(f, "a number from {min} to {max}"),
            Kind::Duration { min, max, off: false } => write!(f, "a duration from {} to {}", time(min), time(max)),
            Kind::Duration { min, max, off: true } => {
                write!(f, "\"off\", or a duration from {} to {}", time(min), time(max))
            }
            Kind::Size { min, max, off: false } => write!(f, "a size from {} to {}", size_text(min), size_text(max)),
            Kind::Size { min, max, off: true } => {
                write!(f, "\"off\", or a size from {} to {}", size_text(min), size_text(max))
            }
            Kind::Choice(words) => {
                let words: Vec<String> = words.iter().map(|w| format!("\"{w}\"")).collect();
                f.write_str(&words.join(" or "))
            }
            Kind::Text(form) => f.write_str(form.describe()),
            Kind::List(of) => write!(f, "an array, each element {of}"),
            Kind::OneOrList(of) => write!(f, "{of}, or an array of such"),
            Kind::Table(table) => write!(f, "a table of {}", names(table)),
            Kind::TableOr { table, key } if table.is_number(key) => {
                write!(f, "a number (its {key}), or a table of {}", names(table))
            }
            Kind::TableOr { table, key } => write!(f, "a string (its {key}), or a table of {}", names(table)),
            Kind::TableOrWord { table, word } => write!(f, "\"{word}\", or a table of {}", names(table)),
            Kind::TableOrBool(table) => write!(f, "true or false, or a table of {}", names(table)),
            Kind::Named(_) => f.write_str("a table for each name"),
            Kind::Map { keys, of } => write!(f, "a table, each key {}, each value {of}", keys.describe()),
            Kind::Open => f.write_str("a table"),
            Kind::Tables(table) => write!(f, "an array of tables, each of {}", names(table)),
            Kind::TableOrTables(table) => write!(f, "a table, or an array of tables, of {}", names(table)),
            Kind::TablesBy { table, key } => {
                write!(f, "an array of tables, or a table for each {key}, of {}", names(table))
            }
            Kind::Balance => f.write_str("the name of an algorithm, or { NAME = { its parameters } }"),
        }
    }
}

impl Kind {
    /// Table that a value of this kind, or an element of it, may be.
    pub(crate) fn table(&self) -> Option<&'static Table> {
        match *self {
            Kind::Table(table) | Kind::TableOrBool(table) | Kind::Named(table) | Kind::Tables(table) => Some(table),
            Kind::TableOr { table, .. } | Kind::TableOrWord { table, .. } | Kind::TableOrTables(table) => Some(table),
            Kind::TablesBy { table, .. } => Some(table),
            Kind::List(of) | Kind::OneOrList(of) | Kind::Map { of, .. } => of.table(),
            _ => None,
        }
    }

    /// Name of the type for messages, with its article.
    pub(crate) fn type_name(&self) -> &'static str {
        match self {
            Kind::Bool => "true or false",
            Kind::Int { .. } => "a whole number",
            Kind::IntOr { .. } => "a whole number or a word",
            Kind::IntOrText { .. } => "a whole number or a string",
            Kind::Number { .. } => "a number",
            Kind::Duration { .. } => "a duration",
            Kind::Size { .. } => "a size",
            Kind::Choice(_) | Kind::Text(_) => "a string",
            Kind::List(_) => "an array",
            Kind::OneOrList(_) => "a value or an array",
            Kind::Table(_) | Kind::Named(_) | Kind::Map { .. } | Kind::Open => "a table",
            Kind::Tables(_) => "an array of tables",
            Kind::TableOrTables(_) | Kind::TablesBy { .. } => "a table or an array of tables",
            Kind::TableOr { table, key } if table.is_number(key) => "a number or a table",
            Kind::TableOr { .. } | Kind::Balance => "a string or a table",
            Kind::TableOrWord { .. } => "a table or a word",
            Kind::TableOrBool(_) => "true, false or a table",
        }
    }
}

impl Table {
    /// Row of a key; `None` if unknown.
    pub fn key(&self, name: &str) -> Option<&'static Key> {
        self.keys.iter().find(|k| k.name == name)
    }

    /// True if a key takes a number. The short form of a table with this key is then a number, otherwise a
    /// string.
    pub(crate) fn is_number(&self, key: &str) -> bool {
        self.key(key).is_some_and(|row| matches!(row.kind, Kind::Int { .. } | Kind::Number { .. }))
    }

    /// True if a key takes a list. The short form of a table with this key is then an element, or a list of them.
    pub(crate) fn is_list(&self, key: &str) -> bool {
        self.key(key).is_some_and(|row| matches!(row.kind, Kind::List(_)))
    }

    /// This table and all tables below it, each once, in the order of the docs.
    pub fn walk(&'static self) -> Vec<&'static Table> {
        let mut all = Vec::new();
        self.add_to(&mut all);
        all
    }

    fn add_to(&'static self, all: &mut Vec<&'static Table>) {
        if all.iter().any(|known| known.path == self.path) {
            return;
        }
        all.push(self);
        self.keys.iter().filter_map(|key| key.kind.table()).for_each(|below| below.add_to(all));
    }
}

/// Durations in nanoseconds, for ranges of rows.
pub(crate) const MS: u64 = 1_000_000;
pub(crate) const S: u64 = 1_000 * MS;
pub(crate) const H: u64 = 3_600 * S;
pub(crate) const DAY: u64 = 24 * H;
