//! Running sums of the outcomes and latencies of an endpoint.

/// Outcomes and latencies of an endpoint, summed since the start of the process. The sums wrap, so only differences
/// mean anything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// Successes, and responses of 429: an endpoint that asks for fewer requests works.
    pub(crate) answered: u32,
    pub(crate) failed: u32,
    /// Sum of the latencies of successes; `timed` is their number.
    pub(crate) latency_ns: u64,
    pub(crate) timed: u32,
}

impl Tally {
    /// Returns the difference to an `earlier` tally.
    pub(crate) fn since(self, earlier: Tally) -> Tally {
        Tally {
            answered: self.answered.wrapping_sub(earlier.answered),
            failed: self.failed.wrapping_sub(earlier.failed),
            latency_ns: self.latency_ns.wrapping_sub(earlier.latency_ns),
            timed: self.timed.wrapping_sub(earlier.timed),
        }
    }
}
