//! Tests of DNS answers, one file per subject.
//!
//! All are in one binary, so that the crate and shared helpers are linked once. To run one subject: `cargo
//! test -p evenkeel-dns --test all SUBJECT::`

mod answers;
mod many_endpoints;
