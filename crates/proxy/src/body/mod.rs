//! Interface between the two sides of a request: the kept body of a [`message`], the [`part`]s of a body, the proxy's
//! own [`response`], and the [`fault`] that ends a request early. The client's side implements [`downstream`], the
//! endpoint's [`upstream`]; for HTTP/1 both share its [`framing`]. On its way a body may pass a [`chain`] of
//! [`filter`]s.

pub mod chain;
pub mod downstream;
pub mod fault;
pub mod filter;
pub mod framing;
pub mod internal_redirect;
pub mod message;
pub mod part;
pub mod response;
pub mod upstream;
