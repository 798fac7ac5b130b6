//! Interim responses of an endpoint, up to a limit for each response and only if the client takes them.

use super::{before, status};
use crate::support::endpoint::{Conn, Endpoint};
use crate::support::h2_client::{END_HEADERS, END_STREAM, Frame, HEADERS, SETTINGS, block};
use crate::support::{Proxy, wait_until};
use evenkeel_wire::h2::PREFACE;

/// Reads `n` bytes from the proxy; `None` at its end.
fn exactly(conn: &mut Conn, n: usize) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    while bytes.len() < n {
        let some = conn.some(n - bytes.len());
        if some.is_empty() {
            return None;
        }
        bytes.extend(some);
    }
    Some(bytes)
}

/// Reads the proxy's next frame of this kind.
fn next(conn: &mut Conn, kind: u8) -> Option<Frame> {
    loop {
        let front = exactly(conn, 9)?;
        let len = u32::from_be_bytes([0, front[0], front[1], front[2]]) as usize;
        let payload = exactly(conn, len)?;
        if front[3] == kind {
            let stream = u32::from_be_bytes([front[5], front[6], front[7], front[8]]);
            return Some(Frame { kind, flags: front[4], stream, payload });
        }
    }
}

/// An HTTP/2 endpoint that sends `responses` for each request. The arguments are the stream, and the number of earlier
/// requests on the connection.
fn sending(responses: impl Fn(u32, usize) -> Vec<u8> + Send + Sync + 'static) -> Endpoint {
    Endpoint::start(move |conn| {
        assert_eq!(conn.bytes(PREFACE.len()), PREFACE);
        conn.send(Frame::new(SETTINGS, 0, 0, "").bytes());
        let mut count = 0;
        while let Some(head) = next(conn, HEADERS) {
            conn.send(responses(head.stream, count));
            count += 1;
        }
    })
}

fn last(stream: u32) -> Vec<u8> {
    Frame::new(HEADERS, END_HEADERS | END_STREAM, stream, block(&[(":status", "204")])).bytes()
}

/// `count` 103 responses with a field of 4000 bytes: in full for the HPACK table first, and then as a reference.
fn hints(stream: u32, count: usize, is_first: bool) -> Vec<u8> {
    // `:status` by its index, with a literal value.
    let status = [0x08, 3, b'1', b'0', b'3'];
    let full = [&status[..], &[0x40, 1, b'x', 0x7f, 0xa1, 0x1e], &[b'x'; 4000]].concat();
    let short = [&status[..], &[0xbe]].concat();
    let blocks = std::iter::once(if is_first { full } else { short.clone() }).chain(std::iter::repeat(short));
    blocks.take(count).flat_map(|block| Frame::new(HEADERS, END_HEADERS, stream, block).bytes()).collect()
}

fn dropped(proxy: &Proxy) -> u64 {
    proxy.endpoint(0, |e| e.http2.interim_dropped.get())
}

#[test]
fn those_that_a_client_does_not_take_are_dropped_and_the_response_passes() {
    let endpoint = sending(|stream, count| [hints(stream, 16, count == 0), last(stream)].concat());
    let proxy = before(&[endpoint.addr], "");
    for n in 0..3 {
        // They come in one write, before the request's task has its turn.
        let mut client = proxy.client();
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        let mut passed = 0;
        let head = loop {
            let head = client.head();
            if !head.starts_with("HTTP/1.1 103 ") {
                break head;
            }
            passed += 1;
        };
        assert!(head.starts_with("HTTP/1.1 204 "), "{head}");
        assert!((1..=16).contains(&passed), "{n}: {passed}");
    }
    wait_until("nothing is in flight", || proxy.in_flight() == 0);
    assert!(dropped(&proxy) > 0);
    assert_eq!(endpoint.accepted(), 1);
}

/// 3000 of them take 45 kB on the wire, and would take 12 MB in memory.
#[test]
fn an_endpoint_that_sends_them_without_an_end_fails_its_request_and_no_other() {
    let endpoint = sending(|stream, count| match count {
        0 => hints(stream, 3000, true),
        _ => last(stream),
    });
    let proxy = before(&[endpoint.addr], "retry = { attempts = 0 }\noutlier = 'off'");
    let mut client = proxy.client();
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let head = loop {
        let head = client.head();
        if !head.starts_with("HTTP/1.1 103 ") {
            break head;
        }
    };
    assert!(head.starts_with("HTTP/1.1 502 "), "{head}");
    assert_eq!(status(&proxy, "/"), 204);
    assert_eq!(endpoint.accepted(), 1, "the connection is still used");
}

#[test]
fn a_blank_in_a_response_is_dropped_and_for_other_faults_the_field_is_named() {
    let endpoint = sending(|stream, count| {
        let value = ["a ", "a\0"][count.min(1)];
        Frame::new(HEADERS, END_HEADERS | END_STREAM, stream, block(&[(":status", "200"), ("x-note", value)])).bytes()
    });
    let proxy = before(&[endpoint.addr], "retry = { attempts = 0 }");
    let answer = proxy.client().get("/");
    assert_eq!((answer.status(), answer.field("x-note")), (200, Some("a")));
    let answer = proxy.client().get("/");
    let why = "sent a malformed response: a value has a control character (field \"x-note\")";
    assert!(answer.status() == 502 && answer.body_text().contains(why), "{}", answer.body_text());
}
