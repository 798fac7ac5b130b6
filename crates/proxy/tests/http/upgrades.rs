//! Requests with a body that ask to switch protocols, as `docker exec` sends them: the endpoint gets the body and then
//! the tunnel, and bytes after the body are a tunnel only once the endpoint has switched.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "a test is no worker: it may lock and wait")]

use crate::support::endpoint::ok;
use crate::support::{Endpoint, Proxy, SOON, noise, text, wait_until};
use std::sync::Mutex;
use std::sync::mpsc::channel;

/// Head that the command-line client of Docker sends.
const EXEC: &str = "POST /v1.45/exec/0123/start HTTP/1.1\r\nHost: a\r\nUser-Agent: Docker-Client\r\nConnection: Upgrade\r\n\
                    Content-Type: application/json\r\nUpgrade: tcp\r\n";
const BODY: &str = "{\"Detach\":false,\"Tty\":true}";

/// Response of Docker's server.
const UPGRADED: &str = "HTTP/1.1 101 UPGRADED\r\nContent-Type: application/vnd.docker.raw-stream\r\nConnection: Upgrade\r\n\
                        Upgrade: tcp\r\n\r\n";

fn exec() -> String {
    format!("{EXEC}Content-Length: {}\r\n\r\n{BODY}", BODY.len())
}

fn exec_in_chunks() -> String {
    format!("{EXEC}Transfer-Encoding: chunked\r\n\r\n{:x}\r\n{BODY}\r\n0\r\n\r\n", BODY.len())
}

/// Docker reported `unable to upgrade to tcp, received 200` when the proxy refused to switch after a body.
#[test]
fn the_endpoint_gets_the_body_and_then_the_tunnel() {
    let endpoint = Endpoint::start(|conn| {
        let request = conn.request().expect("a request");
        assert_eq!(request.field("upgrade"), Some("tcp"), "{}", request.head);
        assert_eq!(request.field("connection"), Some("upgrade, close"), "{}", request.head);
        assert_eq!(request.body_text(), BODY);
        conn.send(format!("{UPGRADED}# "));
        assert_eq!(text(&conn.rest()), "ls\\nexit\\n", "the client's end is passed on, with all before it");
        conn.send("bin etc");
    });
    let proxy = Proxy::before(&[endpoint.addr]);
    for request in [exec(), exec_in_chunks()] {
        let mut client = proxy.client();
        client.send(request);
        let head = client.head();
        assert!(head.starts_with("HTTP/1.1 101 UPGRADED\r\n"), "{head}");
        assert!(head.contains("\r\nUpgrade: tcp\r\n") && head.contains("\r\nConnection: upgrade\r\n"), "{head}");
        assert_eq!(client.bytes(2), b"# ");
        client.send("ls\n").send("exit\n").finish_sending();
        assert_eq!(client.rest(), b"bin etc", "the other half has its own end");
        wait_until("the tunnel has ended", || proxy.in_flight() == 0);
    }
    assert_eq!((proxy.ended(101), proxy.endpoint(0, |e| e.idle.get())), (2, 0));
}

#[test]
fn a_client_may_speak_right_behind_its_body() {
    let endpoint = Endpoint::start(|conn| {
        assert_eq!(conn.request().expect("a request").body_text(), BODY);
        conn.send(UPGRADED);
        assert_eq!(text(&conn.rest()), "early, later");
    });
    let proxy = Proxy::before(&[endpoint.addr]);
    for request in [exec(), exec_in_chunks()] {
        let mut client = proxy.client();
        // The first bytes of the tunnel come in the same read as the body.
        client.send(format!("{request}early"));
        assert!(client.head().starts_with("HTTP/1.1 101 "));
        client.send(", later").finish_sending();
        assert_eq!(client.rest(), b"");
    }
}

/// The protocol changes after the request, whenever the 101 comes (RFC 9110 section 7.8): no byte of the body is lost
/// or becomes part of the tunnel.
#[test]
fn an_endpoint_may_switch_before_it_has_read_the_body() {
    const LEN: usize = 3_000_000;
    let (go_on, may_go_on) = channel();
    let (may_go_on, sent) = (Mutex::new(may_go_on), noise(LEN));
    let expected = sent.clone();
    let endpoint = Endpoint::start(move |conn| {
        conn.head();
        conn.send(format!("{UPGRADED}welcome"));
        // Neither side can have sent all of the body yet.
        may_go_on.lock().expect("no panic").recv_timeout(SOON).expect("the test continues");
        assert!(conn.bytes(LEN) == expected);
        assert_eq!(text(&conn.rest()), "tunnel");
        conn.send("bye");
    });
    let proxy = Proxy::before(&[endpoint.addr]);
    let mut client = proxy.client();
    client.send(format!("{EXEC}Content-Length: {LEN}\r\n\r\n"));
    let sending = client.send_aside([&sent[..], b"tunnel"].concat());
    assert!(client.head().starts_with("HTTP/1.1 101 "));
    assert_eq!(client.bytes(7), b"welcome");
    go_on.send(()).expect("the endpoint waits");
    assert!(sending.join().expect("it does not panic").is_ok());
    client.finish_sending();
    assert_eq!(client.rest(), b"bye");
}

/// Otherwise a client could send requests to endpoints that are neither routed nor counted.
#[test]
fn what_follows_the_body_is_the_next_request_unless_the_endpoint_switches() {
    let endpoint = Endpoint::start(|conn| {
        while let Some(request) = conn.request() {
            conn.send(ok(request.line()));
        }
    });
    let proxy = Proxy::before(&[endpoint.addr]);
    let next = "GET /next HTTP/1.1\r\nHost: a\r\n\r\n";
    for request in [exec(), exec_in_chunks()] {
        let mut client = proxy.client();
        client.send(format!("{request}{next}"));
        assert_eq!(client.response().body_text(), "POST /v1.45/exec/0123/start HTTP/1.1");
        assert_eq!(client.response().body_text(), "GET /next HTTP/1.1");
        client.send(next);
        assert_eq!(client.response().body_text(), "GET /next HTTP/1.1");
    }
    // Each was forwarded as a request of its own.
    let seen = endpoint.seen();
    assert_eq!(seen.len(), 6);
    wait_until("all are counted", || proxy.ended(200) == 6);
    assert!(seen.iter().all(|request| request.head.contains("\r\nX-Forwarded-For: ")));
    assert_eq!(endpoint.accepted(), 3, "a connection that carried an upgrade and a body carries nothing else");
}

/// Endpoints whose parser ignores the body before an upgrade (uvicorn with httptools) took the body for the next request.
/// Its response went to whoever used the connection next.
#[test]
fn a_body_that_the_endpoint_takes_for_a_request_costs_nobody_else_a_response() {
    let endpoint = Endpoint::start(|conn| {
        // The proxy closes the connection after an unexpected response, perhaps before all of the body has arrived.
        while let Some(head) = conn.next_head_if_whole() {
            let line = head.lines().next().unwrap_or_default().to_string();
            conn.send(ok(&line));
            // A server may ignore the option, too.
        }
    });
    let proxy = Proxy::before(&[endpoint.addr]);
    let hidden = "GET /hidden HTTP/1.1\r\nHost: a\r\n\r\n";
    let post = format!("{EXEC}Content-Length: {}\r\n\r\n{hidden}", hidden.len());
    let chunks = format!("{EXEC}Transfer-Encoding: chunked\r\n\r\n{:x}\r\n{hidden}\r\n0\r\n\r\n", hidden.len());
    for (request, innocent) in [(post, "/one"), (chunks, "/two")] {
        let _attacker = {
            let mut client = proxy.client();
            client.send(request);
            assert_eq!(client.response().body_text(), "POST /v1.45/exec/0123/start HTTP/1.1");
            client
        };
        let mut client = proxy.client();
        for _ in 0..3 {
            client.send(format!("GET {innocent} HTTP/1.1\r\nHost: a\r\n\r\n"));
            assert_eq!(client.response().body_text(), format!("GET {innocent} HTTP/1.1"));
        }
    }
}

/// Docker's response to a client that did not ask for an upgrade.
#[test]
fn a_stream_in_place_of_a_switch_is_a_response() {
    let endpoint = Endpoint::start(|conn| {
        assert_eq!(conn.request().expect("a request").body_text(), BODY);
        conn.send("HTTP/1.1 200 OK\r\nContent-Type: application/vnd.docker.raw-stream\r\n\r\nout");
        conn.send("put");
        conn.finish_sending();
        assert_eq!(conn.rest(), b"", "nothing of what the client sent behind its body");
    });
    let proxy = Proxy::before(&[endpoint.addr]);
    let mut client = proxy.client();
    client.send(format!("{}ls\n", exec()));
    assert_eq!(client.response().body_text(), "output");
}

/// An endpoint that does not read the body of a GET takes it for the next request, so its connection is not reused.
#[test]
fn a_method_whose_body_may_be_overlooked_does_not_switch_behind_one() {
    let endpoint = Endpoint::answering(|request| {
        let names = |name| request.field(name).unwrap_or("none").to_string();
        ok(&format!("{} {}", names("upgrade"), names("connection")))
    });
    let proxy = Proxy::before(&[endpoint.addr]);
    for method in ["GET", "HEAD", "DELETE"] {
        let mut client = proxy.client();
        client.send(exec().replace("POST", method));
        let head = client.head();
        assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    }
    let seen = endpoint.seen();
    assert!(
        seen.iter().all(|request| request.field("upgrade").is_none() && request.field("connection") == Some("close"))
    );
    assert_eq!(seen.len(), 3);
}
