//! The HPACK encoder. Known fields are written as numbers. Fields that are likely to be repeated are added to the
//! table; others are not, nor are secrets that could be guessed by their size.

use super::static_table;
use super::table::{TABLE_SIZE, Table};
use crate::multiplexed::integer::write_integer;
use crate::multiplexed::secrets::is_secret;
use crate::multiplexed::static_index::hash;
use crate::multiplexed::string::{Lower, write_string};

/// Encoder of the blocks of a direction.
#[derive(Debug)]
pub struct Encoder {
    table: Table,
    /// Smallest and latest table size that the peer has yet to be informed of.
    resized: Option<(usize, usize)>,
    lower: Lower,
}

/// Representation of a field that has no number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Keep {
    /// Added to the table, where it gets a number.
    Table,
    /// Not added, as it would only evict others.
    Not,
    /// Not added by any other hop either.
    Never,
}

impl Default for Encoder {
    fn default() -> Encoder {
        Encoder::new()
    }
}

impl Encoder {
    /// Returns an encoder whose peer accepts a table of the default size.
    pub fn new() -> Encoder {
        Encoder { table: Table::new(TABLE_SIZE), resized: None, lower: Lower::default() }
    }

    /// Sets the table size that the peer accepts. At most the default size is used, as the table is searched for each
    /// field.
    pub fn set_table_size_max(&mut self, size: usize) {
        let size = size.min(TABLE_SIZE);
        if size != self.table.max() {
            let smallest = self.resized.map_or(size, |(smallest, _)| smallest.min(size));
            self.resized = Some((smallest, size));
            self.table.set_max(size);
        }
    }

    /// Appends the block of these fields. Names are written in lower case.
    pub fn encode<'f>(&mut self, fields: impl Iterator<Item = (&'f [u8], &'f [u8])>, out: &mut Vec<u8>) {
        if let Some((smallest, last)) = self.resized.take() {
            if smallest < last {
                write_integer(smallest, 0x20, 5, out);
            }
            write_integer(last, 0x20, 5, out);
        }
        let mut lower = std::mem::take(&mut self.lower);
        for (name, value) in fields {
            self.field(lower.of(name), value, out);
        }
        self.lower = lower;
    }

    fn field(&mut self, name: &[u8], value: &[u8], out: &mut Vec<u8>) {
        let name_hash = hash(name);
        let known = static_table::find(name_hash, name, value);
        if let Some((index, true)) = known {
            return write_integer(index, 0x80, 7, out);
        }
        let keep = keep(name, value);
        let found = if keep == Keep::Table { self.table.find(name_hash, name, value) } else { None };
        if let Some((index, true)) = found {
            return write_integer(index, 0x80, 7, out);
        }
        let index = known.or(found).map_or(0, |(index, _)| index);
        let (first, prefix) = match keep {
            Keep::Table => (0x40, 6),
            Keep::Not => (0x00, 4),
            Keep::Never => (0x10, 4),
        };
        write_integer(index, first, prefix, out);
        if index == 0 {
            write_string(name, 0, 7, out);
        }
        write_string(value, 0, 7, out);
        if keep == Keep::Table {
            self.table.add(name, value);
        }
    }
}

/// Chooses the representation of a field. Values that differ between messages would only evict those that do not.
fn keep(name: &[u8], value: &[u8]) -> Keep {
    match name {
        _ if is_secret(name, value) => Keep::Never,
        b":path" | b"content-length" | b"content-range" | b"etag" | b"last-modified" | b"location" | b"set-cookie"
        | b"age" | b"expires" | b"if-none-match" | b"if-modified-since" | b"grpc-timeout" | b"traceparent"
        | b"tracestate" | b"b3" | b"x-b3-traceid" | b"x-b3-spanid" | b"x-request-id" | b"x-forwarded-for"
        | b"range" | b"referer" => Keep::Not,
        _ if value.len() > 512 => Keep::Not,
        _ => Keep::Table,
    }
}
