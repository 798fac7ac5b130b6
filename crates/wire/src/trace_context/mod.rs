//! Trace context: the trace that a request belongs to, and the decision to record it. Read from the fields of its head
//! and written for the next hop, as W3C Trace Context (level 2) or as B3, in a field or several.

// Order: b3, w3c, span
mod b3;
mod span;
mod w3c;

use crate::head::Fields;
pub use span::{Format, Formats, Sampled, Span, digits};
pub use w3c::trace_id;

/// Trace context in the fields of a head.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Came {
    /// Parent span of the request; `None` if no field names one, or all are malformed.
    pub parent: Option<Span>,
    /// Sampling decision, which may be present without a span.
    pub sampled: Sampled,
    /// Formats of the fields that are present, even if malformed.
    pub formats: Formats,
    /// Format in which the span was found.
    pub by: Option<Format>,
}

/// Names of all fields of trace context, in lower case.
const NAMES: [&str; 8] = [
    "traceparent",
    "tracestate",
    "b3",
    "x-b3-traceid",
    "x-b3-spanid",
    "x-b3-sampled",
    "x-b3-parentspanid",
    "x-b3-flags",
];

/// Reads the trace context of a head. The first well-formed format counts, in the order of [`Format`].
pub fn read(fields: &Fields<'_, '_>) -> Came {
    let mut came = Came::default();
    let mut values: [Option<&[u8]>; NAMES.len()] = [None; NAMES.len()];
    let mut parents = 0;
    for field in fields.rows.iter().filter(|field| !field.dropped) {
        let name = field.name(fields.bytes);
        // Skips most fields early.
        if !matches!(name.first(), Some(b't' | b'T' | b'b' | b'B' | b'x' | b'X')) {
            continue;
        }
        let Some(at) = NAMES.iter().position(|known| name.eq_ignore_ascii_case(known.as_bytes())) else { continue };
        came.formats = came.formats.with(format_of(at));
        parents += usize::from(at == 0);
        values[at].get_or_insert(field.value(fields.bytes));
    }
    let [parent, _, single, trace, span, sampled, _, flags] = values;
    // A repeated field is ignored.
    let parent = parent.filter(|_| parents == 1).and_then(w3c::read);
    let found = [
        (Format::W3c, parent.map(|(span, sampled)| (Some(span), sampled))),
        (Format::B3, single.and_then(b3::read)),
        (Format::B3Multi, b3::read_fields(trace, span, sampled, flags)),
    ];
    if let Some((format, (parent, sampled))) = found.into_iter().find_map(|(format, read)| Some((format, read?))) {
        (came.parent, came.sampled, came.by) = (parent, sampled, Some(format));
    }
    came
}

/// Drops all fields of trace context; with `keep_state`, all except `tracestate`, the vendors' part of the W3C form.
pub fn leave_out(fields: &mut Fields<'_, '_>, keep_state: bool) {
    for field in &mut *fields.rows {
        let name = field.name(fields.bytes);
        let at = NAMES.iter().position(|known| name.eq_ignore_ascii_case(known.as_bytes()));
        field.dropped |= at.is_some_and(|at| at != 1 || !keep_state);
    }
}

/// Appends the fields of each format, each with its line end. All formats have the digits of the span as [`digits`]
/// writes them.
pub fn write(formats: Formats, span: Span, sampled: Sampled, out: &mut Vec<u8>) {
    if formats.has(Format::W3c) {
        w3c::write(span, sampled, out);
    }
    if formats.has(Format::B3) {
        b3::write(span, sampled, out);
    }
    if formats.has(Format::B3Multi) {
        b3::write_fields(span, sampled, out);
    }
}

fn format_of(name: usize) -> Format {
    match name {
        0 | 1 => Format::W3c,
        2 => Format::B3,
        _ => Format::B3Multi,
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
