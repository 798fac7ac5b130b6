//! Filters that send their own requests to other pools, `forward_auth` and `mirror`, and the copy of a client's request
//! that such a request may begin with ([`copied`]).

pub mod copied;
pub mod forward_auth;
pub mod mirror;
