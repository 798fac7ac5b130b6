//! The contract of the runtime with its planes. Two planes, which exist here only, pick as real ones do and note what is asked of
//! them: what holds for one of them holds for both. A file for each subject.
//!
//! All subjects are one binary, so that the crate and what tests share are linked once. One subject alone:
//! `cargo test -p evenkeel-runtime --test all SUBJECT::`
#![expect(clippy::disallowed_types, reason = "tests look at what planes share")]

mod checks;
mod ends;
mod failures;
mod ledger;
mod membership;
mod orders;
mod plane;
mod publishing;
mod setup;
