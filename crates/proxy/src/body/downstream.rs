//! The client's side of a request: its deadline, its end, and the parts that it sends and takes.

use crate::body::fault::Fault;
use crate::body::part::Part;
use crate::core::{Command, Core};
use evenkeel_net::buffer::Buf;
use evenkeel_net::deadline::Timer;
use evenkeel_net::transport::Transport;
use evenkeel_wire::head::Table;
use evenkeel_wire::http1::Body;
use evenkeel_wire::http1::response::{RequestContext, Towards};
use std::cell::Cell;
use std::task::{Context, Poll};

/// Client side of a request: its body, and the way of its response.
pub trait Downstream {
    /// The request as a side that sends and takes parts.
    type Parts<'p>: ClientParts
    where
        Self: 'p;

    /// The request's one deadline, whatever it waits for: two requests of a connection have two.
    fn timer(&self) -> &Timer;

    /// Ready once the client can neither send nor take anything more. A client that only says that it sends no more may
    /// still wait for its answer.
    fn poll_gone(&self, cx: &mut Context<'_>) -> Poll<()>;

    /// The connection, where it speaks HTTP/1 and the request has it to itself: then bytes can pass as they are.
    fn connection(&self) -> Option<&Transport> {
        None
    }

    /// Begins to send and take parts. `body`: the rest of the request's body, of which `came` has arrived, perhaps with bytes
    /// behind it.
    fn parts<'p>(&'p self, flow: Flow<'p>, body: Body, came: Buf) -> Self::Parts<'p>;
}

/// The client's side of a request in parts.
pub trait ClientParts {
    /// The next part of the request's body; nothing is asked for behind its end. A part that is not taken keeps the client
    /// from sending more than it may.
    ///
    /// # Errors
    /// The client has left, or broke the framing of its body.
    fn poll_part(&self, cx: &mut Context<'_>) -> Poll<Result<Part, Fault>>;

    /// Waits until the client takes another part of the response.
    ///
    /// # Errors
    /// The client has left.
    fn poll_room(&self, cx: &mut Context<'_>) -> Poll<Result<(), Fault>>;

    /// True if the client does not take what was sent last: what is read now would only be held beside it.
    fn is_held_back(&self) -> bool {
        false
    }

    /// Ready when nothing that was sent is held back on this side. Where many share a connection, that sends by itself.
    ///
    /// # Errors
    /// The client has left.
    fn poll_flush(&self, _: &mut Context<'_>) -> Poll<Result<(), Fault>> {
        Poll::Ready(Ok(()))
    }

    /// Sends the head of a response; any number of interim ones (1xx) go before the final one. `ends`: nothing follows. Returns
    /// the status that the client reads: protocols begin a tunnel with different ones.
    fn send_head(&self, status: u16, fields: Table, ends: bool) -> u16;

    /// Sends a part of the response's body; there must be room for data.
    fn send(&self, part: Part);

    /// The request has ended, and the parts that follow are those of a tunnel.
    fn begin_tunnel(&self) {}

    /// Returns the unread rest of the connection, if it can carry requests after this one.
    fn into_rest(self) -> Option<Rest>
    where
        Self: Sized,
    {
        None
    }
}

impl<P: ClientParts> ClientParts for &P {
    fn poll_part(&self, cx: &mut Context<'_>) -> Poll<Result<Part, Fault>> {
        (*self).poll_part(cx)
    }

    fn poll_room(&self, cx: &mut Context<'_>) -> Poll<Result<(), Fault>> {
        (*self).poll_room(cx)
    }

    fn is_held_back(&self) -> bool {
        (*self).is_held_back()
    }

    fn poll_flush(&self, cx: &mut Context<'_>) -> Poll<Result<(), Fault>> {
        (*self).poll_flush(cx)
    }

    fn send_head(&self, status: u16, fields: Table, ends: bool) -> u16 {
        (*self).send_head(status, fields, ends)
    }

    fn send(&self, part: Part) {
        (*self).send(part);
    }

    fn begin_tunnel(&self) {
        (*self).begin_tunnel();
    }
}

/// A request's connection when the request is over.
pub struct Rest {
    /// Framing state of the rest of the request's body.
    pub body: Body,
    /// Bytes that have come and were not used.
    pub behind: Buf,
    /// True if the connection can carry another request.
    pub keep_alive: bool,
}

/// The request, as far as the client's side has to know it.
#[derive(Clone, Copy)]
pub struct Flow<'p> {
    pub core: &'p Core,
    pub towards: Towards,
    pub asked: RequestContext,
    /// True while more of the request's body is to come from the client.
    pub body_due: &'p Cell<bool>,
    /// True once the listener has left.
    pub gone: &'p Cell<bool>,
    /// Bytes from the client, without those of parts.
    pub bytes_in: &'p Cell<u64>,
}

impl Flow<'_> {
    /// True if the client's connection is to end after the request.
    pub fn is_ending(&self) -> bool {
        self.core.command.get() != Command::Run || self.gone.get()
    }

    /// Counts bytes from the client that belong to no part.
    pub fn count_in(&self, n: usize) {
        self.bytes_in.set(self.bytes_in.get() + n as u64);
    }
}
