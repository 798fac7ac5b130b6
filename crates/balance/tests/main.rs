//! Behaviour of pools and algorithms in virtual time. Each subject has a file or folder.
//!
//! A single binary, so that the crate and the support code are linked once. To run one subject alone: `cargo test -p
//! evenkeel-balance --test all SUBJECT::`

mod control;
mod control_histories;
mod dead_tier;
mod every_algorithm;
mod known_faults;
mod leastconn;
mod orders;
mod outcomes;
mod queue;
mod reports;
mod slow_start;
mod support;
mod threads;
