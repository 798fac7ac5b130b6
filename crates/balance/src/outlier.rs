//! Does an endpoint do worse than its pool? Ejection by what requests see: passive health.

/// When an endpoint is ejected, and for how long.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// Responses of 500 and above in a row, gateway errors included; 0 = never.
    pub consecutive_5xx: u32,
    /// Gateway errors in a row: 502, 503, 504, resets, timeouts and broken responses; 0 = never.
    pub consecutive_gateway: u32,
    /// Connections in a row that could not be opened; 0 = never.
    pub consecutive_connect: u32,
    /// Ejects endpoints whose share of successes in an interval is far below the pool's.
    pub success_rate: Option<SuccessRate>,
    /// Ejects endpoints whose mean latency in an interval is far above the pool's median.
    pub latency: Option<Latency>,
    /// How often success rate and latency are looked at, nanoseconds.
    pub interval_ns: u64,
    /// How long the first ejection lasts, nanoseconds; each further one doubles it.
    pub eject_ns: u64,
    /// The longest ejection, nanoseconds.
    pub eject_max_ns: u64,
    /// The share of the pool that may be ejected at once, 0 to 1; one endpoint of two or more always may.
    pub eject_at_most: f64,
}

impl Default for Settings {
    /// Envoy's counts and times; connects as they mean a dead process and cost each request a try.
    fn default() -> Settings {
        Settings {
            consecutive_5xx: 5,
            consecutive_gateway: 5,
            consecutive_connect: 3,
            success_rate: None,
            latency: None,
            interval_ns: 10_000_000_000,
            eject_ns: 30_000_000_000,
            eject_max_ns: 300_000_000_000,
            eject_at_most: 0.3,
        }
    }
}

/// Ejection by success rate: below mean - `deviations` x standard deviation of the pool.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SuccessRate {
    /// Standard deviations below the mean.
    pub deviations: f64,
    /// Requests that an endpoint must have had in the interval to be looked at.
    pub min_requests: u64,
    /// Endpoints with so many requests that there must be.
    pub min_endpoints: u32,
}

/// Ejection by latency: above `factor` x the pool's median.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Latency {
    /// How many times the pool's median.
    pub factor: f64,
    /// Requests that an endpoint must have had in the interval to be looked at.
    pub min_requests: u64,
}
