//! What do the bytes of an HTTP/2 connection mean (RFC 9113)? A [`Connection`] of either side: bytes in, [`Event`]s out, and what
//! is to be written in its output. It moves no bytes and reads no clock; streams are numbers here: the driver keeps what
//! belongs to them.
//!
//! 1. [`Connection::receive`] takes frames and returns what has come, an [`Event`]: [`receive`](self), with the handling of
//!    heads in [`blocks`], their rules in [`head`], and those of windows in [`flow`].
//! 2. `send_head`, `send_data` and so on write frames: [`send`](self).
//! 3. What a peer may ask for without use is bounded: [`flood`].

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
