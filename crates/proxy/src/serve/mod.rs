//! The client's side of connections: from bytes to a request's head, and the response back. Code below it sees a client
//! only as a [`Downstream`]. An HTTP/1 request ([`h1`]) has the connection to itself; requests that are [`message`]s
//! share a connection, as in HTTP/2 ([`h2`]).

pub mod connection;
pub mod h1;
mod h1_answer;
mod h1_parts;
mod h1_request;
pub mod h2;
pub mod message;
mod open;

use crate::body::chain::Pulled;
use crate::body::downstream::Downstream;
use crate::body::fault::Unfit;
use crate::body::response::{Content, Later, Response};
use crate::core::linger::LINGER;
use crate::observe::end::Cause;
use crate::pipeline::response::{Own, OwnBody, own};
use crate::record::Record;
use evenkeel_net::buffer::CAPACITY;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

/// Waits for a result; `None` if the client leaves before.
async fn until_gone<T>(down: &impl Downstream, mut waiting: Pin<&mut dyn Future<Output = T>>) -> Option<T> {
    poll_fn(|cx| match waiting.as_mut().poll(cx) {
        Poll::Ready(result) => Poll::Ready(Some(result)),
        Poll::Pending => down.poll_gone(cx).map(|()| None),
    })
    .await
}

/// Builds a response of this proxy, once it is there; `None` if the client leaves before.
async fn settled(record: &Record<'_>, down: &impl Downstream, mut response: Response) -> Option<Own> {
    loop {
        while let Content::Later(Later(mut later)) = response.content {
            let Some(came) = until_gone(down, later.as_mut()).await else {
                record.blame(Cause::Client);
                return None;
            };
            response = came;
        }
        match own(record, response) {
            Ok(own) => return Some(own),
            Err(later) => response = *later,
        }
    }
}

/// Waits for the next part of a response of this proxy; `None` if the client leaves before.
async fn next_part(down: &impl Downstream, body: &mut OwnBody) -> Option<Result<Pulled, Unfit>> {
    poll_fn(|cx| match body.poll_part(cx) {
        Poll::Ready(part) => Poll::Ready(Some(part)),
        Poll::Pending => down.poll_gone(cx).map(|()| None),
    })
    .await
}

/// Longest time in which a client may take nothing of a response of this proxy with a body of this length. It is short
/// for a body that fits any socket buffer, and the same as for responses of endpoints otherwise.
fn patience_for(record: &Record<'_>, length: Option<usize>) -> Duration {
    let is_large = length.is_none_or(|length| length > CAPACITY);
    let planned = record.rules.routes.planned.get(record.route).filter(|_| is_large);
    planned.map_or(LINGER, |route| route.timeouts.idle.max(LINGER))
}
