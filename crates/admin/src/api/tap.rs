//! Requests as they end, for clients that follow them. Requests never wait for a client: those that it reads too slowly are dropped
//! and counted.

use super::json::{self, Json};
use super::problem::Problem;
use super::running::{Process, Requests, Told};
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::header::{ACCEPT, HeaderMap};
use axum::response::sse::{self, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use evenkeel_view::tap::{Filter, Tapped};
use futures_core::Stream;
use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::time::timeout;

/// Collects the requests that end until the limit or the wait of the filter is reached.
///
/// # Errors
/// The filter is wrong, or too many clients follow requests.
pub async fn collect(filter: &Filter, process: &Process) -> Result<Vec<Tapped>, Problem> {
    filter.check().map_err(Problem::malformed)?;
    let mut requests = process.tap(filter)?;
    let mut all = Vec::new();
    let limit = filter.limit.unwrap_or(100) as usize;
    let wait = Duration::from_millis(filter.wait_ms.unwrap_or(1000).into());
    // Requests that came before the time was over are returned.
    let _ = timeout(wait, async {
        while all.len() < limit {
            match poll_fn(|cx| requests.as_mut().poll_next(cx)).await {
                Some(Told::Request(one)) => all.push(*one),
                Some(Told::Dropped(_)) => {}
                None => break,
            }
        }
    })
    .await;
    Ok(all)
}

/// Requests that end within the next second, or from now on as `text/event-stream`: an event `request` for each, and an event `dropped`
/// with the number of those that came too fast.
#[utoipa::path(get, path = "/v1/tap", tag = "state", params(Filter,
        ("Accept" = Option<String>, Header, description = "`text/event-stream` follows them")),
    responses((status = 200, content((Vec<Tapped> = "application/json"), (String = "text/event-stream"))), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub async fn tap(
    State(process): State<Process>,
    query: Result<Query<Filter>, QueryRejection>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let Query(filter) = query.map_err(|error| Problem::malformed(error.body_text()))?;
    let follows =
        headers.get(ACCEPT).is_some_and(|kinds| kinds.to_str().is_ok_and(|k| k.contains("text/event-stream")));
    if !follows {
        return Ok(Json(collect(&filter, &process).await?).into_response());
    }
    filter.check().map_err(Problem::malformed)?;
    let left = filter.limit.unwrap_or(u32::MAX);
    Ok(Sse::new(Following { requests: process.tap(&filter)?, left }).keep_alive(KeepAlive::default()).into_response())
}

/// Stream of requests, until `left` of them were sent.
struct Following {
    requests: Requests,
    left: u32,
}

impl Stream for Following {
    type Item = Result<sse::Event, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        let event = sse::Event::default();
        Poll::Ready(ready!(self.requests.as_mut().poll_next(cx)).map(|told| {
            Ok(match told {
                Told::Request(one) => {
                    self.left -= 1;
                    event.event("request").data(json::text(&one))
                }
                Told::Dropped(n) => event.event("dropped").data(n.to_string()),
            })
        }))
    }
}
