//! The answer from a stored response: its status, its fields, and the slice of its body.

use crate::moment::Moment;
use crate::range::{Slice, slice};
use crate::stored::Stored;
use crate::{conditional, range};
use evenkeel_wire::head::Request;

/// Answer to a request from a stored response that [`crate::decide`] allows, or that was just validated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Status of the stored response, 206, 304 or 416.
    pub status: u16,
    /// Bytes of the stored body that follow the head; `None` if none do.
    pub body: Option<std::ops::Range<u64>>,
    slice: Slice,
    length: u64,
}

impl Answer {
    /// Answers a GET or HEAD. `length`: bytes of the stored body.
    pub fn new(stored: &Stored, request: &Request<'_, '_>, length: u64) -> Answer {
        let whole = |status, body| Answer { status, body, slice: Slice::Whole, length };
        if conditional::is_not_modified(request, stored) {
            return whole(304, None);
        }
        // Ranges are defined for GET alone (RFC 9110 section 14.2), and cut from complete content.
        let is_sliced = stored.status == 200 && !request.is_head() && conditional::is_range_valid(request, stored);
        let slice = if is_sliced { slice(request.field("range"), length) } else { Slice::Whole };
        match slice {
            Slice::Whole if request.is_head() || !has_body(stored.status) => whole(stored.status, None),
            Slice::Whole => whole(stored.status, Some(0..length)),
            Slice::Part(ref bytes) => Answer { status: 206, body: Some(bytes.clone()), slice, length },
            Slice::Unsatisfiable => Answer { status: 416, body: None, slice, length },
        }
    }

    /// Passes name and value of each field to `push`: those stored, as far as this status has them, and `Age`,
    /// `Content-Length` and `Content-Range`. Fields of the connection and `Cache-Status` are the caller's.
    pub fn fields(&self, stored: &Stored, now: Moment, mut push: impl FnMut(&[u8], &[u8])) {
        let has_etag = self.status == 304 && stored.etag().is_some();
        for (name, value) in stored.fields() {
            let is_kept = match self.status {
                304 => conditional::is_in_304(name, has_etag),
                // The text of the error is not the stored content.
                416 => [&b"date"[..], b"etag", b"vary"].iter().any(|kept| name.eq_ignore_ascii_case(kept)),
                206 => !name.eq_ignore_ascii_case(b"content-range"),
                _ => true,
            };
            if is_kept {
                push(name, value);
            }
        }
        let mut digits = [0; 20];
        push(b"age", write(stored.terms.age(now).into(), &mut digits));
        if let Some(bytes) = range::content_range(&self.slice, self.length) {
            push(b"content-range", bytes.as_bytes());
        }
        let length = match self.status {
            304 => None,
            416 => Some(0),
            status if !has_body(status) => None,
            206 => self.body.as_ref().map(|body| body.end - body.start),
            _ => Some(self.length),
        };
        if let Some(length) = length {
            push(b"content-length", write(length, &mut digits));
        }
    }
}

/// Writes a number without allocating, as each answer has two.
fn write(mut number: u64, digits: &mut [u8; 20]) -> &[u8] {
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            return &digits[at..];
        }
    }
}

/// False for statuses whose responses have no content and no length (RFC 9110 section 8.6).
fn has_body(status: u16) -> bool {
    status != 204
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stored::tests::{TERMS, at};
    use evenkeel_wire::head::Table;

    const LINES: &[u8] = b"content-type: text/plain\r\netag: \"a\"\r\n";

    fn of(method: &str, status: u16, fields: &[(&str, &str)]) -> (u16, Option<std::ops::Range<u64>>, String) {
        let mut table: Table = fields.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect();
        let request = Request { method, target: "/", host: b"a", fields: table.fields() };
        let stored = Stored::new(status, TERMS, LINES.to_vec(), b"", b"");
        let answer = Answer::new(&stored, &request, 10);
        let mut text = String::new();
        answer.fields(&stored, at(105), |name, value| {
            text += &format!("{}: {}\n", String::from_utf8_lossy(name), String::from_utf8_lossy(value));
        });
        (answer.status, answer.body, text)
    }

    #[test]
    fn numbers_of_every_length_are_written() {
        for number in [0, 7, 10, 1_234_567_890, u64::MAX] {
            assert_eq!(write(number, &mut [0; 20]), number.to_string().as_bytes());
        }
    }

    #[test]
    fn answers_have_the_fields_of_their_status() {
        let whole = "content-type: text/plain\netag: \"a\"\nage: 15\ncontent-length: 10\n";
        assert_eq!(of("GET", 200, &[]), (200, Some(0..10), whole.into()));
        assert_eq!(of("HEAD", 200, &[("Range", "bytes=0-1")]), (200, None, whole.into()));
        assert_eq!(of("GET", 404, &[("Range", "bytes=0-1")]), (404, Some(0..10), whole.into()));
        let part = "content-type: text/plain\netag: \"a\"\nage: 15\ncontent-range: bytes 2-3/10\ncontent-length: 2\n";
        assert_eq!(of("GET", 200, &[("Range", "bytes=2-3")]), (206, Some(2..4), part.into()));
        let behind = "etag: \"a\"\nage: 15\ncontent-range: bytes */10\ncontent-length: 0\n";
        assert_eq!(of("GET", 200, &[("Range", "bytes=10-")]), (416, None, behind.into()));
        let same = [("If-None-Match", "\"a\""), ("Range", "bytes=2-3")];
        assert_eq!(of("GET", 200, &same), (304, None, "etag: \"a\"\nage: 15\n".into()));
        let empty = "content-type: text/plain\netag: \"a\"\nage: 15\n";
        assert_eq!(of("GET", 204, &[]), (204, None, empty.into()));
    }
}
