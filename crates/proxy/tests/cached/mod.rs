//! The cache of routes, over real connections.

#![allow(clippy::disallowed_types, reason = "a test is no worker: it may lock")]

mod basics;
mod compress;
mod conformance;
mod encoded;
mod growing;
mod large;
mod operators;
mod outcomes;
mod poisoning;
mod ranges;
mod renewal;
#[path = "../../../cache/tests/suite/mod.rs"]
mod suite;
