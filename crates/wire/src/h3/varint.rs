//! Integers of variable length (RFC 9000 section 16): the first two bits are the logarithm of the length in bytes.

/// Largest integer, of 62 bits.
pub const MAX: u64 = (1 << 62) - 1;

/// An integer whose bytes arrive in parts.
#[derive(Clone, Copy, Debug, Default)]
pub struct Partial {
    value: u64,
    /// Number of missing bytes, if the first has arrived.
    left: Option<u8>,
}

impl Partial {
    /// Consumes bytes of an integer; `None` while it is incomplete.
    #[inline]
    pub fn read(&mut self, bytes: &mut &[u8]) -> Option<u64> {
        loop {
            if self.left == Some(0) {
                self.left = None;
                return Some(self.value);
            }
            let (&byte, rest) = bytes.split_first()?;
            *bytes = rest;
            (self.value, self.left) = match self.left {
                None => (u64::from(byte & 0x3f), Some((1 << (byte >> 6)) - 1)),
                Some(left) => (self.value << 8 | u64::from(byte), Some(left - 1)),
            };
        }
    }

    /// True if the first byte has arrived.
    pub fn is_begun(self) -> bool {
        self.left.is_some()
    }
}

/// Reads a whole integer from the front of `bytes`; `None` if it is incomplete.
pub fn read(bytes: &mut &[u8]) -> Option<u64> {
    Partial::default().read(bytes)
}

/// Appends an integer of at most [`MAX`] in its shortest form.
#[inline]
pub fn write(value: u64, out: &mut Vec<u8>) {
    match value {
        0..0x40 => out.push(value as u8),
        0x40..0x4000 => out.extend_from_slice(&(value as u16 | 1 << 14).to_be_bytes()),
        0x4000..0x4000_0000 => out.extend_from_slice(&(value as u32 | 2 << 30).to_be_bytes()),
        _ => out.extend_from_slice(&(value & MAX | 3 << 62).to_be_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_examples_of_the_rfc_are_read() {
        let rows: [(&[u8], u64); 5] = [
            (&[0xc2, 0x19, 0x7c, 0x5e, 0xff, 0x14, 0xe8, 0x8c], 151_288_809_941_952_652),
            (&[0x9d, 0x7f, 0x3e, 0x7d], 494_878_333),
            (&[0x7b, 0xbd], 15_293),
            (&[0x25], 37),
            (&[0x40, 0x25], 37),
        ];
        for (bytes, value) in rows {
            assert_eq!(read(&mut &bytes[..]), Some(value));
            assert_eq!(read(&mut &bytes[..bytes.len() - 1]), None);
        }
    }

    #[test]
    fn each_length_has_its_limits() {
        for (value, len) in [(0, 1), (63, 1), (64, 2), (16_383, 2), (16_384, 4), (1 << 30, 8), (MAX, 8)] {
            let mut out = Vec::new();
            write(value, &mut out);
            assert_eq!((out.len(), read(&mut &out[..])), (len, Some(value)));
        }
    }

    proptest! {
        #[test]
        fn any_integer_comes_back_in_any_parts(value in 0..=MAX, cut in 0usize..8) {
            let mut out = Vec::new();
            write(value, &mut out);
            out.push(7);
            let (mut first, mut second) = out.split_at(cut.min(out.len() - 2));
            let mut partial = Partial::default();
            prop_assert_eq!(partial.read(&mut first), None);
            prop_assert_eq!(partial.read(&mut second), Some(value));
            prop_assert_eq!((second, partial.is_begun()), (&[7][..], false));
        }
    }
}
