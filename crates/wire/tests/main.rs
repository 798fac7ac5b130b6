//! Protocols against other implementations, and cut at any byte.
//!
//! One binary, so that the crate and what tests share are linked once. One subject alone:
//! `cargo test -p evenkeel-wire --test all SUBJECT::`

mod any_split;
mod client_hello;
mod h2;
mod h2_connections;
mod wire;
