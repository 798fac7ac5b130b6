//! Values that consist of several: request lines, addresses with ports, pools with endpoints, timers.

use crate::number::span;
use crate::request::Request;
use crate::time::{MILLISECOND_NS, Span};
use crate::tries::Outcome;

/// Written by HAProxy for a missing endpoint.
const NO_SERVER: &[u8] = b"<NOSRV>";

/// Sets method and path of `GET /a?b HTTP/1.1`. Of a request that could not be read there is neither.
pub(super) fn request_line<'a>(text: &'a [u8], request: &mut Request<'a>) {
    let Some(at) = memchr::memchr(b' ', text).filter(|at| *at > 0) else { return };
    let (method, rest) = (&text[..at], &text[at + 1..]);
    let end = memchr::memrchr(b' ', rest).filter(|end| rest[end + 1..].starts_with(b"HTTP/"));
    let path = &rest[..end.unwrap_or(rest.len())];
    request.method = Some(method).filter(|method| *method != b"-");
    request.path = Some(path).filter(|path| !matches!(*path, b"-" | b""));
}

/// Address without its port.
pub(super) fn without_port(text: &[u8]) -> &[u8] {
    match memchr::memrchr(b':', text) {
        Some(at) if at + 1 < text.len() && text[at + 1..].iter().all(u8::is_ascii_digit) => {
            let host = &text[..at];
            host.strip_prefix(b"[").and_then(|host| host.strip_suffix(b"]")).unwrap_or(host)
        }
        _ => text,
    }
}

/// Sets pool and endpoint of `POOL/ENDPOINT`.
pub(super) fn server<'a>(text: &'a [u8], request: &mut Request<'a>) -> Option<()> {
    let at = memchr::memchr(b'/', text)?;
    let (pool, endpoint) = (&text[..at], &text[at + 1..]);
    request.pool = Some(pool).filter(|pool| !matches!(*pool, b"" | b"-"));
    request.endpoint = Some(endpoint).filter(|endpoint| !matches!(*endpoint, b"" | b"-" | NO_SERVER));
    Some(())
}

/// Sets the times of `TR/Tw/Tc/Tr/Ta`, the timers of HAProxy for requests. Its `Tr` begins when the connection is open,
/// and `Ta` at the first byte of the request.
pub(super) fn timers(text: &[u8], request: &mut Request<'_>) -> Option<()> {
    let mut parts = text.split(|b| *b == b'/');
    let [head, queue, connect, response] = [parts.next()?, parts.next()?, parts.next()?, parts.next()?];
    let total = parts.next()?;
    let [head, queue, connect, response] = [timer(head)?, timer(queue)?, timer(connect)?, timer(response)?];
    request.is_partial |= total.first() == Some(&b'+');
    let total = timer(total.strip_prefix(b"+").unwrap_or(total))?;
    let before = queue.unwrap_or(Span::ZERO).plus(connect.unwrap_or(Span::ZERO));
    (request.head, request.queue, request.connect) = (head, queue, connect);
    request.ttfb = response.map(|response| before.plus(response));
    request.total = total.map(|total| total.minus(head.unwrap_or(Span::ZERO)));
    parts.next().is_none().then_some(())
}

/// Reads a timer in milliseconds; `Some(None)` for -1.
pub fn timer(text: &[u8]) -> Option<Option<Span>> {
    match text {
        b"-1" => Some(None),
        text => span(text, MILLISECOND_NS).map(Some),
    }
}

/// Outcome of a try by evenkeel's word for its cause.
pub(super) fn outcome(cause: &[u8]) -> Outcome {
    match cause {
        b"answered" => Outcome::Answered,
        b"overtaken" => Outcome::Overtaken,
        b"connect" => Outcome::Refused,
        b"timeout" | b"connect timeout" | b"connect_timeout" | b"endpoint_slow" => Outcome::TimedOut,
        b"reset" | b"endpoint" => Outcome::Broken,
        b"client" | b"client_slow" => Outcome::Left,
        cause if cause.starts_with(b"status") || cause.starts_with(b"grpc") => Outcome::Retried,
        _ => Outcome::Unknown,
    }
}

/// True if `text` starts with one of the words and a space.
pub fn has_prefix(text: &[u8], words: &[&str]) -> bool {
    words.iter().any(|word| text.strip_prefix(word.as_bytes()).is_some_and(|rest| rest.first() == Some(&b' ')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_line_is_split() {
        let read = |text: &'static str| {
            let mut request = Request::default();
            request_line(text.as_bytes(), &mut request);
            let text = |text: Option<&[u8]>| text.map(|text| String::from_utf8_lossy(text).into_owned());
            (text(request.method), text(request.path))
        };
        let some = |method: &str, path: &str| (Some(method.to_string()), Some(path.to_string()));
        assert_eq!(read("GET /a b?c HTTP/1.1"), some("GET", "/a b?c"));
        assert_eq!(read("GET /cut"), some("GET", "/cut"));
        assert_eq!(read("- - HTTP/1.1"), (None, None));
        assert_eq!(read("<BADREQ>"), (None, None));
    }

    #[test]
    fn an_address_loses_its_port() {
        for (text, address) in [
            ("10.0.0.1:80", "10.0.0.1"),
            ("[::1]:80", "::1"),
            ("::1:80", "::1"),
            ("unix:", "unix:"),
            ("a", "a"),
            (":1", ""),
        ] {
            assert_eq!(without_port(text.as_bytes()), address.as_bytes());
        }
    }

    #[test]
    fn timers_of_haproxy_end_at_different_moments() {
        let mut request = Request::default();
        timers(b"10/5/30/69/+120", &mut request).unwrap();
        let ms = |span: Option<Span>| span.map(|span| span.ns / 1_000_000);
        assert_eq!([ms(request.head), ms(request.queue), ms(request.connect)], [Some(10), Some(5), Some(30)]);
        assert_eq!([ms(request.ttfb), ms(request.total)], [Some(104), Some(110)]);
        assert!(request.is_partial);
        let mut request = Request::default();
        timers(b"-1/-1/-1/-1/7", &mut request).unwrap();
        assert_eq!((request.ttfb, ms(request.total)), (None, Some(7)));
        for text in ["", "1/2/3/4", "1/2/3/4/5/6", "1/2/3/4/x", "-2/0/0/0/0"] {
            assert_eq!(timers(text.as_bytes(), &mut Request::default()), None, "{text}");
        }
    }
}
