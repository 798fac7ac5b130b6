//! Requests of HTTP/2 clients to HTTP/1 endpoints, whatever either side does.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "a test is no worker: it may lock and wait")]

mod calls;
mod ends;
mod floods;
mod messages;
mod pressure;
mod real_clients;
mod tries;
mod websocket;

use crate::support::Proxy;
use crate::support::h2_client::H2Client;
use std::net::SocketAddr;

/// A proxy with one worker that accepts HTTP/2 without TLS.
fn before(endpoints: &[SocketAddr]) -> Proxy {
    Proxy::with(endpoints, "h2c = true", "", "")
}

fn client(proxy: &Proxy) -> H2Client {
    H2Client::connect(proxy.addr())
}
