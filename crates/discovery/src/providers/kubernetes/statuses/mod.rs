//! Answers to the authors of objects: the [`status`] of each object and [`events`] about it, written by the [`writer`] in the
//! process that leads ([`leader`]). To the operator, the log names [`refusals`].

// Order: events, leader, refusals, status, writer
pub mod events;
pub mod leader;
pub mod refusals;
pub mod status;
pub mod writer;
