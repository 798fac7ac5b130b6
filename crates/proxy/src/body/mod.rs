//! Interface between the two sides of a request: a [`message`]'s head and what is kept of it, the [`part`]s of its body, the
//! [`response`] of this side's own, and the [`fault`] that ended it early. The client's side is a [`downstream`],
//! the endpoint's an [`upstream`]; those of HTTP/1 share its [`framing`]. On its way a body may pass a [`chain`] of [`filter`]s.

pub mod chain;
pub mod downstream;
pub mod fault;
pub mod filter;
pub mod framing;
pub mod message;
pub mod part;
pub mod response;
pub mod upstream;
