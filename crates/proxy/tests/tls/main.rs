//! Does TLS work on both sides, over real sockets, with clients and servers that are not ours?

#[path = "../support/mod.rs"]
mod support;

mod broken;
mod clients;
mod endpoints;
mod sessions;
