//! Behaviour of pools and algorithms in virtual time. A file or folder for each subject.
//!
//! One binary, so that the crate and what tests share are linked once. One subject alone:
//! `cargo test -p evenkeel-balance --test all SUBJECT::`

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
