//! Forwarding of a request: a value that knows the request, its client and its tries. [`attempts`] tries endpoint after
//! endpoint. Each [`attempt`] sends the request to an endpoint (or to two: [`hedge`]), and a [`relay`] passes the
//! request and the response.

mod attempt;
mod attempt_end;
mod attempts;
mod hedge;
pub mod outgoing;
pub mod relay;

use crate::body::downstream::Downstream;
use crate::forward::outgoing::Outgoing;
use crate::listener::client::Client;
use crate::pipeline::route::Opened;
use crate::record::Record;
use crate::upstream::connections::Wanted;
use crate::upstream::retries::Tries;
use std::task::{Context, Poll};
use std::time::Duration;

/// A routed request on its way to its pool.
pub struct Forward<'t, 'r, D> {
    client: &'r Client<'r>,
    down: &'t D,
    record: &'t mut Record<'r>,
    opened: &'t Opened<'r>,
    out: &'t mut Outgoing<'r>,
    tries: Tries<'r>,
    /// Part of the deadline of a gRPC call that was left when the current try began.
    call_left: Option<Duration>,
}

impl<'t, 'r, D: Downstream> Forward<'t, 'r, D> {
    /// Begins the tries of a request.
    pub fn new(
        client: &'r Client<'r>,
        down: &'t D,
        record: &'t mut Record<'r>,
        opened: &'t Opened<'r>,
        out: &'t mut Outgoing<'r>,
    ) -> Forward<'t, 'r, D> {
        record.is_sent = true;
        let tries = Tries::begin(opened.route.retries, opened.route.pool, &client.core.clock, opened.route.key);
        Forward { client, down, record, opened, out, tries, call_left: None }
    }

    /// Ready once the client has left, unless the request continues without it.
    fn poll_left(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.record.exchange.poll_left(self.down.poll_gone(cx))
    }

    fn wanted(&self) -> Wanted<'r> {
        let (client, pool) = (self.client, self.opened.route.pool);
        Wanted { core: client.core, peer: Some(&client.peer), origin: self.record.exchange.facts.origin, pool }
    }
}
