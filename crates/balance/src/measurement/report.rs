//! Load reports of endpoints, sent with a response or in answer to a probe, and the reasons to refuse a report.

use std::fmt;

/// An endpoint's report of its load, from all balancers that send to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoadReport {
    /// Requests in flight at the endpoint, from all balancers.
    pub in_flight: u32,
    /// Time that a request would take at about this load, nanoseconds; 0 if unknown.
    pub latency_ns: u64,
    /// Clock of the endpoint, in any unit, which rises with each report; 0 if it has none. Distinguishes a
    /// new report from a repeated old report.
    pub stamp: u64,
}

/// Most requests in flight that are believed. No endpoint serves as many; an endpoint that reports more miscounts.
const IN_FLIGHT_MAX: u32 = 1 << 24;

/// Reason why a report was ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// More requests in flight than any endpoint can have.
    Implausible,
    /// Not newer than an earlier report.
    Replayed,
    /// The endpoint failed recently. An endpoint that fails at once looks idle.
    Failing,
    /// The endpoint is no longer in the set.
    Gone,
}

impl Refused {
    /// All reasons, ordered by discriminant: `refused as usize` is an index for counters.
    pub const ALL: [Refused; 4] = [Refused::Implausible, Refused::Replayed, Refused::Failing, Refused::Gone];

    /// Name of the reason in metrics, a single word.
    pub fn name(self) -> &'static str {
        match self {
            Refused::Implausible => "implausible",
            Refused::Replayed => "replayed",
            Refused::Failing => "failing",
            Refused::Gone => "gone",
        }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl LoadReport {
    /// Returns a report of an endpoint without a clock.
    pub fn new(in_flight: u32, latency_ns: u64) -> LoadReport {
        LoadReport { in_flight, latency_ns, stamp: 0 }
    }

    pub(crate) fn is_plausible(&self) -> Result<(), Refused> {
        if self.in_flight > IN_FLIGHT_MAX { Err(Refused::Implausible) } else { Ok(()) }
    }
}
