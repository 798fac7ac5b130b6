//! What passes between the two sides of a request: a [`message`]'s head and what is kept of it, the [`part`]s of its body, and the
//! [`response`] of this side's own.

pub mod message;
pub mod part;
pub mod response;
