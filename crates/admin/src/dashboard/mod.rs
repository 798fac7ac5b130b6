//! Dashboard: pages under `/ui`, rendered here, which need no script to be read. With script they are updated every
//! second.
//!
//! 1. [`page`]: pages and requests for them; [`layout`]: parts that every page has; [`live`]: pages that are updated
//!    every second.
//! 2. [`overview`], [`flow`], [`pools`], [`endpoint`], [`routes`], [`cache`], [`tap`], [`explain`],
//!    [`alternatives`], [`config`], [`certificates`], [`dns`]: the pages.
//! 3. [`cards`], [`plots`], [`table`], [`shown`]: parts of pages, and figures, times and states as they are written.
//! 4. [`watching`]: requests that are kept from second to second.

// Order: alternatives, cache, certificates, config, dns, endpoint, flow, layout, live, overview, pools, cards, plots, routes,
// explain, tap, page, shown, table, watching
mod alternatives;
mod cache;
mod cards;
mod certificates;
mod config;
mod dns;
mod endpoint;
mod explain;
mod flow;
mod layout;
mod live;
mod overview;
mod page;
mod plots;
mod pools;
mod routes;
mod shown;
mod table;
mod tap;
mod watching;

use crate::api::Process;
use crate::api::access::{Caller, SIGN_IN};
use alternatives::{advice, shadows};
use axum::extract::{Path, Query, State};
use axum::http::Uri;
use axum::http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, HeaderMap};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;
use axum::{Extension, Router};
use live::Following;
use page::{Asked, Page};
use std::collections::HashMap;
use watching::Watch;

/// Pages in the order of the navigation.
static PAGES: &[&Page] = &[
    &overview::PAGE,
    &flow::PAGE,
    &pools::PAGE,
    &routes::PAGE,
    &cache::PAGE,
    &tap::PAGE,
    &explain::PAGE,
    &shadows::PAGE,
    &advice::PAGE,
    &config::PAGE,
    &certificates::PAGE,
    &dns::PAGE,
];

/// Pages that links of others lead to.
static DEEPER: &[&Page] = &[&endpoint::PAGE, &explain::ONE, &config::ONE];

/// Router of the pages of this process.
pub fn router(process: Process) -> Router {
    let add = |router: Router<Process>, page: &&'static Page| {
        let page = *page;
        let answer = async move |State(process),
                                 Extension(caller): Extension<Caller>,
                                 Path(path): Path<HashMap<String, String>>,
                                 Query(query): Query<Vec<(String, String)>>,
                                 headers: HeaderMap,
                                 uri: Uri| {
            let query = query.into_iter().filter(|(_, value)| !value.is_empty()).collect();
            let asked = Asked { process, caller, path, query, follows: false, watch: Watch::default() };
            serve(page, asked, &headers, uri.path()).await
        };
        router.route(page.path, get(answer))
    };
    let router = PAGES.iter().chain(DEEPER).fold(Router::new(), add);
    router
        .with_state(process)
        .route("/", get(|| async { Redirect::to("/ui") }))
        .route("/ui/", get(|| async { Redirect::to("/ui") }))
        // A caller without a token that may change things is asked for a token before it gets here.
        .route(SIGN_IN, get(|| async { Redirect::to("/ui") }))
        .route("/ui/style.css", get(|| file("text/css; charset=utf-8", STYLE)))
        .route("/ui/live.js", get(|| file("text/javascript; charset=utf-8", SCRIPT)))
}

/// Answers a request for a page: once, or for `text/event-stream` with its content whenever that changes, once a second
/// at most.
async fn serve(page: &'static Page, asked: Asked, headers: &HeaderMap, path: &str) -> Response {
    let follows = headers.get(ACCEPT).is_some_and(|kinds| kinds.as_bytes().starts_with(b"text/event-stream"));
    if follows && page.is_live {
        return Following::new(page, Asked { follows: true, ..asked }).into_response();
    }
    let content = live::content(page, &asked).await;
    layout::whole(PAGES, page, &asked, path, content)
}

/// Style: colours and plots as in reports, then the dashboard.
const STYLE: &[&str] = &[evenkeel_draw::page::COLOURS, evenkeel_draw::page::STYLE, include_str!("assets/style.css")];

/// Script that makes pages update themselves, and buttons and plots work.
const SCRIPT: &[&str] =
    &[include_str!("assets/live.js"), include_str!("assets/config.js"), include_str!("assets/charts.js")];

/// File that is built in. Another version has another file at the same path, so browsers ask each time.
async fn file(kind: &'static str, parts: &[&str]) -> impl IntoResponse + use<> {
    ([(CONTENT_TYPE, kind), (CACHE_CONTROL, "no-cache")], parts.concat())
}
