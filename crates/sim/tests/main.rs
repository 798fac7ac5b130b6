//! Behaviour of simulations, and their agreement with theory.
//!
//! A single binary, so that the crate and shared code are linked once. To run one subject:
//! `cargo test -p evenkeel-sim --test all SUBJECT::`

mod behaviour;
#[path = "../../config/tests/support/committed.rs"]
mod committed;
mod files;
mod logged;
mod planes;
mod probes;
mod replayed;
mod shadows;
mod theory;
