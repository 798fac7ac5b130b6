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
    /// Byte and code length for the next eight bits; 0 for a longer code.
    short: [(u8, u8); 256],
}

static CODE: Code = build();

const fn build() -> Code {
    let mut code = Code {
        codes: [0; 257],
        first: [0; LONGEST + 2],
        start: [0; LONGEST + 2],
        ordered: [0; 257],
        short: [(0, 0); 256],
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
                if length <= 8 {
                    let (mut bits, end) = ((next as usize) << (8 - length), (next as usize + 1) << (8 - length));
                    while bits < end {
                        code.short[bits] = (symbol as u8, length as u8);
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
        while count >= 8 {
            count -= 8;
            out.push((bits >> count) as u8);
        }
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
    let (mut bits, mut count) = (0u64, 0usize);
    let mut rest = code.iter();
    loop {
        while count <= 56
            && let Some(&byte) = rest.next()
        {
            bits = bits << 8 | u64::from(byte);
            count += 8;
        }
        if count == 0 {
            return Ok(());
        }
        // Eight bits, padded with ones.
        let peeked = if count >= 8 { bits >> (count - 8) } else { bits << (8 - count) | 0xff >> count } as u8;
        let (byte, length) = CODE.short[usize::from(peeked)];
        if length > 0 && usize::from(length) <= count {
            out.push(byte);
            count -= usize::from(length);
        } else {
            match long(bits, count) {
                Some((symbol, length)) if symbol != END => {
                    out.push(symbol as u8);
                    count -= length;
                }
                Some(_) => return Err(Error::Huffman),
                None if count < 8 && bits & ((1 << count) - 1) == (1 << count) - 1 => return Ok(()),
                None => return Err(Error::Huffman),
            }
        }
        bits &= (1 << count) - 1;
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
