//! Where did a request come from, and where does its response go? A [`Downstream`]: one request of a client connection. No code
//! above it sees a socket. With HTTP/1 ([`h1`]) it has the connection to itself; where requests come as [`message`]s, many
//! share one, as with HTTP/2 ([`h2`]).

pub mod h1;
mod h1_parts;
pub mod h2;
pub mod message;
mod websocket;

use super::fault::Fault;
use super::outgoing::Outgoing;
use super::relay::{Answered, Relay};
use crate::upstream::pick::InFlight;
use crate::upstream::stream::EndpointStream;
use evenkeel_net::deadline::Timer;
use evenkeel_wire::http1::Body;
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
