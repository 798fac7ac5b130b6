//! Requests to HTTP/2 endpoints, from clients of any protocol.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "a test is no worker: it may wait")]

mod both;
mod calls;
mod connections;
mod cuts;
mod faults;
mod go;
mod grpc_health;
mod held;
mod idle;
mod interim;
mod messages;
mod places;
mod signs_of_life;
mod tries;
mod websocket;

use crate::support::{Client, Proxy};
use std::net::SocketAddr;

/// A proxy for HTTP/2 endpoints, with more lines for its pool.
pub fn before(endpoints: &[SocketAddr], pool: &str) -> Proxy {
    Proxy::with(endpoints, "", &format!("protocol = 'h2'\n{pool}"), "")
}

/// A POST with this body and its `Content-Length`.
pub fn post(path: &str, body: &[u8]) -> Vec<u8> {
    let head = format!("POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}

/// Status of a GET on a new connection.
pub fn status(proxy: &Proxy, path: &str) -> u16 {
    let mut client: Client = proxy.client();
    client.get(path).status()
}
