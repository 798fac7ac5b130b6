//! Types for routes, certificates and zones.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A route.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Route {
    /// Name of the route.
    pub name: String,
    /// The hosts that it takes; any, if there are none.
    pub hosts: Vec<String>,
    /// The paths that it takes.
    pub path: String,
    /// Pool of its requests.
    pub pool: String,
    /// Requests by listener that it belongs to.
    pub at: Vec<Passed>,
}

/// Requests from a listener by a route.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Passed {
    /// The listener.
    pub listener: String,
    /// Requests, or sessions, so far.
    pub requests: u64,
    /// Requests answered with 500 and above so far.
    pub errors: u64,
    /// Requests a second, of late.
    pub rate: f64,
    /// Errors a second, of late.
    pub error_rate: f64,
}

/// A certificate that clients are shown.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Certificate {
    /// The listener that shows it.
    pub listener: String,
    /// First name of the certificate, or its file.
    pub name: String,
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
    /// Name of the zone.
    pub name: String,
    /// Queries so far.
    pub queries: u64,
    /// Responses so far, by code; those that there were none of are left out.
    pub responses: Vec<Answered>,
    /// Records that it answers with endpoints.
    pub records: Vec<Record>,
}

/// Responses of one code.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Answered {
    /// Code, as `NOERROR`.
    pub code: String,
    /// Number of responses.
    pub responses: u64,
}

/// A name that stands for a pool.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Record {
    /// The name.
    pub name: String,
    /// The pool whose endpoints are named.
    pub pool: String,
}
