//! Decisions that do not depend on the client's protocol: about a request between its head and its pool ([`route`]),
//! about its trailers ([`trailers`])

pub mod response;
pub mod route;
pub mod trailers;
