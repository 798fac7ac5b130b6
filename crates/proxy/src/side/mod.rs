//! Requests that this proxy itself sends to a pool, for filters that ask another service or mirror requests. A
//! [`request`] has a head and a body. An [`attempt`] sends it to an endpoint, over an idle connection if possible, and
//! reads the response up to a limit. [`send`] tries endpoints within retry rules, and a [`copy`] of a client's request
//! is sent once. Bodies for the cache are read by separate tasks ([`fill`]), those for requests of clients, too.
//!
//! Such requests count at endpoints as clients' requests do: as load, for their health, and in their latency.

pub mod attempt;
pub mod copy;
pub mod fill;
pub mod request;
pub mod send;
