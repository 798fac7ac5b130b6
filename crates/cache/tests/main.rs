//! The rules against the cases of the public suite, and properties that hold for any input.
//!
//! A single binary, so that the crate is linked once. To run one subject alone: `cargo test -p evenkeel-cache --test all
//! SUBJECT::`

mod conformance;
mod day;
mod histories;
mod model;
mod properties;
mod suite;
