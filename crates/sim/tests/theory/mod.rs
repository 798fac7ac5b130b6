//! Does the simulator agree with queueing theory? Closed forms, limits and published simulations, each with its source.
//!
//! A short set runs always. The rest is ignored there and runs with `make theory`: a table's whole width, in release.
//! Tolerances are those to which the figures are known: simulated with n servers and r requests, a mean has a standard
//! error that falls with the root of r (1 - load)^2, and n differs from the limit by some 1 / n.

mod balls;
mod boards;
mod farm;
mod laws;
mod queues;
mod supermarket;
