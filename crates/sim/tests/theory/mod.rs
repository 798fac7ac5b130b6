//! Agreement of the simulator with queueing theory: closed forms, limits and published simulations, each with its
//! source.
//!
//! A short set always runs. The rest, whole tables, is ignored by default and runs in release mode with `make theory`.
//! Tolerances follow from the precision of the figures: the standard error of a mean falls with the square root of
//! `r (1 - load)^2` for r requests, and n servers differ from the limit by about 1 / n.

mod balls;
mod boards;
mod farm;
mod laws;
mod queues;
mod supermarket;
