//! Requests that this proxy sends to a pool beside those of clients, for filters that ask another service or mirror
//! requests. A [`request`] has its head and its body at hand; an [`attempt`] sends it to one endpoint, over an idle
//! connection if there is one, and reads the answer up to a limit; [`send`] tries endpoints within retry rules, and a [`copy`] of a client's request is sent once.
//!
//! Such requests count at endpoints as those of clients do: as load, for their health, and in their latency.

pub mod attempt;
pub mod copy;
pub mod request;
pub mod send;
