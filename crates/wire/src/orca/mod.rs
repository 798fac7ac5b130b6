//! What does an endpoint say of its load, in a response? Reads ORCA reports (`xds.data.orca.v3.OrcaLoadReport`) in every
//! form that is published: `endpoint-load-metrics-bin` with a protobuf message in base64, and `endpoint-load-metrics` with
//! one of `BIN`, `TEXT` and `JSON` before it.
//!
//! A report is advice: whatever is wrong with one, the request that brought it is well. Sans-io, as it reads what
//! strangers send.

mod base64;
mod json;
mod protobuf;
mod report;
mod text;

pub use report::{Form, LATENCY, LEN_MAX, Malformed, Report, STAMP};

use report::Taking;

/// The field with a protobuf message; it goes before the other.
pub const FIELD_BIN: &str = "endpoint-load-metrics-bin";
/// The field that says which form it has.
pub const FIELD: &str = "endpoint-load-metrics";

/// Whether a field has a report.
#[inline]
pub fn is_field(name: &[u8]) -> bool {
    match name.len() {
        21 => name.eq_ignore_ascii_case(FIELD.as_bytes()),
        25 => name.eq_ignore_ascii_case(FIELD_BIN.as_bytes()),
        _ => false,
    }
}

/// Reads the report of a head or of trailers, of which `field` gives the first value of a field; `None` if there is none.
/// `in_flight`: names of the metric to look for, the best first.
///
/// # Errors
/// Why it cannot be read. The second field is not looked at in the place of a malformed first: who sends nonsense in one
/// is not believed in the other.
pub fn read<'v>(
    field: impl Fn(&str) -> Option<&'v [u8]>,
    in_flight: &[String],
) -> Option<Result<(Form, Report), Malformed>> {
    if let Some(value) = field(FIELD_BIN) {
        return Some(bin(value, in_flight).map(|report| (Form::Bin, report)));
    }
    field(FIELD).map(|value| prefixed(value.trim_ascii(), in_flight))
}

fn prefixed(value: &[u8], in_flight: &[String]) -> Result<(Form, Report), Malformed> {
    let end = value.iter().position(|b| *b == b' ').ok_or(Malformed::Form)?;
    let (form, rest) = (&value[..end], value[end..].trim_ascii());
    if rest.len() > LEN_MAX {
        return Err(Malformed::TooLong);
    }
    match form {
        b"BIN" => Ok((Form::Bin, bin(rest, in_flight)?)),
        b"TEXT" => {
            let mut taking = Taking::new(in_flight);
            text::read(rest, &mut taking)?;
            Ok((Form::Text, taking.report))
        }
        b"JSON" => {
            let mut taking = Taking::new(in_flight);
            json::read(rest, &mut taking)?;
            Ok((Form::Json, taking.report))
        }
        _ => Err(Malformed::Form),
    }
}

fn bin(value: &[u8], in_flight: &[String]) -> Result<Report, Malformed> {
    let mut room = [0; LEN_MAX];
    let message = base64::decode(value.trim_ascii(), &mut room)?;
    let mut taking = Taking::new(in_flight);
    protobuf::read(message, &mut taking)?;
    Ok(taking.report)
}

#[cfg(test)]
mod tests;
