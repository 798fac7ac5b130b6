//! The filters of requests and responses: a file and a row of [`table::FILTERS`] each. Those of a listener look at every request,
//! before it has a route, and at every response; those of a route at its requests, and at their responses.
//!
//! A filter that is not configured is not built. What one of them keeps of a request is in the [`exchange`].

mod acme_challenge;
mod client;
pub mod exchange;
pub mod filter;
mod forwarded;
mod hsts;
mod https_redirect;
pub mod list;
mod load_field;
mod load_report;
mod loop_mark;
mod max_forwards;
mod rate_limit;
mod request_id;
pub mod row;
mod sticky;
pub mod table;
mod trace;
