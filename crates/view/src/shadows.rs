//! Predictions of other algorithms for the requests of a pool.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Predictions of all shadows of a pool.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PoolShadows {
    pub pool: String,
    /// The algorithm that picks.
    pub balance: String,
    /// The latest requests, which predictions are made from.
    pub requests: u64,
    /// Time from the start of the first of them to the start of the last, nanoseconds.
    pub span_ns: u64,
    /// Reason for which nothing can be predicted, if so.
    pub nothing: Option<String>,
    /// Requests in flight at the picked endpoint before the pick, on average; measured.
    pub met: Option<f64>,
    /// The time to the first byte of the response that 99 of 100 requests did not pass, nanoseconds; measured.
    pub p99_ns: Option<f64>,
    /// Algorithms in the order of the configuration.
    pub shadows: Vec<Shadow>,
}

/// Predictions for a shadow. A figure that is not known is absent, and `withheld` has the reason.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Shadow {
    /// Algorithm with the parameters that are not at their default.
    pub algorithm: String,
    /// True if its picks do not depend on requests: shares are of the picks themselves. Otherwise they are the shares
    /// of the simulator with endpoints as they were measured, or the measured shares if it is the pool's own algorithm.
    pub exact: bool,
    /// Requests in flight at the picked endpoint before the pick, on average.
    pub met: Option<f64>,
    /// The time to the first byte of the response that 99 of 100 requests would not pass, nanoseconds.
    pub p99_ns: Option<f64>,
    /// The most picks for its weight that an endpoint gets, over its fair share: 1 is even.
    pub peak: Option<f64>,
    /// Endpoints in the order of the set.
    pub endpoints: Vec<ShadowEndpoint>,
    /// Reason for which figures are absent.
    pub withheld: Vec<String>,
}

/// Shares of an endpoint, as picked and as the shadow would pick.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ShadowEndpoint {
    pub endpoint: String,
    /// The part of the requests that it got.
    pub real: f64,
    /// The part that it would get.
    pub shadow: Option<f64>,
    /// Part that its weight asks for.
    pub fair: f64,
}
