//! The `traceparent` field: `VERSION-TRACE-SPAN-FLAGS`, in digits of lower case. Later versions may append more.

use super::span::{Sampled, Span, digits, hex, hex_or_zero};

/// Length of version 00, with whose parts all later versions begin.
const LEN: usize = 55;

const SAMPLED: u128 = 1;
const RANDOM: u128 = 2;

/// Reads a field; `None` if it is malformed.
pub(super) fn read(value: &[u8]) -> Option<(Span, Sampled)> {
    let (front, more) = value.split_at_checked(LEN)?;
    let version = hex_or_zero(&front[..2])?;
    let ends_well = match version {
        0 => more.is_empty(),
        0xff => false,
        _ => more.is_empty() || more[0] == b'-',
    };
    if !ends_well || [front[2], front[35], front[52]] != *b"---" {
        return None;
    }
    let (trace, span) = (hex(&front[3..35])?, hex(&front[36..52])?);
    let flags = hex_or_zero(&front[53..])?;
    let sampled = if flags & SAMPLED != 0 { Sampled::Yes } else { Sampled::No };
    Some((Span { trace, span: span as u64, is_random: flags & RANDOM != 0 }, sampled))
}

/// Returns the digits of the trace; `None` if the field is malformed.
pub fn trace_id(value: &[u8]) -> Option<&[u8]> {
    read(value).map(|_| &value[3..35])
}

pub(super) fn write(span: Span, sampled: Sampled, out: &mut Vec<u8>) {
    let is_sampled = matches!(sampled, Sampled::Yes | Sampled::Debug);
    let flags = u8::from(is_sampled) | u8::from(span.is_random) << 1;
    out.extend_from_slice(b"traceparent: 00-");
    out.extend_from_slice(&digits((span.trace >> 64) as u64));
    out.extend_from_slice(&digits(span.trace as u64));
    out.push(b'-');
    out.extend_from_slice(&digits(span.span));
    out.extend_from_slice(&[b'-', b'0', b'0' + flags, b'\r', b'\n']);
}
