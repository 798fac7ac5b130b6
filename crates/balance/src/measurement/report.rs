//! What does an endpoint report of its own load? A [`LoadReport`], sent with a response or in answer to a probe, and
//! the reasons for which one is not used.

use std::fmt;

/// What an endpoint reports of itself, over all balancers that send to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoadReport {
    /// Requests in flight there, from all balancers.
    pub in_flight: u32,
    /// How long a request would take at about this load, nanoseconds; 0 when not known.
    pub latency_ns: u64,
    /// The endpoint's own clock, which rises from one report to the next, in any unit; 0 when it has none. It tells an
    /// old report that comes again from a new one.
    pub stamp: u64,
}

/// No endpoint serves more at once: one that reports more miscounts.
const IN_FLIGHT_MAX: u32 = 1 << 24;

/// Why a report was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// More than any endpoint can have in flight.
    Implausible,
    /// Not newer than an earlier report.
    Replayed,
    /// The endpoint failed recently: an endpoint that fails at once looks idle.
    Failing,
    /// The endpoint is not in the set.
    Gone,
}

impl Refused {
    /// All reasons, in the order of their numbers: `refused as usize` is an index for counters.
    pub const ALL: [Refused; 4] = [Refused::Implausible, Refused::Replayed, Refused::Failing, Refused::Gone];

    /// One word for metrics.
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
    /// A report of an endpoint that has no clock.
    pub fn new(in_flight: u32, latency_ns: u64) -> LoadReport {
        LoadReport { in_flight, latency_ns, stamp: 0 }
    }

    pub(crate) fn is_plausible(&self) -> Result<(), Refused> {
        if self.in_flight > IN_FLIGHT_MAX { Err(Refused::Implausible) } else { Ok(()) }
    }
}
