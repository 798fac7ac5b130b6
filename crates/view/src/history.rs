//! Types for the last quarter of an hour.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The last quarter of an hour, the oldest first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct History {
    /// Length of each span, milliseconds.
    pub step_ms: u32,
    pub spans: Vec<Span>,
    /// Spread of latencies in each; of endpoints alone.
    pub spreads: Vec<Vec<Step>>,
}

/// Sums over a span of time, and latencies within it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Span {
    /// End of the span, milliseconds since 1970.
    pub until_ms: u64,
    /// Requests that ended; of an endpoint or a pool, tries.
    pub requests: u32,
    /// Requests answered with 500 and above; of an endpoint or a pool, those not answered too.
    pub errors: u32,
    /// Requests under way at its end.
    pub in_flight: u32,
    /// Half of the responses began after at most so many milliseconds, to a fifth.
    pub p50_ms: Option<f64>,
    /// 95 of 100 began after at most so many.
    pub p95_ms: Option<f64>,
    /// 99 of 100 began after at most so many.
    pub p99_ms: Option<f64>,
}

/// Responses whose first byte took about equally long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Step {
    /// Lower bound, milliseconds.
    pub from_ms: f64,
    /// Upper bound, milliseconds; not in the step.
    pub until_ms: f64,
    pub responses: u32,
}
