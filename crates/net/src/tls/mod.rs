//! TLS connections. rustls runs the handshake ([`handshake`]); afterwards records are sealed and opened here,
//! with the keys that it hands over, so that the cipher's own pass is the only copy and an idle connection
//! holds two keys and no buffer. In this order:
//!
//! 1. [`record`]: a record, sealed or opened. No I/O.
//! 2. [`session`]: both directions after a handshake: data, tickets, key updates, alerts. No I/O.
//! 3. [`handshake`]: leads to a session or an [`error`]; [`info`]: the parameters negotiated.
//! 4. [`towards`]: configuration and names for connections to endpoints.
//! 5. [`state`]: a session with its pending bytes; [`stream`]: that on a socket, as
//!    [`Transport`](crate::transport::Transport) uses it.

// Order: stream, handshake, info, state, session, towards, error, record
pub mod error;
pub mod handshake;
pub mod info;
pub mod record;
pub mod session;
mod state;
pub mod stream;
pub mod towards;

pub use error::{Cause, HandshakeError, alert_name};
pub use info::{Info, Note};
pub use stream::TlsStream;

#[cfg(test)]
mod edges_tests;
#[cfg(test)]
pub(crate) mod tests;
