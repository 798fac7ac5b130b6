//! Hits and misses, validation, and requests that wait for each other.

use crate::support::h2_client::H2Client;
use crate::support::{Client, Endpoint, Proxy, SOON};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// A proxy with a cached route.
pub fn cached(endpoint: SocketAddr, cache: &str) -> Proxy {
    Proxy::with(&[endpoint], "h2c = true", "", &format!("[[route]]\npool = 'web'\ncache = {cache}\n"))
}

/// Response of an endpoint with these fields.
pub fn with(status: &str, fields: &str, body: &str) -> Vec<u8> {
    format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n{fields}\r\n{body}", body.len()).into_bytes()
}

/// Status, `Cache-Status` and body of the response to a GET.
pub fn get(client: &mut Client, path: &str, fields: &str) -> (u16, String, String) {
    client.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n{fields}\r\n"));
    let response = client.response();
    let status = response.field("cache-status").unwrap_or_default().replace("evenkeel; ", "");
    (response.status(), status, response.body_text())
}

#[test]
fn a_response_is_stored_and_answers_later_requests() {
    let endpoint = Endpoint::answering(|_| with("200 OK", "Cache-Control: max-age=60\r\nETag: \"a\"\r\n", "hello"));
    let proxy = cached(endpoint.addr, "true");
    let mut client = proxy.client();
    assert_eq!(get(&mut client, "/a", ""), (200, "fwd=uri-miss; ttl=60; stored".into(), "hello".into()));
    assert_eq!(get(&mut client, "/a", ""), (200, "hit; ttl=60".into(), "hello".into()));
    assert_eq!(get(&mut client, "/a", "If-None-Match: \"a\"\r\n"), (304, "hit; ttl=60".into(), "".into()));
    assert_eq!(get(&mut client, "/a", "Range: bytes=1-2\r\n"), (206, "hit; ttl=60".into(), "el".into()));
    client.send("HEAD /a HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(client.head().to_lowercase().contains("content-length: 5"));
    assert_eq!(endpoint.seen().len(), 1);
}

/// The conditions of the first client are left out, so that there is a response to store. It got the whole body
/// nevertheless.
#[test]
fn a_condition_that_holds_is_a_304_also_where_nothing_was_stored() {
    let large = "x".repeat(200_000);
    let endpoint = Endpoint::answering(move |request| match request.line().split(' ').nth(1) {
        Some("/large") => with("200 OK", "Cache-Control: max-age=60\r\nETag: \"a\"\r\n", &large),
        Some("/open") => {
            b"HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nETag: \"a\"\r\nTransfer-Encoding: chunked\r\n\r\n\
            5\r\nhello\r\n0\r\n\r\n"
                .to_vec()
        }
        _ => with("200 OK", "Cache-Control: max-age=60\r\nETag: \"a\"\r\n", "hello"),
    });
    let proxy = cached(endpoint.addr, "true");
    let mut client = proxy.client();
    for (path, len) in [("/a", 5), ("/large", 200_000), ("/open", 5)] {
        let first = get(&mut client, path, "If-None-Match: \"b\", W/\"a\"\r\n");
        assert_eq!(first, (304, "fwd=uri-miss; ttl=60; stored".into(), "".into()), "{path}");
        let (status, how, body) = get(&mut client, path, "");
        assert_eq!((status, &*how, body.len()), (200, "hit; ttl=60", len), "{path}: all of it is stored");
    }
    assert_eq!(get(&mut client, "/b", "If-None-Match: \"c\"\r\n").0, 200);
    assert_eq!((endpoint.seen().len(), endpoint.accepted()), (4, 1), "the endpoint's connection is kept");
    assert!(endpoint.seen().iter().all(|request| request.field("if-none-match").is_none()));
}

#[test]
fn a_stale_response_is_validated_and_renewed() {
    let endpoint = Endpoint::answering(|request| match request.field("if-none-match") {
        Some("\"a\"") => b"HTTP/1.1 304 Not Modified\r\nCache-Control: max-age=60\r\nETag: \"a\"\r\n\r\n".to_vec(),
        _ => with("200 OK", "Cache-Control: max-age=0\r\nETag: \"a\"\r\n", "hello"),
    });
    let proxy = cached(endpoint.addr, "true");
    let mut client = proxy.client();
    assert_eq!(get(&mut client, "/a", "").1, "fwd=uri-miss; ttl=0; stored");
    let renewed = (200, "fwd=stale; fwd-status=304; ttl=60; stored".into(), "hello".into());
    assert_eq!(get(&mut client, "/a", ""), renewed);
    assert_eq!(get(&mut client, "/a", ""), (200, "hit; ttl=60".into(), "hello".into()));
}

#[test]
fn requests_for_the_same_response_are_one_for_the_endpoint() {
    let (go, gone) = mpsc::channel::<()>();
    let (gone, came) = (std::sync::Mutex::new(gone), Arc::new(AtomicUsize::new(0)));
    let count = came.clone();
    let endpoint = Endpoint::answering(move |_| {
        count.fetch_add(1, Ordering::Relaxed);
        gone.lock().expect("no panic").recv_timeout(SOON).expect("the test lets it go");
        with("200 OK", "Cache-Control: max-age=60\r\n", "hello")
    });
    let proxy = cached(endpoint.addr, "true");
    let mut clients: Vec<Client> = (0..50).map(|_| proxy.client()).collect();
    for client in &mut clients {
        client.send("GET /a HTTP/1.1\r\nHost: a\r\n\r\n");
    }
    proxy.has_heard();
    go.send(()).expect("the endpoint waits");
    for client in &mut clients {
        assert_eq!(client.response().body_text(), "hello");
    }
    assert_eq!(came.load(Ordering::Relaxed), 1);
}

#[test]
fn each_request_counts_once_by_its_result() {
    let endpoint = Endpoint::answering(|request| match request.line().split(' ').nth(1) {
        Some("/renewed") if request.field("if-none-match").is_some() => {
            b"HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\n\r\n".to_vec()
        }
        Some("/renewed") => with("200 OK", "Cache-Control: max-age=0\r\nETag: \"a\"\r\n", "hello"),
        Some("/private") => with("200 OK", "Cache-Control: private\r\n", "hello"),
        _ => with("200 OK", "Cache-Control: max-age=60\r\n", "hello"),
    });
    let proxy = cached(endpoint.addr, "true");
    let mut client = proxy.client();
    for path in ["/a", "/a", "/a", "/renewed", "/renewed", "/private"] {
        get(&mut client, path, "");
    }
    client.send("POST /b HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(client.response().status(), 200);
    let metrics = proxy.metrics();
    let of = |label: &str| {
        let line = metrics.lines().find(|line| line.starts_with("evenkeel_cache_") && line.contains(label));
        line.and_then(|line| line.rsplit(' ').next()).unwrap_or("none").to_string()
    };
    let results = ["hit", "stale", "renewed", "stored", "not_stored", "passed"];
    assert_eq!(results.map(|result| of(&format!("result=\"{result}\""))), ["2", "0", "1", "2", "1", "1"]);
    assert_eq!((of("reason=\"private\""), of("sent_bytes_total")), ("1".into(), "15".into()));
}

#[test]
fn a_stored_response_is_sent_no_faster_than_its_route_allows() {
    let body = "x".repeat(60_000);
    let endpoint = Endpoint::answering(move |_| with("200 OK", "Cache-Control: max-age=60\r\n", &body));
    let route = "[[route]]\npool = 'web'\ncache = true\nbandwidth = '200kB'\n";
    let proxy = Proxy::with(&[endpoint.addr], "h2c = true", "", route);
    assert_eq!(get(&mut proxy.client(), "/a", "").1, "fwd=uri-miss; ttl=60; stored");
    // A tenth of a second may be caught up, and nothing waits behind the last piece.
    let least = Duration::from_millis((60_000 - 20_000 - 32_768) / 200);
    let began = Instant::now();
    assert_eq!(get(&mut proxy.client(), "/a", "").2.len(), 60_000);
    assert!(began.elapsed() >= least, "{:?}", began.elapsed());
    let began = Instant::now();
    let mut client = H2Client::connect(proxy.addr());
    client.get(1, "/a");
    let answer = client.answer(1);
    assert_eq!((answer.status(), answer.body.len()), (200, 60_000));
    assert!(began.elapsed() >= least, "{:?}", began.elapsed());
    assert_eq!(endpoint.seen().len(), 1);
}
