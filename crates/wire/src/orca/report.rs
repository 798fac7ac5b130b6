//! Contents of a load report, in any form. Values are added and checked.

use std::fmt;

/// Metric in `named_metrics` for the time that a request would take at about this load, nanoseconds.
pub const LATENCY: &str = "latency_ns";
/// Metric in `named_metrics` for the endpoint's clock.
pub const STAMP: &str = "stamp";

/// Longest value that is read, in bytes: some hundred metrics. Longer values cannot be about an endpoint's load.
pub const LEN_MAX: usize = 4096;

/// The parts of a report that evenkeel uses or shows.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Report {
    /// Requests in flight, from the best of the configured names that the report has.
    pub in_flight: Option<f64>,
    /// Time that a request would take, nanoseconds.
    pub latency_ns: Option<f64>,
    /// Clock of the endpoint, in any unit.
    pub stamp: Option<f64>,
    /// Utilization of the processor. Above 1 if it uses more cores than it is meant to.
    pub cpu: Option<f64>,
    /// Utilization of memory, 0 to 1.
    pub memory: Option<f64>,
    /// Utilization of whatever limits the application; may be above 1.
    pub application: Option<f64>,
}

impl Report {
    /// Utilization of the endpoint: the application's, or else the processor's (gRFC A58).
    pub fn utilization(&self) -> Option<f64> {
        self.application.filter(|&share| share > 0.0).or(self.cpu)
    }
}

/// Encoding in which a report was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A protobuf message in base64.
    Bin,
    /// Pairs of `name=value`, separated by commas.
    Text,
    /// JSON, by protobuf's mapping.
    Json,
}

/// Reason why a report could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// The value is longer than [`LEN_MAX`], or has too many metrics.
    TooLong,
    /// The value has no form, or an unknown form.
    Form,
    /// The base64 is invalid.
    Base64,
    /// The bytes are not a protobuf message of this type.
    Protobuf,
    /// The text is not JSON of this type.
    Json,
    /// The text is not a list of names with values.
    Text,
    /// The report has an unknown name.
    Name,
    /// The report has a name more than once.
    Twice,
    /// A value is negative, not finite, or a share above 1.
    Value,
}

impl Malformed {
    /// All reasons, ordered by discriminant.
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

    /// Name of the reason in metrics, a single word.
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

/// The metric that a value of a report belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Metric<'n> {
    Cpu,
    Memory,
    Application,
    /// Requests or errors per second: checked, but not used.
    Rate,
    /// Utilization of a named resource.
    Share,
    /// Cost of a named resource.
    Cost,
    Named(&'n [u8]),
}

/// A report while it is read. Common to all forms.
pub(super) struct Taking<'n> {
    pub(super) report: Report,
    in_flight: &'n [String],
    /// Index in `in_flight` of the name whose value was taken.
    rank: usize,
}

impl<'n> Taking<'n> {
    pub(super) fn new(in_flight: &'n [String]) -> Taking<'n> {
        Taking { report: Report::default(), in_flight, rank: usize::MAX }
    }

    /// Checks a value and adds it to the report.
    pub(super) fn take(&mut self, metric: Metric<'_>, value: f64) -> Result<(), Malformed> {
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
