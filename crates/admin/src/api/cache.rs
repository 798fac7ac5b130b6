//! The cache: its state, its content, and purges.

use super::access::Caller;
use super::json::Json;
use super::problem::{Problem, body};
use super::running::Process;
use axum::Extension;
use axum::body::Bytes;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use evenkeel_view::cache::{Cache, Purge, PurgeDone, ShowWanted, StoredResponse, TopKey, TopWanted};

/// The state of the cache: memory, evictions, and for each route the results of its requests. 404 if no route has a
/// cache.
#[utoipa::path(get, path = "/v1/cache", tag = "state",
    responses((status = 200, body = Cache), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub async fn cache(State(process): State<Process>) -> Result<Json<Cache>, Problem> {
    process.cache().map(Json)
}

/// The most used or the largest keys of the cache.
#[utoipa::path(get, path = "/v1/cache/top", tag = "state", params(TopWanted),
    responses((status = 200, body = Vec<TopKey>), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub async fn top(
    State(process): State<Process>,
    query: Result<Query<TopWanted>, QueryRejection>,
) -> Result<Json<Vec<TopKey>>, Problem> {
    let Query(wanted) = query.map_err(|error| Problem::malformed(error.body_text()))?;
    if wanted.n.is_some_and(|n| !(1..=1000).contains(&n)) {
        return Err(Problem::malformed("n is 1 to 1000"));
    }
    process.cache_top(wanted).await.map(Json)
}

/// The stored responses of a URL, of all routes and all variants.
#[utoipa::path(get, path = "/v1/cache/show", tag = "state", params(ShowWanted),
    responses((status = 200, body = Vec<StoredResponse>), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub async fn show(
    State(process): State<Process>,
    query: Result<Query<ShowWanted>, QueryRejection>,
) -> Result<Json<Vec<StoredResponse>>, Problem> {
    let Query(ShowWanted { url }) = query.map_err(|error| Problem::malformed(error.body_text()))?;
    process.cache_show(&url).map(Json)
}

/// Purges stored responses by URL, by prefix, by tag, or all of them. No request that comes after the order gets any of
/// them; the response comes once they are counted.
#[utoipa::path(post, path = "/v1/cache/purge", tag = "change", request_body = Purge,
    responses((status = 200, body = PurgeDone), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub async fn purge(
    State(process): State<Process>,
    Extension(caller): Extension<Caller>,
    bytes: Bytes,
) -> Result<Json<PurgeDone>, Problem> {
    process.purge(&body(&bytes)?, &caller.name).await.map(Json)
}
