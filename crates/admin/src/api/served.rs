//! What is served, and by what? Routes, certificates and zones, with what came of them.

use super::problem::Problem;
use super::running::Process;
use axum::Json;
use axum::extract::State;
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

/// The routes, in the order of the configuration.
#[utoipa::path(get, path = "/v1/routes", tag = "state",
    responses((status = 200, body = Vec<Route>), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub async fn routes(State(process): State<Process>) -> Json<Vec<Route>> {
    Json(process.routes())
}

/// The certificates that clients are shown; the one that expires first is the first.
#[utoipa::path(get, path = "/v1/certificates", tag = "state",
    responses((status = 200, body = Vec<Certificate>), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub async fn certificates(State(process): State<Process>) -> Json<Vec<Certificate>> {
    Json(process.certificates())
}

/// The zones that are answered for.
#[utoipa::path(get, path = "/v1/zones", tag = "state",
    responses((status = 200, body = Vec<Zone>), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub async fn zones(State(process): State<Process>) -> Json<Vec<Zone>> {
    Json(process.zones())
}
