//! Clients that stall within a handshake: they cost next to nothing, and block no other client.

use crate::support::tls::{Authority, BOTH, TlsClient, at_listener, proxy};
use crate::support::{Endpoint, Proxy, SOON, wait_until};
use evenkeel_proxy::stats::Unsecured;
use rustls::ClientConfig;
use socket2::{Domain, Socket, Type};
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Arc;

/// Limit of handshakes under way, as set by `at_listener`.
const MOST: usize = 100;

/// Connects from this loopback address.
fn from(ip: [u8; 4], to: SocketAddr) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from((Ipv4Addr::from(ip), 0)).into()).unwrap();
    socket.connect(&to.into()).unwrap();
    let stream: TcpStream = socket.into();
    stream.set_read_timeout(Some(SOON)).unwrap();
    stream
}

fn sending(n: usize, ip: [u8; 4], proxy: &Proxy, bytes: &[u8]) -> Vec<TcpStream> {
    let one = || {
        let mut stream = from(ip, proxy.addr());
        stream.write_all(bytes).unwrap();
        stream
    };
    (0..n).map(|_| one()).collect()
}

fn hello(config: Arc<ClientConfig>) -> Vec<u8> {
    let name = rustls::pki_types::ServerName::try_from("a.test").unwrap();
    let mut connection = rustls::ClientConnection::new(config, name).unwrap();
    let mut bytes = Vec::new();
    connection.write_tls(&mut bytes).unwrap();
    bytes
}

fn failed(proxy: &Proxy, cause: Unsecured) -> u64 {
    proxy.listener(|l| l.tls.failed[cause as usize].get())
}

#[test]
fn clients_that_sent_a_part_of_their_hello_take_no_handshake_from_others() {
    let (ca, endpoint) = (Authority::new("ca"), Endpoint::saying("hello"));
    let proxy = proxy(endpoint.addr, at_listener(ca.server("a.test", &[], |_| ()), SOON), "", "");
    let stalled = sending(2 * MOST, [127, 0, 0, 1], &proxy, &[22]);
    wait_until("all of them wait", || proxy.listener(|l| l.tls.waiting.get()) == stalled.len() as u64);
    assert_eq!(proxy.listener(|l| l.tls.active.get()), 0);
    let mut client = TlsClient::connect(proxy.addr(), ca.client(BOTH), "a.test").expect("a handshake");
    assert_eq!(client.get("/").body_text(), "hello");
    assert_eq!((failed(&proxy, Unsecured::TooMany), failed(&proxy, Unsecured::Displaced)), (0, 0));
    drop(stalled);
    wait_until("none waits", || proxy.listener(|l| l.tls.waiting.get()) == 0);
}

#[test]
fn clients_that_stall_behind_their_hello_give_way_to_other_addresses() {
    let (ca, endpoint) = (Authority::new("ca"), Endpoint::saying("hello"));
    let proxy = proxy(endpoint.addr, at_listener(ca.server("a.test", &[], |_| ()), SOON), "", "");
    let stalled = sending(MOST, [127, 0, 0, 2], &proxy, &hello(ca.client(BOTH)));
    wait_until("all of them stall", || proxy.listener(|l| l.tls.active.get()) == MOST as u64);
    for round in 1..=5 {
        let stream = from([127, 0, 0, 3], proxy.addr());
        let mut client = TlsClient::over(stream, ca.client(BOTH), "a.test").expect("a handshake");
        assert_eq!(client.get("/").body_text(), "hello");
        // The place that a stalled client has lost is used again.
        assert_eq!(failed(&proxy, Unsecured::Displaced), 1, "round {round}");
    }
    assert_eq!(failed(&proxy, Unsecured::TooMany), 0);
    drop(stalled);
    wait_until("none is under way", || proxy.listener(|l| l.tls.active.get()) == 0);
}

#[test]
fn waiting_places_are_shared_by_address() {
    let (ca, endpoint) = (Authority::new("ca"), Endpoint::saying("hello"));
    let proxy = proxy(endpoint.addr, at_listener(ca.server("a.test", &[], |_| ()), SOON), "", "");
    // The limit on waiting connections is four for each handshake.
    let stalled = sending(4 * MOST, [127, 0, 0, 2], &proxy, &[22]);
    wait_until("all of them wait", || proxy.listener(|l| l.tls.waiting.get()) == stalled.len() as u64);
    let mut others = sending(10, [127, 0, 0, 3], &proxy, &[22]);
    wait_until("as many were displaced", || failed(&proxy, Unsecured::Displaced) == 10);
    let mut client = TlsClient::over(from([127, 0, 0, 3], proxy.addr()), ca.client(BOTH), "a.test").unwrap();
    assert_eq!(client.get("/").body_text(), "hello");
    assert_eq!(failed(&proxy, Unsecured::TooMany), 0);
    let ip: IpAddr = others.remove(0).local_addr().unwrap().ip();
    assert_eq!(ip, IpAddr::from([127, 0, 0, 3]));
}
