//! Ten maps that a balancer looks the query of each request up in, by rows that every balancer has in its own format. The
//! endpoint gets the values in ten fields.

use super::setup::{Keys, Setup};
use std::fmt::Write;

/// Files of the maps, by name.
pub(super) const FILES: [&str; 10] =
    ["m0.map", "m1.map", "m2.map", "m3.map", "m4.map", "m5.map", "m6.map", "m7.map", "m8.map", "m9.map"];

/// Number of rows of each map.
pub const ROWS: u32 = 10_000;

/// Keys of the maps of a setup, if a route has any.
pub(super) fn of(setup: &Setup) -> Option<Keys> {
    setup.routes.iter().find_map(|route| route.maps)
}

/// Writes a file for each map. `line` writes a row of a key and a value.
pub(super) fn files(keys: Keys, line: impl Fn(&str, &str) -> String) -> impl Iterator<Item = (&'static str, String)> {
    FILES.into_iter().enumerate().map(move |(map, name)| {
        let text = (0..ROWS).map(|row| line(&keys.key(row), &value(map, row))).collect();
        (name, text)
    })
}

/// Writes a line for each map, with its number and its file.
pub(super) fn lines(line: impl Fn(usize, &str) -> String) -> String {
    FILES.into_iter().enumerate().fold(String::new(), |mut text, (map, name)| {
        writeln!(text, "{}", line(map, name)).expect("a String takes everything");
        text
    })
}

/// Value of a row. No other row or map has it.
pub fn value(map: usize, row: u32) -> String {
    format!("value-{map}-{row}")
}

impl Keys {
    /// Query that belongs to a row. The load has the same queries.
    pub fn query(row: u32) -> String {
        format!("k{row:04}/item")
    }

    fn key(self, row: u32) -> String {
        match self {
            Keys::Exact => Keys::query(row),
            Keys::Prefix => format!("k{row:04}"),
            Keys::Expression => format!("^k{row:04}/[a-z]+$"),
        }
    }
}
