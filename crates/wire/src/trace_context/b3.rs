//! B3 propagation: in a single field, `TRACE-SPAN-SAMPLED-PARENT` or `SAMPLED` alone, or in a field for each part.

use super::span::{Sampled, Span, digits, hex};

type Read = (Option<Span>, Sampled);

/// Reads the single field; `None` if it is malformed.
pub(super) fn read(value: &[u8]) -> Option<Read> {
    let mut parts = value.split(|b| *b == b'-');
    let first = parts.next()?;
    let Some(second) = parts.next() else { return Some((None, decided(first)?)) };
    let sampled = parts.next().map_or(Some(Sampled::Undecided), decided)?;
    // The parent of the span is not used.
    if parts.next().is_some_and(|parent| number(parent, &[16]).is_none()) || parts.next().is_some() {
        return None;
    }
    Some((Some(span(first, second)?), sampled))
}

/// Reads the separate fields; `None` if they are malformed or incomplete.
pub(super) fn read_fields(
    trace: Option<&[u8]>,
    id: Option<&[u8]>,
    sampled: Option<&[u8]>,
    flags: Option<&[u8]>,
) -> Option<Read> {
    let sampled = match (flags, sampled) {
        (Some(b"1"), _) => Sampled::Debug,
        (_, None) => Sampled::Undecided,
        (_, Some(b"true")) => Sampled::Yes,
        (_, Some(b"false")) => Sampled::No,
        (_, Some(b"d")) => return None,
        (_, Some(sampled)) => decided(sampled)?,
    };
    match (trace, id) {
        (Some(trace), Some(id)) => Some((Some(span(trace, id)?), sampled)),
        (None, None) if sampled != Sampled::Undecided => Some((None, sampled)),
        _ => None,
    }
}

pub(super) fn write(span: Span, sampled: Sampled, out: &mut Vec<u8>) {
    out.extend_from_slice(b"b3: ");
    write_trace(span.trace, out);
    out.push(b'-');
    out.extend_from_slice(&digits(span.span));
    out.extend_from_slice(match sampled {
        Sampled::Undecided => b"\r\n",
        Sampled::No => b"-0\r\n",
        Sampled::Yes => b"-1\r\n",
        Sampled::Debug => b"-d\r\n",
    });
}

pub(super) fn write_fields(span: Span, sampled: Sampled, out: &mut Vec<u8>) {
    out.extend_from_slice(b"X-B3-TraceId: ");
    write_trace(span.trace, out);
    out.extend_from_slice(b"\r\nX-B3-SpanId: ");
    out.extend_from_slice(&digits(span.span));
    out.extend_from_slice(match sampled {
        Sampled::Undecided => b"\r\n",
        Sampled::No => b"\r\nX-B3-Sampled: 0\r\n",
        Sampled::Yes => b"\r\nX-B3-Sampled: 1\r\n",
        Sampled::Debug => b"\r\nX-B3-Flags: 1\r\n",
    });
}

/// Writes the trace. A trace of 64 bits has 16 digits, as some receivers accept no longer ids.
fn write_trace(trace: u128, out: &mut Vec<u8>) {
    if trace >> 64 != 0 {
        out.extend_from_slice(&digits((trace >> 64) as u64));
    }
    out.extend_from_slice(&digits(trace as u64));
}

fn span(trace: &[u8], id: &[u8]) -> Option<Span> {
    Some(Span { trace: number(trace, &[16, 32])?, span: number(id, &[16])? as u64, is_random: false })
}

fn number(digits: &[u8], lengths: &[usize]) -> Option<u128> {
    if lengths.contains(&digits.len()) { hex(digits) } else { None }
}

fn decided(word: &[u8]) -> Option<Sampled> {
    match word {
        b"0" => Some(Sampled::No),
        b"1" => Some(Sampled::Yes),
        b"d" => Some(Sampled::Debug),
        _ => None,
    }
}
