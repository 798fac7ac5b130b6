//! Types for routes, certificates and zones.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Route with the requests that it took.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Route {
    pub name: String,
    /// The hosts that it takes; any, if there are none.
    pub hosts: Vec<String>,
    /// Pattern of the paths that it takes.
    pub path: String,
    /// The pool, or another action in a few words.
    pub pool: String,
    /// Pools that share the requests by weight, if several do.
    #[serde(default)]
    pub split: Option<Split>,
    /// Requests by listener that it belongs to.
    pub at: Vec<Passed>,
}

/// Pools that share the requests of a route by weight.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Split {
    pub route: String,
    /// Pools in the order of the configuration.
    pub pools: Vec<Share>,
    /// Latest order of operators for its weights, if one applies.
    pub order: Option<SplitOrderer>,
}

/// Pool of a split, with its share of the requests.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Share {
    pub pool: String,
    /// Weight that applies now, 0 to 1000000.
    pub weight: u32,
    /// Weight of the configuration.
    pub configured: u32,
    /// Share of the requests by the weights, 0 to 1.
    pub share: f64,
}

/// Author of an order for the weights of a split.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SplitOrderer {
    /// Operator who gave the latest order.
    pub by: String,
    /// Time of the latest order, milliseconds since 1970.
    pub at_ms: u64,
}

impl Split {
    /// The pools with their weights, as in `stable 95, canary 5`.
    pub fn words(&self) -> String {
        self.pools.iter().map(|pool| format!("{} {}", pool.pool, pool.weight)).collect::<Vec<_>>().join(", ")
    }
}

/// Requests from a listener by a route.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Passed {
    pub listener: String,
    /// Requests, or sessions, so far.
    pub requests: u64,
    /// Requests answered with 500 and above so far.
    pub errors: u64,
    /// Requests per second, over the last five seconds.
    pub rate: f64,
    /// Errors per second, over the last five seconds.
    pub error_rate: f64,
    /// Mean time from the head of a request to the end of its response, in milliseconds, over the last five seconds; for sessions
    /// their length.
    pub mean_ms: Option<f64>,
    /// 99th percentile of that time, in milliseconds: the end of a bucket of the metrics, so the real value may be less.
    /// Absent if it is above the last bucket.
    pub p99_ms: Option<f64>,
}

/// A certificate that clients are shown.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Certificate {
    /// The listener that shows it.
    pub listener: String,
    /// First name of the certificate, or its file.
    pub name: String,
    /// All names that it is for, addresses as text.
    pub names: Vec<String>,
    /// Distinguished name of its issuer, as `CN=R11, O=Example`.
    pub issuer: String,
    /// Expiry, milliseconds since 1970.
    pub not_after_ms: u64,
    /// Time when the next one is ordered, milliseconds since 1970, if an authority is asked for it.
    pub renewed_ms: Option<u64>,
}

/// A zone that is answered for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Zone {
    /// The listener that answers.
    pub listener: String,
    pub name: String,
    /// Queries so far, of all types.
    pub queries: u64,
    /// Queries per second, over the last five seconds.
    pub rate: f64,
    /// Queries per second answered with SERVFAIL, over the last five seconds.
    pub error_rate: f64,
    /// Responses so far by code, without codes that were never sent.
    pub responses: Vec<Answered>,
    /// Records that it answers with endpoints.
    pub records: Vec<Record>,
}

/// Number of responses with one code.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Answered {
    /// Code, as `NOERROR`.
    pub code: String,
    pub responses: u64,
}

/// A name that stands for a pool.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Record {
    /// Name below that of the zone.
    pub name: String,
    /// The pool whose endpoints are named.
    pub pool: String,
}
