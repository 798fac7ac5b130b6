//! Which requests end now? Those that a client of the API wants to see, one after the other: all of what is said of one is true
//! of it. Requests never wait for who watches them.

use super::json::{self, Json};
use super::problem::Problem;
use super::running::{Process, Requests, Told};
use super::types::tap::{Filter, Tapped};
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::header::{ACCEPT, HeaderMap};
use axum::response::sse::{self, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_core::Stream;
use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::time::timeout;

/// The most requests that are told of at once.
const LIMIT_MAX: u32 = 10_000;

/// The longest wait for them, milliseconds.
const WAIT_MAX_MS: u32 = 10_000;

impl Filter {
    /// Whether it can be used.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn check(&self) -> Result<(), Problem> {
        let wrong = |text: String| Err(Problem::malformed(text));
        if self.sample.is_some_and(|part| !(0.0..=1.0).contains(&part)) {
            return wrong("sample is a part, from 0 to 1".into());
        }
        if self.min_ms.is_some_and(|ms| !ms.is_finite() || ms < 0.0) {
            return wrong("min_ms is 0 or more".into());
        }
        if self.limit.is_some_and(|limit| !(1..=LIMIT_MAX).contains(&limit)) {
            return wrong(format!("limit is from 1 to {LIMIT_MAX}"));
        }
        if self.wait_ms.is_some_and(|ms| ms > WAIT_MAX_MS) {
            return wrong(format!("wait_ms is at most {WAIT_MAX_MS}"));
        }
        Ok(())
    }

    /// The requests that are over by now or come in time.
    ///
    /// # Errors
    /// It is wrong, or too many watch.
    pub async fn collect(&self, process: &Process) -> Result<Vec<Tapped>, Problem> {
        self.check()?;
        let mut requests = process.tap(self)?;
        let mut all = Vec::new();
        let limit = self.limit.unwrap_or(100) as usize;
        let wait = Duration::from_millis(self.wait_ms.unwrap_or(1000).into());
        // Those that came before the time was over count.
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
}

/// The requests that end within the next second, or, as `text/event-stream`, from now on: each as an event `request`; as an
/// event `dropped` how many came too fast. Of those that end at the same time, some may be missing from one answer.
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
        return Ok(Json(filter.collect(&process).await?).into_response());
    }
    filter.check()?;
    let left = filter.limit.unwrap_or(u32::MAX);
    Ok(Sse::new(Following { requests: process.tap(&filter)?, left }).keep_alive(KeepAlive::default()).into_response())
}

/// Requests as they end.
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
