//! What does every page have? A title, its way in the navigation, and what the process is; its content is its own.

use super::PAGES;
use super::live::{self, Following};
use super::shown::{ago, since};
use crate::api::Process;
use crate::api::access::{Caller, SIGN_IN};
use crate::api::problem::Problem;
use axum::http::header::{ACCEPT, CACHE_CONTROL, CONTENT_SECURITY_POLICY, HeaderMap, HeaderName, VARY};
use axum::http::{HeaderValue, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use maud::{DOCTYPE, Markup, html};
use std::collections::HashMap;
use std::pin::Pin;

/// A page.
pub struct Page {
    /// As routers have it.
    pub path: &'static str,
    /// In the navigation and in the title.
    pub name: &'static str,
    /// What it shows.
    pub content: fn(Asked) -> Content,
    /// Whether it follows what happens, second by second.
    pub is_live: bool,
}

/// What a page shows: it may have to ask workers for it.
pub type Content = Pin<Box<dyn Future<Output = Result<Markup, Problem>> + Send>>;

/// What is asked of a page.
#[derive(Clone)]
pub struct Asked {
    /// The process that is shown.
    pub process: Process,
    /// Who looks.
    pub caller: Caller,
    /// The names within the path.
    pub path: HashMap<String, String>,
    /// The query: of each name, the last value that is not empty.
    pub query: HashMap<String, String>,
}

impl Asked {
    /// A value of the query.
    pub fn value(&self, name: &str) -> Option<&str> {
        self.query.get(name).map(String::as_str)
    }

    /// A name within the path.
    pub fn named(&self, name: &str) -> &str {
        self.path.get(name).map_or("", String::as_str)
    }
}

/// Answers a request for a page: once, or, for `text/event-stream`, with its content of every second in which it is another.
pub async fn serve(page: &'static Page, asked: Asked, headers: &HeaderMap, uri: &Uri) -> Response {
    let follows = headers.get(ACCEPT).is_some_and(|kinds| kinds.as_bytes().starts_with(b"text/event-stream"));
    if follows && page.is_live {
        return Following::new(page, asked).into_response();
    }
    once(page, asked, uri).await
}

/// Nothing from elsewhere, no script and no style within pages, and no page within another site's.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self' data:; \
                      form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

async fn once(page: &Page, asked: Asked, uri: &Uri) -> Response {
    let (status, content) = live::content(page, &asked).await;
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let text = layout(page, &asked, uri, content).into_string();
    let fields = [
        (CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY)),
        (CACHE_CONTROL, HeaderValue::from_static("no-store")),
        (VARY, HeaderValue::from_static("accept")),
        (HeaderName::from_static("x-content-type-options"), HeaderValue::from_static("nosniff")),
        (HeaderName::from_static("referrer-policy"), HeaderValue::from_static("same-origin")),
    ];
    (status, fields, axum::response::Html(text)).into_response()
}

fn layout(page: &Page, asked: &Asked, uri: &Uri, content: Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (page.name) " \u{b7} evenkeel" }
                link rel="stylesheet" href="/ui/style.css";
                link rel="icon" href=(ICON);
                script src="/ui/live.js" defer {}
                @if page.is_live { noscript { meta http-equiv="refresh" content="5"; } }
            }
            body data-live[page.is_live] {
                a.skip href="#content" { "To the content" }
                header {
                    a.brand href="/ui" { "evenkeel" }
                    nav aria-label="Pages" {
                        @for other in PAGES {
                            @let here = other.path == page.path || (uri.path().starts_with(other.path) && other.path != "/ui");
                            a href=(other.path) aria-current=[here.then_some("page")] { (other.name) }
                        }
                    }
                    (who(asked))
                }
                p #said role="status" {}
                main #content tabindex="-1" { (content) }
                footer { "What this instance has seen itself. The rest is at " a href="/v1/openapi.json" { "/v1" } "." }
            }
        }
    }
}

/// Who looks, and how to become one who may change things.
fn who(asked: &Asked) -> Markup {
    html! {
        span.who {
            @if asked.caller.may_change {
                span { "Changes are made by " (asked.caller.name) }
            } @else if asked.caller.may_sign_in {
                a href=(SIGN_IN) { "Sign in to change things" }
            } @else {
                span { "Read only: " code { "admin.http.write_token" } " lets people change things" }
            }
        }
    }
}

/// What the process is, on top of a page.
pub fn process(asked: &Asked) -> Markup {
    let status = asked.process.status();
    html! {
        p.process {
            @if status.ready { span.state.up { "ready" } }
            @else { span.state.down { "not ready: " (status.reasons.join(", ")) } }
            " evenkeel " (status.version) ", process " (status.pid) ", up " (ago(status.now_ms.saturating_sub(status.started_ms)))
            ", " (status.workers) " workers, configuration "
            @if let Some(file) = &status.config.file { code { (file) } " " }
            "generation " (status.config.generation)
            @if status.config.draining > 0 { ", " (status.config.draining) " older draining" }
            span.stale { " \u{b7} at " time { (since(status.now_ms)) } }
        }
    }
}

/// A keel that is even.
const ICON: &str = "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E%3Cpath d='M1 8h14l-3 5H4z' fill='%230072b2'/%3E%3Cpath d='M8 1v6' stroke='%230072b2' stroke-width='2'/%3E%3C/svg%3E";
