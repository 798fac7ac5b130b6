//! Tests from text to plans or errors, one file per subject.
//!
//! All are in one binary, so that the crate and shared helpers are linked once. To run one subject: `cargo
//! test -p evenkeel-config --test all SUBJECT::`

#[path = "support/applied.rs"]
mod applied;
mod built;
mod certificates;
#[path = "support/committed.rs"]
mod committed;
mod every_algorithm;
mod foreign;
mod generated;
mod good;
mod habits;
mod large;
mod lists;
mod machine;
mod never_panics;
mod planes;
mod secrets;
mod support;
mod wrong;
