//! The latest events, and events as they come.

use super::json::{self, Json};
use super::problem::Problem;
use super::running::Process;
use axum::extract::{Query, State};
use axum::http::header::{ACCEPT, HeaderMap};
use axum::response::sse::{self, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use evenkeel_view::Event;
use futures_core::Stream;
use serde::Deserialize;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::sync::watch;
use utoipa::IntoParams;

/// Largest whole number that every JSON parser keeps exact.
const NUMBER_MAX: u64 = 1 << 53;

/// Choice of events by their number.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct After {
    /// Number of an event: only later events are listed.
    #[serde(default)]
    #[param(maximum = 9007199254740992u64)]
    after: u64,
}

/// The latest events, the oldest first; as `text/event-stream` also those to come.
#[utoipa::path(get, path = "/v1/events", tag = "state", params(After,
        ("Accept" = Option<String>, Header, description = "`text/event-stream` follows them")),
    responses((status = 200, content((Vec<Event> = "application/json"), (String = "text/event-stream"))), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub async fn events(
    State(process): State<Process>,
    query: Result<Query<After>, axum::extract::rejection::QueryRejection>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let Query(After { after }) = query.map_err(|error| Problem::malformed(error.body_text()))?;
    if after > NUMBER_MAX {
        return Err(Problem::malformed(format!("after is at most {NUMBER_MAX}")));
    }
    let field = |name: &str| headers.get(name).and_then(|field| field.to_str().ok());
    if !field(ACCEPT.as_str()).is_some_and(|kinds| kinds.contains("text/event-stream")) {
        return Ok(Json(process.events(after)).into_response());
    }
    // A client that lost its connection continues after the last event that it has.
    let after = field("last-event-id").and_then(|id| id.parse().ok()).unwrap_or(after);
    let latest = process.latest_event();
    let following = Following { process, after, latest: Box::pin(changed(latest)), ready: VecDeque::new() };
    Ok(Sse::new(following).keep_alive(KeepAlive::default()).into_response())
}

/// Waits for an event, and can wait for another event then; `None` once there will be none.
async fn changed(mut latest: watch::Receiver<u64>) -> Option<watch::Receiver<u64>> {
    latest.changed().await.is_ok().then_some(latest)
}

type Changed = Pin<Box<dyn Future<Output = Option<watch::Receiver<u64>>> + Send>>;

/// Stream of events as they come, each sent once.
struct Following {
    process: Process,
    /// The latest that was given.
    after: u64,
    latest: Changed,
    ready: VecDeque<Event>,
}

impl Stream for Following {
    type Item = Result<sse::Event, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if self.ready.is_empty() {
                self.ready = self.process.events(self.after).into();
            }
            if let Some(event) = self.ready.pop_front() {
                self.after = event.id;
                let text = json::text(&event);
                return Poll::Ready(Some(Ok(sse::Event::default()
                    .id(event.id.to_string())
                    .event(event.kind)
                    .data(text))));
            }
            match self.latest.as_mut().poll(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(None) => return Poll::Ready(None),
                Poll::Ready(Some(latest)) => self.latest = Box::pin(changed(latest)),
            }
        }
    }
}
