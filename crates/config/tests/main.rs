//! Texts in, plans or errors out. A file for each subject.
//!
//! One binary, so that the crate and what tests share are linked once. One subject alone:
//! `cargo test -p evenkeel-config --test all SUBJECT::`

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
mod secrets;
mod support;
mod wrong;
