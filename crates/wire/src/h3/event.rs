//! Events of a stream, as received from the peer.

use super::protocol::{ErrorCode, StreamId};
use crate::head::Table;
use crate::multiplexed::head::{Head, Malformed, Refused};
use crate::priority::Priority;
use std::ops::Range;

/// Result of reading the front of the bytes.
#[derive(Debug)]
pub struct Received {
    /// Number of bytes consumed. Without an event it is all of them.
    pub used: usize,
    /// Event that the bytes caused, if any.
    pub event: Option<Event>,
}

/// Something that the peer sent on a stream.
#[derive(Debug)]
pub enum Event {
    /// Head of a request or of a response, interim (1xx) or final.
    Head(Head),
    /// Part of the body of a message.
    Data {
        /// Position of the data in the bytes passed in.
        range: Range<usize>,
        /// True if nothing follows on the stream.
        ends: bool,
    },
    /// Fields after the body. Nothing follows them.
    Trailers(Table),
    /// The message is malformed. The caller resets both directions of the stream with this code.
    Reset {
        code: ErrorCode,
        /// Rule that the peer broke.
        broken: Malformed,
    },
    /// A request was refused for its head. If it has a status, the caller sends a response with it and stops the rest
    /// of the request with NO_ERROR. Otherwise the caller resets the stream with MESSAGE_ERROR.
    Refused(Box<Refused>),
    /// The settings of the peer have arrived.
    Settings,
    /// The peer is ending the connection. A server does not process the requests from `id` on. A client names a push.
    GoAway { id: u64 },
    /// New priority of a request, which may not have begun.
    Priority { stream: StreamId, priority: Priority },
    /// The stream has an unknown purpose. The caller stops it with this code.
    Unwanted { code: ErrorCode },
}
