//! The endpoint's side of a request in parts: it receives the parts of the request and sends the parts of the response.

use crate::body::fault::Fault;
use crate::body::part::{Gone, Part};
use evenkeel_net::transport::Transport;
use evenkeel_wire::h2::Malformed;
use evenkeel_wire::head::Table;
use std::task::{Context, Poll};

/// Head of an endpoint's response.
#[derive(Debug)]
pub struct Head {
    /// HTTP status, 100 to 999.
    pub status: u16,
    /// Fields, without the fields of the connection.
    pub fields: Table,
    pub ends: bool,
    /// True if the endpoint closes its connection after the response.
    pub closes: bool,
}

/// State of a connection to an endpoint after a response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    /// True if the connection can carry another request.
    pub reusable: bool,
    /// Seconds for which the endpoint keeps the connection, if it states them.
    pub secs: Option<u32>,
}

/// The endpoint's side of a request.
pub trait Upstream {
    /// The connection, if it is HTTP/1 and used by this request alone: the request's first bytes are written to it
    /// directly.
    fn connection(&self) -> Option<&Transport> {
        None
    }

    /// Takes the next response head: interim heads, then the final head.
    ///
    /// # Errors
    /// The response does not arrive, or its head is malformed.
    fn poll_head(&self, cx: &mut Context<'_>) -> Poll<Result<Head, Fault>>;

    /// Takes the next part of the response body; must not be called after the end.
    ///
    /// # Errors
    /// The body does not continue, or is malformed.
    fn poll_part(&self, cx: &mut Context<'_>) -> Poll<Result<Part, Fault>>;

    /// True if all data of the response was taken, so that the next part is the end and needs no room.
    fn is_done(&self) -> bool {
        false
    }

    /// Waits until the endpoint has room for another part of the request.
    ///
    /// # Errors
    /// The endpoint accepts no more. It may have sent a response nevertheless.
    fn poll_room(&self, cx: &mut Context<'_>) -> Poll<Result<(), Gone>>;

    /// Sends a part of the request. Data needs room: see [`poll_room`](Self::poll_room).
    fn send(&self, part: Part);

    /// Ready once nothing sent is held back on this side. Immediately ready where streams share a connection, which
    /// flushes by itself.
    ///
    /// # Errors
    /// The endpoint accepts no more.
    fn poll_flush(&self, _: &mut Context<'_>) -> Poll<Result<(), Gone>> {
        Poll::Ready(Ok(()))
    }

    /// Begins a tunnel: the request has ended, and further parts belong to the tunnel.
    fn begin_tunnel(&self) {}

    /// Ends the response, discarding the received rest of its body, and returns the state of the connection.
    fn kept(&self) -> Kept {
        Kept::default()
    }

    /// The rule that the endpoint broke, if this ended the response.
    fn broken(&self) -> Option<Malformed> {
        None
    }
}
