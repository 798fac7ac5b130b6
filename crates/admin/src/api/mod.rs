//! HTTP API under `/v1`, by which programs read the state of a running evenkeel and change it, and its description.
//!
//! 1. [`access`]: callers and their rights; [`problem`]: error responses; [`waiting`]: bodies, streams and their
//!    limits.
//! 2. [`json`]: the encoding of bodies, whose types are in `view`; [`running`]: the process that answers.
//! 3. [`advice`], [`cache`], [`config`], [`endpoints`], [`events`], [`history`], [`picks`], [`process`], [`served`], [`splits`],
//!    [`tap`]: the paths.

// Order: advice, cache, config, endpoints, events, history, picks, process, served, splits, access, tap, running, waiting,
// problem, json
pub mod access;
pub mod advice;
pub mod cache;
pub mod config;
pub mod endpoints;
pub mod events;
pub mod history;
pub mod json;
pub mod picks;
pub mod problem;
pub mod process;
pub mod running;
pub mod served;
pub mod splits;
pub mod tap;
mod waiting;

use access::Rules;
use axum::Router;
use axum::extract::{DefaultBodyLimit, Request};
use axum::http::Uri;
use axum::middleware;
use axum::response::IntoResponse;
use problem::Problem;
pub use running::Process;
use std::sync::Arc;
use utoipa::OpenApi;
use utoipa::openapi::OpenApi as Description;
use utoipa_axum::router::{OpenApiRouter, UtoipaMethodRouterExt};
use utoipa_axum::routes;

#[derive(OpenApi)]
#[openapi(
    info(
        title = "evenkeel",
        description = "State of a running evenkeel, and changes to it. The Unix socket of `admin.bind` needs no token; over TCP \
                       changes need the token of `admin.http.write_token`. Errors are problem documents (RFC 9457).",
        license(name = "MIT OR Apache-2.0")
    ),
    tags((name = "state", description = "Reads state"), (name = "change", description = "Changes the process"))
)]
struct Described;

/// All paths with their descriptions.
fn paths() -> OpenApiRouter<Process> {
    OpenApiRouter::with_openapi(Described::openapi())
        .routes(routes!(endpoints::status))
        .routes(routes!(endpoints::pools))
        .routes(routes!(endpoints::pool))
        .routes(routes!(endpoints::endpoint, endpoints::order))
        .routes(routes!(endpoints::eject))
        .routes(routes!(endpoints::restore))
        .routes(routes!(events::events))
        .routes(routes!(history::history))
        .routes(routes!(history::of_pool))
        .routes(routes!(history::of_endpoint))
        .routes(routes!(served::routes))
        .routes(routes!(splits::split, splits::order))
        .routes(routes!(cache::cache))
        .routes(routes!(cache::top))
        .routes(routes!(cache::show))
        .routes(routes!(cache::purge))
        .routes(routes!(served::certificates))
        .routes(routes!(served::zones))
        .routes(routes!(served::in_kernel))
        .routes(routes!(picks::explanations))
        .routes(routes!(picks::explanation))
        .routes(routes!(picks::next))
        .routes(routes!(picks::explain))
        .routes(routes!(picks::shadows))
        .routes(routes!(picks::shadows_of))
        .routes(routes!(advice::advice))
        .routes(routes!(tap::tap))
        .routes(routes!(config::config))
        .routes(routes!(config::apply).layer(DefaultBodyLimit::max(waiting::TEXT_MAX)))
        .routes(routes!(config::rollback))
        .routes(routes!(config::save))
        .routes(routes!(config::history))
        .routes(routes!(config::revision))
        .routes(routes!(config::reload))
        .routes(routes!(process::reopen))
        .routes(routes!(process::upgrade))
}

/// Returns the description of the API, OpenAPI 3.1.
pub fn description() -> Description {
    paths().into_openapi()
}

/// Router of the API and the dashboard, for clients under these rules. A request over the Unix socket has its
/// [`access::LocalUser`] as an extension.
pub fn router(process: Process, rules: Rules, dashboard: Router) -> Router {
    let (router, description) = paths().split_for_parts();
    let description: Arc<str> = description.to_pretty_json().unwrap_or_default().into();
    let described =
        axum::routing::get(move || async move { ([("content-type", "application/json")], description.to_string()) });
    router
        .with_state(process)
        .route("/v1/openapi.json", described)
        .route(
            "/v1/{*path}",
            axum::routing::any(async |uri: Uri| {
                Problem::not_found(format!("nothing is at {}; /v1/openapi.json lists the paths", uri.path()))
            }),
        )
        .merge(dashboard)
        .method_not_allowed_fallback(async |request: Request| {
            Problem::method(request.method(), "another method").into_response()
        })
        .route_layer(DefaultBodyLimit::max(waiting::BODY_MAX))
        .route_layer(middleware::from_fn_with_state(rules, access::check))
}
