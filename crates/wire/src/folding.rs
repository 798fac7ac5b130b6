//! Paths without regard to case: each letter is replaced by the letter that all its forms share. Letters beyond ASCII are
//! in escapes of their UTF-8 there, and some of their forms are ASCII letters: `%C4%B1` (dotless i), `%C5%BF` (long s)
//! and `%E2%84%AA` (the sign of Kelvin).
//!
//! Each letter becomes a single letter, as in Java's `equalsIgnoreCase`, which equates more letters than NTFS does. Ligatures,
//! `ß` as `ss`, composed and invisible characters, which some file systems fold as well, stay as they are.

use crate::readings::{escape, is_unreserved};
use std::borrow::Cow;
use std::str;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    Byte(u8),
    Escape(u8),
    /// Two to four escapes, which are UTF-8.
    Letter(char),
}

/// The path with its letters folded. Borrowed if none of them change.
pub fn folded(path: &[u8]) -> Cow<'_, [u8]> {
    if !path.iter().any(|byte| byte.is_ascii_uppercase() || *byte == b'%') {
        return Cow::Borrowed(path);
    }
    let (mut out, mut rest) = (Vec::with_capacity(path.len()), path);
    while let Some((unit, len)) = first(rest) {
        match folded_unit(unit) {
            Unit::Byte(byte) => out.push(byte),
            Unit::Escape(byte) => push_escape(byte, &mut out),
            Unit::Letter(letter) => {
                letter.encode_utf8(&mut [0; 4]).bytes().for_each(|byte| push_escape(byte, &mut out))
            }
        }
        rest = &rest[len..];
    }
    Cow::Owned(out)
}

/// Length of the beginning of a path that is this text in another spelling: with other escapes of unreserved characters, in
/// upper or lower case, and with other letters if case is ignored. `None` if the path does not begin with it.
pub fn matched_len(path: &str, text: &str, ignore_case: bool) -> Option<usize> {
    if path.starts_with(text) {
        return Some(text.len());
    }
    let (mut rest, mut wanted) = (path.as_bytes(), text.as_bytes());
    let spelled = |unit| {
        let unit = unescaped(unit);
        if ignore_case { folded_unit(unit) } else { unit }
    };
    while let Some((text, len)) = first(wanted) {
        wanted = &wanted[len..];
        let (_, len) = first(rest).filter(|(unit, _)| spelled(*unit) == spelled(text))?;
        rest = &rest[len..];
    }
    Some(path.len() - rest.len())
}

/// The first unit of a path, and its length.
fn first(path: &[u8]) -> Option<(Unit, usize)> {
    let byte = *path.first()?;
    match escape(path) {
        None => Some((Unit::Byte(byte), 1)),
        Some(byte) if byte.is_ascii() => Some((Unit::Escape(byte), 3)),
        Some(byte) => Some(letter(path).unwrap_or((Unit::Escape(byte), 3))),
    }
}

/// The letter that the escapes at the front of a path are.
fn letter(path: &[u8]) -> Option<(Unit, usize)> {
    let mut bytes = [0; 4];
    for at in 0..bytes.len() {
        bytes[at] = escape(path.get(3 * at..)?)?;
        if let Ok(text) = str::from_utf8(&bytes[..=at]) {
            return Some((Unit::Letter(text.chars().next()?), 3 * (at + 1)));
        }
    }
    None
}

/// An unreserved character instead of its escape.
fn unescaped(unit: Unit) -> Unit {
    match unit {
        Unit::Escape(byte) if is_unreserved(byte) => Unit::Byte(byte),
        unit => unit,
    }
}

fn folded_unit(unit: Unit) -> Unit {
    match unit {
        Unit::Byte(byte) => Unit::Byte(byte.to_ascii_lowercase()),
        Unit::Escape(byte) => Unit::Escape(byte.to_ascii_lowercase()),
        Unit::Letter(letter) => {
            let letter = fold(letter);
            u8::try_from(letter).ok().filter(u8::is_ascii).map_or(Unit::Letter(letter), Unit::Byte)
        }
    }
}

/// The lower case of the upper case of a letter. A case of several letters does not count.
fn fold(letter: char) -> char {
    fn single(mut of: impl Iterator<Item = char>, letter: char) -> char {
        of.next().filter(|_| of.next().is_none()).unwrap_or(letter)
    }
    // Its lower case is an i with a dot that is added.
    if letter == 'İ' {
        return 'i';
    }
    let upper = single(letter.to_uppercase(), letter);
    single(upper.to_lowercase(), upper)
}

fn push_escape(byte: u8, out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    out.extend([b'%', DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(path: &str) -> String {
        String::from_utf8(folded(path.as_bytes()).into_owned()).expect("ASCII")
    }

    #[test]
    fn all_forms_of_a_letter_become_one() {
        for (path, want) in [
            ("/admin/1.PHP", "/admin/1.php"),
            ("/adm%C4%B1n", "/admin"),
            ("/ADM%C4%B0N", "/admin"),
            ("/%c5%bfecret", "/secret"),
            ("/%E2%84%AAey", "/key"),
            ("/%C3%84mter", "/%C3%A4mter"),
            ("/%c3%a4mter", "/%C3%A4mter"),
            ("/%CE%A3%CF%82", "/%CF%83%CF%83"),
            ("/%41dmin%2f", "/%61dmin%2F"),
            ("/%F0%90%90%80", "/%F0%90%90%A8"),
            // No letters: broken UTF-8, a sequence that is too long, and percent signs.
            ("/%C4A%C4%", "/%C4a%C4%"),
            ("/%C1%81", "/%C1%81"),
            ("/%E2%84", "/%E2%84"),
            ("/%", "/%"),
            ("/%4", "/%4"),
            ("/%C3%9F%EF%AC%81", "/%C3%9F%EF%AC%81"),
        ] {
            assert_eq!(text(path), want, "{path}");
            assert_eq!(text(want), want, "{path}: what is folded stays");
        }
        assert!(matches!(folded(b"/admin/x.php"), Cow::Borrowed(_)));
    }

    #[test]
    fn every_letter_and_its_other_case_are_folded_alike() {
        for letter in '\0'..=char::MAX {
            assert_eq!(fold(fold(letter)), fold(letter), "{letter:?}");
            let (mut upper, mut lower) = (letter.to_uppercase(), letter.to_lowercase());
            for other in [&mut upper as &mut dyn ExactSizeIterator<Item = char>, &mut lower] {
                if other.len() == 1 {
                    assert_eq!(other.next().map(fold), Some(fold(letter)), "{letter:?}");
                }
            }
        }
    }

    #[test]
    fn a_text_is_found_in_any_spelling() {
        for (path, text, kept, ignored) in [
            ("/api/x", "/api", Some(4), Some(4)),
            ("/API/x", "/api", None, Some(4)),
            ("/api/x", "/API", None, Some(4)),
            ("/%61PI/x", "/api", None, Some(6)),
            ("/%61pi/x", "/api", Some(6), Some(6)),
            ("/ap%C4%B1/x", "/api", None, Some(9)),
            ("/caf%c3%a9/x", "/caf%C3%A9", Some(10), Some(10)),
            ("/caf%C3%89/x", "/caf%C3%A9", None, Some(10)),
            ("/a%2fb", "/a%2Fb", Some(6), Some(6)),
            ("/a%2fb", "/a/b", None, None),
            ("/ap", "/api", None, None),
            ("/x", "", Some(0), Some(0)),
        ] {
            assert_eq!(
                [matched_len(path, text, false), matched_len(path, text, true)],
                [kept, ignored],
                "{path} {text}"
            );
        }
    }
}
