//! Connections of HTTP/2 (RFC 9113), for either side. A [`Connection`] turns bytes into [`Event`]s, and collects the
//! bytes to be written in its output. It does no I/O and reads no clock. Streams are only numbers here; the driver
//! keeps their state.
//!
//! 1. [`Connection::receive`] consumes frames and returns an [`Event`]: `receive.rs`, with heads in `blocks.rs`,
//!    windows in `flow.rs`. Their rules are in `multiplexed`.
//! 2. `send_head`, `send_data` and the other senders write frames: `send.rs`.

// Order: send, blocks, receive, connection & settings, streams, event, flow, frame, hpack, protocol
mod blocks;
mod connection;
mod event;
mod flow;
mod frame;
pub mod hpack;
mod protocol;
mod receive;
mod send;
mod settings;
mod streams;

pub use crate::multiplexed::flood::Flood;
pub use crate::multiplexed::head::{Head, Malformed, Refused};
pub use crate::multiplexed::limits::Over;
pub use connection::{Config, Connection, ConnectionError, NoStream};
pub use event::{Event, Received};
pub use protocol::{ErrorCode, MAX, PREFACE, StreamId};

#[cfg(test)]
mod tests;
