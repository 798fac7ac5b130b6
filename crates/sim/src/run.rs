//! Figures of a run with one seed, which merge over seeds.

use hdrhistogram::Histogram;

/// Results of one run. Times in nanoseconds of virtual time; only requests after the warm-up count.
#[derive(Clone, Debug)]
pub struct Run {
    /// From a client's request to its answer, those that were answered.
    pub latency: Histogram<u64>,
    /// Exact sum of the latencies.
    pub latency_sum_ns: u128,
    /// Requests of clients that failed, by [`Failure`] as an index.
    pub failed: [u64; 4],
    /// From the first measured request to the last end.
    pub span_ns: u64,
    /// From the start to the last end.
    pub wall_ns: u64,
    pub services: Vec<ServiceRun>,
    /// Most requests of clients that were under way at once.
    pub in_system_max: u64,
    /// Little's law: the time average of requests under way, over rate times mean time. 1 but for rounding.
    pub little: f64,
    /// Work offered over what the servers can do, of the busiest service; 0 for closed loops.
    pub offered: f64,
    /// True if the number of requests in progress settled. Otherwise a mean is meaningless.
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
    /// Requests that it got, each try once.
    pub requests: u64,
    /// Number of probes sent to it.
    pub probes: u64,
    pub retries: u64,
    pub series: Series,
}

#[derive(Clone, Debug, Default)]
pub struct ServerRun {
    pub name: String,
    /// Number of requests it got.
    pub requests: u64,
    /// Maximum requests in flight.
    pub in_flight_max: u32,
    /// Its mean capacity: cores times speed, as configured; 0 when unlimited.
    pub capacity: f64,
}

/// Figures over time: equal intervals from the start. Without rows for a service of more than 1,024 servers.
#[derive(Clone, Debug, Default)]
pub struct Series {
    /// The length of an interval.
    pub step_ns: u64,
    /// Requests that each server got, by server and interval.
    pub requests: Vec<Vec<u32>>,
    /// The mean in flight at each server, by server and interval.
    pub in_flight: Vec<Vec<f32>>,
}

impl Run {
    /// The latency that a share `q` of requests does not pass, nanoseconds.
    pub fn quantile(&self, q: f64) -> u64 {
        self.latency.value_at_quantile(q)
    }

    /// The mean latency, nanoseconds.
    pub fn mean_ns(&self) -> f64 {
        self.latency_sum_ns as f64 / self.latency.len().max(1) as f64
    }

    /// Answers per second, over the measured span.
    pub fn throughput(&self) -> f64 {
        self.latency.len() as f64 * 1e9 / self.span_ns.max(1) as f64
    }
}
