//! Escaping of arbitrary bytes for a log line: as a quoted JSON string, or for a line by a template.

use evenkeel_config::printable::is_hidden;

pub fn quoted(out: &mut Vec<u8>, text: &[u8]) {
    out.push(b'"');
    if text.iter().all(|&b| IS_PLAIN[usize::from(b)]) {
        out.extend_from_slice(text);
    } else {
        escaped(out, text);
    }
    out.push(b'"');
}

/// Bytes that need no escape.
const IS_PLAIN: [bool; 256] = {
    let (mut is_plain, mut b) = ([false; 256], 0x20);
    while b < 0x7f {
        is_plain[b] = b != b'"' as usize && b != b'\\' as usize;
        b += 1;
    }
    is_plain
};

/// Escapes for JSON. Bytes that are not UTF-8 are decoded as Latin-1, which cannot fail.
#[cold]
fn escaped(out: &mut Vec<u8>, text: &[u8]) {
    for chunk in text.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '"' | '\\' => out.extend_from_slice(&[b'\\', c as u8]),
                c if is_hidden(c) => escape(out, c),
                c => out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
            }
        }
        chunk.invalid().iter().for_each(|&b| escape(out, char::from(b)));
    }
}

/// Appends the escape of a character in four digits. Hidden characters are all below U+10000.
fn escape(out: &mut Vec<u8>, c: char) {
    let c = u32::from(c);
    out.extend_from_slice(b"\\u");
    out.extend([c >> 12 & 15, c >> 8 & 15, c >> 4 & 15, c & 15].map(|d| b"0123456789abcdef"[d as usize]));
}

/// Appends text to a line that is not JSON, escaped as in NGINX: quotes, backslashes and all bytes but visible ASCII
/// and spaces become `\xHH`. So text from clients cannot end the line, or quotes in the template.
pub fn visible(out: &mut Vec<u8>, text: &[u8]) {
    for &b in text {
        if IS_PLAIN[usize::from(b)] {
            out.push(b);
        } else {
            out.extend_from_slice(b"\\x");
            out.extend([b >> 4, b & 15].map(|d| b"0123456789ABCDEF"[usize::from(d)]));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(f: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        f(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn escapes_whatever_a_client_sends() {
        assert_eq!(made(|o| quoted(o, b"a\"b\\c\x01\x7f\xff")), r#""a\"b\\c\u0001\u007f\u00ff""#);
        let hidden = "\u{85}\u{9b}31m\u{2028}\u{202e}\u{feff}";
        assert_eq!(made(|o| quoted(o, hidden.as_bytes())), r#""\u0085\u009b31m\u2028\u202e\ufeff""#);
        let foreign = "gr\u{f6}\u{df}e \u{8239}";
        assert_eq!(made(|o| quoted(o, foreign.as_bytes())), format!("\"{foreign}\""));
    }

    #[test]
    fn what_is_plain_needs_no_escape_and_all_else_does() {
        for b in 0..=255 {
            let text = made(|o| quoted(o, &[b]));
            let plain = text.as_bytes() == [b'"', b, b'"'];
            assert_eq!(plain, IS_PLAIN[usize::from(b)], "{b:#x}");
        }
    }

    #[test]
    fn what_is_not_visible_stands_in_hex() {
        let mut out = Vec::new();
        visible(&mut out, b"a b\"\\\r\n\x7f\xff");
        assert_eq!(String::from_utf8(out).unwrap(), r"a b\x22\x5C\x0D\x0A\x7F\xFF");
    }
}
