//! Explanations of picks, predictions for a request, and shadows.

use super::json::Json;
use super::problem::{Problem, body};
use super::running::Process;
use axum::body::Bytes;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use evenkeel_view::Described;
use evenkeel_view::picks::{Armed, Explained, WouldGo};
use evenkeel_view::shadows::PoolShadows;
use serde::Deserialize;
use utoipa::IntoParams;

/// Choice of explanations by pool and number.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct Wanted {
    /// Pool of the requests; of all pools by default.
    pool: Option<String>,
    /// Largest number of explanations, the latest first.
    #[serde(default = "limit")]
    #[param(maximum = 10000)]
    limit: u32,
}

/// The most that may be asked for: no process keeps more.
const LIMIT_MAX: u32 = 10_000;

fn limit() -> u32 {
    100
}

/// The requests whose picks are kept with their explanation, the latest first.
#[utoipa::path(get, path = "/v1/explanations", tag = "state", params(Wanted),
    responses((status = 200, body = Vec<Explained>), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub async fn explanations(
    State(process): State<Process>,
    query: Result<Query<Wanted>, QueryRejection>,
) -> Result<Json<Vec<Explained>>, Problem> {
    let Query(Wanted { pool, limit }) = query.map_err(|error| Problem::malformed(error.body_text()))?;
    if limit > LIMIT_MAX {
        return Err(Problem::malformed(format!("limit is at most {LIMIT_MAX}")));
    }
    process.explanations(pool, limit as usize).await.map(Json)
}

/// The explanation of a request, by its id.
#[utoipa::path(get, path = "/v1/explanations/{id}", tag = "state",
    params(("id" = String, Path, description = "The request_id of the access log")),
    responses((status = 200, body = Explained), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub async fn explanation(State(process): State<Process>, Path(id): Path<String>) -> Result<Json<Explained>, Problem> {
    process.explanation(id).await.map(Json)
}

/// The next request of a pool is explained.
#[utoipa::path(post, path = "/v1/explanations/next/{pool}", tag = "change", params(("pool" = String, Path, description = "Its name")),
    responses((status = 200, body = Armed), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub async fn next(State(process): State<Process>, Path(pool): Path<String>) -> Result<Json<Armed>, Problem> {
    process.explain_next(pool).map(Json)
}

/// Predicts the route of a request, with the reasons why the others do not take it, and the answer of a filter or the
/// pick of its pool. Nothing is sent.
#[utoipa::path(post, path = "/v1/explain", tag = "state", request_body = Described,
    responses((status = 200, body = WouldGo), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub async fn explain(State(process): State<Process>, bytes: Bytes) -> Result<Json<WouldGo>, Problem> {
    process.would_go(body(&bytes)?).await.map(Json)
}

/// Predictions of the shadows of all pools.
#[utoipa::path(get, path = "/v1/shadows", tag = "state", responses((status = 200, body = Vec<PoolShadows>), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub async fn shadows(State(process): State<Process>) -> Result<Json<Vec<PoolShadows>>, Problem> {
    process.shadows(None).await.map(Json)
}

/// Predictions of the shadows of a pool.
#[utoipa::path(get, path = "/v1/shadows/{pool}", tag = "state", params(("pool" = String, Path, description = "Its name")),
    responses((status = 200, body = Vec<PoolShadows>), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub async fn shadows_of(
    State(process): State<Process>,
    Path(pool): Path<String>,
) -> Result<Json<Vec<PoolShadows>>, Problem> {
    process.shadows(Some(pool)).await.map(Json)
}
