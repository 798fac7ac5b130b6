//! Answers to the authors of objects: the [`status`] of each object and [`events`] about it, written by the [`writer`] in the
//! process that leads ([`leader`]).

pub mod events;
pub mod leader;
pub mod status;
pub mod writer;
