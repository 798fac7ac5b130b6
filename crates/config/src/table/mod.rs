//! Tables of keys. [`table!`] declares a struct of the plan together with the rows of its keys; reading,
//! writing, the JSON Schema and the reference page are derived from them.
//!
//! 1. `row`: the content of a row. `declare` and `words`: the macros that `sections` is declared with.
//! 2. `reader`, `values`, `algorithm`: check the tree of a file against the rows; the result is a [`Section`].
//!    `secrets`: keys whose values must not be shown. `hiding`: these values in the tree of a file.
//! 3. `field`: from a value of a section to a field of the plan, and back. `lines`: the keys of a table, written.

// Order: algorithm, values, declare, hiding, reader, secrets, words, field, lines, section, balance, row
mod algorithm;
mod balance;
mod declare;
mod field;
mod hiding;
mod lines;
mod reader;
mod row;
mod secrets;
mod section;
mod values;
mod words;

pub use balance::Balance;
pub use row::{Absent, Key, Kind, Table};
pub use section::{Named, Section};

pub(crate) use crate::printable::quote;
pub(crate) use algorithm::kind_of;
pub(crate) use declare::{Declared, count, joined, table, unset};
pub(crate) use field::{Field, Payload};
pub(crate) use hiding::hide_secrets;
pub(crate) use lines::{Lines, key_text, list};
pub(crate) use reader::Reader;
pub(crate) use row::{DAY, H, MS, S};
pub(crate) use secrets::{is_secret, vocabulary};
pub(crate) use section::{Keyed, Located, Value};
pub(crate) use words::{Words, words};
