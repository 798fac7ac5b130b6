//! Requests, errors and latencies of the last quarter of an hour, which the process keeps itself.

use super::json::Json;
use super::problem::Problem;
use super::running::Process;
use axum::extract::{Path, State};
use evenkeel_view::history::History;

/// The last quarter of an hour of all listeners and pools, by the second.
#[utoipa::path(get, path = "/v1/history", tag = "state",
    responses((status = 200, body = History), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub async fn history(State(process): State<Process>) -> Json<History> {
    Json(process.history(None).unwrap_or_default())
}

/// The last quarter of an hour of a pool, by five seconds.
#[utoipa::path(get, path = "/v1/history/{pool}", tag = "state", params(("pool" = String, Path, description = "Name of the pool")),
    responses((status = 200, body = History), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub async fn of_pool(State(process): State<Process>, Path(pool): Path<String>) -> Result<Json<History>, Problem> {
    let nothing = || Problem::not_found(format!("nothing is kept of a pool \"{pool}\""));
    process.history(Some((&pool, None))).map(Json).ok_or_else(nothing)
}

/// The last quarter of an hour of an endpoint, by five seconds, with the spread of its latencies.
#[utoipa::path(get, path = "/v1/history/{pool}/{endpoint}", tag = "state",
    params(("pool" = String, Path, description = "Name of the pool"), ("endpoint" = String, Path, description = "Name of the endpoint")),
    responses((status = 200, body = History), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub async fn of_endpoint(
    State(process): State<Process>,
    Path((pool, endpoint)): Path<(String, String)>,
) -> Result<Json<History>, Problem> {
    let nothing = || Problem::not_found(format!("nothing is kept of an endpoint \"{endpoint}\" of a pool \"{pool}\""));
    process.history(Some((&pool, Some(&endpoint)))).map(Json).ok_or_else(nothing)
}
