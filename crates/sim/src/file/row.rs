//! Units and constructors for the key tables of scenario files.

use evenkeel_config::tables::{Absent, Key, Kind};

pub(super) const US: u64 = 1_000;
pub(super) const MS: u64 = 1_000 * US;
pub(super) const S: u64 = 1_000 * MS;
pub(super) const H: u64 = 3_600 * S;
pub(super) const DAY: u64 = 24 * H;

/// Optional key without a default value; `absent` describes the meaning of its absence.
pub(super) const fn key(name: &'static str, kind: Kind, absent: &'static str, help: &'static str) -> Key {
    Key { name, kind, absent: Absent::Means(absent), help, why: "" }
}

pub(super) const fn with_default(name: &'static str, kind: Kind, default: &'static str, help: &'static str) -> Key {
    Key { name, kind, absent: Absent::Default(default), help, why: "" }
}

pub(super) const fn required(name: &'static str, kind: Kind, example: &'static str, help: &'static str) -> Key {
    Key { name, kind, absent: Absent::Required(example), help, why: "" }
}
