//! What do we answer to a resolver? evenkeel's DNS plane. Read the files in this order:
//!
//! 1. [`query`] reads what is asked, [`zone`] knows which names there are, [`reply`] writes an answer: bytes in, bytes out.
//! 2. [`answer`] puts them together for one worker and one listener: endpoints are picked by the balancers of [`pools`], for
//!    a client that [`client`] knows the network of, if [`rate`] allows it; [`cookie`] proves where a client is. What a pool
//!    stands for, `records` writes.
//! 3. [`server`] is the plane: it starts the [`worker`]s and replaces zones as a whole. Each worker has sockets of its own ([`udp`], [`tcp`]) at
//!    each address ([`binding`]), and what they need of its thread ([`core`]).
//! 4. [`stats`] are counted by workers, and [`metrics`] shows them.

pub mod answer;
mod binding;
pub mod client;
pub mod cookie;
mod core;
pub mod metrics;
pub mod pools;
pub mod query;
pub mod rate;
mod records;
pub mod reply;
pub mod server;
mod soa;
pub mod stats;
mod tcp;
mod udp;
mod worker;
pub mod zone;

pub use pools::{Endpoint, Found, PoolParts};
pub use server::Dns;
