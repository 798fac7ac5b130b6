//! Decisions that do not depend on the client's protocol: about a request between its head and its pool ([`route`]),
//! about its trailers ([`trailers`])
//! and a switch to WebSocket ([`websocket`]), and about the head of each response on its way to the client ([`response`]).

pub mod redirect;
pub mod response;
pub mod route;
pub mod trailers;
pub mod websocket;
