//! Innocent clients beside an attacker: a whole evenkeel serves both, every request of the innocent clients must succeed,
//! and none may wait long. A file for each kind of attack; [`scene`] is what all of them share.

#[path = "../support/mod.rs"]
mod support;

mod admin;
mod always_ready;
mod closed_windows;
mod expressions;
mod guesses;
mod http2;
mod interim_heads;
mod late_heads;
mod lingering;
mod long_chains;
mod many_streams;
mod partial_records;
mod promises;
mod resets;
mod scene;
mod slow_heads;
mod stalled_handshakes;
mod tls_client;
