//! Our QPACK decoder compared with loona's HPACK decoder, which gets the same fields as literals, and encoded blocks that
//! must be read again.
#![no_main]

use evenkeel_wire::h3::qpack::{Decoder, Encoder, HeaderLimits, STATIC};
use libfuzzer_sys::fuzz_target;

const ALL: HeaderLimits = HeaderLimits { bytes: usize::MAX, fields: usize::MAX };

type Fields = Vec<(Vec<u8>, Vec<u8>)>;

fuzz_target!(|block: &[u8]| {
    let ours = decode(block);
    let theirs = literals(block).and_then(|literals| loona_hpack::Decoder::new().decode(&literals).ok());
    assert_eq!(ours, theirs, "{block:02x?}");
    let Some(fields) = ours else { return };
    let mut again = Vec::new();
    Encoder::default().encode(fields.iter().map(|(name, value)| (&**name, &**value)), &mut again);
    let lower = fields.iter().map(|(name, value)| (name.to_ascii_lowercase(), value.clone())).collect();
    assert_eq!(decode(&again), Some(lower));
    // Limits only cut the list off.
    let most = fields.len() / 2;
    let mut cut = Vec::new();
    let limits = HeaderLimits { bytes: usize::MAX, fields: most };
    let mut sink = |name: &[u8], value: &[u8]| cut.push((name.to_vec(), value.to_vec()));
    let decoded = Decoder::default().decode(block, limits, &mut sink).expect("it is the same block");
    assert!(fields.starts_with(&cut) && (decoded.over.is_some() || cut == fields));
});

fn decode(block: &[u8]) -> Option<Fields> {
    let mut fields = Vec::new();
    let mut sink = |name: &[u8], value: &[u8]| fields.push((name.to_vec(), value.to_vec()));
    Decoder::default().decode(block, ALL, &mut sink).ok()?;
    Some(fields)
}

/// The fields of a block as literals of HPACK.
fn literals(mut block: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    if integer(&mut block, 8)? != 0 || block.first()? & 0x80 != 0 {
        return None;
    }
    integer(&mut block, 7)?;
    while let Some(&first) = block.first() {
        out.push(0x10);
        match first >> 4 {
            0b1100.. => {
                let (name, value) = STATIC.get(integer(&mut block, 6)? as usize)?;
                plain(name, &mut out);
                plain(value, &mut out);
            }
            0b0101 | 0b0111 => {
                plain(STATIC.get(integer(&mut block, 4)? as usize)?.0, &mut out);
                string(&mut block, 7, &mut out)?;
            }
            0b0010 | 0b0011 => {
                string(&mut block, 3, &mut out)?;
                string(&mut block, 7, &mut out)?;
            }
            _ => return None,
        }
    }
    Some(out)
}

fn integer(block: &mut &[u8], bits: u32) -> Option<u64> {
    let (&first, rest) = block.split_first()?;
    *block = rest;
    let most = (1u64 << bits) - 1;
    let mut value = u64::from(first) & most;
    if value < most {
        return Some(value);
    }
    for n in 0..4 {
        let (&byte, rest) = block.split_first()?;
        *block = rest;
        value += u64::from(byte & 127) << (7 * n);
        if byte < 128 {
            return Some(value);
        }
    }
    // No block has such an integer.
    None
}

fn plain(text: &str, out: &mut Vec<u8>) {
    write(text.len(), 0, out);
    out.extend_from_slice(text.as_bytes());
}

/// Copies a string, with a prefix of seven bits.
fn string(block: &mut &[u8], bits: u32, out: &mut Vec<u8>) -> Option<()> {
    let coded = block.first()? >> bits & 1;
    let len = integer(block, bits)? as usize;
    let text = block.get(..len)?;
    *block = &block[len..];
    write(len, coded << 7, out);
    out.extend_from_slice(text);
    Some(())
}

fn write(len: usize, first: u8, out: &mut Vec<u8>) {
    if len < 127 {
        return out.push(first | len as u8);
    }
    out.push(first | 127);
    let mut left = len - 127;
    while left >= 128 {
        out.push(left as u8 | 128);
        left /= 128;
    }
    out.push(left as u8);
}
