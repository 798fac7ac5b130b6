//! Where did a request come from, and where does its response go? A [`Downstream`]: one request of a client connection. No code
//! above it sees a socket. With HTTP/1 ([`h1`]) it has the connection to itself; where requests come as [`message`]s, many
//! share one, as with HTTP/2 ([`h2`]).

pub mod connection;
pub mod h1;
mod h1_parts;
pub mod h2;
#[cfg(test)]
pub mod memory;
pub mod message;
mod open;
mod websocket;

use crate::filters::Resume;
use crate::forward::fault::Fault;
use crate::forward::outgoing::Outgoing;
use crate::forward::relay::{Answered, Relay};
use crate::upstream::pick::InFlight;
use crate::upstream::stream::EndpointStream;
use evenkeel_net::deadline::Timer;
use evenkeel_wire::http1::Body;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};

/// The client's side of one request.
pub trait Downstream {
    /// The request's one deadline, whatever it waits for: two requests of a connection have two.
    fn timer(&self) -> &Timer;

    /// Ready once the client can neither send nor take anything more. A client that only says that it sends no more may
    /// still wait for its answer.
    fn poll_gone(&self, cx: &mut Context<'_>) -> Poll<()>;

    /// Sends what is left of the request and relays the response, both ways at once. `body`: what of the request's is still
    /// to come. `again`: all of it is kept, so that it can be sent once more.
    ///
    /// # Errors
    /// What ended it early.
    async fn relay(
        &self,
        relay: &Relay<'_, '_>,
        ticket: &mut InFlight<'_>,
        body: &mut Body,
        out: &mut Outgoing<'_>,
        again: bool,
    ) -> Result<Answered, Fault>;

    /// The same, to an endpoint that has a stream for the request, whose head has left.
    ///
    /// # Errors
    /// What ended it early.
    async fn relay_parts(
        &self,
        relay: &Relay<'_, '_, EndpointStream>,
        ticket: &mut InFlight<'_>,
        body: &mut Body,
        out: &mut Outgoing<'_>,
    ) -> Result<Answered, Fault>;
}

/// Waits for what a filter waits for; `None` if the client is gone before.
async fn until_gone(down: &impl Downstream, mut waiting: Pin<&mut dyn Future<Output = Resume>>) -> Option<Resume> {
    poll_fn(|cx| match waiting.as_mut().poll(cx) {
        Poll::Ready(resume) => Poll::Ready(Some(resume)),
        Poll::Pending => down.poll_gone(cx).map(|()| None),
    })
    .await
}
