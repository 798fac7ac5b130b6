//! Connections of HTTP/3 (RFC 9114), for either side. QUIC has the streams and their flow control. A [`Connection`]
//! turns their bytes into [`Event`]s, and writes frames for them. It does no I/O and reads no clock.
//!
//! 1. [`Connection::receive`] reads the streams of requests, whose positions the driver keeps in a [`MessageStream`] for
//!    each: `message.rs`. The rules for their heads are in `multiplexed`.
//! 2. [`Connection::receive_unidirectional`] reads all other streams: `unidirectional.rs` and `control.rs`.
//! 3. `write_head`, `go_away` and the other senders write frames: `send.rs`.

// Order: unidirectional, control, message, send, connection & settings, event, frame, varint, qpack, protocol
mod connection;
mod control;
mod event;
mod frame;
mod message;
mod protocol;
pub mod qpack;
mod send;
mod settings;
mod unidirectional;
mod varint;

pub use crate::multiplexed::flood::Flood;
pub use crate::multiplexed::head::{Head, Malformed, Refused};
pub use crate::multiplexed::limits::Over;
pub use connection::{Config, Connection, ConnectionError};
pub use event::{Event, Received};
pub use message::MessageStream;
pub use protocol::{ErrorCode, StreamId};
pub use send::DATA_FRONT_MAX;
pub use unidirectional::UnidirectionalStream;

#[cfg(test)]
mod tests;
