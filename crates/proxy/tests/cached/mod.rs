//! The cache of routes, over real connections.

mod basics;
mod conformance;
mod operators;
#[path = "../../../cache/tests/suite/mod.rs"]
mod suite;
