//! Base64 with the standard alphabet, with or without padding (RFC 4648 section 4).

use super::report::{LEN_MAX, Malformed};

const OUTSIDE: u8 = 0xff;

const VALUES: [u8; 256] = {
    let alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut table = [OUTSIDE; 256];
    let mut i = 0;
    while i < alphabet.len() {
        table[alphabet[i] as usize] = i as u8;
        i += 1;
    }
    table
};

/// Decodes into `room`. Padding may be omitted. Excess bits are ignored, as some senders do not clear them.
pub fn decode<'r>(text: &[u8], room: &'r mut [u8; LEN_MAX]) -> Result<&'r [u8], Malformed> {
    let padding = text.iter().rev().take_while(|b| **b == b'=').count();
    let digits = &text[..text.len() - padding];
    // Three bytes are four digits; a single digit is invalid. Padding fills up to four, or is absent.
    let left = digits.len() % 4;
    if left == 1 || padding > 0 && (left == 0 || left + padding != 4) {
        return Err(Malformed::Base64);
    }
    let len = digits.len() / 4 * 3 + left.saturating_sub(1);
    let out = room.get_mut(..len).ok_or(Malformed::TooLong)?;
    for (digits, bytes) in digits.chunks(4).zip(out.chunks_mut(3)) {
        let mut bits = 0;
        for i in 0..4 {
            let value = digits.get(i).map_or(0, |&digit| VALUES[usize::from(digit)]);
            if value == OUTSIDE {
                return Err(Malformed::Base64);
            }
            bits = bits << 6 | u32::from(value);
        }
        let all = bits.to_be_bytes();
        bytes.copy_from_slice(&all[1..1 + bytes.len()]);
    }
    Ok(out)
}
