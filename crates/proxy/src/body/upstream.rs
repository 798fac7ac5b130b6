//! The endpoint's side of a request in parts: it takes those of the request and sends those of the response.

use crate::body::fault::Fault;
use crate::body::part::{Gone, Part};
use evenkeel_net::transport::Transport;
use evenkeel_wire::h2::Malformed;
use evenkeel_wire::head::Table;
use std::task::{Context, Poll};

/// Head of an endpoint's response.
#[derive(Debug)]
pub struct Head {
    /// 100 to 999.
    pub status: u16,
    /// Its fields, without those of the connection.
    pub fields: Table,
    pub ends: bool,
    /// The endpoint closes its connection behind the response.
    pub closes: bool,
}

/// A connection to an endpoint when its response is over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    /// The connection can carry another request.
    pub reusable: bool,
    /// Seconds for which the endpoint keeps it, if it states them.
    pub secs: Option<u32>,
}

/// The endpoint's side of a request.
pub trait Upstream {
    /// The connection, where it speaks HTTP/1 and the request has it to itself: the request's first bytes are written there.
    fn connection(&self) -> Option<&Transport> {
        None
    }

    /// The next head of the response: interim ones, then the final one.
    ///
    /// # Errors
    /// None comes, or it is malformed.
    fn poll_head(&self, cx: &mut Context<'_>) -> Poll<Result<Head, Fault>>;

    /// The next part of the response's body; nothing is asked for behind its end.
    ///
    /// # Errors
    /// The body does not continue, or is malformed.
    fn poll_part(&self, cx: &mut Context<'_>) -> Poll<Result<Part, Fault>>;

    /// True if all data of the response was taken, so that the next part needs no room.
    fn is_done(&self) -> bool {
        false
    }

    /// Waits until the endpoint takes another part of the request.
    ///
    /// # Errors
    /// It takes no more. A response may have come all the same.
    fn poll_room(&self, cx: &mut Context<'_>) -> Poll<Result<(), Gone>>;

    /// Sends a part of the request; there must be room for data.
    fn send(&self, part: Part);

    /// Ready when nothing that was sent is held back on this side. Where many share a connection, that sends by itself.
    ///
    /// # Errors
    /// The endpoint takes no more.
    fn poll_flush(&self, _: &mut Context<'_>) -> Poll<Result<(), Gone>> {
        Poll::Ready(Ok(()))
    }

    /// The request has ended, and the parts that follow are those of a tunnel.
    fn begin_tunnel(&self) {}

    /// The response is over, or what has come of its body is not needed.
    fn kept(&self) -> Kept {
        Kept::default()
    }

    /// The rule that the endpoint broke, if the response ended by that.
    fn broken(&self) -> Option<Malformed> {
        None
    }
}
