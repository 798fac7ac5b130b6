//! Bytes from an endpoint on a kept connection that answer no request: those that come late after a response without a
//! body, and a 408 for a request that was never sent.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "a test is no worker: it may lock and wait")]

use crate::support::endpoint::ok;
use crate::support::{Endpoint, Proxy, wait_until};

/// An endpoint that sends `late` after its response to `/first`, once the next request is there.
fn late(first: &'static str, late: &'static str) -> Endpoint {
    Endpoint::start(move |conn| {
        let mut owed = "";
        while let Some(request) = conn.request() {
            if request.line().contains(" /first ") {
                conn.send(first);
                owed = late;
                continue;
            }
            conn.send([owed.as_bytes(), &ok("fine")].concat());
            owed = "";
        }
    })
}

const ROUNDS: usize = 20;

/// The request after such a response was once answered with a 502.
#[track_caller]
fn the_next_request_is_answered(method: &str, first: &'static str, bytes: &'static str, next: &str) {
    let endpoint = late(first, bytes);
    let proxy = Proxy::with(&[endpoint.addr], "", "retry = { attempts = 0 }", "");
    let mut client = proxy.client();
    for round in 0..ROUNDS {
        client.send(format!("{method} /first HTTP/1.1\r\nHost: a\r\n\r\n"));
        let head = client.head();
        assert!(head.starts_with(&first[..12]), "{head}");
        wait_until("it is over", || proxy.in_flight() == 0);
        let answer = client.send(format!("{next} /next HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n")).response();
        assert_eq!((answer.status(), answer.body_text()), (200, "fine".into()), "{method} {first:?}, round {round}");
    }
}

const NO_CONTENT: &str = "HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n";
const NOT_MODIFIED: &str = "HTTP/1.1 304 Not Modified\r\nTransfer-Encoding: chunked\r\n\r\n";

#[test]
fn a_last_chunk_behind_a_204_or_a_304_is_not_taken_for_the_next_response() {
    for first in [NO_CONTENT, NOT_MODIFIED] {
        the_next_request_is_answered("GET", first, "0\r\n\r\n", "GET");
        the_next_request_is_answered("GET", first, "0\r\n\r\n", "POST");
    }
    the_next_request_is_answered("GET", "HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n", "hello", "POST");
}

/// Such a head may state the length of a body without having one, so the connection is kept. Bytes after it show up at
/// the next request, which is repeated if it is idempotent.
#[test]
fn a_body_behind_a_response_that_has_none_costs_the_next_request_a_connection_and_no_more() {
    the_next_request_is_answered("GET", "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", "hello", "GET");
    the_next_request_is_answered("HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", "hello", "GET");
    the_next_request_is_answered("HEAD", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "0\r\n\r\n", "GET");
}

#[test]
fn an_empty_line_behind_a_response_is_passed_over() {
    let endpoint = late("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", "\r\n");
    let proxy = Proxy::with(&[endpoint.addr], "", "retry = { attempts = 0 }", "");
    let mut client = proxy.client();
    for method in ["GET", "POST"].into_iter().cycle().take(ROUNDS) {
        assert_eq!(client.get("/first").status(), 200);
        let answer = client.send(format!("{method} /next HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n")).response();
        assert_eq!((answer.status(), answer.body_text()), (200, "fine".into()));
    }
    assert_eq!(endpoint.accepted(), 1, "its connection is as good as before");
}

/// Some servers send a 408 when they close an idle connection, which may cross with the next request.
#[test]
fn a_408_to_a_request_that_was_never_sent_is_not_the_answer_to_the_next() {
    let endpoint = Endpoint::start(|conn| {
        conn.request();
        conn.send(ok("fine"));
        if conn.request().is_some() {
            conn.send("HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        }
    });
    let proxy = Proxy::with(&[endpoint.addr], "", "retry = { attempts = 0 }", "");
    let mut client = proxy.client();
    for _ in 0..ROUNDS {
        assert_eq!(client.get("/").status(), 200);
    }
    // A request that must not be repeated gets the 408.
    let answer = client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n").response();
    assert_eq!(answer.status(), 408);
}

/// The reason must not blame the response, which has not come.
#[test]
fn a_request_that_cannot_be_sent_again_is_a_502_with_the_reason() {
    let endpoint = late("HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", "hello");
    let proxy = Proxy::with(&[endpoint.addr], "", "retry = { attempts = 0 }", "");
    let mut client = proxy.client();
    client.send("GET /first HTTP/1.1\r\nHost: a\r\n\r\n").head();
    wait_until("it is over", || proxy.in_flight() == 0);
    let answer = client.send("POST /next HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n").response();
    assert_eq!(answer.status(), 502);
    assert!(answer.body_text().contains("sent unexpected bytes"), "{}", answer.body_text());
}
