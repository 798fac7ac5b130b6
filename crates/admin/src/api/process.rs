//! What runs, and what shall run in its place?

use super::access::Caller;
use super::problem::Problem;
use super::running::Process;
use super::types::Config;
use axum::extract::State;
use axum::http::header::ETAG;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};

/// The configuration that runs. `ETag` is its generation.
#[utoipa::path(get, path = "/v1/config", tag = "state", responses((status = 200, body = Config), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub async fn config(State(process): State<Process>) -> Response {
    let config = process.config();
    let tag = format!("\"{}\"", config.running.generation);
    ([(ETAG, tag)], Json(config)).into_response()
}

/// Starts the program again, in whose favour this process ends: an upgrade without loss.
#[utoipa::path(post, path = "/v1/upgrade", tag = "change", responses((status = 200, body = String), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub async fn upgrade(
    State(process): State<Process>,
    Extension(caller): Extension<Caller>,
) -> Result<Json<String>, Problem> {
    process.upgrade(&caller.name).await.map(Json)
}
