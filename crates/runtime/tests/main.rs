//! Contract between the runtime and its planes, tested with two test planes that pick as real ones do and record their
//! calls. One file per subject.
//!
//! A single binary, so that the crate and shared code are linked once. To run one subject:
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
mod shown;
