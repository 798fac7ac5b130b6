//! What does the API say of routes, certificates and zones?

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A route.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Route {
    /// Its name.
    pub name: String,
    /// The hosts that it takes; any, if there are none.
    pub hosts: Vec<String>,
    /// The paths that it takes.
    pub path: String,
    /// Where its requests go.
    pub pool: String,
    /// By listener that it belongs to.
    pub at: Vec<Passed>,
}

/// What passed from a listener by a route.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Passed {
    /// The listener.
    pub listener: String,
    /// Requests, or sessions, so far.
    pub requests: u64,
    /// Of these, those answered with 500 and above.
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
    /// Its first name, or its file.
    pub name: String,
    /// When it expires, milliseconds since 1970.
    pub not_after_ms: u64,
    /// When the next one is ordered, milliseconds since 1970, if an authority is asked for it.
    pub renewed_ms: Option<u64>,
}

/// A zone that is answered for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Zone {
    /// The listener that answers.
    pub listener: String,
    /// Its name.
    pub name: String,
    /// Queries so far.
    pub queries: u64,
    /// Responses so far, by code; those that there were none of are left out.
    pub responses: Vec<Answered>,
    /// What it answers with endpoints.
    pub records: Vec<Record>,
}

/// Responses of one code.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Answered {
    /// As `NOERROR`.
    pub code: String,
    /// How many.
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
