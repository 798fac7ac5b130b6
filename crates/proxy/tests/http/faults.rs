//! Endpoints that misbehave: the client gets an error or sees the cut, the connection is not used again, and the next
//! request gets another one.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "a test is no worker: it may lock and wait")]

use crate::support::endpoint::ok;
use crate::support::{Endpoint, Proxy, SOON, own_addr, text, wait_until};
use std::net::{SocketAddr, TcpListener};
use std::sync::Mutex;
use std::sync::mpsc::channel;

/// Pool settings under which a fault of the endpoint reaches the client.
const ONE_TRY: &str = "retry = { attempts = 0 }";

const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
const POST: &str = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello";

// Indices in `evenkeel_proxy::stats::ERROR_KINDS`.
const CONNECT: usize = 0;
const RESET: usize = 1;
const TIMEOUT: usize = 2;
const PROTOCOL: usize = 3;

/// Errors of an endpoint, by kind.
fn errors(proxy: &Proxy, endpoint: usize) -> [u64; 4] {
    std::array::from_fn(|kind| proxy.endpoint(endpoint, |e| e.errors[kind].get()))
}

fn only(kind: usize, n: u64) -> [u64; 4] {
    std::array::from_fn(|k| if k == kind { n } else { 0 })
}

/// The endpoint closes an idle connection, and the proxy knows before the next request.
#[test]
fn a_closed_idle_connection_is_not_used() {
    for request in [GET, POST] {
        let (closed, has_closed) = channel();
        let endpoint = Endpoint::start(move |conn| {
            if conn.index == 0 {
                conn.request();
                conn.send(ok("first"));
                conn.close();
                closed.send(()).expect("the test waits");
                return;
            }
            while conn.request().is_some() {
                conn.send(ok("again"));
            }
        });
        let proxy = Proxy::before(&[endpoint.addr]);
        let mut client = proxy.client();
        assert_eq!(client.send(request).response().body_text(), "first");
        has_closed.recv_timeout(SOON).expect("it closes");
        proxy.has_heard();
        for _ in 0..2 {
            assert_eq!(client.send(request).response().body_text(), "again");
        }
        assert_eq!(endpoint.accepted(), 2);
        assert_eq!(errors(&proxy, 0), [0; 4]);
    }
}

/// The endpoint closes while the request is on its way, so it is unknown whether it was served.
#[test]
fn a_request_that_met_a_closing_connection_is_repeated_if_that_does_no_harm() {
    for (request, repeated) in
        [(GET, true), ("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi", true), (POST, false)]
    {
        let endpoint = Endpoint::start(move |conn| {
            conn.request();
            conn.send(ok("first"));
            let again = conn.request();
            if conn.index > 0 && again.is_some() {
                conn.send(ok("again"));
            }
        });
        let proxy = Proxy::before(&[endpoint.addr]);
        let mut client = proxy.client();
        assert_eq!(client.send(request).response().body_text(), "first");
        let response = client.send(request).response();
        match repeated {
            true => assert_eq!(response.body_text(), "first", "from the second connection"),
            false => assert_eq!(response.status(), 502),
        }
        assert_eq!(endpoint.accepted(), if repeated { 2 } else { 1 });
        let requests: Vec<_> = endpoint.seen().iter().map(|r| (r.head.clone(), r.body.clone())).collect();
        assert!(requests.iter().all(|r| *r == requests[0]), "repeated byte for byte: {requests:?}");
    }
}

/// Bytes after the repeated request, in the same buffer, must survive the repetition.
#[test]
fn pipelined_requests_survive_a_repetition() {
    let endpoint = Endpoint::start(move |conn| {
        if conn.index == 0 {
            conn.request();
            conn.send(ok("first"));
            conn.request();
            return;
        }
        while let Some(request) = conn.request() {
            conn.send(ok(request.line()));
        }
    });
    let proxy = Proxy::before(&[endpoint.addr]);
    let mut client = proxy.client();
    assert_eq!(client.send(GET).response().body_text(), "first");
    let requests: String =
        (0..300).map(|n| format!("GET /{n}?{} HTTP/1.1\r\nHost: a\r\n\r\n", "x".repeat(100))).collect();
    let sending = client.send_aside(requests.into_bytes());
    for n in 0..300 {
        let body = client.response().body_text();
        assert!(body.starts_with(&format!("GET /{n}?")), "{n}: {body}");
    }
    assert!(sending.join().expect("it does not panic").is_ok());
    assert_eq!(endpoint.accepted(), 2);
}

#[test]
fn a_cut_response_is_cut_for_the_client_too() {
    for (begin, resets) in [
        ("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nbegun", true),
        ("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nbegun", false),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", false),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n", true),
    ] {
        let (seen, has_seen) = channel();
        let has_seen = Mutex::new(has_seen);
        let endpoint = Endpoint::start(move |conn| {
            conn.request();
            if conn.index > 0 {
                return conn.send(ok("next"));
            }
            conn.send(begin);
            // A reset would discard bytes that were sent and not read yet.
            has_seen.lock().expect("no panic").recv_timeout(SOON).expect("the test goes on");
            if resets {
                conn.reset_at_end();
            }
        });
        let proxy = Proxy::before(&[endpoint.addr]);
        let mut client = proxy.client();
        client.send(GET);
        assert_eq!(text(&client.bytes(begin.len())), text(begin.as_bytes()));
        seen.send(()).expect("the endpoint waits");
        client.ends();
        assert_eq!(proxy.client().send(GET).response().body_text(), "next");
        assert_eq!(endpoint.accepted(), 2);
        assert_eq!(errors(&proxy, 0), only(RESET, 1));
    }
}

/// A client that knows the end by the close alone would take a cut response for a complete one.
#[test]
fn a_response_that_ends_with_its_connection_is_cut_by_a_reset() {
    for (version, head, stop) in [
        ("1.0", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", "close"),
        ("1.0", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", "flaw"),
        ("1.0", "HTTP/1.1 200 OK\r\n\r\nabc", "reset"),
        ("1.1", "HTTP/1.1 200 OK\r\n\r\nabc", "reset"),
        ("1.1", "HTTP/1.1 200 OK\r\n\r\nabc", "silence"),
    ] {
        let (seen, has_seen) = channel();
        let has_seen = Mutex::new(has_seen);
        let endpoint = Endpoint::start(move |conn| {
            conn.request();
            conn.send(head);
            has_seen.lock().expect("no panic").recv_timeout(SOON).expect("the test goes on");
            match stop {
                "reset" => conn.reset_at_end(),
                "flaw" => conn.send("x\r\n"),
                "silence" => assert_eq!(conn.rest(), b""),
                _ => {}
            }
        });
        let proxy = Proxy::with(&[endpoint.addr], "", "timeouts = { idle = \"300ms\" }", "");
        let mut client = proxy.client();
        client.send(format!("GET / HTTP/{version}\r\nHost: a\r\n\r\n")).head();
        assert_eq!(client.bytes(3), b"abc");
        seen.send(()).expect("the endpoint waits");
        let end = std::io::Read::read(&mut client.stream, &mut [0]);
        assert!(end.is_err(), "HTTP/{version} and {stop} look like a whole response: {end:?}");
    }
}

#[test]
fn a_malformed_response_is_a_502_and_its_connection_is_not_used_again() {
    let many = format!("HTTP/1.1 200 OK\r\n{}\r\n", "A: b\r\n".repeat(1100));
    let large = format!("HTTP/1.1 200 OK\r\nA: {}\r\n\r\n", "b".repeat(70_000));
    for (response, why) in [
        ("HTTP/1.1 200 OK\nContent-Length: 0\n\n", "a line ends with a bare LF"),
        ("HTTP/1.1 2000 OK\r\n\r\n", "the head is malformed"),
        ("\r\n\r\nSSH-2.0-x\r\n\r\n", "the head is malformed"),
        ("HTTP/2.0 200 OK\r\n\r\n", "HTTP version is not supported"),
        ("SSH-2.0-x\r\n\r\n", "the head is malformed"),
        ("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", "both Content-Length and"),
        ("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", "Content-Length is repeated"),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", "a transfer coding other than"),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n", "a chunk is malformed"),
        ("HTTP/1.1 101 Switch\r\n\r\n", "a 101 that the client did not request"),
        (&many, "too many fields"),
        (&large, "the head is over the size limit"),
        ("HTTP/1.1 200 OK\r\nContent-", "closed the connection in the middle of the"),
        ("", "closed the connection without a response"),
    ] {
        let bytes = response.to_string();
        let endpoint = Endpoint::start(move |conn| {
            conn.request();
            if conn.index > 0 {
                return conn.send(ok("next"));
            }
            conn.send(&bytes);
            if bytes.ends_with("\n") {
                assert_eq!(conn.rest(), b"", "no other request");
            }
        });
        let proxy = Proxy::with(&[endpoint.addr], "", ONE_TRY, "");
        let mut client = proxy.client();
        let refused = client.send(GET).response();
        assert_eq!(refused.status(), 502, "{response:.100}");
        assert!(refused.body_text().contains(why), "{}", refused.body_text());
        assert!(refused.body_text().contains(&format!("pool \"web\": endpoint {}", endpoint.addr)));
        assert_eq!(client.send(GET).response().body_text(), "next", "the client's connection goes on");
        assert_eq!(endpoint.accepted(), 2);
        let kind = if why.contains("closed") { RESET } else { PROTOCOL };
        // Only a limit of this side is in the way.
        let is_of_endpoint = response != many && response != large;
        assert_eq!(errors(&proxy, 0), only(kind, u64::from(is_of_endpoint)), "{response:.100}");
    }
}

#[test]
fn a_malformed_chunk_cuts_the_response() {
    let (seen, has_seen) = channel();
    let has_seen = Mutex::new(has_seen);
    let endpoint = Endpoint::start(move |conn| {
        conn.request();
        conn.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n");
        has_seen.lock().expect("no panic").recv_timeout(SOON).expect("the test goes on");
        conn.send("xyz\r\n");
        conn.rest();
    });
    let proxy = Proxy::before(&[endpoint.addr]);
    let mut client = proxy.client();
    client.send(GET).head();
    client.bytes(8);
    seen.send(()).expect("the endpoint waits");
    client.ends();
    wait_until("it is counted", || errors(&proxy, 0) == only(PROTOCOL, 1));
}

/// Bytes after a response would be taken for the response to the next request, perhaps of another client.
#[test]
fn a_connection_with_bytes_behind_a_response_is_not_used_again() {
    let behind = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil";
    // Large enough to be spliced.
    let large = format!("HTTP/1.1 200 OK\r\nContent-Length: 500000\r\n\r\n{}", "x".repeat(500_000));
    for (response, version, pieces) in [
        ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", "1.1", false),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", "1.1", false),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", "1.0", false),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", "1.1", true),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", "1.0", true),
        ("HTTP/1.1 204 No Content\r\n\r\n", "1.1", false),
        (&large, "1.1", false),
        ("HTTP/1.1 304 Not Modified\r\nContent-Length: 4\r\n\r\n", "1.1", false),
    ] {
        let (seen, has_seen) = channel();
        let has_seen = Mutex::new(has_seen);
        let of_endpoint = response.to_string();
        let endpoint = Endpoint::start(move |conn| {
            let response = &of_endpoint;
            conn.request();
            if conn.index > 0 {
                return conn.send(ok("next"));
            }
            let (head, body) = response.split_at(response.find("\r\n\r\n").expect("a head") + 4);
            if pieces {
                conn.send(head);
                has_seen.lock().expect("no panic").recv_timeout(SOON).expect("the test goes on");
                conn.send(format!("{body}{behind}"));
            } else {
                conn.send(format!("{response}{behind}"));
            }
            assert_eq!(conn.rest(), b"", "no other request");
        });
        let proxy = Proxy::before(&[endpoint.addr]);
        let mut client = proxy.client();
        client.send(format!("GET / HTTP/{version}\r\nHost: a\r\nConnection: keep-alive\r\n\r\n"));
        let head = client.head();
        seen.send(()).expect("the endpoint is there");
        if version == "1.0" {
            assert_eq!(text(&client.rest()), "ok");
            client = proxy.client();
        } else {
            let body = response.len() - head.len();
            client.bytes(body);
        }
        assert_eq!(client.send(GET).response().body_text(), "next");
        assert_eq!(endpoint.accepted(), 2, "{response}");
    }
}

/// The bytes come after the response was forwarded.
#[test]
fn an_idle_connection_that_speaks_is_not_used_again() {
    let (seen, has_seen) = channel();
    let has_seen = Mutex::new(has_seen);
    let (spoken, has_spoken) = channel();
    let endpoint = Endpoint::start(move |conn| {
        conn.request();
        if conn.index > 0 {
            return conn.send(ok("next"));
        }
        conn.send(ok("first"));
        has_seen.lock().expect("no panic").recv_timeout(SOON).expect("the test goes on");
        conn.send(ok("evil"));
        spoken.send(()).expect("the test waits");
        assert_eq!(conn.rest(), b"", "no other request");
    });
    let proxy = Proxy::before(&[endpoint.addr]);
    let mut client = proxy.client();
    assert_eq!(client.send(GET).response().body_text(), "first");
    wait_until("it is idle", || proxy.endpoint(0, |e| e.idle.get()) == 1);
    seen.send(()).expect("the endpoint waits");
    has_spoken.recv_timeout(SOON).expect("it speaks");
    proxy.has_heard();
    assert_eq!(client.send(GET).response().body_text(), "next");
}

#[test]
fn a_refused_connection_means_another_endpoint_once() {
    let endpoint = Endpoint::saying("hello");
    let proxy = Proxy::before(&[own_addr(), endpoint.addr]);
    let mut client = proxy.client();
    for request in [GET, POST, GET, POST] {
        assert_eq!(client.send(request).response().body_text(), "hello");
    }
    wait_until("all are counted", || proxy.ended(200) == 4);
    let refused = proxy.endpoint(0, |e| e.errors[CONNECT].get());
    assert!((1..=4).contains(&refused), "{refused}");
    assert_eq!(errors(&proxy, 0), only(CONNECT, refused));
    assert_eq!(proxy.endpoint(0, |e| e.connects.get()), refused);
    assert_eq!(proxy.pool(|pool| pool.retries.get()), refused);
    assert_eq!(proxy.endpoint(1, |e| e.requests[1].get()), 4);
    assert_eq!(errors(&proxy, 1), [0; 4]);
}

#[test]
fn two_refused_connections_are_a_502() {
    let proxy = Proxy::before(&[own_addr(), own_addr(), own_addr()]);
    let mut client = proxy.client();
    for n in 1..=3 {
        let response = client.send(POST).response();
        assert_eq!(response.status(), 502);
        assert!(response.body_text().contains("pool \"web\": cannot connect to endpoint 127."), "{response:?}");
        wait_until("it is counted", || proxy.ended(502) == n);
        let errors: u64 = (0..3).map(|i| proxy.endpoint(i, |e| e.errors[CONNECT].get())).sum();
        assert_eq!((errors, proxy.pool(|pool| pool.retries.get())), (2 * n, n), "two tries each");
    }
    // With one endpoint there is no second try.
    let proxy = Proxy::before(&[own_addr()]);
    assert_eq!(proxy.client().send(GET).response().status(), 502);
    wait_until("it is counted", || proxy.ended(502) == 1);
    assert_eq!(errors(&proxy, 0), only(CONNECT, 1));
}

/// A listener with a full backlog, so that connects hang, and the connections that fill it.
fn full() -> (TcpListener, Vec<std::net::TcpStream>) {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).expect("a socket");
    socket.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).expect("a free port");
    socket.listen(0).expect("it can be listened on");
    let listener = TcpListener::from(socket);
    let addr = listener.local_addr().expect("it is bound");
    let connect = || std::net::TcpStream::connect_timeout(&addr, std::time::Duration::from_millis(100));
    let queue = std::iter::from_fn(|| connect().ok()).take(100).collect();
    (listener, queue)
}

#[test]
fn an_endpoint_that_cannot_be_connected_to_in_time_is_passed_over() {
    let (silent, _queue) = full();
    let silent = silent.local_addr().expect("it is bound");
    let endpoint = Endpoint::saying("hello");
    let timeouts = "timeouts = { connect = \"100ms\" }";
    let proxy = Proxy::with(&[silent, endpoint.addr], "", timeouts, "");
    let mut client = proxy.client();
    for request in [GET, POST] {
        assert_eq!(client.send(request).response().body_text(), "hello");
    }
    wait_until("all are counted", || proxy.ended(200) == 2);
    let late = proxy.endpoint(0, |e| e.errors[TIMEOUT].get());
    assert!((1..=2).contains(&late), "{late}");
    assert_eq!((errors(&proxy, 0), proxy.pool(|pool| pool.retries.get())), (only(TIMEOUT, late), late));
    drop((client, proxy));
    let proxy = Proxy::with(&[silent], "", timeouts, "");
    let response = proxy.client().send(GET).response();
    assert_eq!(response.status(), 504);
    assert!(response.body_text().contains("no connection in time"), "{response:?}");
}

#[test]
fn an_endpoint_that_does_not_answer_is_a_504() {
    let endpoint = Endpoint::start(|conn| {
        conn.request();
        assert_eq!(conn.rest(), b"");
    });
    let proxy = Proxy::with(&[endpoint.addr], "", "timeouts = { response = \"100ms\" }", "");
    for request in [GET, POST] {
        let mut client = proxy.client();
        let response = client.send(request).response();
        assert_eq!(response.status(), 504);
        assert!(response.body_text().contains("did not answer in time"), "{response:?}");
    }
    wait_until("all are counted", || proxy.ended(504) == 2);
    assert_eq!(errors(&proxy, 0), only(TIMEOUT, 2));
    assert_eq!(proxy.endpoint(0, |e| e.idle.get()), 0);
}

#[test]
fn an_endpoint_that_stops_within_its_response_is_cut() {
    let endpoint = Endpoint::start(|conn| {
        conn.request();
        conn.send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nbegun");
        assert_eq!(conn.rest(), b"");
    });
    let proxy = Proxy::with(&[endpoint.addr], "", "timeouts = { idle = \"100ms\" }", "");
    let mut client = proxy.client();
    client.send(GET).head();
    assert_eq!(client.rest(), b"begun");
    wait_until("it is counted", || errors(&proxy, 0) == only(TIMEOUT, 1));
}

#[test]
fn a_request_that_takes_too_long_in_all_is_ended() {
    let endpoint = Endpoint::start(|conn| {
        conn.request();
        conn.send("HTTP/1.1 200 OK\r\n\r\n");
        // Never silent for long, but never done.
        while std::io::Write::write_all(&mut conn.stream, b"x").is_ok() {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    });
    let proxy = Proxy::with(&[endpoint.addr], "", "timeouts = { request = \"200ms\", response = \"100ms\" }", "");
    let mut client = proxy.client();
    client.send(GET).head();
    let rest = client.rest();
    assert!(!rest.is_empty() && rest.iter().all(|b| *b == b'x'));
}
