//! How did the requests of one endpoint end, in sums?

/// Outcomes and latencies of one endpoint, summed since the start of the process. Wraps: differences count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// Requests that were answered well, including those told to come less often.
    pub(crate) answered: u32,
    pub(crate) failed: u32,
    /// Latencies of the successes, and their number.
    pub(crate) latency_ns: u64,
    pub(crate) timed: u32,
}

impl Tally {
    /// What was added since `earlier`.
    pub(crate) fn since(self, earlier: Tally) -> Tally {
        Tally {
            answered: self.answered.wrapping_sub(earlier.answered),
            failed: self.failed.wrapping_sub(earlier.failed),
            latency_ns: self.latency_ns.wrapping_sub(earlier.latency_ns),
            timed: self.timed.wrapping_sub(earlier.timed),
        }
    }
}
