//! Trailers of requests: endpoints get those that the route lists, and no others, for any protocol on either side.

use crate::support::endpoint::ok;
use crate::support::h2_client::{DATA, END_HEADERS, END_STREAM, Frame, H2Client, HEADERS, block};
use crate::support::h2_server::H2Server;
use crate::support::{Endpoint, Proxy, text};
use std::net::SocketAddr;

const SENT: [(&str, &str); 3] = [("x-sum", "7"), ("x-request-id", "spoof"), ("x-other", "1")];

/// Endpoints that answer with the trailers that they got.
fn endpoints() -> (Endpoint, H2Server) {
    let h1 = Endpoint::answering(|request| {
        let wire = text(&request.wire);
        let trailers = wire.rsplit_once("0\n").map_or("", |(_, trailers)| trailers);
        ok(&trailers.to_lowercase().trim_end().replace('\n', ", "))
    });
    let h2 = H2Server::start(|mut exchange| async move {
        let (_, trailers) = exchange.read().await;
        let trailers = trailers.unwrap_or_default();
        let lines = trailers.iter().map(|(name, value)| format!("{name}: {}", value.to_str().expect("ASCII")));
        let body = lines.collect::<Vec<_>>().join(", ");
        exchange.reply(200, &[], body.as_bytes(), &[]).await;
    });
    (h1, h2)
}

fn by_h1(proxy: &Proxy, fields: &str) -> String {
    let lines: String = SENT.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let mut client = proxy.client();
    client.send(format!("POST / HTTP/1.1\r\nHost: a\r\n{fields}Transfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n"));
    proxy.has_heard();
    client.send(format!("0\r\n{lines}\r\n"));
    let late = client.response().body_text();
    // All of it at once.
    let request = format!("POST / HTTP/1.1\r\nHost: a\r\n{fields}Transfer-Encoding: chunked\r\n\r\n0\r\n{lines}\r\n");
    assert_eq!(client.send(&request).send(&request).response().body_text(), late);
    assert_eq!(client.response().body_text(), late);
    late
}

fn by_h2(proxy: &Proxy, fields: &[(&str, &str)]) -> String {
    let mut client = H2Client::connect(proxy.addr());
    let head = [(":method", "POST"), (":scheme", "http"), (":path", "/"), (":authority", "a")];
    client.head(1, &[&head[..], fields].concat(), false);
    client.send(&Frame::new(DATA, 0, 1, "hi"));
    client.send(&Frame::new(HEADERS, END_HEADERS | END_STREAM, 1, block(&SENT)));
    client.answer(1).body_text()
}

fn proxy(addr: SocketAddr, protocol: &str, route: &str) -> Proxy {
    let behind = format!("[defaults.route]\n{route}");
    Proxy::with(&[addr], "h2c = true\nrequest_id = true", &format!("protocol = '{protocol}'"), &behind)
}

#[test]
fn endpoints_get_the_trailers_that_the_route_lists() {
    let (h1, h2) = endpoints();
    for (addr, protocol) in [(h1.addr, "http1"), (h2.addr, "h2")] {
        for (route, want) in [
            ("", ""),
            ("request_trailers = ['X-Sum']", "x-sum: 7"),
            ("request_trailers = ['x-sum', 'X-None', 'X-Other']", "x-sum: 7, x-other: 1"),
            // The proxy sets the field itself.
            ("request_trailers = ['X-Request-Id', 'X-Sum']", "x-sum: 7"),
        ] {
            let proxy = proxy(addr, protocol, route);
            assert_eq!((by_h1(&proxy, ""), by_h2(&proxy, &[])), (want.into(), want.into()), "{protocol}: {route}");
        }
    }
}

#[test]
fn those_of_a_grpc_call_too() {
    let (_, h2) = endpoints();
    for (route, want) in [("", ""), ("request_trailers = ['X-Request-Id', 'X-Sum']", "x-sum: 7")] {
        let proxy = proxy(h2.addr, "h2", route);
        let call = [("content-type", "application/grpc"), ("te", "trailers")];
        assert_eq!(by_h2(&proxy, &call), want, "{route}");
    }
}
