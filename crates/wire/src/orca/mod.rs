//! Load reports in responses. Reads ORCA (`xds.data.orca.v3.OrcaLoadReport`) in every published form:
//! `endpoint-load-metrics-bin` with a protobuf message in base64, and `endpoint-load-metrics` with a prefix of `BIN`,
//! `TEXT` or `JSON`.
//!
//! A report is advice: whatever is wrong with it, the request whose response carried it is fine. Sans-io, as it reads
//! input from strangers.

// Order: json, protobuf, text, report
mod json;
mod protobuf;
mod report;
mod text;

pub use report::{Form, LATENCY, LEN_MAX, Malformed, Report, STAMP};

use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use base64::{DecodeSliceError, Engine};
use report::Taking;

/// Field with a protobuf message. Takes precedence over the other.
pub const FIELD_BIN: &str = "endpoint-load-metrics-bin";
/// Field that begins with its form.
pub const FIELD: &str = "endpoint-load-metrics";

/// True if the field of this name has a report.
#[inline]
pub fn is_field(name: &[u8]) -> bool {
    match name.len() {
        21 => name.eq_ignore_ascii_case(FIELD.as_bytes()),
        25 => name.eq_ignore_ascii_case(FIELD_BIN.as_bytes()),
        _ => false,
    }
}

/// Reads the report of a head or of trailers; `None` if there is none. `field` returns the first value of a field.
/// `in_flight`: names of the metric to look for, the best first.
///
/// # Errors
/// The reason why the report cannot be read. If the first field is malformed the second is not tried: a sender of
/// nonsense is not believed elsewhere either.
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
    let message = decode(value.trim_ascii(), &mut room)?;
    let mut taking = Taking::new(in_flight);
    protobuf::read(message, &mut taking)?;
    Ok(taking.report)
}

/// Decodes base64 into `room`. Padding may be omitted. Excess bits are ignored, as some senders do not clear them.
fn decode<'r>(text: &[u8], room: &'r mut [u8; LEN_MAX]) -> Result<&'r [u8], Malformed> {
    const LAX: GeneralPurposeConfig = GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true);
    const PADDED: GeneralPurpose = GeneralPurpose::new(&STANDARD, LAX);
    const BARE: GeneralPurpose =
        GeneralPurpose::new(&STANDARD, LAX.with_decode_padding_mode(DecodePaddingMode::RequireNone));
    let engine = if text.ends_with(b"=") { PADDED } else { BARE };
    match engine.decode_slice(text, room) {
        Ok(len) => Ok(&room[..len]),
        Err(DecodeSliceError::OutputSliceTooSmall) => Err(Malformed::TooLong),
        Err(DecodeSliceError::DecodeError(_)) => Err(Malformed::Base64),
    }
}

#[cfg(test)]
mod tests;
