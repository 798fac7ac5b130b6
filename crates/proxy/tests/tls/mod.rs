//! Does TLS work on both sides, over real sockets, with clients and servers that are not ours?

#![allow(clippy::disallowed_types, reason = "a test is no worker: it may lock")]

mod broken;
mod causes;
mod clients;
mod endpoints;
mod files;
mod long_chains;
mod names;
mod pools;
mod proofs;
mod resumption;
mod sessions;
mod stalled;
mod staples;
mod swaps;
mod themselves;
