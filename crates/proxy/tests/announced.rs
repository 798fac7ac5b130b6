//! The PROXY protocol in both directions, byte by byte and with HAProxy and NGINX as peers: the client behind another
//! proxy is known.

use crate::support::haproxy::Haproxy;
use crate::support::nginx::Nginx;
use crate::support::{Client, Endpoint, Proxy, text, wait_until};
use evenkeel_peers::installed;
use evenkeel_proxy::stats::{ListenerStats, Rejected};
use std::time::{Duration, Instant};

const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
const FROM: [u8; 4] = [127, 0, 0, 2];

/// An endpoint that answers with the client's address from `X-Forwarded-For`.
fn telling() -> Endpoint {
    Endpoint::answering(|request| crate::support::endpoint::ok(request.field("x-forwarded-for").unwrap_or("nobody")))
}

/// A proxy that accepts headers from 127.0.0.1, with more keys for its listener.
fn before(endpoint: &Endpoint, more: &str) -> Proxy {
    Proxy::with(&[endpoint.addr], &format!("accept_proxy_protocol = [\"127.0.0.1\"]\n{more}"), "", "")
}

fn rejected(listener: &ListenerStats) -> u64 {
    listener.rejected[Rejected::ProxyProtocol as usize].get()
}

/// A version 2 header with a command, a family and the rest of its bytes.
fn v2(command: u8, family: u8, rest: &[u8]) -> Vec<u8> {
    let len = (rest.len() as u16).to_be_bytes();
    [b"\r\n\r\n\0\r\nQUIT\n", &[command, family][..], &len, rest].concat()
}

#[test]
fn the_client_is_whom_the_header_names() {
    let endpoint = telling();
    let proxy = before(&endpoint, "");
    let mut six = [0; 36];
    (six[0], six[15]) = (0x20, 1);
    for (header, who) in [
        (b"PROXY TCP4 192.0.2.1 192.0.2.9 56324 443\r\n".to_vec(), "192.0.2.1"),
        (b"PROXY TCP6 2001:db8::1 2001:db8::2 1 2\r\n".to_vec(), "2001:db8::1"),
        (b"PROXY UNKNOWN\r\n".to_vec(), "127.0.0.1"),
        (v2(0x21, 0x11, &[192, 0, 2, 7, 192, 0, 2, 9, 1, 2, 3, 4]), "192.0.2.7"),
        (v2(0x21, 0x21, &six), "2000::1"),
        (v2(0x20, 0, &[]), "127.0.0.1"),
        (v2(0x21, 0x31, &[9; 216]), "127.0.0.1"),
    ] {
        // In one write with a request, and with another one after that.
        let mut client = proxy.client();
        client.send([&header, GET.as_bytes(), GET.as_bytes()].concat());
        assert_eq!((client.response().body_text(), client.response().body_text()), (who.into(), who.into()));
        // Byte by byte.
        let mut client = proxy.client();
        for byte in &header {
            client.send([*byte]);
        }
        assert_eq!(client.send(GET).response().body_text(), who);
        assert_eq!(client.send(GET).response().body_text(), who, "for all requests of the connection");
    }
    assert_eq!(proxy.listener(rejected), 0);
}

#[test]
fn a_connection_without_its_header_is_closed_without_a_word() {
    let endpoint = telling();
    let proxy = before(&endpoint, "timeouts = { client_header = \"200ms\" }");
    for (n, bytes) in
        [GET.as_bytes().to_vec(), b"PROXY TCP4 1.2.3.4\r\n".to_vec(), v2(0x22, 0x11, &[0; 12])].iter().enumerate()
    {
        let mut client = proxy.client();
        client.send(bytes).ends();
        wait_until("it is counted", || proxy.listener(rejected) == n as u64 + 1);
    }
    // The time runs from the connection on.
    let began = Instant::now();
    let mut late = proxy.client();
    late.send("PROXY TCP4 192.0.2.1").ends();
    assert!(began.elapsed() >= Duration::from_millis(200), "{:?}", began.elapsed());
    wait_until("nothing is open", || proxy.listener(|l| l.active.get()) == 0);
    assert!(endpoint.seen().is_empty());
}

/// Otherwise any client could claim any address.
#[test]
fn a_header_from_somebody_else_is_a_malformed_request() {
    let endpoint = telling();
    let proxy = before(&endpoint, "");
    for header in [&b"PROXY TCP4 192.0.2.1 192.0.2.9 1 2\r\n"[..], &v2(0x20, 0, &[])] {
        let mut client = Client::connect_from(FROM, proxy.addr());
        client.send([header, GET.as_bytes()].concat());
        assert_eq!(client.response().status(), 400);
    }
    let mut client = Client::connect_from(FROM, proxy.addr());
    assert_eq!(client.send(GET).response().body_text(), "127.0.0.2");
    assert_eq!((endpoint.seen().len(), proxy.listener(|l| l.malformed.get())), (1, 2));
}

/// Within a connection, a header is a malformed request.
#[test]
fn a_second_header_is_a_malformed_request() {
    let endpoint = telling();
    let proxy = before(&endpoint, "");
    let header = "PROXY TCP4 192.0.2.1 192.0.2.9 1 2\r\n";
    let mut client = proxy.client();
    client.send(format!("{header}{header}{GET}"));
    assert_eq!(client.response().status(), 400);
    assert!(endpoint.seen().is_empty());
}

/// HAProxy sends the same header in its health checks, for no client.
#[test]
fn haproxy_announces_its_client() {
    if !installed(&["haproxy"]) {
        return;
    }
    for send in [
        "send-proxy",
        "send-proxy-v2",
        "send-proxy-v2 proxy-v2-options crc32c,unique-id",
        "send-proxy-v2 check inter 50ms",
    ] {
        let endpoint = telling();
        let proxy = before(&endpoint, "");
        let server = format!("server s {} {send}", proxy.addr());
        let haproxy = Haproxy::start(&format!(
            "frontend f\nbind $BIND\nunique-id-format %ci\ndefault_backend b\nbackend b\n{server}"
        ));
        let mut client = Client::connect_from(FROM, haproxy.addr);
        assert_eq!(client.get("/").body_text(), "127.0.0.2", "{send}");
        assert_eq!(client.get("/").body_text(), "127.0.0.2", "{send}");
        assert_eq!(proxy.listener(rejected), 0, "{send}");
    }
}

fn sending(version: &str, to: std::net::SocketAddr) -> Proxy {
    Proxy::with(&[to], "", &format!("proxy_protocol = \"{version}\""), "")
}

#[test]
fn haproxy_learns_the_client() {
    if !installed(&["haproxy"]) {
        return;
    }
    let says =
        "http-request return status 200 content-type text/plain lf-string \"%[src] %[src_port] %[dst]:%[dst_port]\"";
    let haproxy = Haproxy::start(&format!("frontend f\nbind $BIND accept-proxy\n{says}"));
    hears(|version| sending(version, haproxy.addr));
}

#[test]
fn nginx_hears_who_the_client_is() {
    if !installed(&["nginx"]) {
        return;
    }
    let says = "$proxy_protocol_addr $proxy_protocol_port $proxy_protocol_server_addr:$proxy_protocol_server_port";
    let nginx = Nginx::with(&format!("listen $BIND proxy_protocol; location / {{ return 200 \"{says}\"; }}"));
    hears(|version| sending(version, nginx.addr));
}

/// Each client gets a connection with its own header, though both sides would keep connections.
fn hears(proxy: impl Fn(&str) -> Proxy) {
    for version in ["v1", "v2"] {
        let proxy = proxy(version);
        for from in [FROM, [127, 0, 0, 3], FROM] {
            let mut client = Client::connect_from(from, proxy.addr());
            let here = client.stream.local_addr().expect("it is connected");
            for _ in 0..2 {
                let want = format!("{} {} {}", here.ip(), here.port(), proxy.addr());
                assert_eq!(client.get("/").body_text(), want, "{version}");
            }
        }
        assert_eq!((proxy.endpoint(0, |e| e.connects.get()), proxy.endpoint(0, |e| e.idle.get())), (6, 0));
    }
}

#[test]
fn a_header_goes_first_and_once_even_before_a_large_body() {
    for (version, len) in [("v1", 0), ("v2", 28)] {
        let endpoint = Endpoint::start(move |conn| {
            let header = match len {
                0 => {
                    let line = conn.bytes(6);
                    let mut line = line.to_vec();
                    while !line.ends_with(b"\r\n") {
                        line.extend(conn.bytes(1));
                    }
                    line
                }
                len => conn.bytes(len),
            };
            assert!(
                header.starts_with(if len == 0 {
                    &b"PROXY TCP4 127.0.0.2 127."[..]
                } else {
                    b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c"
                }),
                "{}",
                text(&header)
            );
            let request = conn.request().expect("a request");
            assert_eq!((request.body.len(), request.field("connection")), (1_000_000, Some("close")));
            conn.send(crate::support::endpoint::ok("hello"));
        });
        let proxy = sending(version, endpoint.addr);
        let mut client = Client::connect_from(FROM, proxy.addr());
        client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n");
        let sending = client.send_aside(vec![b'x'; 1_000_000]);
        assert_eq!(client.response().body_text(), "hello");
        assert!(sending.join().expect("it does not panic").is_ok());
    }
}

/// HAProxy in front of evenkeel in front of HAProxy: the client's address reaches the last endpoint.
#[test]
fn what_comes_in_by_header_goes_out_by_header() {
    if !installed(&["haproxy"]) {
        return;
    }
    let says = "http-request return status 200 content-type text/plain lf-string \"%[src]:%[src_port]\"";
    let last = Haproxy::start(&format!("frontend f\nbind $BIND accept-proxy\n{says}"));
    let proxy = Proxy::with(&[last.addr], "accept_proxy_protocol = [\"127.0.0.1\"]", "proxy_protocol = \"v2\"", "");
    let first = Haproxy::start(&format!(
        "frontend f\nbind $BIND\ndefault_backend b\nbackend b\nserver s {} send-proxy",
        proxy.addr()
    ));
    let mut client = Client::connect_from(FROM, first.addr);
    let here = client.stream.local_addr().expect("it is connected");
    assert_eq!(client.get("/").body_text(), here.to_string());
}
