//! What passes between the two sides of a request: a [`message`]'s head and what is kept of it, the [`part`]s of its body, the
//! [`reply`] of this side's own, and the [`fault`] that ended it early. The client's side is a [`downstream`].

pub mod downstream;
pub mod fault;
pub mod message;
pub mod part;
pub mod reply;
