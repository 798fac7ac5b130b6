//! Connections of HTTP/2 (RFC 9113), for either side. A [`Connection`] turns bytes into [`Event`]s, and collects the
//! bytes to be written in its output. It does no I/O and reads no clock. Streams are only numbers here; the driver
//! keeps their state.
//!
//! 1. [`Connection::receive`] consumes frames and returns an [`Event`]: `receive.rs`, with heads in `blocks.rs`,
//!    their rules in `head.rs`, and windows in `flow.rs`.
//! 2. `send_head`, `send_data` and the other senders write frames: `send.rs`.
//! 3. Budgets bound useless frames of a peer: `flood.rs`.

// Order: send, blocks, receive, connection & settings, streams, event, head, flow, flood, frame, hpack, protocol
mod blocks;
mod connection;
mod event;
mod flood;
mod flow;
mod frame;
mod head;
pub mod hpack;
mod protocol;
mod receive;
mod send;
mod settings;
mod streams;

pub use connection::{Config, Connection, ConnectionError, NoStream};
pub use event::{Event, Received};
pub use flood::Flood;
pub use head::{Head, Malformed, Refused};
pub use hpack::Over;
pub use protocol::{ErrorCode, MAX, PREFACE, StreamId};

#[cfg(test)]
mod tests;
