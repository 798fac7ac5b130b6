//! Advice on the configuration.

use super::access::Caller;
use super::json::Json;
use super::problem::Problem;
use super::running::{Answer, Process};
use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::RETRY_AFTER;
use axum::response::{IntoResponse, Response};
use evenkeel_view::advice::{Advised, Computing};

/// Changes to the configuration in order of effect, as `evenkeel advise` finds them. The first request begins the
/// computation. Patches have the lines around their changes only for callers who may change the configuration.
#[utoipa::path(get, path = "/v1/advice", tag = "state",
    responses((status = 200, body = Advised), (status = 202, body = Computing), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub async fn advice(State(process): State<Process>, Extension(caller): Extension<Caller>) -> Result<Response, Problem> {
    Ok(match process.advice(caller.may_change)? {
        Answer::Made(advised) => Json(advised).into_response(),
        Answer::Computing(computing) => (StatusCode::ACCEPTED, [(RETRY_AFTER, "1")], Json(computing)).into_response(),
    })
}
