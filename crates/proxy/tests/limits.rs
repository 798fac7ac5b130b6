//! Limits of clients, and the proxy's own refusals: timeouts, limits, draining, and requests without a route.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "a test is no worker: it may lock and wait")]

use crate::support::endpoint::ok;
use crate::support::{Client, Endpoint, Proxy, SOON, text, wait_until};
use std::sync::Mutex;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

#[test]
fn a_client_that_does_not_finish_its_head_gets_a_408() {
    let endpoint = Endpoint::saying("hello");
    let proxy = Proxy::with(&[endpoint.addr], "timeouts = { client_header = \"200ms\" }", "", "");
    for part in ["G", "GET / HTTP/1.1\r\nHost: a\r\n", "\r\n"] {
        let began = Instant::now();
        let mut client = proxy.client();
        let response = client.send(part).response();
        assert_eq!((response.status(), response.field("connection")), (408, Some("close")));
        assert!(began.elapsed() >= Duration::from_millis(200), "{:?}", began.elapsed());
        client.ends();
    }
    // The second request has as much time, from its first byte.
    let mut client = proxy.client();
    assert_eq!(client.send(GET).response().status(), 200);
    assert_eq!(client.send("GET ").response().status(), 408);
    client.ends();
}

/// A byte now and then must not hold a connection for ever.
#[test]
fn the_time_for_a_head_does_not_start_anew_with_each_byte() {
    let endpoint = Endpoint::saying("hello");
    let proxy = Proxy::with(&[endpoint.addr], "timeouts = { client_header = \"200ms\" }", "", "");
    let mut client = proxy.client();
    client.send("GET / HTTP/1.1\r\nHost: a\r\nA: ");
    let deadline = Instant::now() + SOON;
    while client.stream.set_nonblocking(true).is_ok() && client.stream.peek(&mut [0]).is_err() {
        assert!(Instant::now() < deadline, "bytes that trickle hold the connection");
        let _ = std::io::Write::write(&mut client.stream, b"b");
        std::thread::sleep(Duration::from_millis(5));
    }
    client.stream.set_nonblocking(false).expect("sockets can be waited for");
    assert_eq!(client.response().status(), 408);
}

/// Browsers open connections in advance; a 408 on one would be taken for the response to its first request.
#[test]
fn a_client_that_sends_nothing_gets_no_response() {
    let endpoint = Endpoint::saying("hello");
    let proxy = Proxy::with(&[endpoint.addr], "timeouts = { client_header = \"50ms\" }", "", "");
    proxy.client().ends();
    assert_eq!(proxy.ended(408), 0);
}

#[test]
fn an_idle_client_is_closed_without_a_word() {
    let endpoint = Endpoint::saying("hello");
    let proxy = Proxy::with(&[endpoint.addr], "timeouts = { client_idle = \"150ms\" }", "", "");
    let mut client = proxy.client();
    assert_eq!(client.send(GET).response().status(), 200);
    let began = Instant::now();
    client.ends();
    assert!(began.elapsed() >= Duration::from_millis(100), "{:?}", began.elapsed());
    wait_until("it is closed", || proxy.listener(|l| l.active.get()) == 0);
}

#[test]
fn a_client_that_stops_within_its_body_gets_a_408() {
    let endpoint = Endpoint::start(|conn| {
        conn.head();
        assert_eq!(conn.rest(), b"abc", "the connection ends with the request");
    });
    let proxy = Proxy::with(&[endpoint.addr], "timeouts = { client_body = \"150ms\" }", "", "");
    let mut client = proxy.client();
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nabc");
    let response = client.response();
    assert_eq!((response.status(), response.field("connection")), (408, Some("close")));
    assert!(!response.body_text().contains("endpoint"), "not its fault: {}", response.body_text());
    client.ends();
    assert_eq!(proxy.endpoint(0, |e| e.errors.iter().map(|n| n.get()).sum()), 0);
}

#[test]
fn a_malformed_chunk_that_comes_late_is_a_400() {
    let endpoint = Endpoint::start(|conn| {
        conn.head();
        assert_eq!(conn.rest(), b"3\r\nabc\r\n");
    });
    let proxy = Proxy::before(&[endpoint.addr]);
    let mut client = proxy.client();
    client.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n");
    wait_until("it is under way", || proxy.in_flight() == 1);
    let response = client.send("x\r\n").response();
    assert_eq!((response.status(), response.field("connection")), (400, Some("close")));
    assert!(!response.body_text().contains("endpoint"), "not its fault: {}", response.body_text());
    client.ends();
    assert_eq!(proxy.endpoint(0, |e| e.errors.iter().map(|n| n.get()).sum()), 0);
}

#[test]
fn connections_over_the_limit_are_closed_at_once() {
    let endpoint = Endpoint::saying("hello");
    let proxy = Proxy::with(&[endpoint.addr], "limits = { connections = 3 }", "", "");
    let mut kept: Vec<Client> = (0..3).map(|_| proxy.client()).collect();
    for client in &mut kept {
        assert_eq!(client.send(GET).response().status(), 200);
    }
    for n in 1..=3 {
        let mut over = proxy.client();
        let _ = std::io::Write::write_all(&mut over.stream, GET.as_bytes());
        over.ends();
        wait_until("it is counted", || proxy.listener(|l| l.rejected[0].get()) == n);
    }
    // A place that was given back can be taken.
    kept.pop();
    wait_until("it is given back", || proxy.listener(|l| l.active.get()) == 2);
    assert_eq!(proxy.client().send(GET).response().status(), 200);
    assert_eq!(proxy.listener(|l| l.accepted.get()), 4);
}

/// An endpoint that answers when the test calls the closure.
fn waiting() -> (Endpoint, impl Fn()) {
    let (go_on, may_go_on) = channel();
    let may_go_on = Mutex::new(may_go_on);
    let endpoint = Endpoint::start(move |conn| {
        while conn.request().is_some() {
            may_go_on.lock().expect("no panic").recv_timeout(SOON).expect("the test goes on");
            conn.send(ok("hello"));
        }
    });
    (endpoint, move || go_on.send(()).expect("the endpoint waits"))
}

#[test]
fn draining_closes_what_is_idle_and_finishes_what_runs() {
    let (endpoint, go_on) = waiting();
    let proxy = Proxy::before(&[endpoint.addr]);
    let (mut idle, mut running, mut partial) = (proxy.client(), proxy.client(), proxy.client());
    go_on();
    assert_eq!(idle.send(GET).response().status(), 200);
    running.send(GET);
    wait_until("it runs", || proxy.in_flight() == 1);
    partial.send("GET / HTTP/1.1\r\nHost: a\r\n");
    proxy.has_heard();
    proxy.drain();
    idle.ends();
    wait_until("nobody listens", || std::net::TcpStream::connect(proxy.addr()).is_err());
    go_on();
    go_on();
    for (client, rest) in [(&mut running, ""), (&mut partial, "\r\n")] {
        let response = client.send(rest).response();
        assert_eq!((response.status(), response.field("connection")), (200, Some("close")));
        assert_eq!(response.body_text(), "hello");
        client.ends();
    }
    wait_until("the workers end", || proxy.server().has_ended());
}

#[test]
fn draining_without_connections_ends_at_once() {
    let endpoint = Endpoint::saying("hello");
    let proxy = Proxy::before(&[endpoint.addr]);
    assert_eq!(proxy.client().send(GET).response().status(), 200);
    proxy.drain();
    wait_until("the workers end", || proxy.server().has_ended());
}

/// A response that has begun keeps its framing; the connection ends after it.
#[test]
fn draining_lets_a_response_come_to_its_end() {
    let (go_on, may_go_on) = channel();
    let may_go_on = Mutex::new(may_go_on);
    let endpoint = Endpoint::start(move |conn| {
        conn.request();
        conn.send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nbegun");
        may_go_on.lock().expect("no panic").recv_timeout(SOON).expect("the test goes on");
        conn.send("ended");
        conn.rest();
    });
    let proxy = Proxy::before(&[endpoint.addr]);
    let mut client = proxy.client();
    client.send(GET).head();
    assert_eq!(client.bytes(5), b"begun");
    proxy.drain();
    wait_until("nobody listens", || std::net::TcpStream::connect(proxy.addr()).is_err());
    go_on.send(()).expect("the endpoint waits");
    assert_eq!(client.rest(), b"ended");
    wait_until("the workers end", || proxy.server().has_ended());
}

#[test]
fn stopping_ends_what_runs() {
    let (endpoint, go_on) = waiting();
    let mut proxy = Proxy::before(&[endpoint.addr]);
    let mut client = proxy.client();
    client.send(GET);
    wait_until("it runs", || proxy.in_flight() == 1);
    proxy.stop();
    client.ends();
    go_on();
}

fn routed(endpoint: &Endpoint) -> Proxy {
    Proxy::start(&format!(
        "[runtime]\nworkers = 1\n[listener.web]\nbind = [\"$BIND\"]\nerrors = \"detailed\"\n[pool.web]\nendpoints = [\"{}\"]\n\
         [[route]]\nmatch = {{ host = [\"a\"], path = \"/x/{{*rest}}\" }}\npool = \"web\"",
        endpoint.addr
    ))
}

#[test]
fn a_request_without_a_route_is_a_404() {
    let endpoint = Endpoint::saying("hello");
    let proxy = routed(&endpoint);
    let mut client = proxy.client();
    for (target, host, status) in
        [("/x/y", "a", 200), ("/y", "a", 404), ("/x/", "A.:80", 200), ("/x/y", "b", 404), ("/x/y?z", "a", 200)]
    {
        let response = client.send(format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n")).response();
        assert_eq!(response.status(), status, "{host}{target}");
    }
    let response = client.send("GET /\"q\"?r HTTP/1.1\r\nHost: b\r\n\r\n").response();
    assert_eq!(response.body_text(), "404 Not Found: no route for host \"b\" and path \"/\"q\"\"\n");
    // HEAD has no body, and the connection stays open.
    assert!(client.send("HEAD / HTTP/1.1\r\nHost: a\r\n\r\n").head().starts_with("HTTP/1.1 404 "));
    assert_eq!(client.send("GET /x/ HTTP/1.1\r\nHost: a\r\n\r\n").response().status(), 200);
    wait_until("all are counted", || proxy.ended(404) == 4);
}

/// Without an explicit field, an HTTP/1.0 client would wait for the close.
#[test]
fn http_1_0_clients_are_closed_after_an_answer_of_the_proxys_own() {
    let endpoint = Endpoint::saying("hello");
    let proxy = routed(&endpoint);
    let mut client = proxy.client();
    client.send("GET / HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\n\r\n");
    let response = client.response();
    assert_eq!((response.status(), response.field("connection")), (404, Some("close")));
    client.ends();
}

#[test]
fn what_is_pipelined_behind_a_404_is_answered() {
    let endpoint = Endpoint::saying("hello");
    let proxy = routed(&endpoint);
    let mut client = proxy.client();
    let found = "GET /x/ HTTP/1.1\r\nHost: a\r\n\r\n";
    client.send(format!("GET / HTTP/1.1\r\nHost: a\r\n\r\n{found}"));
    assert_eq!((client.response().status(), client.response().status()), (404, 200));
    client.send(format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello{found}"));
    assert_eq!((client.response().status(), client.response().status()), (404, 200));
    client.send(format!("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{found}"));
    assert_eq!((client.response().status(), client.response().status()), (404, 200));
    // A body that has not come yet is not waited for.
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n");
    let response = client.response();
    assert_eq!((response.status(), response.field("connection")), (404, Some("close")));
    client.send(format!("hello{found}")).ends();
}

#[test]
fn a_request_that_no_endpoint_may_have_is_a_503_with_the_reason() {
    for (endpoints, why) in [
        (
            "{ addr = \"127.0.0.1:1\", drain = true }, { addr = \"127.0.0.1:2\", drain = true }",
            "0 of 2 endpoints eligible (2 draining)",
        ),
        ("{ addr = \"127.0.0.1:1\", weight = 0 }", "0 of 1 endpoints eligible (1 "),
        (
            "{ addr = \"127.0.0.1:1\", weight = 0 }, { addr = \"127.0.0.1:2\", drain = true }",
            "0 of 2 endpoints eligible (1 draining, 1 ",
        ),
    ] {
        let proxy = Proxy::start(&format!(
            "[runtime]\nworkers = 1\n[listener.web]\nbind = [\"$BIND\"]\nerrors = \"detailed\"\n[pool.api]\nendpoints = [{endpoints}]"
        ));
        let mut client = proxy.client();
        for n in 1..=2 {
            let response = client.send(GET).response();
            assert_eq!(response.status(), 503);
            assert!(response.body_text().starts_with("503 Service Unavailable: pool \"api\": "), "{response:?}");
            assert!(response.body_text().contains(why), "{}", response.body_text());
            assert_eq!(proxy.pool(|pool| pool.no_pick[0].get()), n);
        }
    }
}

#[test]
fn requests_over_the_limit_of_every_endpoint_are_a_503() {
    let (endpoint, go_on) = waiting();
    let proxy = Proxy::with(&[endpoint.addr], "", "limits = { requests_per_endpoint = 1 }", "");
    let mut running = proxy.client();
    running.send(GET);
    wait_until("it runs", || proxy.in_flight() == 1);
    let response = proxy.client().send(GET).response();
    assert_eq!(response.status(), 503);
    assert!(response.body_text().starts_with("503 Service Unavailable: pool \"web\": "), "{}", text(&response.body));
    assert_eq!(proxy.pool(|pool| pool.no_pick[2].get()), 1);
    go_on();
    assert_eq!(running.response().status(), 200);
    wait_until("it is over", || proxy.in_flight() == 0);
    go_on();
    assert_eq!(proxy.client().send(GET).response().status(), 200);
}

#[test]
fn heads_as_large_as_allowed_pass_both_ways() {
    const LARGEST: usize = 32 * 1024;
    let endpoint = Endpoint::answering(|request| {
        assert!(request.head.len() > LARGEST, "with what is added");
        let line = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nA: ";
        format!("{line}{}\r\n\r\nhello", "b".repeat(LARGEST - line.len() - 4)).into_bytes()
    });
    let proxy = Proxy::with(&[endpoint.addr], "limits = { headers = \"32KiB\" }", "", "");
    let line = "GET / HTTP/1.1\r\nHost: a\r\nA: ";
    let request = format!("{line}{}\r\n\r\n", "b".repeat(LARGEST - line.len() - 4));
    assert_eq!(request.len(), LARGEST);
    let mut client = proxy.client();
    let sending = client.send_aside(request.repeat(3).into_bytes());
    for _ in 0..3 {
        let response = client.response();
        assert_eq!((response.head.len(), response.body_text()), (LARGEST, "hello".into()));
    }
    assert!(sending.join().expect("it does not panic").is_ok());
    let old = request.replace("GET / HTTP/1.1", "GET / HTTP/1.0");
    let response = client.send(old).response();
    assert!(response.head.ends_with("\r\nConnection: close\r\n\r\n") && response.head.len() > LARGEST);
    assert_eq!(proxy.client().send(format!("{}b\r\n\r\n", &request[..LARGEST - 4])).response().status(), 431);
}
