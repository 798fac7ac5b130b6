//! How many requests at once does an endpoint take well? A limit that follows the latency (gradient).

/// The bounds of the limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// The smallest limit; at least 1.
    pub min: u32,
    /// The largest.
    pub max: u32,
    /// Where it starts.
    pub start: u32,
    /// How many times its shortest latency an endpoint may take before the limit falls; above 1.
    pub tolerance: f64,
    /// How often it is looked at, nanoseconds.
    pub interval_ns: u64,
}

impl Default for Settings {
    /// Netflix concurrency-limits' gradient: tolerance 1.5, start 20.
    fn default() -> Settings {
        Settings { min: 3, max: 1000, start: 20, tolerance: 1.5, interval_ns: 1_000_000_000 }
    }
}
