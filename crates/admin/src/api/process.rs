//! Requests to the process as a whole: upgrade, and reopening its logs.

use super::access::Caller;
use super::json::Json;
use super::problem::Problem;
use super::running::Process;
use axum::Extension;
use axum::extract::State;

/// Starts the program anew and hands over to it: an upgrade that loses no request.
#[utoipa::path(post, path = "/v1/upgrade", tag = "change", responses((status = 200, body = String, content_type = "application/json"), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub async fn upgrade(
    State(process): State<Process>,
    Extension(caller): Extension<Caller>,
) -> Result<Json<String>, Problem> {
    process.upgrade(&caller.name).await.map(Json)
}

/// Opens the access log and the journals again, after they were moved away.
#[utoipa::path(post, path = "/v1/reopen", tag = "change", responses((status = 200, body = String, content_type = "application/json"), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub async fn reopen(
    State(process): State<Process>,
    Extension(caller): Extension<Caller>,
) -> Result<Json<String>, Problem> {
    process.reopen(&caller.name).await.map(Json)
}
