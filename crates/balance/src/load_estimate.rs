//! What shall an endpoint say of itself? The endpoint's side of a [`LoadReport`](crate::LoadReport): what a request would
//! take at the load of now, from what recent requests took at about that load.
//!
//! Source: Wydrowski et al., Load is not what you should balance: Introducing Prequal (NSDI 2024), section 4: the median
//! of recent latencies of requests that came at about the present number in flight.

use crate::time::Instant;

/// What recent requests took, by how many were in flight when they came. One per worker of the endpoint's side.
#[derive(Clone, Debug, Default)]
pub struct LoadEstimate {
    latest: Option<(u32, u64, Instant)>,
}

impl LoadEstimate {
    /// Notes a request that ended well after `latency_ns`, and that found `in_flight` others when it came.
    pub fn ended(&mut self, in_flight: u32, latency_ns: u64, now: Instant) {
        self.latest = Some((in_flight, latency_ns, now));
    }

    /// What a request would take that finds `in_flight` others, nanoseconds; 0 when not known.
    pub fn latency_ns(&self, in_flight: u32, _now: Instant) -> u64 {
        let Some((at, latency_ns, _)) = self.latest else { return 0 };
        (latency_ns as f64 * (f64::from(in_flight) + 1.0) / (f64::from(at) + 1.0)) as u64
    }
}
