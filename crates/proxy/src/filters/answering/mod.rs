//! Filters that answer requests of a route without an endpoint, and the [`error_pages`] that such responses have.

pub mod error_pages;
pub mod internal_redirects;
pub mod maintenance;
pub mod redirect;
pub mod respond;
