//! What does an endpoint say of its load, in a response? Reads ORCA reports (`xds.data.orca.v3.OrcaLoadReport`) in every
//! form that is published: `endpoint-load-metrics-bin` with a protobuf message in base64, and `endpoint-load-metrics` with
//! one of `BIN`, `TEXT` and `JSON` before it.
//!
//! A report is advice: whatever is wrong with one, the request that brought it is well. Sans-io, as it reads what
//! strangers send.

mod base64;
mod json;
mod protobuf;
mod text;

use std::fmt;

/// The field with a protobuf message; it goes before the other.
pub const FIELD_BIN: &str = "endpoint-load-metrics-bin";
/// The field that says which form it has.
pub const FIELD: &str = "endpoint-load-metrics";

/// The metric, in `named_metrics`, for what a request would take at about this load, nanoseconds.
pub const LATENCY: &str = "latency_ns";
/// The metric, in `named_metrics`, for the endpoint's clock.
pub const STAMP: &str = "stamp";

/// Bytes of a value that is read: some hundred metrics. Longer ones are no report about one endpoint's load.
pub const LEN_MAX: usize = 4096;

/// What a report says that somebody goes by or looks at.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Report {
    /// Requests in flight, under the first name that is looked for of those that it has.
    pub in_flight: Option<f64>,
    /// What a request would take, nanoseconds.
    pub latency_ns: Option<f64>,
    /// The endpoint's clock.
    pub stamp: Option<f64>,
    /// Of the processor, as a share; above 1 where more cores are in use than it should have.
    pub cpu: Option<f64>,
    /// Of memory, as a share.
    pub memory: Option<f64>,
    /// Of whatever the application is short of, as a share.
    pub application: Option<f64>,
}

impl Report {
    /// How busy the endpoint says that it is: by what the application is short of, or else by its processor (gRFC A58).
    pub fn utilization(&self) -> Option<f64> {
        self.application.filter(|&share| share > 0.0).or(self.cpu)
    }
}

/// How a report is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A protobuf message in base64.
    Bin,
    /// `name=value`, comma separated.
    Text,
    /// JSON as protobuf maps it.
    Json,
}

/// Why a report could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// It is longer than [`LEN_MAX`].
    TooLong,
    /// It has no form that is known.
    Form,
    /// It is no base64.
    Base64,
    /// It is no protobuf message of this type.
    Protobuf,
    /// It is no JSON of this type.
    Json,
    /// It is no list of names with values.
    Text,
    /// It has a name that means nothing.
    Name,
    /// It has a name twice.
    Twice,
    /// A value is negative, not finite, or a share above 1.
    Value,
}

impl Malformed {
    /// All, in the order of their numbers.
    pub const ALL: [Malformed; 9] = [
        Malformed::TooLong,
        Malformed::Form,
        Malformed::Base64,
        Malformed::Protobuf,
        Malformed::Json,
        Malformed::Text,
        Malformed::Name,
        Malformed::Twice,
        Malformed::Value,
    ];

    /// One word for metrics.
    pub fn name(self) -> &'static str {
        match self {
            Malformed::TooLong => "too_long",
            Malformed::Form => "form",
            Malformed::Base64 => "base64",
            Malformed::Protobuf => "protobuf",
            Malformed::Json => "json",
            Malformed::Text => "text",
            Malformed::Name => "name",
            Malformed::Twice => "twice",
            Malformed::Value => "value",
        }
    }
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl std::error::Error for Malformed {}

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

/// What a value of a report is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Metric<'n> {
    Cpu,
    Memory,
    Application,
    /// Requests or errors a second: checked, and of no use here.
    Rate,
    /// A share of something by its name.
    Share,
    /// A cost of something by its name.
    Cost,
    Named(&'n [u8]),
}

/// A report while it is read: what all forms have in common.
struct Taking<'n> {
    report: Report,
    in_flight: &'n [String],
    /// Which of the names gave the number in flight.
    rank: usize,
}

impl<'n> Taking<'n> {
    fn new(in_flight: &'n [String]) -> Taking<'n> {
        Taking { report: Report::default(), in_flight, rank: usize::MAX }
    }

    /// Takes a value.
    fn take(&mut self, metric: Metric<'_>, value: f64) -> Result<(), Malformed> {
        let share = matches!(metric, Metric::Memory | Metric::Share);
        if !value.is_finite() || value < 0.0 || share && value > 1.0 {
            return Err(Malformed::Value);
        }
        let value = Some(value);
        match metric {
            Metric::Cpu => self.report.cpu = value,
            Metric::Memory => self.report.memory = value,
            Metric::Application => self.report.application = value,
            Metric::Rate | Metric::Share | Metric::Cost => {}
            Metric::Named(name) if name == LATENCY.as_bytes() => self.report.latency_ns = value,
            Metric::Named(name) if name == STAMP.as_bytes() => self.report.stamp = value,
            Metric::Named(name) => {
                let rank = self.in_flight.iter().position(|wanted| wanted.as_bytes() == name);
                if let Some(rank) = rank.filter(|&rank| rank <= self.rank) {
                    (self.rank, self.report.in_flight) = (rank, value);
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
