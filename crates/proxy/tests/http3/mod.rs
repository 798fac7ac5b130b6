//! HTTP/3 with clients: messages, their ends, connections, and protocol violations.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "a test is no worker: it may lock and wait")]

mod attackers;
mod connections;
mod drains;
mod early_data;
mod ends;
mod errors;
mod figures;
mod losses;
mod messages;
mod qlog;
mod raw;
mod raw_frames;
mod transport;

use crate::support::Proxy;
use crate::support::h3_client::LISTENS;
use std::net::SocketAddr;

/// A proxy with one worker that accepts HTTP/3.
fn before(endpoints: &[SocketAddr]) -> Proxy {
    Proxy::with(endpoints, LISTENS, "", "")
}
