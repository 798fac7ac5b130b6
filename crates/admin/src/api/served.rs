//! Routes, certificates and zones, with their counts.

use super::json::Json;
use super::problem::Problem;
use super::running::Process;
use axum::extract::{Path, State};
use evenkeel_view::served::{Certificate, InKernel, Route, Zone};

/// The routes, in the order of the configuration.
#[utoipa::path(get, path = "/v1/routes", tag = "state",
    responses((status = 200, body = Vec<Route>), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub async fn routes(State(process): State<Process>) -> Json<Vec<Route>> {
    Json(process.routes())
}

/// The certificates that clients are shown, in the order of their expiry.
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

/// The state of the kernel for a listener that it forwards for: rules, entries and counts.
#[utoipa::path(get, path = "/v1/listeners/{listener}/kernel", tag = "state", params(("listener" = String, Path, description = "Its name")),
    responses((status = 200, body = InKernel), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub async fn in_kernel(
    State(process): State<Process>,
    Path(listener): Path<String>,
) -> Result<Json<InKernel>, Problem> {
    process.in_kernel(listener).await.map(Json)
}
