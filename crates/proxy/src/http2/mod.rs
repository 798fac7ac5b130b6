//! HTTP/2 connections, for both sides. `evenkeel_wire::h2` parses and frames; this module does the I/O. A
//! [`Session`](session::Session) is a connection with its [`stream`]s, each of which a task of its own has in hand; one more task
//! reads and writes for all of them ([`turn`]). [`arrived`] holds what came and was not taken yet, a [part](crate::body::part) at a time is taken
//! and sent.
//!
//! No side makes the other hold more than a window: what a peer sends counts as taken only when a stream's task has taken it, and
//! a stream takes bytes to be sent only when those before them are on their way.

pub mod arrived;
pub mod session;
pub mod stream;
pub mod turn;
