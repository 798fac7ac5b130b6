//! A side that is slower than the other, stops, or answers early: bytes wait in the kernel's socket buffers and not in
//! the proxy, and none are lost.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "a test is no worker: it may lock and wait")]

use crate::support::endpoint::ok;
use crate::support::{Endpoint, Proxy, SOON, noise, text, wait_until};
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// A body larger than the socket buffers of a relayed connection: two of them are kept small here, and the other two
/// grow to the kernel's limits.
fn large() -> Vec<u8> {
    let most = |name: &str| -> usize {
        let sizes = std::fs::read_to_string(format!("/proc/sys/net/ipv4/{name}")).expect("Linux tells");
        sizes.split_whitespace().nth(2).and_then(|size| size.parse().ok()).expect("least, usual and most")
    };
    let megabytes = (most("tcp_rmem") + most("tcp_wmem")) / 1_000_000 + 10;
    noise(1_000_000).repeat(megabytes)
}

/// Silence after which a sender counts as stopped.
const STOPPED: Duration = Duration::from_millis(300);

/// Writes until the socket has taken everything or nothing for a while, and returns the number of bytes taken.
fn write_until_stopped(mut stream: &TcpStream, bytes: &[u8]) -> usize {
    stream.set_nonblocking(true).expect("sockets can be polled");
    let (mut taken, mut since) = (0, Instant::now());
    while taken < bytes.len() && since.elapsed() < STOPPED {
        match stream.write(&bytes[taken..]) {
            Ok(n) => {
                taken += n;
                since = Instant::now();
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => std::thread::sleep(Duration::from_millis(1)),
            Err(error) => panic!("after {taken} bytes: {error}"),
        }
    }
    stream.set_nonblocking(false).expect("sockets can be waited for");
    taken
}

/// A listener whose connections buffer little.
fn small_listener() -> TcpListener {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    socket2::SockRef::from(&listener).set_recv_buffer_size(64 * 1024).expect("sockets have options");
    listener
}

#[test]
fn an_upload_stops_while_the_endpoint_does_not_read() {
    let body = large();
    let length = body.len();
    let expected = body.clone();
    let (go_on, may_go_on) = channel();
    let may_go_on = Mutex::new(may_go_on);
    let endpoint = Endpoint::on(small_listener(), move |conn| {
        conn.head();
        may_go_on.lock().expect("one connection").recv_timeout(SOON).expect("the test goes on");
        assert!(conn.bytes(length) == expected);
        conn.send(ok("thanks"));
    });
    let proxy = Proxy::before(&[endpoint.addr]);
    let mut client = proxy.client();
    socket2::SockRef::from(&client.stream).set_send_buffer_size(64 * 1024).expect("sockets have options");
    client.send(format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n"));
    let taken = write_until_stopped(&client.stream, &body);
    assert!(taken < length - 2_000_000, "{taken} of {length} bytes were taken");
    go_on.send(()).expect("the endpoint waits");
    client.send(&body[taken..]);
    assert_eq!(client.response().body_text(), "thanks");
}

#[test]
fn a_download_stops_while_the_client_does_not_read() {
    let body = large();
    let length = body.len();
    let (stopped, has_stopped) = channel();
    let for_endpoint = body.clone();
    let endpoint = Endpoint::start(move |conn| {
        conn.head();
        conn.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n"));
        let taken = write_until_stopped(&conn.stream, &for_endpoint);
        stopped.send(taken).expect("the test waits");
        conn.send(&for_endpoint[taken..]);
    });
    let proxy = Proxy::before(&[endpoint.addr]);
    let mut client = proxy.client();
    // Before any response, as the first request fixes the receive window.
    socket2::SockRef::from(&client.stream).set_recv_buffer_size(64 * 1024).expect("sockets have options");
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let taken = has_stopped.recv_timeout(SOON).expect("it stops");
    assert!(taken < length - 2_000_000, "{taken} of {length} bytes were taken");
    assert!(client.response().body == body);
}

#[test]
fn a_slow_reader_gets_every_byte() {
    let body = noise(1_000_000);
    let response = [format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len()).as_bytes(), &body].concat();
    let endpoint = Endpoint::answering(move |_| response.clone());
    let proxy = Proxy::before(&[endpoint.addr]);
    let mut client = proxy.client();
    socket2::SockRef::from(&client.stream).set_recv_buffer_size(32 * 1024).expect("sockets have options");
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    client.head();
    let mut got = Vec::new();
    while got.len() < body.len() {
        got.extend_from_slice(&client.bytes(1000));
        std::thread::yield_now();
    }
    assert!(got == body);
}

#[test]
fn an_early_response_reaches_a_client_that_still_sends() {
    for closes in [true, false] {
        let (end, may_end) = channel();
        let may_end = Mutex::new(may_end);
        let endpoint = Endpoint::start(move |conn| {
            conn.head();
            conn.bytes(100_000);
            conn.send("HTTP/1.1 413 Content Too Large\r\nConnection: close\r\nContent-Length: 3\r\n\r\nno\n");
            if !closes {
                // Neither reads nor closes until the test has seen the response.
                may_end.lock().expect("one connection").recv_timeout(SOON).expect("the test goes on");
            }
        });
        let proxy = Proxy::before(&[endpoint.addr]);
        let mut client = proxy.client();
        let body = large();
        client.send(format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", body.len()));
        let sending = client.send_aside(body);
        let response = client.response();
        assert_eq!((response.status(), response.body_text()), (413, "no\n".into()));
        client.ends();
        let _ = end.send(());
        let _ = sending.join().expect("it does not panic");
        wait_until("it is counted", || proxy.ended(413) == 1);
        assert_eq!(proxy.endpoint(0, |e| e.idle.get()), 0, "the rest of the body never came there");
    }
}

/// The fault must not be written into a response that has begun.
#[test]
fn a_fault_in_a_body_cuts_a_response_that_has_begun() {
    let endpoint = Endpoint::start(|conn| {
        conn.head();
        conn.send("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n");
        let chunk = conn.bytes(8);
        conn.send(chunk);
        assert_eq!(conn.rest(), b"");
    });
    let proxy = Proxy::with(&[endpoint.addr], "", "timeouts = { idle = \"200ms\" }", "");
    for flaw in ["x\r\n", ""] {
        let mut client = proxy.client();
        client.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
        assert_eq!(client.head(), "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n");
        assert_eq!(client.send("3\r\nabc\r\n").bytes(8), b"3\r\nabc\r\n");
        client.send(flaw).ends();
    }
}

#[test]
fn both_bodies_may_be_under_way_at_once() {
    let endpoint = Endpoint::start(|conn| {
        conn.head();
        conn.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
        for _ in 0..1000 {
            let chunk = conn.bytes(8);
            conn.send(chunk);
        }
        assert_eq!(conn.bytes(5), b"0\r\n\r\n");
        conn.send("0\r\n\r\n");
        assert_eq!(conn.rest(), b"");
    });
    let proxy = Proxy::before(&[endpoint.addr]);
    let mut client = proxy.client();
    client.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
    assert_eq!(client.head(), "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
    for n in 0..1000 {
        let chunk = format!("3\r\n{n:03}\r\n");
        let chunk = &chunk.as_bytes()[..8];
        assert_eq!(client.send(chunk).bytes(8), chunk);
    }
    assert_eq!(client.send("0\r\n\r\n").bytes(5), b"0\r\n\r\n");
    wait_until("it is counted", || proxy.ended(200) == 1);
    assert_eq!(proxy.endpoint(0, |e| e.idle.get()), 1);
}

#[test]
fn a_client_that_shuts_down_its_side_gets_its_response() {
    let endpoint = Endpoint::saying("hello");
    let proxy = Proxy::before(&[endpoint.addr]);
    let mut client = proxy.client();
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabcGET / HTTP/1.1\r\nHost: a\r\n\r\n");
    client.finish_sending();
    assert_eq!(client.response().body_text(), "hello");
    assert_eq!(client.response().body_text(), "hello");
    client.ends();
}

#[test]
fn a_client_that_leaves_within_its_body_takes_the_request_with_it() {
    let cut = Arc::new(Mutex::new(Vec::new()));
    let seen = cut.clone();
    let endpoint = Endpoint::start(move |conn| {
        conn.head();
        let mut rest = Vec::new();
        let _ = conn.stream.read_to_end(&mut rest);
        seen.lock().expect("no panic").push(text(&rest));
    });
    let proxy = Proxy::before(&[endpoint.addr]);
    let mut client = proxy.client();
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n");
    wait_until("it is under way", || proxy.in_flight() == 1);
    client.send("abc").finish_sending();
    client.ends();
    wait_until("the endpoint sees the end", || cut.lock().expect("no panic").len() == 1);
    wait_until("it is over", || proxy.in_flight() == 0);
    assert_eq!(proxy.endpoint(0, |e| e.errors.iter().map(|n| n.get()).sum()), 0, "not the endpoint's fault");
}

#[test]
fn a_client_that_leaves_within_its_response_stops_it() {
    let (stopped, has_stopped) = channel();
    let endpoint = Endpoint::start(move |conn| {
        conn.head();
        conn.send("HTTP/1.1 200 OK\r\n\r\n");
        while conn.stream.write_all(&[b'x'; 10_000]).is_ok() {}
        stopped.send(()).expect("the test waits");
    });
    let proxy = Proxy::before(&[endpoint.addr]);
    let mut client = proxy.client();
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    client.bytes(100_000);
    drop(client);
    has_stopped.recv_timeout(SOON).expect("the endpoint is told");
    wait_until("it is over", || proxy.in_flight() == 0);
    assert_eq!(proxy.endpoint(0, |e| e.errors.iter().map(|n| n.get()).sum()), 0, "not the endpoint's fault");
}

/// Otherwise clients could make endpoints look bad.
#[test]
fn a_client_that_reads_or_sends_too_slowly_is_not_the_endpoints_fault() {
    let endpoint = Endpoint::start(|conn| {
        if conn.head().starts_with("GET") {
            conn.send("HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n");
            while conn.stream.write_all(&[b'x'; 10_000]).is_ok() {}
        } else {
            conn.send("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n");
            conn.rest();
        }
    });
    let proxy = Proxy::with(&[endpoint.addr], "", "timeouts = { idle = \"200ms\", response = \"100ms\" }", "");
    for request in ["GET / HTTP/1.1\r\nHost: a\r\n\r\n", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n"] {
        let mut client = proxy.client();
        client.send(request);
        wait_until("it is under way", || proxy.in_flight() == 1);
        wait_until("it is cut", || proxy.in_flight() == 0);
        assert_eq!(proxy.endpoint(0, |e| e.errors.iter().map(|n| n.get()).sum()), 0);
    }
}
