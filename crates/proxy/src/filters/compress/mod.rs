//! Filter that compresses responses ([`filter`]): the bytes pass [`body`], and [`state`] has what came of it.
//!
//! Requests pass it before all other filters of a route, so that it sees what the client accepts and not what the endpoint
//! is told. Responses pass it last: the cache stores them as they come, and fields that other filters add count.

mod body;
pub mod filter;
pub mod state;
