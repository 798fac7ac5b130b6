//! Bytes given as text, or as hex digits after `hex:`.

use super::misfit::Misfit;
use crate::code::Code;

/// Most bytes that fit a packet on any path (1232 for IPv6, RFC 8085 section 3.2).
const MAX: usize = 1232;

pub(super) fn read(text: &str) -> Result<Vec<u8>, Misfit> {
    let bytes = match text.strip_prefix("hex:") {
        None => text.as_bytes().to_vec(),
        Some(digits) => from_hex(digits).ok_or_else(|| {
            let message = format!("{} has something else than pairs of hex digits", crate::tree::quoted(text));
            Misfit::new(Code::NotAllowed, message, "write two digits for each byte, as \"hex:00ff\"; spaces are free")
        })?,
    };
    if (1..=MAX).contains(&bytes.len()) {
        return Ok(bytes);
    }
    let message = format!("the payload has {} bytes", bytes.len());
    Err(Misfit::new(Code::OutOfRange, message, format!("allowed: 1 to {MAX}, which fits one packet on any path")))
}

fn from_hex(digits: &str) -> Option<Vec<u8>> {
    let digits: Vec<u32> = digits.chars().filter(|c| *c != ' ').map(|c| c.to_digit(16)).collect::<Option<_>>()?;
    let pairs = digits.chunks(2).map(|pair| Some((*pair.first()? << 4 | *pair.get(1)?) as u8));
    pairs.collect()
}

/// The bytes as written in a file.
pub(crate) fn written(bytes: &[u8]) -> String {
    let digits: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
    format!("hex:{digits}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_hex_are_read_and_what_is_written_is_read_again() {
        for (text, bytes) in [("ping", &b"ping"[..]), ("hex:00 fF10", &[0, 255, 16]), ("\u{e4}", "\u{e4}".as_bytes())] {
            assert_eq!(read(text).expect(text), bytes);
            assert_eq!(read(&written(bytes)).expect(text), bytes);
        }
        for wrong in ["", "hex:", "hex:0", "hex:0g", "hex:+1", "hex:\u{e4}\u{e4}", &"x".repeat(MAX + 1)] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
