//! Results of a run with a seed.

use hdrhistogram::Histogram;

/// Results of a run, in nanoseconds of virtual time. Latencies and failures exclude the warm-up.
#[derive(Clone, Debug)]
pub struct Run {
    /// Latencies of successful client requests, in nanoseconds.
    pub latency: Histogram<u64>,
    /// Exact sum of the latencies in nanoseconds.
    pub latency_sum_ns: u128,
    /// Failed client requests, indexed by [`Failure`].
    pub failed: [u64; 4],
    /// Time from the first measured request to the last end.
    pub span_ns: u64,
    /// Time from the start to the last end.
    pub wall_ns: u64,
    pub services: Vec<ServiceRun>,
    /// Maximum client requests in flight at once.
    pub in_system_max: u64,
    /// Ratio of the two sides of Little's law: mean requests in flight over rate times mean time. 1 up to rounding.
    pub little: f64,
    /// Offered work as a share of capacity, of the busiest service; 0 for closed loops.
    pub offered: f64,
    /// True if less work was offered than the capacity, and requests in flight settled. Otherwise mean latencies are
    /// meaningless.
    pub steady: bool,
    /// Number of events handled.
    pub events: u64,
}

/// Reason why a client request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// A server's backlog was full.
    Refused,
    /// A server answered with an error.
    Failed,
    /// An attempt took too long.
    TimedOut,
    /// No server could be picked.
    NoPick,
}

#[derive(Clone, Debug)]
pub struct ServiceRun {
    pub name: String,
    pub servers: Vec<ServerRun>,
    /// Requests sent to it; each attempt counts.
    pub requests: u64,
    /// Probes sent to it, including lost probes.
    pub probes: u64,
    pub retries: u64,
    pub series: Series,
}

#[derive(Clone, Debug, Default)]
pub struct ServerRun {
    pub name: String,
    /// Number of requests that reached it.
    pub requests: u64,
    /// Maximum requests in flight.
    pub in_flight_max: u32,
    /// Mean capacity, cores times speed, as configured; 0 if unlimited.
    pub capacity: f64,
}

/// Time series in equal intervals from the start. Empty for services of more than 1,024 servers.
#[derive(Clone, Debug, Default)]
pub struct Series {
    /// Length of an interval in nanoseconds.
    pub step_ns: u64,
    /// Requests sent to a server, by server and interval.
    pub requests: Vec<Vec<u32>>,
    /// Requests in flight at a server at the end of an interval (the mean of merged intervals), by server and interval.
    pub in_flight: Vec<Vec<f32>>,
}

impl Run {
    /// Quantile `q` (0 to 1) of the latencies, in nanoseconds.
    pub fn quantile(&self, q: f64) -> u64 {
        self.latency.value_at_quantile(q)
    }

    /// Mean latency in nanoseconds; 0 without any.
    pub fn mean_ns(&self) -> f64 {
        self.latency_sum_ns as f64 / self.latency.len().max(1) as f64
    }

    /// Successful answers per second, over the measured span.
    pub fn throughput(&self) -> f64 {
        self.latency.len() as f64 * 1e9 / self.span_ns.max(1) as f64
    }
}
