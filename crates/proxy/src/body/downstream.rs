//! The client's side of a request: its deadline, its end, and the parts that it sends and receives.

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

/// Client side of a request: source of its body, and sink of its response.
pub trait Downstream {
    /// The client's side while it sends and receives parts.
    type Parts<'p>: ClientParts
    where
        Self: 'p;

    /// Timer of the request, shared by everything that it waits for. Concurrent requests of a connection have separate
    /// timers.
    fn timer(&self) -> &Timer;

    /// Ready once the client can neither send nor receive. A client that has only ended its sending half may still wait
    /// for its response.
    fn poll_gone(&self, cx: &mut Context<'_>) -> Poll<()>;

    /// The connection, if it is HTTP/1 and used by this request alone: then bytes can pass as they are.
    fn connection(&self) -> Option<&Transport> {
        None
    }

    /// Begins to relay in parts. `body` is the framing of the rest of the request body; `came` holds its bytes that
    /// have arrived, possibly followed by bytes of the next request.
    fn parts<'p>(&'p self, flow: Flow<'p>, body: Body, came: Buf) -> Self::Parts<'p>;
}

/// The client's side of a request in parts.
pub trait ClientParts {
    /// Takes the next part of the request body; must not be called after the end. Parts that are not taken hold the
    /// client back.
    ///
    /// # Errors
    /// The client has left, or broke the framing of its body.
    fn poll_part(&self, cx: &mut Context<'_>) -> Poll<Result<Part, Fault>>;

    /// Waits until the client has room for another part of the response.
    ///
    /// # Errors
    /// The client has left.
    fn poll_room(&self, cx: &mut Context<'_>) -> Poll<Result<(), Fault>>;

    /// Waits until there is room for another part of the response, and the client's own window for it is open. Before
    /// that, filters of the body need no memory.
    ///
    /// # Errors
    /// The client has left.
    fn poll_open(&self, cx: &mut Context<'_>) -> Poll<Result<(), Fault>> {
        self.poll_room(cx)
    }

    /// True if the client has not taken the last part: data read now would only add to the memory held.
    fn is_held_back(&self) -> bool {
        false
    }

    /// Ready once nothing sent is held back on this side. Immediately ready where streams share a connection, which
    /// flushes by itself.
    ///
    /// # Errors
    /// The client has left.
    fn poll_flush(&self, _: &mut Context<'_>) -> Poll<Result<(), Fault>> {
        Poll::Ready(Ok(()))
    }

    /// Sends a response head; interim heads (1xx) may precede the final head. `ends`: neither body nor trailers follow.
    /// Returns the status that the client sees: for tunnels it depends on the protocol (101 or 200).
    fn send_head(&self, status: u16, fields: Table, ends: bool) -> u16;

    /// Sends a part of the response body. Data needs room: see [`poll_room`](Self::poll_room).
    fn send(&self, part: Part);

    /// Begins a tunnel: the request has ended, and further parts belong to the tunnel.
    fn begin_tunnel(&self) {}

    /// Returns the unread rest of the connection, if it can carry further requests.
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

    fn poll_open(&self, cx: &mut Context<'_>) -> Poll<Result<(), Fault>> {
        (*self).poll_open(cx)
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

/// State of a connection after a request.
pub struct Rest {
    /// Framing state of the rest of the request's body.
    pub body: Body,
    /// Bytes that have arrived and were not used.
    pub behind: Buf,
    /// True if the connection can carry another request.
    pub keep_alive: bool,
}

/// State of the request that the client's side needs.
#[derive(Clone, Copy)]
pub struct Flow<'p> {
    pub core: &'p Core,
    pub towards: Towards,
    pub asked: RequestContext,
    /// True while more of the request body is to arrive.
    pub body_due: &'p Cell<bool>,
    /// True while the client may wait for a 100 before it sends the body. After another response it need not send the
    /// body.
    pub awaits_continue: &'p Cell<bool>,
    /// True once the listener has left the plan.
    pub gone: &'p Cell<bool>,
    /// Bytes received from the client. The relay adds the bytes of parts.
    pub bytes_in: &'p Cell<u64>,
}

impl Flow<'_> {
    /// True if the connection must close after the request.
    pub fn is_ending(&self) -> bool {
        self.core.command.get() != Command::Run || self.gone.get()
    }

    /// Counts bytes from the client that are in no part: framing.
    pub fn count_in(&self, n: usize) {
        self.bytes_in.set(self.bytes_in.get() + n as u64);
    }
}
