//! Limits of a head, and where one ends within them.

use super::reject::Reject;
use memchr::memchr_iter;

/// Most header fields a head may have, whatever the configuration says.
pub const FIELDS_MAX: usize = 256;

/// Interim responses (1xx) that one request may get: an endpoint that sends them for ever must not hold a connection.
pub const INTERIM_MAX: u32 = 16;

/// What a head may use up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a head, its final empty line included.
    pub head: usize,
    /// Header fields, at most [`FIELDS_MAX`].
    pub fields: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { head: 16 * 1024, fields: 100 }
    }
}

/// Where a head ends: the length up to and with its empty line, or `None` while that has not come. Looks at no more
/// bytes than the limit, so that the answer does not depend on how many more came along.
///
/// # Errors
/// No end within the limit. A line that ends in a bare LF (RFC 9112 section 2.2 lets a recipient take it; those who do
/// disagree with those who do not about where messages end, and that is how requests are smuggled).
#[inline]
pub fn head_len(bytes: &[u8], limits: &Limits) -> Result<Option<usize>, Reject> {
    let bytes = &bytes[..bytes.len().min(limits.head)];
    let mut line = 0;
    let mut begun = false;
    for lf in memchr_iter(b'\n', bytes) {
        if lf == 0 || bytes[lf - 1] != b'\r' {
            return Err(Reject::BareLf);
        }
        // Empty lines before a request line are allowed (section 2.2), so one ends a head only after some line.
        let empty = lf - 1 == line;
        if empty && begun {
            return Ok(Some(lf + 1));
        }
        begun |= !empty;
        line = lf + 1;
    }
    if bytes.len() == limits.head { Err(Reject::HeadTooLarge) } else { Ok(None) }
}

/// Whether a request's head is whole, or can be told to be refused: then [`Request::read`](super::Request::read) has something to say.
#[inline]
pub fn has_head(bytes: &[u8], limits: &Limits) -> bool {
    // Nearly all come alone and without a body. Behind empty lines there may be nothing.
    (bytes.ends_with(b"\r\n\r\n") && bytes[0] != b'\r') || head_len(bytes, limits) != Ok(None)
}

/// The bytes of the empty lines that some clients send after a body, before the next request.
#[inline]
pub fn leading_empty_lines(bytes: &[u8]) -> usize {
    if bytes.starts_with(b"\r") { empty_lines(bytes) } else { 0 }
}

#[cold]
fn empty_lines(bytes: &[u8]) -> usize {
    bytes.chunks(2).take_while(|pair| *pair == b"\r\n").count() * 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_end_of_a_head() {
        let head_len = |bytes: &[u8]| head_len(bytes, &Limits::default());
        assert_eq!(head_len(b""), Ok(None));
        assert_eq!(head_len(b"GET / HTTP/1.1\r\n\r"), Ok(None));
        assert_eq!(head_len(b"GET / HTTP/1.1\r\n\r\nrest"), Ok(Some(18)));
        assert_eq!(head_len(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"), Ok(Some(27)));
        assert_eq!(head_len(b"\r\n\r\nGET / HTTP/1.1\r\n\r\n"), Ok(Some(22)));
        assert_eq!(head_len(b"\r\n\r\n"), Ok(None), "empty lines alone are no head");
        assert_eq!(head_len(b"GET / HTTP/1.1\n\n"), Err(Reject::BareLf));
        assert_eq!(head_len(b"\nGET"), Err(Reject::BareLf));
    }

    #[test]
    fn a_head_over_the_limit_is_refused_whatever_came_behind_it() {
        let limits = Limits { head: 18, fields: 1 };
        assert_eq!(head_len(b"GET / HTTP/1.1\r\n\r\nrest", &limits), Ok(Some(18)));
        assert_eq!(head_len(b"GET / HTTP/1.1\r\na", &limits), Ok(None));
        for longer in ["GET / HTTP/1.1\r\nab", "GET /x HTTP/1.1\r\n\r\n", "GET / HTTP/1.1\r\nab\n\n"] {
            assert_eq!(head_len(longer.as_bytes(), &limits), Err(Reject::HeadTooLarge), "{longer:?}");
        }
        assert_eq!(head_len(&b"\r\n".repeat(9), &limits), Err(Reject::HeadTooLarge), "empty lines count too");
    }
}
