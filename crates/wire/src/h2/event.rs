//! Events of a connection, as received from the peer.

use super::{Flood, StreamId};
use crate::head::Table;
use crate::multiplexed::head::{Head, Malformed, Refused};
use std::ops::Range;

/// Result of reading the front of the bytes.
#[derive(Debug)]
pub struct Received {
    /// Number of bytes consumed. If it is 0 and there is no event, more bytes are needed.
    pub used: usize,
    /// Event that the bytes caused, if any.
    pub event: Option<Event>,
}

/// Something that the peer sent, or did.
#[derive(Debug)]
pub enum Event {
    /// Head of a new request or of a response, interim (1xx) or final.
    Head { stream: StreamId, head: Head },
    /// Part of the body of a message.
    Data {
        stream: StreamId,
        /// Position of the data in the bytes passed in.
        range: Range<usize>,
        /// Flow-control bytes to pass to [`consumed`](super::Connection::consumed) once the data was consumed.
        flow: u32,
        /// True if nothing follows on the stream.
        ends: bool,
    },
    /// Fields after the body. Nothing follows them.
    Trailers { stream: StreamId, table: Table },
    /// A stream has ended prematurely.
    Reset {
        stream: StreamId,
        /// Error code; from the peer it may be any number.
        code: u32,
        /// Rule that the peer broke, for which this side has reset the stream; `None` if the peer has reset it.
        broken: Option<Malformed>,
    },
    /// A request was refused for its head. The client was answered already.
    Refused(Box<Refused>),
    /// The peer wastes too many streams, and was sent a GOAWAY. No more are served, except those already begun.
    Flooded(Flood),
    /// The peer's windows allow more data.
    Room {
        /// Stream whose window has opened; `None` for the connection, or for all streams.
        stream: Option<StreamId>,
    },
    /// The peer accepts no more streams, and has not processed those above `last`.
    GoAway {
        /// Highest stream that the peer processes.
        last: StreamId,
        /// Error code, which may be any number.
        code: u32,
    },
    /// The settings of the peer have changed.
    Settings,
    /// Answer to a ping, with its payload.
    Pong(u64),
}
