//! Should a slow request be sent to a second endpoint too? After a percentile of the latencies, under a budget.

/// When a second copy is sent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// The percentile of the pool's latencies to wait for, above 0 and below 1.
    pub percentile: f64,
    /// Second copies as a share of requests, 0 to 1.
    pub budget: f64,
    /// Latencies that must have been seen before the percentile means anything.
    pub min_requests: u64,
}

impl Default for Settings {
    /// "The Tail at Scale": after the 95th percentile, about 5 % more load.
    fn default() -> Settings {
        Settings { percentile: 0.95, budget: 0.05, min_requests: 100 }
    }
}
