//! Size limits of a head, and the search for its end.

use super::reject::Reject;
use memchr::memchr_iter;

/// Most header fields of a request's head, whatever limit is configured.
pub const FIELDS_MAX: usize = 256;

/// Most header fields of a response's head. Applications set a cookie or a link for each of many things.
pub const RESPONSE_FIELDS_MAX: usize = 1024;

/// Most interim responses (1xx) to a request: an endpoint that sends them forever must not hold a connection.
pub const INTERIM_MAX: u32 = 16;

/// Size limits of the head of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a head, its final empty line included.
    pub head: usize,
    /// Number of header fields of a head.
    pub fields: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { head: 16 * 1024, fields: 100 }
    }
}

/// Returns the length of a head, its empty line included; `None` while that has not arrived. Looks at no more bytes
/// than the limit, so the result does not depend on how many more have arrived.
///
/// # Errors
/// If there is no end within the limit, or a line ends with a bare LF. RFC 9112 section 2.2 allows recipients to accept
/// that, but those that do disagree with those that do not about where messages end, which enables request smuggling.
#[inline]
pub fn head_len(bytes: &[u8], limits: &Limits) -> Result<Option<usize>, Reject> {
    let bytes = &bytes[..bytes.len().min(limits.head)];
    let mut line = 0;
    let mut begun = false;
    for lf in memchr_iter(b'\n', bytes) {
        if lf == 0 || bytes[lf - 1] != b'\r' {
            return Err(Reject::BareLf);
        }
        // Empty lines before a request line are allowed (section 2.2), so an empty line only ends a head after some
        // other line.
        let empty = lf - 1 == line;
        if empty && begun {
            return Ok(Some(lf + 1));
        }
        begun |= !empty;
        line = lf + 1;
    }
    if bytes.len() == limits.head { Err(Reject::HeadTooLarge) } else { Ok(None) }
}

/// True if a request's head is complete or will be refused, so that [`Request::read`](super::Request::read) has a
/// result.
#[inline]
pub fn has_head(bytes: &[u8], limits: &Limits) -> bool {
    // Nearly all requests arrive alone and without a body. After empty lines there may be no head.
    (bytes.ends_with(b"\r\n\r\n") && bytes[0] != b'\r') || head_len(bytes, limits) != Ok(None)
}

/// Number of bytes in the empty lines that some clients send between a body and the next request.
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
