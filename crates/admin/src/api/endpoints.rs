//! State of pools and endpoints, and orders of operators for them.

use super::access::Caller;
use super::json::Json;
use super::problem::{Problem, body};
use super::running::Process;
use axum::Extension;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::header::{ETAG, HeaderMap, IF_MATCH};
use axum::response::{IntoResponse, Response};
use evenkeel_view::{Endpoint, Patch, Pool, Status};
use std::hash::{DefaultHasher, Hash, Hasher};

/// The process with its listeners, pools and endpoints.
#[utoipa::path(get, path = "/v1/status", tag = "state", responses((status = 200, body = Status), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub async fn status(State(process): State<Process>) -> Json<Status> {
    Json(process.status())
}

/// Every pool, in the order of the configuration.
#[utoipa::path(get, path = "/v1/pools", tag = "state", responses((status = 200, body = Vec<Pool>), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub async fn pools(State(process): State<Process>) -> Json<Vec<Pool>> {
    Json(process.status().pools)
}

/// A pool with its endpoints.
#[utoipa::path(get, path = "/v1/pools/{pool}", tag = "state", params(("pool" = String, Path, description = "Name of the pool")),
    responses((status = 200, body = Pool), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub async fn pool(State(process): State<Process>, Path(name): Path<String>) -> Result<Json<Pool>, Problem> {
    find_pool(&process, &name).map(Json)
}

/// An endpoint. `ETag` is the version of the operators' order for it.
#[utoipa::path(get, path = "/v1/pools/{pool}/endpoints/{endpoint}", tag = "state",
    params(("pool" = String, Path, description = "Name of the pool"), ("endpoint" = String, Path, description = "Name of the endpoint")),
    responses((status = 200, body = Endpoint, headers(("etag" = String, description = "For If-Match"))), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub async fn endpoint(
    State(process): State<Process>,
    Path((pool, name)): Path<(String, String)>,
) -> Result<Response, Problem> {
    find(&process, &pool, &name).map(shown)
}

/// Gives an endpoint an order: drain, weight or health. It holds until it is taken back with null, over reloads and upgrades.
#[utoipa::path(patch, path = "/v1/pools/{pool}/endpoints/{endpoint}", tag = "change",
    params(("pool" = String, Path, description = "Name of the pool"), ("endpoint" = String, Path, description = "Name of the endpoint"),
        ("If-Match" = Option<String>, Header, description = "The ETag that was read; if the order has changed since, nothing is done")),
    request_body(content = Patch, content_type = "application/merge-patch+json"),
    responses((status = 200, body = Endpoint), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub async fn order(
    State(process): State<Process>,
    Path((pool, name)): Path<(String, String)>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    bytes: Bytes,
) -> Result<Response, Problem> {
    let patch: Patch = body(&bytes)?;
    if let Some(Some(weight)) = patch.weight
        && weight > 65_535
    {
        return Err(Problem::malformed(format!("weight is {weight}; it is 0 to 65535")));
    }
    is_current(&headers, &find(&process, &pool, &name)?)?;
    process.order(&pool, &name, patch, &caller.name).map(shown)
}

/// Ejects an endpoint for as long as outlier detection would.
#[utoipa::path(post, path = "/v1/pools/{pool}/endpoints/{endpoint}/eject", tag = "change",
    params(("pool" = String, Path, description = "Name of the pool"), ("endpoint" = String, Path, description = "Name of the endpoint")),
    responses((status = 200, body = Endpoint), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub async fn eject(
    State(process): State<Process>,
    Path((pool, name)): Path<(String, String)>,
    Extension(caller): Extension<Caller>,
) -> Result<Response, Problem> {
    process.eject(&pool, &name, true, &caller.name).map(shown)
}

/// Ends the ejection of an endpoint.
#[utoipa::path(post, path = "/v1/pools/{pool}/endpoints/{endpoint}/restore", tag = "change",
    params(("pool" = String, Path, description = "Name of the pool"), ("endpoint" = String, Path, description = "Name of the endpoint")),
    responses((status = 200, body = Endpoint), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub async fn restore(
    State(process): State<Process>,
    Path((pool, name)): Path<(String, String)>,
    Extension(caller): Extension<Caller>,
) -> Result<Response, Problem> {
    process.eject(&pool, &name, false, &caller.name).map(shown)
}

fn find_pool(process: &Process, name: &str) -> Result<Pool, Problem> {
    let pools = process.status().pools;
    let known = || pools.iter().map(|pool| &*pool.name).collect::<Vec<_>>().join(", ");
    let none = || Problem::not_found(format!("unknown pool \"{name}\"; pools: {}", known()));
    let problem = pools.iter().all(|pool| pool.name != name).then(none);
    pools.into_iter().find(|pool| pool.name == name).ok_or_else(|| problem.unwrap_or_else(|| Problem::not_found(name)))
}

fn find(process: &Process, pool: &str, name: &str) -> Result<Endpoint, Problem> {
    let Pool { endpoints, .. } = find_pool(process, pool)?;
    let names: Vec<_> = endpoints.iter().take(20).map(|endpoint| endpoint.name.clone()).collect();
    endpoints.into_iter().find(|endpoint| endpoint.name == name).ok_or_else(|| {
        let names = names.join(", ");
        Problem::not_found(format!("unknown endpoint \"{name}\" of pool \"{pool}\"; endpoints: {names}"))
    })
}

/// Returns the version of an endpoint's order, as `ETag` has it.
pub fn version(endpoint: &Endpoint) -> String {
    let mut hasher = DefaultHasher::new();
    endpoint
        .order
        .as_ref()
        .map(|order| (order.at_ms, &order.by, order.weight, format!("{:?}{:?}", order.drain, order.health)))
        .hash(&mut hasher);
    format!("\"{:016x}\"", hasher.finish())
}

fn is_current(headers: &HeaderMap, endpoint: &Endpoint) -> Result<(), Problem> {
    let Some(wanted) = headers.get(IF_MATCH).and_then(|field| field.to_str().ok()) else { return Ok(()) };
    let now = version(endpoint);
    if wanted.trim() == "*" || wanted.split(',').any(|tag| tag.trim() == now) {
        return Ok(());
    }
    Err(Problem::stale(format!("the endpoint has version {now} now")))
}

fn shown(endpoint: Endpoint) -> Response {
    let tag = version(&endpoint);
    ([(ETAG, tag)], Json(endpoint)).into_response()
}
