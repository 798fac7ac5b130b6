//! Decisions about a request between its head and its endpoint ([`route`]), and about the head of each response on its way to the
//! client ([`response`]), wherever it comes from.

pub mod response;
pub mod route;
