//! Answers of the DNS plane. A file for each subject.
//!
//! One binary, so that the crate and what tests share are linked once. One subject alone:
//! `cargo test -p evenkeel-dns --test all SUBJECT::`

mod answers;
mod many_endpoints;
