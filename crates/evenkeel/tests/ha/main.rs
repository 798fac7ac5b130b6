//! Several balancers for one address, in network namespaces of their own: VRRP by keepalived and BGP by BIRD, with the files of
//! `deploy/ha`.
//!
//! A binary of its own, since it needs root and other programs: `cargo test -p evenkeel --test ha`.

#![allow(clippy::disallowed_macros, reason = "it prints figures, and its reader stays")]

mod ecmp;
mod machine;
#[path = "../kernel/namespace.rs"]
mod namespace;
#[path = "../support/mod.rs"]
mod support;
mod vrrp;
