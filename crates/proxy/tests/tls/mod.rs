//! TLS on both sides over real sockets, with other implementations of clients and servers.

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
