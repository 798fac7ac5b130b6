//! The client's side of connections: bytes to a request's head, and its response back. No code below it sees a client's socket but as
//! a [`Downstream`]. With HTTP/1 ([`h1`]) it has the connection to itself; where requests come as [`message`]s, many
//! share one, as with HTTP/2 ([`h2`]).

pub mod connection;
pub mod h1;
mod h1_parts;
pub mod h2;
pub mod message;
mod open;
mod websocket;

use crate::body::downstream::Downstream;
use crate::filters::filter::Resume;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

/// Waits for what a filter waits for; `None` if the client is gone before.
async fn until_gone(down: &impl Downstream, mut waiting: Pin<&mut dyn Future<Output = Resume>>) -> Option<Resume> {
    poll_fn(|cx| match waiting.as_mut().poll(cx) {
        Poll::Ready(resume) => Poll::Ready(Some(resume)),
        Poll::Pending => down.poll_gone(cx).map(|()| None),
    })
    .await
}
