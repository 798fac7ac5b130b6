//! Integers of HPACK and QPACK (RFC 7541 section 5.1), and errors of decoding.

/// Error of a block that cannot be decoded. The connection ends, as both sides no longer agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// The block ends inside a field.
    Truncated,
    /// An integer is larger than any meaningful one.
    Integer,
    /// No table has a field with this index.
    Index,
    /// A string is not a valid Huffman code.
    Huffman,
    /// The table is resized to more than is allowed, or after a field (HPACK).
    Size,
    /// A field refers to the dynamic table, which is empty (QPACK).
    Dynamic,
    /// The block is many times larger than the limits. The rest was not decoded.
    TooLarge,
}

/// Reads an integer whose first `prefix` bits are in the first byte.
///
/// # Errors
/// If the integer is incomplete, or larger than any meaningful integer.
#[inline]
pub fn read_integer(bytes: &mut &[u8], prefix: u32) -> Result<usize, Error> {
    let (&first, mut rest) = bytes.split_first().ok_or(Error::Truncated)?;
    let most = (1usize << prefix) - 1;
    let mut value = usize::from(first) & most;
    if value == most {
        let mut shift = 0;
        loop {
            let (&byte, behind) = rest.split_first().ok_or(Error::Truncated)?;
            rest = behind;
            // 28 bits are more than any block needs.
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

/// Appends an integer that begins in the last `prefix` bits of `first`.
pub fn write_integer(value: usize, first: u8, prefix: u32, out: &mut Vec<u8>) {
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
