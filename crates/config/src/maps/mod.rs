//! Tables of maps: from a key to a text, by exact text, host, prefix, suffix, regular expression, network or range of
//! numbers. A [`MapTable`] is built from the rows of a file or of the configuration and never changes, so that threads
//! share it without a lock. A lookup allocates nothing.

// Order: exact, affix, ranges, texts, rows, faults
mod affix;
mod exact;
mod faults;
mod ranges;
mod rows;
mod texts;

pub use faults::{MapFault, MapFaults};
pub use rows::{MAP_FILE_MAX, MapRow, file_rows};

use crate::form::{Expressions, Form, Formed, HostPattern};
use crate::table::words;
use affix::Affixes;
use evenkeel_balance::networks::{Builder, Networks};
use exact::Exact;
use faults::shown;
use ranges::{Ranges, range};
use std::borrow::Cow;
use std::cell::Cell;
use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use texts::{Row, Texts};

/// Longest key or value of a row, in bytes.
const TEXT_MAX: usize = 4096;

words! {
    /// Comparison of the rows of a map with its input.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum MapMatch {
        /// Compares byte for byte.
        #[default]
        Exact = "exact",
        /// A host, or the hosts below a domain: `*.example.com`. The longest domain wins.
        Host = "host",
        /// The beginning of the text. The longest wins.
        Prefix = "prefix",
        /// The end of the text. The longest wins.
        Suffix = "suffix",
        /// A regular expression for the whole text. The first row that matches wins.
        Regex = "regex",
        /// A network that contains the address. The longest prefix wins.
        Network = "network",
        /// A range that contains the number.
        Range = "range",
    }
}

/// Rows of a map, indexed by their keys.
#[derive(Debug)]
pub struct MapTable {
    texts: Texts,
    index: Index,
    ignores_case: bool,
}

#[derive(Debug)]
enum Index {
    Exact(Exact),
    Host(Exact),
    Prefix(Affixes),
    /// Keys are stored reversed.
    Suffix(Affixes),
    Regex(Box<Expressions>),
    Network(Networks<Row>),
    Range(Ranges),
}

impl MapTable {
    /// Builds the table of these rows. `regex_size` is the largest program of a regular expression, in bytes.
    ///
    /// # Errors
    /// Rows with a wrong key or value, and rows that contradict others.
    pub fn new(
        of: MapMatch,
        ignores_case: bool,
        mut rows: Vec<MapRow<'_>>,
        regex_size: usize,
    ) -> Result<MapTable, MapFaults> {
        let ignores_case = ignores_case || of == MapMatch::Host;
        let mut faults = MapFaults::default();
        for row in &rows {
            check_texts(row, &mut faults);
        }
        if ignores_case && of != MapMatch::Regex {
            rows.iter_mut().filter(|row| row.key.iter().any(u8::is_ascii_uppercase)).for_each(|row| {
                row.key.to_mut().make_ascii_lowercase();
            });
        }
        let (texts, index) = match of {
            MapMatch::Exact => exact(rows, Index::Exact, &mut faults),
            MapMatch::Host => {
                rows.iter_mut().for_each(|row| host_key(row, &mut faults));
                exact(rows, Index::Host, &mut faults)
            }
            MapMatch::Prefix => affixes(rows, Index::Prefix, &mut faults),
            MapMatch::Suffix => {
                rows.iter_mut().for_each(|row| row.key.to_mut().reverse());
                affixes(rows, Index::Suffix, &mut faults)
            }
            MapMatch::Regex => expressions(&rows, ignores_case, regex_size, &mut faults),
            MapMatch::Network => networks(&rows, &mut faults),
            MapMatch::Range => ranges(rows, &mut faults),
        };
        match faults.first.is_empty() {
            true => Ok(MapTable { texts, index, ignores_case }),
            false => {
                faults.first.sort_by_key(|fault| fault.line);
                Err(faults)
            }
        }
    }

    pub fn len(&self) -> usize {
        self.texts.len()
    }

    /// True if there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Values of all rows, in no particular order.
    pub fn values(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.texts.len()).map(|row| self.texts.value(row as Row))
    }

    /// Memory of the table, in bytes.
    pub fn memory(&self) -> usize {
        let index = match &self.index {
            Index::Exact(exact) | Index::Host(exact) => exact.memory(),
            Index::Prefix(affixes) | Index::Suffix(affixes) => affixes.memory(),
            Index::Regex(expressions) => expressions.size(),
            Index::Network(networks) => networks.memory(),
            Index::Range(ranges) => ranges.memory(),
        };
        self.texts.memory() + index
    }

    /// Value of the row that the key belongs to. May change the key. A regular expression takes at most the steps that
    /// are `left`; if these are too few, none are left and no row is found.
    pub fn find(&self, key: &mut [u8], left: &Cell<u32>) -> Option<&[u8]> {
        if self.ignores_case && !matches!(self.index, Index::Regex(_)) {
            key.make_ascii_lowercase();
        }
        let row = match &self.index {
            Index::Exact(exact) => exact.find(&self.texts, key),
            Index::Host(exact) => host(exact, &self.texts, key),
            Index::Prefix(affixes) => affixes.find(&self.texts, key),
            Index::Suffix(affixes) => {
                key.reverse();
                affixes.find(&self.texts, key)
            }
            Index::Regex(expressions) => expressions.find_within(key, left).and_then(|at| Row::try_from(at).ok()),
            Index::Network(networks) => networks.find(std::str::from_utf8(key).ok()?.parse().ok()?),
            Index::Range(ranges) => ranges.find(ranges::number(key)?),
        };
        row.map(|row| self.texts.value(row))
    }

    /// Value of the row for an address, which only a table of networks has.
    #[inline]
    pub fn find_address(&self, address: IpAddr) -> Option<&[u8]> {
        let Index::Network(networks) = &self.index else { return None };
        networks.find(address).map(|row| self.texts.value(row))
    }

    /// True for a table of networks.
    pub fn is_of_networks(&self) -> bool {
        matches!(self.index, Index::Network(_))
    }
}

/// Row for a host: its own, or the row of the longest domain that it is below. Keys of domains begin with a dot.
fn host(exact: &Exact, texts: &Texts, key: &[u8]) -> Option<Row> {
    let key = key.strip_suffix(b".").unwrap_or(key);
    let below = || {
        let dots = key.iter().enumerate().skip(1).filter(|(_, byte)| **byte == b'.');
        dots.map(|(at, _)| &key[at..]).find_map(|domain| exact.find(texts, domain))
    };
    exact.find(texts, key).filter(|_| key.first() != Some(&b'.')).or_else(below)
}

fn check_texts(row: &MapRow<'_>, faults: &mut MapFaults) {
    if row.key.is_empty() {
        faults.add(row.line, "the row has no key", "write a key and a value; \"default\" is for everything else");
    }
    if row.key.len() > TEXT_MAX || row.value.len() > TEXT_MAX {
        faults.add(row.line, format!("its key or value is longer than {TEXT_MAX} bytes"), "shorten it");
    }
    if row.value.iter().any(|byte| byte.is_ascii_control()) {
        faults.add(row.line, "its value has a control character", "write visible characters and spaces");
    }
}

fn host_key(row: &mut MapRow<'_>, faults: &mut MapFaults) {
    match Form::Host.read(&String::from_utf8_lossy(&row.key)) {
        Ok(Formed::Host(HostPattern::Exact(host) | HostPattern::Wildcard(host))) => {
            row.key = Cow::Owned(host.into_bytes());
        }
        Ok(_) => {}
        Err(misfit) => faults.add(row.line, misfit.message, misfit.help),
    }
}

fn exact(rows: Vec<MapRow<'_>>, index: fn(Exact) -> Index, faults: &mut MapFaults) -> (Texts, Index) {
    let texts = Texts::new(&rows);
    let index = index(Exact::new(&texts, |row, first| contradiction(&rows, row, first, faults)));
    (texts, index)
}

fn affixes(mut rows: Vec<MapRow<'_>>, index: fn(Affixes) -> Index, faults: &mut MapFaults) -> (Texts, Index) {
    // Equal keys stay in the order of their lines.
    rows.sort_by(|a, b| a.key.cmp(&b.key));
    for at in 1..rows.len() {
        if rows[at].key == rows[at - 1].key {
            contradiction(&rows, at as Row, at as Row - 1, faults);
        }
    }
    rows.dedup_by(|a, b| a.key == b.key);
    let texts = Texts::new(&rows);
    let index = index(Affixes::new(&texts));
    (texts, index)
}

/// Reports a row with the key of another row and a different value.
fn contradiction(rows: &[MapRow<'_>], row: Row, first: Row, faults: &mut MapFaults) {
    let (row, first) = (&rows[row as usize], &rows[first as usize]);
    if row.value != first.value {
        let message = format!("{} has another value in row {}", shown(&row.key), first.line);
        faults.add(row.line, message, "keep one of the two rows");
    }
}

fn expressions(rows: &[MapRow<'_>], ignores_case: bool, regex_size: usize, faults: &mut MapFaults) -> (Texts, Index) {
    let text = |row: &MapRow<'_>| match ignores_case {
        true => format!("(?i){}", String::from_utf8_lossy(&row.key)),
        false => String::from_utf8_lossy(&row.key).into_owned(),
    };
    let all: Vec<String> = rows.iter().map(text).collect();
    let built = Expressions::new(&all, regex_size).unwrap_or_else(|wrong| {
        wrong
            .into_iter()
            .for_each(|(at, message, help)| faults.add(rows.get(at).map_or(1, |row| row.line), message, help));
        Expressions::default()
    });
    (Texts::values_only(rows), Index::Regex(Box::new(built)))
}

fn networks(rows: &[MapRow<'_>], faults: &mut MapFaults) -> (Texts, Index) {
    let (mut builder, mut seen) = (Builder::default(), HashMap::new());
    for (at, row) in rows.iter().enumerate() {
        match Form::Network.read(&String::from_utf8_lossy(&row.key)) {
            Ok(Formed::Network(network)) => {
                match seen.insert(network, at) {
                    Some(first) => contradiction(rows, at as Row, first as Row, faults),
                    None => builder.add(network.network(), network.prefix(), at as Row),
                };
            }
            Ok(_) => {}
            Err(misfit) => faults.add(row.line, misfit.message, misfit.help),
        }
    }
    (Texts::values_only(rows), Index::Network(builder.build()))
}

fn ranges(rows: Vec<MapRow<'_>>, faults: &mut MapFaults) -> (Texts, Index) {
    let mut all = Vec::new();
    for (at, row) in rows.iter().enumerate() {
        match range(&row.key) {
            Some((from, to)) => all.push((from, to, at as Row)),
            None => {
                let message = format!("{} is neither a number nor a range", shown(&row.key));
                faults.add(row.line, message, "write 80 or 8000-8999");
            }
        }
    }
    let overlap = |row: Row, other: Row| {
        let (row, other) = (&rows[row as usize], &rows[other as usize]);
        if row.key != other.key || row.value != other.value {
            let message = format!("{} overlaps {} of row {}", shown(&row.key), shown(&other.key), other.line);
            faults.add(row.line, message, "write ranges without a common number");
        }
    };
    let ranges = Ranges::new(all, overlap);
    (Texts::values_only(&rows), Index::Range(ranges))
}

impl fmt::Display for MapFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "row {}: {}", self.line, self.message)
    }
}

#[cfg(test)]
mod tests;
