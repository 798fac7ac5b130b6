//! The remaining hops of a request: `Max-Forwards` of TRACE and OPTIONS (RFC 9110 section 7.6.2).

use super::Reject;
use crate::head::Request;

/// Largest value that is forwarded.
pub const MOST: u32 = 999_999_999;

/// Effect of `Max-Forwards` on a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hops {
    /// The request is forwarded, with this value for the field or without the field.
    Left(Option<u32>),
    /// The request is answered here.
    None,
}

/// Removes the field from the request, if it has a meaning for the method.
///
/// # Errors
/// If it is repeated, or not a number.
#[inline]
pub fn take(request: &mut Request<'_, '_>) -> Result<Hops, Reject> {
    match request.method {
        "OPTIONS" | "TRACE" => taken(request),
        _ => Ok(Hops::Left(None)),
    }
}

#[cold]
fn taken(request: &mut Request<'_, '_>) -> Result<Hops, Reject> {
    let mut values = request.values(NAME);
    let Some(value) = values.next() else { return Ok(Hops::Left(None)) };
    if values.next().is_some() || value.is_empty() || !value.iter().all(u8::is_ascii_digit) {
        return Err(Reject::MaxForwards);
    }
    drop(values);
    request.fields.leave_out(NAME);
    let n = value.iter().fold(0u32, |n, digit| n.saturating_mul(10).saturating_add(u32::from(digit - b'0')));
    Ok(n.checked_sub(1).map_or(Hops::None, |left| Hops::Left(Some(left.min(MOST)))))
}

pub(super) const NAME: &str = "max-forwards";

/// Appends the field with this value.
#[cold]
pub fn write(left: u32, out: &mut Vec<u8>) {
    out.extend_from_slice(format!("Max-Forwards: {left}\r\n").as_bytes());
}

/// Returns the body with which the last hop answers a TRACE: the path that the request took, without fields that a
/// client or a proxy in front may want to keep private (RFC 9110 section 9.3.8).
pub fn reflection(request: &Request<'_, '_>) -> Vec<u8> {
    let mut out = Vec::new();
    let mut line = |parts: &[&[u8]]| {
        parts.iter().for_each(|part| out.extend_from_slice(part));
        out.extend_from_slice(b"\r\n");
    };
    line(&[request.method.as_bytes(), b" ", request.target.as_bytes(), b" HTTP/1.1"]);
    line(&[b"Host: ", request.host]);
    request.values("via").for_each(|via| line(&[b"Via: ", via]));
    line(&[b"Max-Forwards: 0"]);
    line(&[]);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::head::Table;

    fn hops(method: &str, values: &[&str]) -> (Result<Hops, Reject>, usize) {
        let mut table = Table::default();
        values.iter().for_each(|value| table.push(b"Max-Forwards", value.as_bytes()));
        let mut request = Request { method, target: "/", host: b"a", fields: table.fields() };
        (take(&mut request), request.fields.kept().count())
    }

    #[test]
    fn a_hop_is_taken_from_trace_and_options_and_from_no_other_method() {
        for method in ["TRACE", "OPTIONS"] {
            assert_eq!(hops(method, &[]), (Ok(Hops::Left(None)), 0));
            assert_eq!(hops(method, &["1"]), (Ok(Hops::Left(Some(0))), 0));
            assert_eq!(hops(method, &["0070"]), (Ok(Hops::Left(Some(69))), 0));
            assert_eq!(hops(method, &["99999999999999999999"]), (Ok(Hops::Left(Some(MOST))), 0));
            assert_eq!(hops(method, &["00"]).0, Ok(Hops::None));
            for bad in [&[""][..], &["-1"], &["+1"], &["1 2"], &["x"], &["1", "1"]] {
                assert_eq!(hops(method, bad).0, Err(Reject::MaxForwards), "{bad:?}");
            }
        }
        for method in ["GET", "PUT", "trace"] {
            assert_eq!(hops(method, &["0"]), (Ok(Hops::Left(None)), 1));
        }
    }
}
