//! Parts that every page has: title, navigation, the name of the caller, and the headers of its response.

use super::live::shown;
use super::page::{Asked, Page};
use crate::api::access::SIGN_IN;
use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, HeaderName, VARY};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{Html, IntoResponse, Response};
use maud::{DOCTYPE, Markup, html};

/// Content policy: nothing from elsewhere, no script or style within pages, and no page in a frame of another site.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self' data:; \
                      form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// Response with a page of this content. `pages` are the pages of the navigation, `path` is the path of the request.
pub fn whole(pages: &[&Page], page: &Page, asked: &Asked, path: &str, (status, content): (u16, Markup)) -> Response {
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let text = shown(layout(pages, page, asked, path, content));
    let fields = [
        (CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY)),
        (CACHE_CONTROL, HeaderValue::from_static("no-store")),
        (VARY, HeaderValue::from_static("accept")),
        (HeaderName::from_static("x-content-type-options"), HeaderValue::from_static("nosniff")),
        (HeaderName::from_static("referrer-policy"), HeaderValue::from_static("same-origin")),
    ];
    (status, fields, Html(text)).into_response()
}

fn layout(pages: &[&Page], page: &Page, asked: &Asked, path: &str, content: Markup) -> Markup {
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
                a.skip href="#content" { "Skip to the content" }
                header {
                    a.brand href="/ui" { "evenkeel" }
                    nav aria-label="Pages" {
                        @for other in pages {
                            @let here = other.path == page.path || (path.starts_with(other.path) && other.path != "/ui");
                            a href=(other.path) aria-current=[here.then_some("page")] { (other.name) }
                        }
                    }
                    (who(asked))
                }
                p #said role="status" {}
                main #content tabindex="-1" { (content) }
                footer { "Figures of this instance since it started. The same as JSON: " a href="/v1/openapi.json" { "the API" } "." }
            }
        }
    }
}

/// Name of a caller who may change things, or a link to sign in.
fn who(asked: &Asked) -> Markup {
    html! {
        span.who {
            @if asked.caller.may_change {
                span { "Signed in: " (asked.caller.name) }
            } @else if asked.caller.may_sign_in {
                a href=(SIGN_IN) { "Sign in to change things" }
            } @else {
                span { "Read only. " code { "admin.http.write_token" } " allows changes." }
            }
        }
    }
}

const ICON: &str = "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E%3Cpath d='M1 8h14l-3 5H4z' fill='%230072b2'/%3E%3Cpath d='M8 1v6' stroke='%230072b2' stroke-width='2'/%3E%3C/svg%3E";
