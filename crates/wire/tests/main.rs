//! Protocols against other implementations, and cut at any byte.
//!
//! A single binary, so that the crate and the support code are linked once. To run one subject alone: `cargo test -p
//! evenkeel-wire --test all SUBJECT::`

mod any_split;
mod client_hello;
mod h2;
mod h2_connections;
mod wire;
