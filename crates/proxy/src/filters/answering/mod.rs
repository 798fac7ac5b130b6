//! Filters that answer requests of a route without an endpoint.

pub mod maintenance;
pub mod redirect;
pub mod respond;
