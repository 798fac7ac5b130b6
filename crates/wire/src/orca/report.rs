//! What does a report say, in whatever form it came? Its values are taken one by one, and checked.

use std::fmt;

/// The metric, in `named_metrics`, for what a request would take at about this load, nanoseconds.
pub const LATENCY: &str = "latency_ns";
/// The metric, in `named_metrics`, for the endpoint's clock.
pub const STAMP: &str = "stamp";

/// Bytes of a value that is read: some hundred metrics. Longer ones are no report about one endpoint's load.
pub const LEN_MAX: usize = 4096;

/// What evenkeel uses or shows of a report.
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

/// What a value of a report is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Metric<'n> {
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
pub(super) struct Taking<'n> {
    pub(super) report: Report,
    in_flight: &'n [String],
    /// Which of the names gave the number in flight.
    rank: usize,
}

impl<'n> Taking<'n> {
    pub(super) fn new(in_flight: &'n [String]) -> Taking<'n> {
        Taking { report: Report::default(), in_flight, rank: usize::MAX }
    }

    /// Takes a value.
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
