//! HTTP/2 connections, for both sides. `evenkeel_wire::h2` parses and frames; this module does the I/O. A
//! [`Session`](session::Session) is a connection with its [`stream`]s. Each stream has a task, and another task per
//! connection reads and writes for all streams ([`turn`]). [`arrived`] holds received data until a stream's task takes
//! it, a [part](crate::body::part) at a time; [`output`] holds data that waits to be written.
//!
//! Memory is bounded in both directions: received bytes are returned to the window only after the stream's task has
//! taken them, and a stream accepts a part to send only once the part before it was framed.

pub mod arrived;
mod output;
pub mod session;
pub mod stream;
pub mod turn;
