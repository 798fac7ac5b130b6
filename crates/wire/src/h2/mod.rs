//! Connections of HTTP/2 (RFC 9113), for either side. A [`Connection`] turns bytes into [`Event`]s, and collects what
//! is to be written in its output. It does no I/O and reads no clock. Streams are only numbers here; the driver keeps
//! their state.
//!
//! 1. [`Connection::receive`] consumes frames and returns an [`Event`]: [`receive`](self), with heads handled in
//!    [`blocks`], their rules in [`head`], and windows in [`flow`].
//! 2. `send_head`, `send_data` and the other senders write frames: [`send`](self).
//! 3. Budgets bound useless frames of a peer: [`flood`].

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
pub use protocol::{ErrorCode, MAX, PREFACE, StreamId};

#[cfg(test)]
mod tests;
