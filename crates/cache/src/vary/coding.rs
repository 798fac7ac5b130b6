//! `Accept-Encoding` as far as it matters to a stored response: the coding of its content, and whether a request accepts
//! it. Clients spell the field in many ways, and most of them get the same bytes.
//!
//! A response in a coding serves every request that accepts the coding. A response without a coding serves requests that
//! accept no other coding than its own request did; or all of them, if its endpoint was offered gzip and did not use it.
//! Otherwise a client without codings would have the response stored plain for all others.

use crate::syntax::list;
use evenkeel_wire::endpoint_head::is_token;
use evenkeel_wire::head::Request;

pub const ACCEPT: &str = "accept-encoding";

const IDENTITY: &[u8] = b"identity";

/// Codings that endpoints use, in the order of their names. Every endpoint that compresses has the second.
const USED: [&str; 3] = ["br", "gzip", "zstd"];

/// Weight of a coding that is acceptable without being named.
const UNNAMED: u32 = 1;

/// Value for the line of `Accept-Encoding` by which a response is found. `lines`: its `Content-Encoding`. `None` if the
/// response is only for requests with the same field: its request did not accept its coding, or one of the fields is malformed.
pub fn line<'l>(request: &Request<'_, '_>, lines: impl Iterator<Item = &'l [u8]>) -> Option<Vec<u8>> {
    let coding = of_content(lines)?;
    if weight(request, coding)? == 0 {
        return None;
    }
    let mut line = Vec::with_capacity(16);
    if is_identity(coding) {
        for offered in USED.iter().filter(|coding| weight(request, coding.as_bytes()).is_some_and(|weight| weight > 0))
        {
            line.extend_from_slice(offered.as_bytes());
            line.push(b',');
        }
    }
    line.extend(coding.iter().map(u8::to_ascii_lowercase));
    Some(line)
}

/// True if a stored response with this line and this `Content-Encoding` serves a request. `None` if the request must
/// have the same field as the request before.
pub fn serves<'l>(request: &Request<'_, '_>, line: &[u8], lines: impl Iterator<Item = &'l [u8]>) -> Option<bool> {
    let coding = of_content(lines)?;
    let (offered, own) = match memchr::memrchr(b',', line) {
        Some(comma) if is_identity(coding) => (&line[..comma], &line[comma + 1..]),
        _ => (&line[..0], line),
    };
    if !own.eq_ignore_ascii_case(coding) {
        return None;
    }
    if weight(request, coding)? == 0 {
        return Some(false);
    }
    let is_offered = |known: &&str| offered.split(|b| *b == b',').any(|name| name == known.as_bytes());
    if !is_identity(coding) || is_offered(&USED[1]) {
        return Some(true);
    }
    let mut others = USED.iter().filter(|known| !is_offered(known));
    Some(!others.any(|coding| weight(request, coding.as_bytes()).is_some_and(|weight| weight > 0)))
}

fn is_identity(coding: &[u8]) -> bool {
    coding.eq_ignore_ascii_case(IDENTITY)
}

/// Coding of content: `identity` without a field. `None` for several codings, or for what is not a token.
fn of_content<'l>(lines: impl Iterator<Item = &'l [u8]>) -> Option<&'l [u8]> {
    let mut codings = lines.flat_map(list::members);
    match (codings.next(), codings.next()) {
        (None, _) => Some(IDENTITY),
        (Some(coding), None) if is_token(coding) => Some(usual(coding)),
        _ => None,
    }
}

/// Usual name of a coding (RFC 9110 section 8.4.1).
fn usual(coding: &[u8]) -> &[u8] {
    match coding.split_first_chunk() {
        Some((b"x-" | b"X-", rest))
            if [&b"gzip"[..], b"compress"].iter().any(|known| rest.eq_ignore_ascii_case(known)) =>
        {
            rest
        }
        _ => coding,
    }
}

/// Weight in thousandths that a request gives a coding; 0 if it does not accept it. `None` if the field is malformed. A
/// request without the field accepts plain content only: it might not understand any other.
fn weight(request: &Request<'_, '_>, coding: &[u8]) -> Option<u32> {
    let (mut named, mut any) = (None, None);
    for member in request.values(ACCEPT).flat_map(list::members) {
        let mut parts = member.split(|b| *b == b';').map(<[u8]>::trim_ascii);
        let name = parts.next().filter(|name| is_token(name))?;
        let weight = parts.next().map_or(Some(1000), thousandths)?;
        if parts.next().is_some() {
            return None;
        }
        // Named twice: the lower weight counts.
        let lower = |known: Option<u32>| Some(known.map_or(weight, |known| known.min(weight)));
        if name == b"*" {
            any = lower(any);
        } else if usual(name).eq_ignore_ascii_case(coding) {
            named = lower(named);
        }
    }
    let unnamed = any.map_or(if is_identity(coding) { UNNAMED } else { 0 }, |any| any);
    Some(named.unwrap_or(unnamed))
}

/// Weight in thousandths (RFC 9110 section 12.4.2).
pub fn thousandths(parameter: &[u8]) -> Option<u32> {
    let number = parameter.strip_prefix(b"q=").or_else(|| parameter.strip_prefix(b"Q="))?;
    let (whole, rest) = number.split_first()?;
    let fraction = rest.strip_prefix(b".").or(rest.is_empty().then_some(rest))?;
    if !matches!(whole, b'0' | b'1') || fraction.len() > 3 || !fraction.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let digits = std::iter::once(whole).chain(fraction).chain(std::iter::repeat(&b'0')).take(4);
    Some(digits.fold(0, |sum, digit| sum * 10 + u32::from(digit - b'0')).min(1000))
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_wire::head::Table;

    /// Weight of a coding, with the field in several lines between `|`; `-` for none.
    fn of(accept: &str, coding: &str) -> Option<u32> {
        let lines = accept.split('|').filter(|line| *line != "-");
        let mut table: Table = lines.map(|line| (&b"Accept-Encoding"[..], line.as_bytes())).collect();
        weight(&Request { method: "GET", target: "/", host: b"a", fields: table.fields() }, coding.as_bytes())
    }

    #[test]
    fn a_coding_is_accepted_by_its_name_or_by_a_star() {
        for (accept, gzip, identity) in [
            ("-", Some(0), Some(1)),
            ("", Some(0), Some(1)),
            ("gzip", Some(1000), Some(1)),
            ("GZip ; q=0.5", Some(500), Some(1)),
            ("x-gzip", Some(1000), Some(1)),
            ("x-br", Some(0), Some(1)),
            ("br|gzip", Some(1000), Some(1)),
            ("gzip;q=0, *", Some(0), Some(1000)),
            ("*;q=0", Some(0), Some(0)),
            ("*;q=0, identity", Some(0), Some(1000)),
            ("identity;q=0, gzip", Some(1000), Some(0)),
            ("gzip, gzip;q=0", Some(0), Some(1)),
            ("gzi p", None, None),
            ("gzip;q= 1", None, None),
            ("gzip;q=2", None, None),
            ("gzip;q=1;x", None, None),
            ("gzip;q=0.", Some(0), Some(1)),
            ("gzip;q=0.05", Some(50), Some(1)),
            ("gzip;q=1.5", Some(1000), Some(1)),
            ("\"gzip\"", None, None),
        ] {
            assert_eq!((of(accept, "gzip"), of(accept, "identity")), (gzip, identity), "{accept}");
        }
    }
}
