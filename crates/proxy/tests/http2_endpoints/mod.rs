//! Do requests get to endpoints that speak HTTP/2, whatever their clients speak, and back?

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

/// A proxy before endpoints that speak HTTP/2, with more lines for the pool.
pub fn before(endpoints: &[SocketAddr], pool: &str) -> Proxy {
    Proxy::with(endpoints, "", &format!("protocol = 'h2'\n{pool}"), "")
}

/// A request with this body.
pub fn post(path: &str, body: &[u8]) -> Vec<u8> {
    let head = format!("POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}

/// The status of a GET on a connection of its own.
pub fn status(proxy: &Proxy, path: &str) -> u16 {
    let mut client: Client = proxy.client();
    client.get(path).status()
}
