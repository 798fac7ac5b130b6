//! The HPACK decoder. Passes on each field as it is read, and keeps only entries of its table.

use super::table::Table;
use super::{Error, huffman, read_integer};

/// Limits of a block's fields. The rest of the block is decoded, as both tables have to stay in step, but not passed
/// on.
#[derive(Clone, Copy, Debug)]
pub struct HeaderLimits {
    /// Most bytes of names and values.
    pub bytes: usize,
    /// Most fields. The crumbs of a cookie count as a single field (RFC 9113 section 8.2.3).
    pub fields: usize,
}

/// Result of decoding a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decoded {
    /// Limit that the block exceeds, if any.
    pub over: Option<Over>,
}

/// A limit of [`HeaderLimits`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// The block has more bytes than allowed.
    Bytes,
    /// The block has more fields than allowed.
    Fields,
}

/// Decoder of the blocks of a direction.
#[derive(Debug)]
pub struct Decoder {
    table: Table,
    /// Largest table that the peer was allowed.
    size_max: usize,
    name: Vec<u8>,
    value: Vec<u8>,
}

/// Factor above the limits from which a block is not read to its end: few bytes can decode to many megabytes.
const FAR_OVER: usize = 8;

/// Capacity of strings that is kept between blocks, in bytes.
const KEPT: usize = 1024;

impl Decoder {
    /// Returns a decoder whose peer may use a table of `size_max` bytes.
    pub fn new(size_max: usize) -> Decoder {
        let table = Table::new(super::TABLE_SIZE.min(size_max));
        Decoder { table, size_max, name: Vec::new(), value: Vec::new() }
    }

    /// Sets how large a table the peer may use.
    pub fn set_table_size_max(&mut self, size_max: usize) {
        self.size_max = size_max;
        if self.table.max() > size_max {
            self.table.set_max(size_max);
        }
    }

    /// Decodes a complete block, and passes each field to `sink`.
    ///
    /// # Errors
    /// If the block is malformed, or many times larger than the limits.
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
            // Clients send a crumb per cookie, so that their tables hold them; `; ` joins them.
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
                    // The entry that the name refers to may be evicted for this field.
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

/// Reads a string, which is returned from the block or, if it was Huffman-coded, from `room`.
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
