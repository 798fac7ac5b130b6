//! Requests of the process itself to servers such as registries: HTTP/1.1 and HTTP/2 over TCP, TLS or a Unix socket.
//! Not for requests of clients, which never wait for these. Read the files in this order:
//!
//! 1. [`server`]: an address, and the proofs of both sides.
//! 2. [`client`]: requests, in sequence, over a connection that is kept.
//! 3. [`lines`]: bodies that come line by line, for as long as the server wants.
//! 4. [`streams`]: requests side by side over a single connection, as gRPC has them.
#![forbid(unsafe_code)]

// Order: lines, client, streams, socket, server, fault
pub mod client;
mod fault;
pub mod lines;
pub mod server;
mod socket;
pub mod streams;

pub use client::Client;
pub use fault::{Fault, is_close, reason};
pub use lines::Lines;
pub use server::Server;
pub use socket::Unreachable;
pub use streams::Streams;
