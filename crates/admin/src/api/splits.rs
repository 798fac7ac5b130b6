//! Weights of splits, and orders of operators for them.

use super::access::Caller;
use super::json::Json;
use super::problem::{Problem, body};
use super::running::Process;
use axum::Extension;
use axum::body::Bytes;
use axum::extract::{Path, State};
use evenkeel_view::SplitPatch;
use evenkeel_view::served::Split;

/// The split of a route, with the weights that apply now.
#[utoipa::path(get, path = "/v1/routes/{route}/split", tag = "state", params(("route" = String, Path, description = "Name of the route")),
    responses((status = 200, body = Split), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub async fn split(State(process): State<Process>, Path(route): Path<String>) -> Result<Json<Split>, Problem> {
    process.split(&route).map(Json)
}

/// Changes weights of the split of a route. They hold until they are taken back with null, over reloads and upgrades.
#[utoipa::path(patch, path = "/v1/routes/{route}/split", tag = "change", params(("route" = String, Path, description = "Name of the route")),
    request_body(content = SplitPatch, content_type = "application/merge-patch+json"),
    responses((status = 200, body = Split), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub async fn order(
    State(process): State<Process>,
    Path(route): Path<String>,
    Extension(caller): Extension<Caller>,
    bytes: Bytes,
) -> Result<Json<Split>, Problem> {
    let patch: SplitPatch = body(&bytes)?;
    process.order_split(&route, patch, &caller.name).map(Json)
}
