//! Sources of endpoints against servers of names.
//!
//! One binary, so that the crate and what tests share are linked once. One subject alone:
//! `cargo test -p evenkeel-discovery --test all SUBJECT::`

mod names;
mod nsd;
mod support;
