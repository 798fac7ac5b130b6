//! Numbers of HPACK (RFC 7541 section 5.1), and the reasons for which a block cannot be read.

/// The size of a table as long as nothing else was said, in bytes.
pub const TABLE_SIZE: usize = 4096;

/// A block that cannot be read: the tables of both sides are no longer alike, so its connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// It ends within a field.
    Truncated,
    /// A number is larger than any that means something.
    Integer,
    /// No field has this number.
    Index,
    /// A string that is no Huffman code.
    Huffman,
    /// The size of the table changes to more than is allowed, or behind a field.
    Size,
    /// It is many times larger than the limits: the rest is not looked at.
    TooLarge,
}

/// Reads a number whose first bits, `prefix` of them, are in the first byte.
pub(super) fn read_integer(bytes: &mut &[u8], prefix: u32) -> Result<usize, Error> {
    let (&first, mut rest) = bytes.split_first().ok_or(Error::Truncated)?;
    let most = (1usize << prefix) - 1;
    let mut value = usize::from(first) & most;
    if value == most {
        let mut shift = 0;
        loop {
            let (&byte, behind) = rest.split_first().ok_or(Error::Truncated)?;
            rest = behind;
            // 28 bits are more than any block has.
            if shift > 21 {
                return Err(Error::Integer);
            }
            value += usize::from(byte & 0x7f) << shift;
            shift += 7;
            if byte & 0x80 == 0 {
                break;
            }
        }
    }
    *bytes = rest;
    Ok(value)
}

/// Appends a number behind `first`, whose last `prefix` bits are free.
pub(super) fn write_integer(value: usize, first: u8, prefix: u32, out: &mut Vec<u8>) {
    let most = (1usize << prefix) - 1;
    if value < most {
        return out.push(first | value as u8);
    }
    out.push(first | most as u8);
    let mut left = value - most;
    while left >= 128 {
        out.push(left as u8 | 0x80);
        left >>= 7;
    }
    out.push(left as u8);
}
