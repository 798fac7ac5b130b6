//! Does TLS work on both sides, over real sockets, with clients and servers that are not ours?

#![allow(clippy::disallowed_types, reason = "a test is no worker: it may lock")]

#[path = "../support/mod.rs"]
mod support;

mod broken;
mod clients;
mod endpoints;
mod sessions;
