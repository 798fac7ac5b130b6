//! WebSocket over HTTP/2 (RFC 8441) to an endpoint that supports it over HTTP/1.1.

use super::{before, client};
use crate::support::h2_client::{DATA, END_STREAM, Frame, HEADERS, RST_STREAM, SETTINGS};
use crate::support::{Endpoint, wait_until};
use base64::Engine as _;
use sha1::{Digest, Sha1};

const ASK: [(&str, &str); 6] = [
    (":method", "CONNECT"),
    (":protocol", "websocket"),
    (":scheme", "http"),
    (":path", "/chat?x"),
    (":authority", "a"),
    ("sec-websocket-version", "13"),
];

/// Answer to the key of a head (RFC 6455 section 4.2.2).
fn accept(head: &str) -> String {
    let key = key(head).expect("a key");
    let hash = Sha1::new().chain_update(key).chain_update("258EAFA5-E914-47DA-95CA-C5AB0DC85B11").finalize();
    base64::engine::general_purpose::STANDARD.encode(hash)
}

fn switching(accept: &str) -> String {
    format!(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Accept: {accept}\r\n\r\n"
    )
}

fn key(head: &str) -> Option<&str> {
    head.lines().find_map(|line| line.strip_prefix("Sec-WebSocket-Key: "))
}

#[test]
fn bytes_pass_both_ways_until_both_sides_end() {
    let endpoint = Endpoint::start(|conn| {
        let head = conn.head();
        assert!(head.starts_with("GET /chat?x HTTP/1.1\r\nHost: a\r\n"), "{head}");
        for line in ["Upgrade: websocket", "Connection: upgrade", "sec-websocket-version: 13"] {
            assert!(head.lines().any(|l| l == line), "{line}: {head}");
        }
        assert!(key(&head).is_some_and(|key| key.len() == 24 && key.ends_with("==")), "{head}");
        conn.send(format!("{}hello", switching(&accept(&head))));
        assert_eq!(conn.bytes(5), b"world");
        conn.send("again");
        assert_eq!(conn.rest(), b"", "the client says that it has done");
    });
    let proxy = before(&[endpoint.addr]);
    let mut client = client(&proxy);
    let settings = client.next(SETTINGS).expect("the proxy's");
    assert!(settings.payload.chunks(6).any(|s| s == [0, 8, 0, 0, 0, 1]), "{settings:?}");
    client.head(1, &ASK, false);
    let head = client.next(HEADERS).expect("a head");
    assert_eq!(head.flags & END_STREAM, 0);
    assert_eq!(client.next(DATA).expect("its bytes").payload, b"hello");
    client.send(&Frame::new(DATA, 0, 1, "world"));
    assert_eq!(client.next(DATA).expect("its bytes").payload, b"again");
    client.send(&Frame::new(DATA, END_STREAM, 1, ""));
    let last = client.next(DATA).expect("its end");
    assert_eq!((last.payload.len(), last.flags & END_STREAM), (0, END_STREAM));
    client.ends();
    wait_until("it is counted", || proxy.ended(200) == 1);
}

#[test]
fn an_endpoint_that_does_not_switch_answers_as_ever() {
    let endpoint = Endpoint::answering(|_| crate::support::endpoint::status("404 Not Found", "no"));
    let proxy = before(&[endpoint.addr]);
    let mut client = client(&proxy);
    client.head(1, &ASK, false);
    let answer = client.answer(1);
    assert_eq!((answer.status(), answer.body_text().as_str()), (404, "no"));
    client.head(3, &ASK, false);
    assert_eq!(client.answer(3).status(), 404);
}

/// To a client of HTTP/2 any 2xx is a tunnel, so a page in place of a switch was one.
#[test]
fn what_is_no_switch_is_no_tunnel() {
    for (answer, why) in [
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello".to_string(),
            "answered 200 instead of switching to WebSocket",
        ),
        ("HTTP/1.1 204 No Content\r\n\r\n".to_string(), "answered 204 instead of switching to WebSocket"),
        (switching("x"), "switched to WebSocket without the right Sec-WebSocket-Accept"),
        (switching("").replace("Sec-WebSocket-Accept: \r\n", ""), "without the right Sec-WebSocket-Accept"),
    ] {
        let sent = answer.clone();
        let endpoint = Endpoint::start(move |conn| {
            while conn.request_if_whole().is_some() {
                conn.send(&sent);
            }
        });
        let proxy = before(&[endpoint.addr]);
        let mut client = client(&proxy);
        client.head(1, &ASK, false);
        let got = client.answer(1);
        assert!(got.status() == 502 && got.body_text().contains(why), "{answer}: {}", got.body_text());
        // Any client may ask for one where there is none.
        let errors = proxy.endpoint(0, |stats| stats.errors.iter().map(|errors| errors.get()).sum::<u64>());
        assert_eq!(errors, u64::from(answer.contains(" 101 ")), "{answer}");
    }
}

#[test]
fn a_reset_ends_both_sides() {
    let endpoint = Endpoint::start(|conn| {
        let head = conn.head();
        conn.send(switching(&accept(&head)));
        conn.rest();
    });
    let proxy = before(&[endpoint.addr]);
    let mut client = client(&proxy);
    client.head(1, &ASK, false);
    client.next(HEADERS).expect("a head");
    client.send(&Frame::new(RST_STREAM, 0, 1, [0, 0, 0, 8]));
    wait_until("it is over", || proxy.in_flight() == 0);
}

/// Each request gets another key, though nothing else differs.
#[test]
fn no_two_keys_are_alike() {
    let endpoint = Endpoint::answering(|_| crate::support::endpoint::status("404 Not Found", ""));
    let proxy = before(&[endpoint.addr]);
    let mut client = client(&proxy);
    for n in 0..20 {
        client.head(2 * n + 1, &ASK, false);
        assert_eq!(client.answer(2 * n + 1).status(), 404);
    }
    let mut keys: Vec<String> =
        endpoint.seen().iter().filter_map(|m| m.field("sec-websocket-key").map(Into::into)).collect();
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), 20);
}

/// A tunnel of HTTP/2 to an endpoint would carry requests that are neither routed nor limited ("h2c smuggling").
#[test]
fn a_tunnel_for_another_protocol_is_not_opened() {
    let endpoint = Endpoint::saying("hello");
    let proxy = before(&[endpoint.addr]);
    let mut client = client(&proxy);
    for (at, protocol) in
        ["h2c", "H2C", "h2", "HTTP/2.0", "TLS/1.0", "connect-udp", "websocket2"].into_iter().enumerate()
    {
        let stream = 2 * at as u32 + 1;
        let ask =
            [&[ASK[0], (":protocol", protocol)][..], &ASK[2..], &[("http2-settings", "AAMAAABkAAQAAP__")]].concat();
        client.head(stream, &ask, false);
        assert_eq!(client.answer(stream).status(), 501, "{protocol}");
    }
    client.head(101, &crate::support::h2_client::get("/"), true);
    assert_eq!(client.answer(101).status(), 200);
    assert_eq!(endpoint.seen().len(), 1);
    assert_eq!(proxy.listener(|l| l.malformed.get()), 7);
}
