//! Where did a request come from, and where does its response go? A [`Downstream`](crate::body::downstream::Downstream):
//! one request of a client connection. No code
//! above it sees a socket. With HTTP/1 ([`h1`]) it has the connection to itself; where requests come as [`message`]s, many
//! share one, as with HTTP/2 ([`h2`]).

pub mod connection;
pub mod h1;
mod h1_parts;
pub mod h2;
#[cfg(test)]
pub mod memory;
pub mod message;
mod open;
#[cfg(test)]
mod parts_tests;
mod websocket;
