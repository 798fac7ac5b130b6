//! DNS plane of evenkeel: answers to resolvers. Read the files in this order:
//!
//! 1. [`query`] parses queries, [`zone`] holds the names, [`reply`] writes answers: bytes in, bytes out.
//! 2. [`answer`] combines them for a worker and a listener. The balancers of [`pools`] pick endpoints for the
//!    network ([`client`]) of the client, within the limit of [`rate`]; [`cookie`] verifies addresses, and `records`
//!    writes the records of a pool, `https` the data of one type.
//! 3. [`server`] is the plane: it starts the [`worker`]s and replaces whole zones. Each worker has its own sockets
//!    ([`udp`], [`tcp`]) at each address ([`binding`]), and per-thread state ([`core`]).
//! 4. [`stats`]: counters of the workers. [`metrics`]: their export.

// Order: server, metrics, worker, tcp, udp, binding, core, answer, records, https, client, rate, cookie, soa, zone, reply,
// query, pools, stats
pub mod answer;
mod binding;
pub mod client;
pub mod cookie;
mod core;
mod https;
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
