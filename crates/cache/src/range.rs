//! Ranges of bytes (RFC 9110 section 14), cut from a stored body.

use std::ops::Range;

/// Slice of a stored body that is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Slice {
    /// The whole body, with status 200: no range, several ranges, another unit, or a malformed range.
    Whole,
    /// Bytes of it, with status 206. Never empty.
    Part(Range<u64>),
    /// 416: the range begins behind the end.
    Unsatisfiable,
}

/// Reads the value of `Range` for a body of this length in bytes.
///
/// Several ranges get the whole body, as the RFC allows: their overlaps and their parts are a known way to make a server
/// send much for little.
pub fn slice(value: Option<&[u8]>, length: u64) -> Slice {
    // No Content-Range can name the bytes of an empty body.
    if length == 0 {
        return Slice::Whole;
    }
    let Some((first, last)) = value.and_then(bounds) else { return Slice::Whole };
    match (first, last) {
        (Some(first), Some(last)) if first > last => Slice::Whole,
        (Some(first), _) if first >= length => Slice::Unsatisfiable,
        (Some(first), last) => Slice::Part(first..last.map_or(length, |last| last.saturating_add(1).min(length))),
        (None, Some(0)) => Slice::Unsatisfiable,
        (None, Some(suffix)) => Slice::Part(length.saturating_sub(suffix)..length),
        (None, None) => Slice::Whole,
    }
}

/// First and last position, or the length of a suffix as the last alone. Positions beyond `u64` count as its end.
fn bounds(value: &[u8]) -> Option<(Option<u64>, Option<u64>)> {
    let (unit, ranges) = value.split_at_checked(6)?;
    if !unit.eq_ignore_ascii_case(b"bytes=") {
        return None;
    }
    let mut positions = ranges.trim_ascii().splitn(2, |b| *b == b'-');
    let (first, last) = (positions.next()?, positions.next()?);
    Some((position(first)?, position(last)?))
}

/// Reads digits, or nothing. `None` if they are neither.
fn position(digits: &[u8]) -> Option<Option<u64>> {
    if digits.is_empty() {
        return Some(None);
    }
    let add = |sum: u64, digit: &u8| {
        digit.is_ascii_digit().then(|| sum.saturating_mul(10).saturating_add(u64::from(digit - b'0')))
    };
    digits.iter().try_fold(0, add).map(Some)
}

/// Length of the whole that a part belongs to, by the value of its `Content-Range`; `None` if that does not say it.
pub fn whole_length(content_range: &[u8]) -> Option<u64> {
    let (unit, rest) = content_range.split_at_checked(6)?;
    let (bytes, length) = rest.split_at(memchr::memchr(b'/', rest)?);
    let (first, last) = bytes.split_at(memchr::memchr(b'-', bytes)?);
    let length = position(&length[1..])??;
    let is_part = position(first)?? <= position(&last[1..])?? && position(&last[1..])?? < length;
    (unit.eq_ignore_ascii_case(b"bytes ") && is_part).then_some(length)
}

/// Value of `Content-Range` for a slice; `None` if the whole body is sent.
pub fn content_range(slice: &Slice, length: u64) -> Option<String> {
    match slice {
        Slice::Whole => None,
        Slice::Part(bytes) => Some(format!("bytes {}-{}/{length}", bytes.start, bytes.end.saturating_sub(1))),
        Slice::Unsatisfiable => Some(format!("bytes */{length}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_range_is_cut_and_anything_else_is_whole() {
        for (value, expected) in [
            ("bytes=0-1", Slice::Part(0..2)),
            ("BYTES=1-", Slice::Part(1..10)),
            ("bytes=-3", Slice::Part(7..10)),
            ("bytes=-30", Slice::Part(0..10)),
            ("bytes=9-99999999999999999999999", Slice::Part(9..10)),
            ("bytes=10-", Slice::Unsatisfiable),
            ("bytes=99999999999999999999999-", Slice::Unsatisfiable),
            ("bytes=-0", Slice::Unsatisfiable),
            ("bytes=2-1", Slice::Whole),
            ("bytes=-", Slice::Whole),
            ("bytes=0-1,3-4", Slice::Whole),
            ("bytes=1", Slice::Whole),
            ("bytes=a-b", Slice::Whole),
            ("bytes=--1", Slice::Whole),
            ("bytes= 0 - 1", Slice::Whole),
            ("items=0-1", Slice::Whole),
            ("", Slice::Whole),
        ] {
            assert_eq!(slice(Some(value.as_bytes()), 10), expected, "{value}");
        }
        assert_eq!(slice(None, 10), Slice::Whole);
        assert_eq!(slice(Some(b"bytes=0-"), 0), Slice::Whole);
    }

    #[test]
    fn a_part_says_how_long_the_whole_is() {
        for (value, expected) in [
            ("bytes 0-1/10", Some(10)),
            ("BYTES 9-9/10", Some(10)),
            ("bytes 0-10/10", None),
            ("bytes 2-1/10", None),
            ("bytes 0-1/*", None),
            ("bytes */10", None),
            ("bytes -1/10", None),
            ("bytes 0-1/", None),
            ("bytes 0-1", None),
            ("items 0-1/10", None),
            ("bytes 0-1/99999999999999999999999", Some(u64::MAX)),
            ("", None),
        ] {
            assert_eq!(whole_length(value.as_bytes()), expected, "{value}");
        }
    }

    #[test]
    fn positions_are_inclusive_in_the_field() {
        assert_eq!(content_range(&Slice::Part(2..5), 10).as_deref(), Some("bytes 2-4/10"));
        assert_eq!(content_range(&Slice::Unsatisfiable, 10).as_deref(), Some("bytes */10"));
        assert_eq!(content_range(&Slice::Whole, 10), None);
    }
}
