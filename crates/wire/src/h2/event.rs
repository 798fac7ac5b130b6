//! What has the peer said?

use super::head::{Head, Malformed, Refused};
use super::{Flood, StreamId};
use crate::head::Table;
use std::ops::Range;

/// What was taken from the front of the bytes.
#[derive(Debug)]
pub struct Received {
    /// So many bytes. None, and no event: more of them have to come.
    pub used: usize,
    /// What they mean.
    pub event: Option<Event>,
}

/// What the peer has said.
#[derive(Debug)]
pub enum Event {
    /// A request begins, or a head of a response has come: interim ones, and the final one.
    Head {
        /// Its stream.
        stream: StreamId,
        /// What it says.
        head: Head,
    },
    /// Some of a body.
    Data {
        /// Its stream.
        stream: StreamId,
        /// Where it is in the bytes that were given.
        range: Range<usize>,
        /// What [`Connection::consumed`] is told when it was taken.
        flow: u32,
        /// Nothing follows.
        ends: bool,
    },
    /// Fields behind the body: nothing follows.
    Trailers {
        /// Their stream.
        stream: StreamId,
        /// The fields.
        table: Table,
    },
    /// A stream has ended before its end.
    Reset {
        /// Its number.
        stream: StreamId,
        /// Why: of the peer's making, any number.
        code: u32,
        /// The rule that the peer broke, so that this side has reset the stream; `None`: the peer has.
        broken: Option<Malformed>,
    },
    /// A request was refused for its head; the client has its answer.
    Refused(Box<Refused>),
    /// The peer wastes too many streams. It got a GOAWAY: no more are served, except those that have begun.
    Flooded(Flood),
    /// More may be sent: on this stream, or on any.
    Room {
        /// The stream.
        stream: Option<StreamId>,
    },
    /// The peer takes no more streams, and has not looked at those above the last.
    GoAway {
        /// The last that it looks at.
        last: StreamId,
        /// Why.
        code: u32,
    },
    /// What the peer allows has changed.
    Settings,
    /// The answer to a ping.
    Pong(u64),
}
