//! Strings of HPACK and QPACK: a bit for the Huffman code, a length, and the bytes (RFC 7541 section 5.2, RFC 9204
//! section 4.1.2).

use super::huffman;
use super::integer::{Error, read_integer, write_integer};

/// Capacity of a string's memory that is kept between blocks, in bytes.
const KEPT: usize = 1024;

/// Reads a string whose length has its first `prefix` bits in the first byte. It is returned from the block or, if it
/// was Huffman-coded, from `room`.
///
/// # Errors
/// If the block ends inside the string, or the code is invalid.
#[inline]
pub fn read_string<'t, 'b: 't>(block: &mut &'b [u8], prefix: u32, room: &'t mut Vec<u8>) -> Result<&'t [u8], Error> {
    let is_short = block.first().ok_or(Error::Truncated)? & 1 << prefix != 0;
    let len = read_integer(block, prefix)?;
    let (text, rest) = block.split_at_checked(len).ok_or(Error::Truncated)?;
    *block = rest;
    if !is_short {
        return Ok(text);
    }
    room.clear();
    huffman::decode(text, room)?;
    Ok(room)
}

/// Appends a string, in the shorter of both codings. `first`: bits of the first byte above the bit for the Huffman
/// code, which is followed by `prefix` bits of the length.
#[inline]
pub fn write_string(text: &[u8], first: u8, prefix: u32, out: &mut Vec<u8>) {
    let short = huffman::encoded_len(text);
    if short < text.len() {
        write_integer(short, first | 1 << prefix, prefix, out);
        huffman::encode(text, out);
    } else {
        write_integer(text.len(), first, prefix, out);
        out.extend_from_slice(text);
    }
}

/// Frees the memory of a long string.
pub fn trim(room: &mut Vec<u8>) {
    if room.capacity() > KEPT {
        *room = Vec::new();
    }
}

/// Memory for names in lower case.
#[derive(Debug, Default)]
pub struct Lower(Vec<u8>);

impl Lower {
    /// Returns a name in lower case. Hardly any name has upper case, so it is mostly returned as it is.
    pub fn of<'n>(&'n mut self, name: &'n [u8]) -> &'n [u8] {
        // No early exit: eight bytes cost as much as a single byte.
        if !name.iter().fold(false, |has, byte| has | byte.is_ascii_uppercase()) {
            return name;
        }
        self.0.clear();
        self.0.extend(name.iter().map(u8::to_ascii_lowercase));
        &self.0
    }
}
