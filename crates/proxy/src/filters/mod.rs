//! Filters of requests and responses; each has a file and a row of [`table::FILTERS`]. Filters of a listener see every
//! request, before it has a route, and every response. Filters of a route see its requests and their responses.
//!
//! A filter that is not configured is not built. Filters keep their states of a request in [`states`]. Facts that
//! several filters read are in the [`exchange`].

mod access;
mod acme_challenge;
mod announcing;
pub mod answering;
mod auth;
pub mod caching;
mod client;
pub mod exchange;
pub mod filter;
mod forwarded;
mod headers;
mod https_redirect;
mod limits;
pub mod list;
mod load;
mod loop_mark;
mod max_forwards;
pub mod policies;
pub mod redirects;
mod request_id;
pub mod rewriting;
pub mod row;
mod services;
pub mod states;
pub mod step;
mod sticky;
pub mod table;
pub mod template;
mod trace;
mod watched_files;
