//! How is a connection carried by TLS? rustls shakes hands ([`handshake`]); behind that records are sealed and opened here,
//! with the keys that it hands over, so that bytes are copied once by the cipher and by nothing else, and an idle connection
//! holds two keys and no buffer. In this order:
//!
//! 1. [`record`]: one record, sealed or opened. No I/O.
//! 2. [`session`]: both directions behind a handshake: data, tickets, new keys, alerts. No I/O.
//! 3. [`handshake`]: until there is a session, or an [`error`]; [`info`]: what was agreed.
//! 4. [`towards`]: what endpoints of a pool have to prove.
//! 5. [`state`]: a session, and what waits on it; [`stream`]: a socket and that, as [`Transport`](crate::transport::Transport) shows it.

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
