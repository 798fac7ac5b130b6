//! The limit of idle connections to endpoints, over all protocols.

use crate::support::h2_server::H2Server;
use crate::support::{Endpoint, Proxy, wait_until};
use std::net::SocketAddr;

const ENDPOINTS: usize = 40;
const MOST: u64 = 8;

/// A proxy that has sent one request to each endpoint. `pool`: more lines for its pool.
fn asked(endpoints: &[SocketAddr], pool: &str) -> Proxy {
    let list: Vec<String> = endpoints.iter().map(|addr| format!("'{addr}'")).collect();
    let proxy = Proxy::start(&format!(
        "[runtime]\nworkers = 1\nidle_connections = {MOST}\n[listener.web]\nbind = ['$BIND']\n[pool.web]\n\
         balance = 'round_robin'\nendpoints = [{}]\n{pool}",
        list.join(", ")
    ));
    let mut client = proxy.client();
    for _ in 0..ENDPOINTS {
        assert_eq!(client.get("/").status(), 200);
    }
    proxy
}

fn sum(proxy: &Proxy, what: fn(&evenkeel_proxy::stats::EndpointStats) -> u64) -> u64 {
    (0..ENDPOINTS).map(|n| proxy.endpoint(n, what)).sum()
}

#[test]
fn those_of_http1_that_were_used_last_are_kept() {
    let endpoints: Vec<Endpoint> = (0..ENDPOINTS).map(|_| Endpoint::saying("hello")).collect();
    let addrs: Vec<SocketAddr> = endpoints.iter().map(|endpoint| endpoint.addr).collect();
    let proxy = asked(&addrs, "");
    // The last connection becomes idle after its response, and only then are others closed for it.
    wait_until("each is idle or closed, and few are idle", || {
        let (idle, closed) = (sum(&proxy, |e| e.idle.get()), sum(&proxy, |e| e.idle_closed.get()));
        idle + closed == ENDPOINTS as u64 && (MOST / 2..=MOST).contains(&idle)
    });
    // The one used last is still open.
    let before = sum(&proxy, |e| e.connects.get());
    let mut client = proxy.client();
    (0..ENDPOINTS).for_each(|_| assert_eq!(client.get("/").status(), 200));
    assert!(sum(&proxy, |e| e.connects.get()) > before, "others were closed");
}

#[test]
fn those_of_http2_that_were_used_last_are_kept() {
    let endpoints: Vec<H2Server> = (0..ENDPOINTS).map(|_| H2Server::saying("hello")).collect();
    let addrs: Vec<SocketAddr> = endpoints.iter().map(|endpoint| endpoint.addr).collect();
    let proxy = asked(&addrs, "protocol = 'h2'");
    wait_until("the others are closed", || sum(&proxy, |e| e.http2.connections.get()) <= MOST);
    wait_until("they are counted", || sum(&proxy, |e| e.idle_closed.get()) >= ENDPOINTS as u64 - MOST);
    let mut client = proxy.client();
    (0..ENDPOINTS).for_each(|_| assert_eq!(client.get("/").status(), 200));
}
