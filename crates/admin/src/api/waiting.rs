//! Requests that wait: for their body, which has to arrive in time, and for events, as streams do, which have a limit.

use super::problem::Problem;
use crate::admission::{Place, Streaming};
use crate::numbers::Reason;
use axum::body::{Body, BodyDataStream, Bytes};
use axum::extract::Request;
use axum::http::Method;
use axum::http::header::{ACCEPT, CONTENT_TYPE, HeaderMap};
use axum::middleware::Next;
use axum::response::Response;
use futures_core::Stream;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::timeout;

/// The largest body of a change.
pub const BODY_MAX: usize = 1 << 20;

/// The largest configuration that is taken. A configuration of 10 000 endpoints has about a million bytes.
pub const TEXT_MAX: usize = 16 << 20;

/// Time that a client has to send a body.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);

const EVENT_STREAM: &[u8] = b"text/event-stream";

/// Reads the whole body, and returns the answer of the next handler.
///
/// # Errors
/// The body is too large or does not arrive, or there are too many streams.
pub async fn answer(request: Request, place: Option<Arc<Place>>, next: Next) -> Result<Response, Problem> {
    let streaming = match &place {
        Some(place) if waits(&request) => Some(place.stream().ok_or_else(|| {
            Problem::busy("there are as many streams as admin.http.streams allows; close one, or use the Unix socket")
        })?),
        _ => None,
    };
    let request = match *request.method() {
        Method::GET | Method::HEAD => request,
        _ => {
            let max = if request.uri().path() == "/v1/config" { TEXT_MAX } else { BODY_MAX };
            let (head, body) = request.into_parts();
            let late = |_| {
                place.iter().for_each(|place| place.numbers().count(Reason::Body));
                Problem::late(format!("it may take {} s", BODY_TIMEOUT.as_secs()))
            };
            let body = timeout(BODY_TIMEOUT, whole(body, max)).await.map_err(late)??;
            Request::from_parts(head, body.into())
        }
    };
    let response = next.run(request).await;
    let Some(streaming) = streaming.filter(|_| is(response.headers(), CONTENT_TYPE)) else { return Ok(response) };
    Ok(response.map(|body| Body::from_stream(Counted { body: body.into_data_stream(), _streaming: streaming })))
}

/// True if the answer may take as long as the client wants.
fn waits(request: &Request) -> bool {
    is(request.headers(), ACCEPT) || request.uri().path() == "/v1/tap"
}

fn is(headers: &HeaderMap, name: axum::http::HeaderName) -> bool {
    let kinds = headers.get(name).map_or(&b""[..], |kinds| kinds.as_bytes());
    kinds.windows(EVENT_STREAM.len()).any(|part| part == EVENT_STREAM)
}

async fn whole(body: Body, max: usize) -> Result<Bytes, Problem> {
    let mut parts = body.into_data_stream();
    let mut whole = Vec::new();
    while let Some(part) = poll_fn(|cx| Pin::new(&mut parts).poll_next(cx)).await {
        let part = part.map_err(|error| Problem::malformed(format!("the body: {error}")))?;
        if whole.len() + part.len() > max {
            return Err(Problem::too_large(format!("it may have {max} bytes")));
        }
        whole.extend_from_slice(&part);
    }
    Ok(whole.into())
}

/// The body of a stream, which counts until it ends.
struct Counted {
    body: BodyDataStream,
    _streaming: Streaming,
}

impl Stream for Counted {
    type Item = Result<Bytes, axum::Error>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Pin::new(&mut self.body).poll_next(cx)
    }
}
