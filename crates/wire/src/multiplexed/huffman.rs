//! The Huffman code of RFC 7541 appendix B for strings. The code is canonical, so the lengths of its codes define it.

use super::integer::Error;

/// Length of each byte's code in bits. The last length belongs to the end symbol, which is never sent completely.
const LENGTHS: [u8; 257] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28,
    28, 28, 28, 6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, 5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12,
    10, 13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6, 15, 5, 6,
    5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, 6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28, 20, 22, 20, 20, 22, 22,
    22, 23, 22, 23, 23, 23, 23, 23, 24, 23, 24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24, 22, 21, 20,
    22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, 19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28,
    27, 27, 27, 20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23, 26, 27, 26, 26, 27, 27, 27, 27, 27, 28,
    27, 27, 27, 27, 27, 26, 30,
];

const END: u16 = 256;
const LONGEST: usize = 30;

/// Tables of the code. Codes of equal length are consecutive, in the order of their bytes.
struct Code {
    /// Code of each byte.
    codes: [u32; 257],
    /// First code of each length, and the index of its byte in `ordered`.
    first: [u32; LONGEST + 2],
    start: [u16; LONGEST + 2],
    /// Bytes in the order of their codes.
    ordered: [u16; 257],
    /// Symbols for the next bits of a string.
    short: [Symbols; 1 << PEEK],
}

/// Bits that are looked up at once: two codes of the most frequent characters.
const PEEK: usize = 11;

/// Symbols whose codes are complete in the bits that were looked up.
#[derive(Clone, Copy)]
struct Symbols {
    bytes: [u8; 2],
    /// Number of symbols; 0 if the first code is longer.
    count: u8,
    /// Length of their codes together, in bits.
    length: u8,
}

static CODE: Code = build();

const fn build() -> Code {
    let mut code = Code {
        codes: [0; 257],
        first: [0; LONGEST + 2],
        start: [0; LONGEST + 2],
        ordered: [0; 257],
        short: [Symbols { bytes: [0; 2], count: 0, length: 0 }; 1 << PEEK],
    };
    let (mut next, mut at, mut length) = (0u32, 0usize, 1usize);
    while length <= LONGEST {
        next <<= 1;
        code.first[length] = next;
        code.start[length] = at as u16;
        let mut symbol = 0;
        while symbol < 257 {
            if LENGTHS[symbol] as usize == length {
                code.codes[symbol] = next;
                code.ordered[at] = symbol as u16;
                if length <= PEEK {
                    let (mut bits, end) = ((next as usize) << (PEEK - length), (next as usize + 1) << (PEEK - length));
                    while bits < end {
                        code.short[bits] = Symbols { bytes: [symbol as u8, 0], count: 1, length: length as u8 };
                        bits += 1;
                    }
                }
                next += 1;
                at += 1;
            }
            symbol += 1;
        }
        length += 1;
    }
    code.start[LONGEST + 1] = at as u16;
    // Whether or not the entry of the bits behind a symbol has two already, its first is the symbol that follows.
    let mut bits = 1 << PEEK;
    while bits > 0 {
        bits -= 1;
        let first = code.short[bits];
        if first.count == 1 {
            let second = code.short[(bits << first.length) % (1 << PEEK)];
            if second.count > 0 {
                let alone = LENGTHS[second.bytes[0] as usize];
                if first.length + alone <= PEEK as u8 {
                    code.short[bits] =
                        Symbols { bytes: [first.bytes[0], second.bytes[0]], count: 2, length: first.length + alone };
                }
            }
        }
    }
    code
}

/// Returns the number of bytes in the code of a string.
pub fn encoded_len(text: &[u8]) -> usize {
    text.iter().map(|&b| LENGTHS[usize::from(b)] as usize).sum::<usize>().div_ceil(8)
}

/// Appends the code of a string.
pub fn encode(text: &[u8], out: &mut Vec<u8>) {
    let (mut bits, mut count) = (0u64, 0u32);
    for &byte in text {
        let length = u32::from(LENGTHS[usize::from(byte)]);
        bits = bits << length | u64::from(CODE.codes[usize::from(byte)]);
        count += length;
        if count >= 32 {
            count -= 32;
            out.extend_from_slice(&((bits >> count) as u32).to_be_bytes());
        }
    }
    while count >= 8 {
        count -= 8;
        out.push((bits >> count) as u8);
    }
    if count > 0 {
        // Padded with the start of the end symbol's code, which is all ones.
        out.push((bits << (8 - count)) as u8 | 0xff >> count);
    }
}

/// Appends the string of a code.
///
/// # Errors
/// If the code contains the end symbol, or padding that is not the start of it.
pub fn decode(code: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
    let start = out.len();
    // The shortest codes have five bits. Two bytes are written at a time.
    out.resize(start + code.len() * 8 / 5 + 2, 0);
    let mut decoder = BitReader { bits: 0, count: 0, rest: code };
    let decoded = decoder.decode(&mut out[start..]);
    out.truncate(start + decoded.unwrap_or(0));
    decoded.map(|_| ())
}

/// The next bits of a code, from the highest bit on, and the bytes behind them.
struct BitReader<'c> {
    bits: u64,
    /// Number of bits that are valid.
    count: usize,
    rest: &'c [u8],
}

impl BitReader<'_> {
    /// Decodes everything into `room`, and returns the number of bytes.
    fn decode(&mut self, room: &mut [u8]) -> Result<usize, Error> {
        let mut at = 0;
        loop {
            self.fill();
            while self.count >= PEEK {
                let Symbols { bytes, count, length } = CODE.short[(self.bits >> (64 - PEEK)) as usize];
                if count == 0 {
                    break;
                }
                let Some(pair) = room.get_mut(at..at + 2) else { return Err(Error::Huffman) };
                pair.copy_from_slice(&bytes);
                at += usize::from(count);
                self.skip(usize::from(length));
            }
            if self.count < LONGEST && !self.rest.is_empty() {
                continue;
            }
            // A long code, or the end.
            if self.count == 0 {
                return Ok(at);
            }
            let ones = u64::MAX << (64 - self.count);
            match long(self.bits >> (64 - self.count), self.count) {
                Some((symbol, length)) if symbol != END => {
                    let Some(byte) = room.get_mut(at) else { return Err(Error::Huffman) };
                    *byte = symbol as u8;
                    at += 1;
                    self.skip(length);
                }
                None if self.rest.is_empty() && self.count < 8 && self.bits == ones => return Ok(at),
                _ => return Err(Error::Huffman),
            }
        }
    }

    /// Reads bytes until more than 56 bits are valid, or the code ends.
    #[inline]
    fn fill(&mut self) {
        if let Some(word) = self.rest.first_chunk::<8>()
            && self.count < 64
        {
            self.bits |= u64::from_be_bytes(*word) >> self.count;
            let bytes = (64 - self.count) / 8;
            self.rest = &self.rest[bytes..];
            self.count += 8 * bytes;
            // Bits of a byte that is not consumed.
            self.bits &= u64::MAX << (64 - self.count);
            return;
        }
        while self.count <= 56
            && let Some((&byte, rest)) = self.rest.split_first()
        {
            self.bits |= u64::from(byte) << (56 - self.count);
            self.count += 8;
            self.rest = rest;
        }
    }

    #[inline]
    fn skip(&mut self, length: usize) {
        self.bits <<= length;
        self.count -= length;
    }
}

/// Returns the next symbol and the length of its code; `None` if it is incomplete.
fn long(bits: u64, count: usize) -> Option<(u16, usize)> {
    (5..=LONGEST.min(count)).find_map(|length| {
        let next = (bits >> (count - length)) as u32;
        let many = u32::from(CODE.start[length + 1] - CODE.start[length]);
        let at = next.checked_sub(CODE.first[length]).filter(|at| *at < many)?;
        Some((CODE.ordered[usize::from(CODE.start[length]) + at as usize], length))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn decoded(code: &[u8]) -> Result<Vec<u8>, Error> {
        let mut out = Vec::new();
        decode(code, &mut out).map(|()| out)
    }

    #[test]
    fn the_strings_of_the_rfc_have_their_codes() {
        let rows: [(&str, &[u8]); 4] = [
            ("www.example.com", &[0xf1, 0xe3, 0xc2, 0xe5, 0xf2, 0x3a, 0x6b, 0xa0, 0xab, 0x90, 0xf4, 0xff]),
            ("no-cache", &[0xa8, 0xeb, 0x10, 0x64, 0x9c, 0xbf]),
            ("custom-value", &[0x25, 0xa8, 0x49, 0xe9, 0x5b, 0xb8, 0xe8, 0xb4, 0xbf]),
            ("302", &[0x64, 0x02]),
        ];
        for (text, code) in rows {
            let mut out = Vec::new();
            encode(text.as_bytes(), &mut out);
            assert_eq!((out.as_slice(), out.len()), (code, encoded_len(text.as_bytes())), "{text}");
            assert_eq!(decoded(code).as_deref(), Ok(text.as_bytes()));
        }
    }

    #[test]
    fn what_is_no_code_is_refused() {
        // The end symbol; eight bits of padding; padding that is not all ones.
        for code in [&[0xff; 4][..], &[0xff], &[0x00, 0x00]] {
            assert_eq!(decoded(code), Err(Error::Huffman), "{code:?}");
        }
        assert_eq!(decoded(&[0x60]), Err(Error::Huffman), "padding of zeros");
        assert_eq!(decoded(&[]), Ok(Vec::new()));
    }

    proptest! {
        #[test]
        fn any_string_comes_back(text in prop::collection::vec(any::<u8>(), 0..80)) {
            let mut code = Vec::new();
            encode(&text, &mut code);
            prop_assert_eq!(code.len(), encoded_len(&text));
            prop_assert_eq!(decoded(&code), Ok(text));
        }

        #[test]
        fn any_code_is_decoded_or_refused(code in prop::collection::vec(any::<u8>(), 0..80)) {
            if let Ok(text) = decoded(&code) {
                let mut again = Vec::new();
                encode(&text, &mut again);
                prop_assert_eq!(again, code);
            }
        }
    }
}
