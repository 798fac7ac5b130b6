//! The client's side of connections: from bytes to a request's head, and the response back. Code below it sees a client
//! only as a [`Downstream`]. An HTTP/1 request ([`h1`]) has the connection to itself; requests that are [`message`]s
//! share a connection, as in HTTP/2 ([`h2`]) and HTTP/3 ([`h3`]).

pub mod connection;
pub mod h1;
mod h1_answer;
mod h1_parts;
mod h1_request;
pub mod h2;
pub mod h3;
mod internal;
pub mod message;
mod open;

use crate::body::chain::Pulled;
use crate::body::downstream::Downstream;
use crate::body::fault::Unfit;
use crate::body::response::{Content, Later, Response};
use crate::core::linger::LINGER;
use crate::forward::relay::Answered;
use crate::observe::end::Cause;
use crate::pipeline::response::{Own, OwnBody, own};
use crate::record::Record;
use crate::record::grpc::Call;
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

/// Response of this proxy, ready to be sent, or the end of a response of another route that was sent.
enum Settled {
    Own(Own),
    Relayed(Answered),
}

/// Builds a response of this proxy, once it is there, or has another route answer; `None` if the client leaves before, or
/// the response is cut off. `keep_alive`: the client's connection can carry another request.
async fn settled<D: Downstream>(
    record: &mut Record<'_>,
    down: &D,
    mut response: Response,
    keep_alive: bool,
) -> Option<Settled> {
    loop {
        match response.content {
            Content::Later(Later(mut later)) => match until_gone(down, later.as_mut()).await {
                Some(came) => response = came,
                None => {
                    record.blame(Cause::Client);
                    return None;
                }
            },
            // A page is not a message of a gRPC call.
            Content::Redirected(_) if record.call.get() != Call::Not => {
                response = Response::new(response.status, "the route answers by another route");
            }
            // Boxed: few requests are answered by another route.
            Content::Redirected(to) => match Box::pin(internal::answer(record, down, *to, keep_alive)).await {
                Ok(answered) => return Some(Settled::Relayed(answered)),
                Err(instead) => response = instead?,
            },
            _ => match own(record, response) {
                Ok(own) => return Some(Settled::Own(own)),
                Err(instead) => response = *instead,
            },
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
