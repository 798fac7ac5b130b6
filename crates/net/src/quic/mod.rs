//! QUIC (RFC 9000) for servers, on a worker's own event loop: `quinn-proto` is the state machine, and the sockets, timers
//! and turns are ours. Read the files in this order:
//!
//! 1. An [`endpoint`] is a worker's UDP socket with its connections in a table. A single task receives, drives the
//!    connections that have something to do, and sends, in batches.
//! 2. A [`connection`] is driven by its endpoint and used by the tasks of its streams.
//! 3. [`tls`] has the handshake and the keys, [`versions`] the agreement on a version, and [`v2`] the packets of version 2.
//! 4. [`ids`] are connection ids, which name the process and the worker: [`steer`] has the kernel read them, and an [`inbox`]
//!    receives datagrams that came to another worker.
//! 5. [`qlog`] records connections for their operator.

// Order: endpoint, connection, inbox, owners, keys, steer, ids, tls, versions, v2, qlog
pub mod connection;
pub mod endpoint;
pub mod ids;
pub mod inbox;
pub mod keys;
mod owners;
pub mod qlog;
#[cfg(test)]
mod speaking;
pub mod steer;
#[cfg(test)]
mod tests;
pub mod tls;
pub mod v2;
#[cfg(test)]
mod v2_tests;
pub mod versions;

pub use quinn_proto::{
    ConnectionError, ConnectionId, Dir, QlogStream, ServerConfig, Side, StreamId, TransportConfig, VarInt,
};
