//! Messages over real sockets: versions, framings, order, and reuse of connections.

use crate::support;
use crate::support::endpoint::ok;
use crate::support::message::without_marks;
use crate::support::{Endpoint, Proxy, text, wait_until};

/// Fields that the proxy appends to a request for `a`, after its `CDN-Loop`.
const ADDED: &str = "X-Forwarded-For: 127.0.0.1\r\nX-Forwarded-Proto: http\r\nX-Forwarded-Host: a\r\n\r\n";

#[test]
fn a_request_and_its_response_pass_and_both_connections_are_kept() {
    let endpoint = Endpoint::saying("hello");
    let proxy = Proxy::before(&[endpoint.addr]);
    let mut client = proxy.client();
    for n in 0..10 {
        let response = client.get(&format!("/{n}"));
        assert_eq!(response.head, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n");
        assert_eq!(response.body_text(), "hello");
    }
    assert_eq!(endpoint.accepted(), 1);
    assert_eq!(without_marks(&endpoint.seen()[7].head), format!("GET /7 HTTP/1.1\r\nHost: a\r\n{ADDED}"));
    wait_until("all are counted", || proxy.ended(200) == 10);
    assert_eq!(proxy.listener(|l| l.accepted.get()), 1);
    assert_eq!(proxy.endpoint(0, |e| e.requests[1].get()), 10);
    assert_eq!(proxy.endpoint(0, |e| e.connects.get()), 1);
    assert_eq!(proxy.endpoint(0, |e| e.idle.get()), 1);
}

#[test]
fn a_hundred_requests_in_one_write_are_answered_in_order() {
    let endpoint = Endpoint::answering(|request| ok(request.line()));
    let proxy = Proxy::before(&[endpoint.addr]);
    let mut client = proxy.client();
    let bodies = |n: usize| if n.is_multiple_of(3) { "GET" } else { "POST" };
    let requests: String = (0..100)
        .map(|n| match n % 3 {
            0 => format!("GET /{n} HTTP/1.1\r\nHost: a\r\n\r\n"),
            1 => format!("POST /{n} HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nGET "),
            _ => format!("POST /{n} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"),
        })
        .collect();
    client.send(requests);
    for n in 0..100 {
        assert_eq!(client.response().body_text(), format!("{} /{n} HTTP/1.1", bodies(n)));
    }
    client.is_quiet();
    assert_eq!(endpoint.accepted(), 1);
}

/// More than one buffer, so that reads end within requests.
#[test]
fn a_thousand_requests_in_one_write_are_answered_in_order() {
    let endpoint = Endpoint::answering(|request| ok(request.line()));
    let proxy = Proxy::before(&[endpoint.addr]);
    let mut client = proxy.client();
    let long = "x".repeat(100);
    let requests: String = (0..1000).map(|n| format!("GET /{n}?{long} HTTP/1.1\r\nHost: a\r\n\r\n")).collect();
    let sending = client.send_aside(requests.into_bytes());
    for n in 0..1000 {
        assert_eq!(client.response().body_text(), format!("GET /{n}?{long} HTTP/1.1"));
    }
    assert!(sending.join().expect("it does not panic").is_ok());
}

#[test]
fn a_request_may_come_byte_by_byte() {
    let endpoint = Endpoint::saying("hello");
    let proxy = Proxy::before(&[endpoint.addr]);
    let mut client = proxy.client();
    for _ in 0..2 {
        for byte in b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc" {
            client.send([*byte]);
        }
        assert_eq!(client.response().body_text(), "hello");
    }
    assert!(endpoint.seen().iter().all(|request| request.body == b"abc"));
}

#[test]
fn empty_lines_behind_a_body_are_no_request() {
    let endpoint = Endpoint::saying("hello");
    let proxy = Proxy::before(&[endpoint.addr]);
    let mut client = proxy.client();
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc\r\n");
    assert_eq!(client.response().body_text(), "hello");
    client.send("\r\n");
    assert_eq!(client.get("/").body_text(), "hello");
    assert_eq!(without_marks(&endpoint.seen()[1].head), format!("GET / HTTP/1.1\r\nHost: a\r\n{ADDED}"));
}

#[test]
fn a_client_that_asks_for_it_gets_a_close() {
    let endpoint = Endpoint::saying("hello");
    let proxy = Proxy::before(&[endpoint.addr]);
    for _ in 0..2 {
        let mut client = proxy.client();
        client.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        assert_eq!(client.response().head, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\n");
        client.ends();
    }
    assert_eq!(endpoint.accepted(), 1, "what the client asks is not passed on");
}

#[test]
fn http_1_0_clients_are_closed_unless_they_ask_otherwise() {
    let endpoint = Endpoint::saying("hello");
    let proxy = Proxy::before(&[endpoint.addr]);
    let mut client = proxy.client();
    client.send("GET / HTTP/1.0\r\n\r\n");
    assert_eq!(text(&client.rest()), "HTTP/1.1 200 OK\nContent-Length: 5\nConnection: close\n\nhello");
    let mut client = proxy.client();
    for _ in 0..2 {
        client.send("GET / HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\n\r\n");
        assert_eq!(client.response().head, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: keep-alive\r\n\r\n");
    }
    client.is_quiet();
    let seen = endpoint.seen();
    let named = format!("GET / HTTP/1.1\r\nHost: {}\r\n", proxy.addr());
    assert!(seen[0].head.starts_with(&named), "{}", seen[0].head);
    assert_eq!(without_marks(&seen[1].head), format!("GET / HTTP/1.1\r\nHost: a\r\n{ADDED}"));
    assert_eq!(endpoint.accepted(), 1);
}

#[test]
fn heads_and_empty_statuses_have_no_body_whatever_they_say() {
    let endpoint = Endpoint::answering(|request| {
        let status = request.field("status").unwrap_or("200");
        let framing = request.field("framing").unwrap_or("length");
        let field = if framing == "length" { "Content-Length: 5" } else { "Transfer-Encoding: chunked" };
        format!("HTTP/1.1 {status} X\r\n{field}\r\n\r\n").into_bytes()
    });
    let proxy = Proxy::before(&[endpoint.addr]);
    let mut client = proxy.client();
    for (method, status) in [("HEAD", 200), ("HEAD", 404), ("GET", 204), ("GET", 304), ("HEAD", 304)] {
        for framing in ["length", "chunks"] {
            client.send(format!("{method} / HTTP/1.1\r\nHost: a\r\nStatus: {status}\r\nFraming: {framing}\r\n\r\n"));
            let head = client.head();
            assert!(head.starts_with(&format!("HTTP/1.1 {status} X\r\n")), "{head}");
            let framed = head.contains("Content-Length: 5") || head.contains("Transfer-Encoding");
            assert_eq!(framed, status != 204, "{head}");
        }
    }
    client.is_quiet();
    // After a 204 with either framing and a 304 with chunks, part of a body might still come, so the connection is not
    // reused.
    assert_eq!(endpoint.accepted(), 1 + 3);
}

#[test]
fn bodies_with_a_length_pass_both_ways() {
    let sizes = [0, 1, 100, 8_000, 32 * 1024 - 1, 32 * 1024, 100_000, 1_000_000];
    let endpoint = Endpoint::answering(|request| {
        let mut response = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", request.body.len()).into_bytes();
        response.extend_from_slice(&request.body);
        response
    });
    let proxy = Proxy::before(&[endpoint.addr]);
    let mut client = proxy.client();
    for size in sizes {
        let body = support::noise(size);
        client.send(format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {size}\r\n\r\n")).send(&body);
        assert!(client.response().body == body, "{size} bytes");
    }
    assert_eq!(endpoint.accepted(), 1);
    let total: usize = sizes.iter().sum();
    wait_until("all are counted", || proxy.ended(200) == sizes.len() as u64);
    assert!(proxy.listener(|l| l.bytes_in.get()) > total as u64);
    assert!(proxy.listener(|l| l.bytes_out.get()) > total as u64);
}

#[test]
fn chunks_pass_both_ways_as_they_came_without_extensions_and_trailers_of_requests() {
    let endpoint = Endpoint::answering(|request| {
        assert!(!text(&request.wire).contains(';'), "no extension goes on");
        let mut response = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
        response.extend_from_slice(&request.wire);
        response
    });
    let proxy = Proxy::before(&[endpoint.addr]);
    let mut client = proxy.client();
    let big = String::from_utf8(vec![b'x'; 70_000]).expect("ASCII");
    for chunks in [
        "0\r\n\r\n",
        "5\r\nhello\r\n0\r\n\r\n",
        "05;a=\"b;c\";d\r\nhello\r\n1;\r\n!\r\n000;last\r\nEtag: x\r\nDigest:\r\n\r\n",
        &format!("11170\r\n{big}\r\n11170\r\n{big}\r\n0\r\n\r\n"),
    ] {
        client.send(format!("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}"));
        let response = client.response();
        let want = chunks.replace(";a=\"b;c\";d", "").replace("1;", "1").replace("000;last", "000");
        let want = want.replace("Etag: x\r\nDigest:\r\n", "");
        assert!(response.wire == want.as_bytes(), "{:.200}", text(&response.wire));
        assert_eq!(response.field("transfer-encoding"), Some("chunked"));
    }
    client.is_quiet();
    assert_eq!(endpoint.accepted(), 1);
}

#[test]
fn an_http_1_0_client_gets_the_content_of_chunks_and_a_close() {
    let endpoint = Endpoint::answering(|request| {
        let chunks = match request.line() {
            "GET /small HTTP/1.1" => "5;x\r\nhello\r\n7\r\n, world\r\n0\r\nEtag: x\r\n\r\n".to_string(),
            _ => format!("{}0\r\n\r\n", format!("3e8\r\n{}\r\n", "y".repeat(1000)).repeat(1000)),
        };
        format!("HTTP/1.1 200 OK\r\nA: b\r\nTransfer-Encoding: chunked\r\nC: d\r\n\r\n{chunks}").into_bytes()
    });
    let proxy = Proxy::before(&[endpoint.addr]);
    for (path, body) in [("/small", "hello, world".to_string()), ("/large", "y".repeat(1_000_000))] {
        let mut client = proxy.client();
        client.send(format!("GET {path} HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"));
        let want = format!("HTTP/1.1 200 OK\nA: b\nC: d\nConnection: close\n\n{body}");
        assert!(text(&client.rest()) == want, "{path}");
    }
}

#[test]
fn a_body_until_close_ends_with_its_connection() {
    let endpoint = Endpoint::start(|conn| {
        let version = if conn.index.is_multiple_of(2) { "1.1" } else { "1.0" };
        conn.request();
        conn.send(format!("HTTP/{version} 200 OK\r\nA: b\r\n\r\n"));
        conn.send("x".repeat(100_000));
    });
    let proxy = Proxy::before(&[endpoint.addr]);
    for version in ["HTTP/1.1", "HTTP/1.1", "HTTP/1.0", "HTTP/1.0"] {
        let mut client = proxy.client();
        client.send(format!("GET / {version}\r\nHost: a\r\nConnection: keep-alive\r\n\r\n"));
        let want = format!("HTTP/1.1 200 OK\nA: b\nConnection: close\n\n{}", "x".repeat(100_000));
        assert!(text(&client.rest()) == want, "{version}");
    }
    wait_until("all are counted", || proxy.ended(200) == 4);
    assert_eq!(proxy.endpoint(0, |e| e.idle.get()), 0);
    assert_eq!(proxy.endpoint(0, |e| e.errors.iter().map(|n| n.get()).sum()), 0);
}

#[test]
fn an_endpoint_of_http_1_0_keeps_its_connection_only_if_it_states_so() {
    let endpoint = Endpoint::answering(|request| {
        let line = if request.line().starts_with("GET /keep ") { "Connection: keep-alive\r\n" } else { "" };
        format!("HTTP/1.0 200 OK\r\n{line}Content-Length: 2\r\n\r\nok").into_bytes()
    });
    let proxy = Proxy::before(&[endpoint.addr]);
    let mut client = proxy.client();
    for (path, connections) in [("/keep", 1), ("/keep", 1), ("/close", 1), ("/close", 2), ("/keep", 3), ("/keep", 3)] {
        assert_eq!(client.get(path).head, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n");
        assert_eq!(endpoint.accepted(), connections, "{path}");
    }
}

#[test]
fn an_endpoint_without_idle_connections_is_asked_to_close() {
    let endpoint = Endpoint::saying("hello");
    let proxy = Proxy::with(&[endpoint.addr], "", "limits = { idle_per_endpoint = 0 }", "");
    let mut client = proxy.client();
    for connections in 1..=3 {
        assert_eq!(client.get("/").body_text(), "hello");
        assert_eq!(endpoint.accepted(), connections);
    }
    assert_eq!(endpoint.seen()[0].field("connection"), Some("close"));
}

#[test]
fn a_connection_closes_after_as_many_requests_as_are_allowed() {
    let endpoint = Endpoint::saying("hello");
    let proxy = Proxy::with(&[endpoint.addr], "limits = { requests_per_connection = 3 }", "", "");
    let mut client = proxy.client();
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n".repeat(5));
    assert_eq!(client.response().field("connection"), None);
    assert_eq!(client.response().field("connection"), None);
    assert_eq!(client.response().field("connection"), Some("close"));
    client.ends();
    assert_eq!(endpoint.seen().len(), 3);
}

#[test]
fn refused_requests_get_their_status_and_a_close() {
    let endpoint = Endpoint::saying("hello");
    let proxy = Proxy::before(&[endpoint.addr]);
    for (request, status, why) in [
        ("GET / HTTP/1.1\r\n\r\n", 400, "Host is missing"),
        ("GET / HTTP/1.1\nHost: a\n\n", 400, "a line ends with a bare LF"),
        ("GET / HTTP/3.0\r\nHost: a\r\n\r\n", 505, "the HTTP version is not supported"),
        ("CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n", 501, "CONNECT is not supported"),
        (
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
            501,
            "a transfer coding other than chunked alone",
        ),
        ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nx", 400, "a chunk is malformed"),
        ("\x16\x03\x01\x02\x00\x01\n", 400, "a line ends with a bare LF"),
        (&format!("GET /{} HTTP/1.1\r\n", "x".repeat(40_000)), 431, "the head is over the size limit"),
        (&format!("GET / HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(101)), 431, "the head has too many fields"),
    ] {
        let mut client = proxy.client();
        client.send(request);
        let response = client.response();
        assert_eq!(response.status(), status, "{why}");
        assert!(response.body_text().trim_end().ends_with(why), "{}", response.body_text());
        assert_eq!(response.field("connection"), Some("close"));
        client.ends();
    }
    assert_eq!(endpoint.seen(), []);
    wait_until("all are counted", || proxy.listener(|l| l.malformed.get()) == 9);
}
