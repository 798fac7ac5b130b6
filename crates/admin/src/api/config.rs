//! The configuration that runs, earlier configurations, and changes to another configuration.

use super::access::Caller;
use super::json::Json;
use super::problem::{Problem, body};
use super::running::Process;
use axum::Extension;
use axum::body::Bytes;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use axum::http::header::{CONTENT_TYPE, ETAG, HeaderMap, IF_MATCH};
use axum::response::{IntoResponse, Response};
use evenkeel_view::config::{Config, Outcome, Proposal, Revision, Rollback, Wish};
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};

/// The configuration that runs. `ETag` is its generation.
#[utoipa::path(get, path = "/v1/config", tag = "state",
    responses((status = 200, body = Config, headers(("etag" = String, description = "For If-Match"))), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub async fn config(State(process): State<Process>, Extension(caller): Extension<Caller>) -> Response {
    let config = process.config(caller.may_change);
    ([(ETAG, tag(config.running.generation))], Json(config)).into_response()
}

/// Generation in the form that `ETag` and `If-Match` have.
#[derive(ToSchema)]
#[schema(pattern = r#"^(\*|"[0-9]{1,9}")$"#)]
#[expect(dead_code, reason = "only its schema is used")]
pub struct Tag(String);

/// Options for a configuration that is sent.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct How {
    /// True to check the text only: the response has its differences, or all its errors.
    #[serde(default)]
    dry_run: bool,
}

/// Applies a configuration without losing requests, as a whole or not at all. The file stays as it is.
#[utoipa::path(post, path = "/v1/config", tag = "change", params(How,
        ("If-Match" = Option<Tag>, Header, description = "The generation to replace, or *; needed unless it is a dry run")),
    request_body(content((String = "application/toml"), (Proposal = "application/json")), description = "The configuration"),
    responses((status = 200, body = Outcome), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub async fn apply(
    State(process): State<Process>,
    Extension(caller): Extension<Caller>,
    how: Result<Query<How>, QueryRejection>,
    headers: HeaderMap,
    bytes: Bytes,
) -> Result<Json<Outcome>, Problem> {
    let Query(How { dry_run }) = how.map_err(|wrong| Problem::malformed(wrong.body_text()))?;
    let kind = headers.get(CONTENT_TYPE).map_or(&b""[..], |kind| kind.as_bytes());
    let text = if kind.starts_with(b"application/toml") {
        String::from_utf8(bytes.to_vec()).map_err(|_| Problem::malformed("the body is not UTF-8"))?
    } else {
        body::<Proposal>(&bytes)?.text
    };
    let wish = if dry_run { Wish::Check(text) } else { Wish::Apply(text) };
    let unless = unless(&headers)?;
    if !dry_run && unless.is_none() {
        let detail = "If-Match with the generation to replace is needed: the ETag of /v1/config";
        return Err(Problem::unconditional(detail));
    }
    process.configure(wish, unless.flatten(), &caller.name).await.map(Json)
}

/// Applies an earlier configuration again. The file stays as it is.
#[utoipa::path(post, path = "/v1/config/rollback", tag = "change",
    params(("If-Match" = Option<Tag>, Header, description = "The generation that runs; if another one does by now, nothing changes")),
    request_body(content = Rollback, content_type = "application/json"),
    responses((status = 200, body = Outcome), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub async fn rollback(
    State(process): State<Process>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    bytes: Bytes,
) -> Result<Json<Outcome>, Problem> {
    let Rollback { generation } = body(&bytes)?;
    process
        .configure(Wish::Rollback(generation.map(u64::from)), unless(&headers)?.flatten(), &caller.name)
        .await
        .map(Json)
}

/// Writes the configuration that runs to the file that the process was started with.
#[utoipa::path(post, path = "/v1/config/save", tag = "change",
    params(("If-Match" = Option<Tag>, Header, description = "The generation that runs; if another one does by now, nothing changes")),
    responses((status = 200, body = Outcome), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub async fn save(
    State(process): State<Process>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
) -> Result<Json<Outcome>, Problem> {
    process.configure(Wish::Save, unless(&headers)?.flatten(), &caller.name).await.map(Json)
}

/// Reads the file that the process was started with again, and applies it.
#[utoipa::path(post, path = "/v1/reload", tag = "change",
    responses((status = 200, body = Outcome), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub async fn reload(
    State(process): State<Process>,
    Extension(caller): Extension<Caller>,
) -> Result<Json<Outcome>, Problem> {
    process.configure(Wish::Reload, None, &caller.name).await.map(Json)
}

/// The configurations that ran last, the latest first. The first runs now.
#[utoipa::path(get, path = "/v1/config/history", tag = "state", responses((status = 200, body = Vec<Revision>), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub async fn history(State(process): State<Process>) -> Json<Vec<Revision>> {
    Json(process.revisions())
}

/// A configuration of the history, as a file would have it.
#[utoipa::path(get, path = "/v1/config/history/{generation}", tag = "state", params(("generation" = u64, Path, description = "Number of the generation")),
    responses((status = 200, body = Config), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub async fn revision(
    State(process): State<Process>,
    Extension(caller): Extension<Caller>,
    Path(generation): Path<String>,
) -> Result<Json<Config>, Problem> {
    // A path that is not a number is not found either.
    let config = generation.parse().ok().and_then(|generation| process.revision(generation, caller.may_change));
    config.map(Json).ok_or_else(|| {
        Problem::not_found(format!("no generation {generation} is kept; /v1/config/history has those that are"))
    })
}

/// Returns the `ETag` of a generation.
pub fn tag(generation: u64) -> String {
    format!("\"{generation}\"")
}

/// Returns the generation that a client wants to replace: `Some(None)` for any.
fn unless(headers: &HeaderMap) -> Result<Option<Option<u64>>, Problem> {
    let Some(wanted) = headers.get(IF_MATCH) else { return Ok(None) };
    let wanted = wanted.to_str().unwrap_or_default().trim();
    let number = || wanted.strip_prefix('"')?.strip_suffix('"')?.parse().ok();
    match (wanted, number()) {
        ("*", _) => Ok(Some(None)),
        (_, Some(number)) => Ok(Some(Some(number))),
        _ => Err(Problem::malformed(format!("If-Match is {wanted}; it is \"GENERATION\", with its marks, or *"))),
    }
}
