//! What fields does a block have? Each is given on as it is read; nothing of a block is kept but what its table keeps.

use super::table::Table;
use super::{Error, huffman, read_integer};

/// How much the fields of a block may be; the rest is read, as the tables have to stay alike, and not given on.
#[derive(Clone, Copy, Debug)]
pub struct HeaderLimits {
    /// Bytes of names and values.
    pub bytes: usize,
    /// Fields. The crumbs of a cookie are one (RFC 9113 section 8.2.3).
    pub fields: usize,
}

/// A block that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decoded {
    /// The limit that it is over, if it is.
    pub over: Option<Over>,
}

/// A limit of [`HeaderLimits`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// More bytes than allowed.
    Bytes,
    /// More fields than allowed.
    Fields,
}

/// Reads the blocks of one direction.
#[derive(Debug)]
pub struct Decoder {
    table: Table,
    /// What the peer was told that its table may have.
    size_max: usize,
    name: Vec<u8>,
    value: Vec<u8>,
}

/// A block so many times over the limits is not read to its end: few bytes can mean many megabytes.
const FAR_OVER: usize = 8;

/// Room for strings that is kept between blocks.
const KEPT: usize = 1024;

impl Decoder {
    /// A decoder whose peer may have a table of so many bytes.
    pub fn new(size_max: usize) -> Decoder {
        let table = Table::new(super::TABLE_SIZE.min(size_max));
        Decoder { table, size_max, name: Vec::new(), value: Vec::new() }
    }

    /// Changes how large a table the peer may have.
    pub fn set_table_size_max(&mut self, size_max: usize) {
        self.size_max = size_max;
        if self.table.max() > size_max {
            self.table.set_max(size_max);
        }
    }

    /// Reads a whole block, and gives each field to `sink`.
    ///
    /// # Errors
    /// It cannot be read, or is many times larger than the limits.
    pub fn decode(
        &mut self,
        mut block: &[u8],
        limits: HeaderLimits,
        sink: &mut impl FnMut(&[u8], &[u8]),
    ) -> Result<Decoded, Error> {
        let Decoder { table, size_max, name: name_room, value: value_room } = self;
        let (mut bytes, mut fields, mut may_resize) = (0usize, 0usize, true);
        let mut has_cookie = false;
        let mut give = |name: &[u8], value: &[u8]| {
            // Clients send one crumb for each cookie, so that their tables hold them; `; ` joins them.
            if name == b"cookie" && std::mem::replace(&mut has_cookie, true) {
                bytes = bytes.saturating_add(2 + value.len());
            } else {
                fields += 1;
                bytes = bytes.saturating_add(name.len() + value.len());
            }
            if fields <= limits.fields && bytes <= limits.bytes {
                sink(name, value);
            } else if fields / FAR_OVER > limits.fields || bytes / FAR_OVER > limits.bytes {
                return Err(Error::TooLarge);
            }
            Ok(())
        };
        while let Some(&first) = block.first() {
            if first & 0xe0 == 0x20 {
                let size = read_integer(&mut block, 5)?;
                if !may_resize || size > *size_max {
                    return Err(Error::Size);
                }
                table.set_max(size);
                continue;
            }
            may_resize = false;
            if first & 0x80 != 0 {
                let index = read_integer(&mut block, 7)?;
                let (name, value) = table.get(index).ok_or(Error::Index)?;
                give(name, value)?;
                continue;
            }
            let is_kept = first & 0x40 != 0;
            let index = read_integer(&mut block, if is_kept { 6 } else { 4 })?;
            let is_indexed = index > 0;
            let literal = if is_indexed { &[][..] } else { string(&mut block, name_room)? };
            let value = string(&mut block, value_room)?;
            if is_indexed {
                let (name, _) = table.get(index).ok_or(Error::Index)?;
                give(name, value)?;
                if is_kept {
                    // A name of the table may leave it for this field.
                    name_room.clear();
                    name_room.extend_from_slice(name);
                    table.add(name_room, value);
                }
            } else {
                give(literal, value)?;
                if is_kept {
                    table.add(literal, value);
                }
            }
        }
        let over =
            if bytes > limits.bytes { Some(Over::Bytes) } else { (fields > limits.fields).then_some(Over::Fields) };
        for room in [name_room, value_room] {
            if room.capacity() > KEPT {
                *room = Vec::new();
            }
        }
        Ok(Decoded { over })
    }
}

/// Reads a string, which is in the block or, if it was shortened, then in `room`.
fn string<'t, 'b: 't>(block: &mut &'b [u8], room: &'t mut Vec<u8>) -> Result<&'t [u8], Error> {
    let is_short = block.first().ok_or(Error::Truncated)? & 0x80 != 0;
    let len = read_integer(block, 7)?;
    let (text, rest) = block.split_at_checked(len).ok_or(Error::Truncated)?;
    *block = rest;
    if !is_short {
        return Ok(text);
    }
    room.clear();
    huffman::decode(text, room)?;
    Ok(room)
}
