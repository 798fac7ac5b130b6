//! What is a row? A [`Table`] of [`Key`]s: from them come the reader, its ranges and defaults, the JSON Schema and the
//! reference page.

use crate::form::Form;
use crate::quantity::{duration_text, size_text};
use std::fmt;
use std::time::Duration;

/// A table of the configuration.
#[derive(Debug)]
pub struct Table {
    /// Its place in the file: `[pool.NAME]`, `limits of [pool.NAME]`.
    pub path: &'static str,
    /// What it is for, Markdown.
    pub help: &'static str,
    /// Whether keys that are left out come from another table, which `help` names.
    pub inherits: bool,
    /// Its keys, in the order in which docs list them.
    pub keys: &'static [Key],
}

/// One key.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// The key.
    pub name: &'static str,
    /// What values it takes.
    pub kind: Kind,
    /// What holds when it is left out.
    pub absent: Absent,
    /// What it does.
    pub help: &'static str,
    /// Why this default; empty if there is nothing to say.
    pub why: &'static str,
}

impl Key {
    /// Whether it must be set.
    pub(crate) fn is_required(&self) -> bool {
        matches!(self.absent, Absent::Required(_))
    }
}

/// What holds when a key is left out.
#[derive(Clone, Copy, Debug)]
pub enum Absent {
    /// This value, as TOML.
    Default(&'static str),
    /// Nothing: it must be set, for example to this, as TOML.
    Required(&'static str),
    /// What the text says.
    Means(&'static str),
}

/// The values a key takes. Ranges are inclusive.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// `true` or `false`.
    Bool,
    /// A whole number.
    Int {
        /// Smallest.
        min: u64,
        /// Largest.
        max: u64,
    },
    /// A whole number, or one word.
    IntOr {
        /// Smallest.
        min: u64,
        /// Largest.
        max: u64,
        /// The word.
        word: &'static str,
    },
    /// A whole number, or a string of a certain form.
    IntOrText {
        /// Smallest.
        min: u64,
        /// Largest.
        max: u64,
        /// What the string must look like.
        form: Form,
    },
    /// A number.
    Number {
        /// Smallest.
        min: f64,
        /// Largest.
        max: f64,
    },
    /// A duration in nanoseconds.
    Duration {
        /// Shortest.
        min: u64,
        /// Longest.
        max: u64,
        /// Whether `"off"` is a value too.
        off: bool,
    },
    /// A size in bytes.
    Size {
        /// Smallest.
        min: u64,
        /// Largest.
        max: u64,
    },
    /// One of these words.
    Choice(&'static [&'static str]),
    /// A string of a certain form.
    Text(Form),
    /// An array with at least one element.
    List(&'static Kind),
    /// A table.
    Table(&'static Table),
    /// A table, or a string or number that stands for `{ KEY = it }`.
    TableOr {
        /// The table.
        table: &'static Table,
        /// The key that a plain value stands for.
        key: &'static str,
    },
    /// A table, or one word.
    TableOrWord {
        /// The table.
        table: &'static Table,
        /// The word.
        word: &'static str,
    },
    /// A table, or `true` for one that sets nothing, or `false` for none.
    TableOrBool(&'static Table),
    /// A table for each name.
    Named(&'static Table),
    /// An array of tables.
    Tables(&'static Table),
    /// A table that is looked at as it is, without rows.
    Open,
    /// An algorithm: its name, or a table with its name as the only key and its parameters as value.
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
            Kind::Size { min, max } => write!(f, "a size from {} to {}", size_text(min), size_text(max)),
            Kind::Choice(words) => {
                let words: Vec<String> = words.iter().map(|w| format!("\"{w}\"")).collect();
                f.write_str(&words.join(" or "))
            }
            Kind::Text(form) => f.write_str(form.describe()),
            Kind::List(of) => write!(f, "an array, each element {of}"),
            Kind::Table(table) => write!(f, "a table of {}", names(table)),
            Kind::TableOr { table, key } if table.is_number(key) => {
                write!(f, "a number (its {key}), or a table of {}", names(table))
            }
            Kind::TableOr { table, key } => write!(f, "a string (its {key}), or a table of {}", names(table)),
            Kind::TableOrWord { table, word } => write!(f, "\"{word}\", or a table of {}", names(table)),
            Kind::TableOrBool(table) => write!(f, "true or false, or a table of {}", names(table)),
            Kind::Named(_) => f.write_str("a table for each name"),
            Kind::Open => f.write_str("a table"),
            Kind::Tables(table) => write!(f, "an array of tables, each of {}", names(table)),
            Kind::Balance => f.write_str("the name of an algorithm, or { NAME = { its parameters } }"),
        }
    }
}

impl Kind {
    /// The type, for messages, with its article.
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
            Kind::Table(_) | Kind::Named(_) | Kind::Open => "a table",
            Kind::Tables(_) => "an array of tables",
            Kind::TableOr { table, key } if table.is_number(key) => "a number or a table",
            Kind::TableOr { .. } | Kind::Balance => "a string or a table",
            Kind::TableOrWord { .. } => "a table or a word",
            Kind::TableOrBool(_) => "true, false or a table",
        }
    }
}

impl Table {
    /// The row of a key.
    pub fn key(&self, name: &str) -> Option<&'static Key> {
        self.keys.iter().find(|k| k.name == name)
    }

    /// Whether a key takes a number: what stands for a table with this key alone is a number then, and not a string.
    pub(crate) fn is_number(&self, key: &str) -> bool {
        self.key(key).is_some_and(|row| matches!(row.kind, Kind::Int { .. } | Kind::Number { .. }))
    }

    /// This table and all below it, each once, in the order of the docs.
    pub fn walk(&'static self) -> Vec<&'static Table> {
        let mut all = vec![self];
        for key in self.keys {
            let below = match key.kind {
                Kind::Table(t) | Kind::TableOrBool(t) | Kind::Named(t) | Kind::Tables(t) => t.walk(),
                Kind::TableOr { table, .. } | Kind::TableOrWord { table, .. } => table.walk(),
                Kind::List(Kind::TableOr { table, .. }) => table.walk(),
                _ => continue,
            };
            all.extend(below.into_iter().filter(|t| !all.iter().any(|a| a.path == t.path)).collect::<Vec<_>>());
        }
        all
    }
}

/// Milliseconds, seconds, hours and days as nanoseconds, for ranges.
pub(crate) const MS: u64 = 1_000_000;
pub(crate) const S: u64 = 1_000 * MS;
pub(crate) const H: u64 = 3_600 * S;
pub(crate) const DAY: u64 = 24 * H;
