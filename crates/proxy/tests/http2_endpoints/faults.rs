//! Endpoints that misbehave on HTTP/2 connections.

use super::{before, post, status};
use crate::support::endpoint::ok;
use crate::support::h2_server::H2Server;
use crate::support::tls::{Authority, BOTH, answering, proxy, to_pool};
use crate::support::{Endpoint, wait_until};
use evenkeel_proxy::stats::{CODES, ErrorKind};
use h2::Reason;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use tokio::sync::Semaphore;

/// An empty SETTINGS frame, after which the server is silent.
const SETTINGS: [u8; 9] = [0, 0, 0, 4, 0, 0, 0, 0, 0];

#[test]
fn an_endpoint_that_does_not_speak_http2_is_named() {
    let endpoint = Endpoint::start(|conn| {
        conn.send("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
        conn.rest();
    });
    let proxy = before(&[endpoint.addr], "retry = { attempts = 0 }");
    let answer = proxy.client().get("/");
    assert_eq!(answer.status(), 502);
    assert!(answer.body_text().contains("does not support HTTP/2"), "{}", answer.body_text());
    assert_eq!(proxy.endpoint(0, |e| e.errors[ErrorKind::Protocol as usize].get()), 1);
}

#[test]
fn a_reset_is_a_failure_of_the_endpoint_and_the_connection_stays() {
    let come = Arc::new(Semaphore::new(0));
    let gate = come.clone();
    let endpoint = H2Server::start(move |mut exchange| {
        let gate = gate.clone();
        async move {
            match exchange.path() {
                "/before" => exchange.reset(Reason::INTERNAL_ERROR),
                "/within" => {
                    let head = http::Response::builder().status(200).header("content-length", 9).body(());
                    let mut send =
                        exchange.respond.send_response(head.expect("a good head"), false).expect("it is open");
                    let _ = send.send_data("part".into(), false);
                    // Only after the client has it, as a reset discards bytes that wait.
                    gate.acquire().await.expect("never closed").forget();
                    send.send_reset(Reason::CANCEL);
                }
                _ => exchange.reply(200, &[], b"good", &[]).await,
            }
        }
    });
    let proxy = before(&[endpoint.addr], "retry = { attempts = 0 }\noutlier = 'off'");
    let answer = proxy.client().get("/before");
    assert_eq!(answer.status(), 502);
    assert!(answer.body_text().contains("reset the stream: INTERNAL_ERROR"), "{}", answer.body_text());
    let mut client = proxy.client();
    let head = client.send("GET /within HTTP/1.1\r\nHost: a\r\n\r\n").head();
    assert!(head.starts_with("HTTP/1.1 200") && client.bytes(4) == b"part", "{head}");
    come.add_permits(1);
    client.ends();
    assert_eq!(status(&proxy, "/"), 200);
    assert_eq!(endpoint.accepted(), 1);
    assert_eq!(proxy.endpoint(0, |e| e.errors[ErrorKind::Reset as usize].get()), 2);
    let code = |name| CODES.iter().position(|code| *code == name).expect("it is one");
    assert_eq!(proxy.endpoint(0, |e| e.http2.resets[code("internal_error")].get()), 1);
    assert_eq!(proxy.endpoint(0, |e| e.http2.resets[code("cancel")].get()), 1);
}

#[test]
fn a_client_that_goes_away_cancels_its_stream_alone() {
    let (begun, cancelled) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (b, c) = (begun.clone(), cancelled.clone());
    let endpoint = H2Server::start(move |mut exchange| {
        let (begun, cancelled) = (b.clone(), c.clone());
        async move {
            if exchange.path() != "/slow" {
                return exchange.reply(200, &[], b"quick", &[]).await;
            }
            begun.fetch_add(1, SeqCst);
            let reason = std::future::poll_fn(|cx| exchange.respond.poll_reset(cx)).await;
            if reason.is_ok_and(|reason| reason == Reason::CANCEL) {
                cancelled.fetch_add(1, SeqCst);
            }
        }
    });
    let proxy = before(&[endpoint.addr], "");
    let mut client = proxy.client();
    client.send("GET /slow HTTP/1.1\r\nHost: a\r\n\r\n");
    wait_until("it is there", || begun.load(SeqCst) == 1);
    client.reset();
    wait_until("it is cancelled", || cancelled.load(SeqCst) == 1);
    assert_eq!((status(&proxy, "/"), endpoint.accepted()), (200, 1));
    wait_until("nothing is in flight", || proxy.in_flight() == 0);
}

#[test]
fn an_endpoint_that_gives_no_sign_of_life_loses_its_connection() {
    let endpoint = Endpoint::start(|conn| {
        conn.send(SETTINGS);
        // Everything is read and nothing is answered.
        conn.rest();
    });
    let proxy = before(
        &[endpoint.addr],
        "retry = { attempts = 0 }\nhttp2 = { ping_after = '50ms', ping_timeout = '50ms' }\ntimeouts = { response = 'off' }",
    );
    let answer = proxy.client().get("/");
    assert_eq!(answer.status(), 502, "{}", answer.body_text());
    assert_eq!(proxy.endpoint(0, |e| e.http2.silent.get()), 1);
    wait_until("it is no more", || proxy.endpoint(0, |e| e.http2.connections.get()) == 0);
}

#[test]
fn an_endpoint_that_is_late_gets_no_more_time_than_any_other() {
    let endpoint = H2Server::start(|exchange| async move {
        let _held = exchange;
        std::future::pending().await
    });
    let proxy = before(&[endpoint.addr], "retry = { attempts = 0 }\ntimeouts = { response = '100ms' }");
    assert_eq!(status(&proxy, "/"), 504);
    assert_eq!(proxy.endpoint(0, |e| e.errors[ErrorKind::Timeout as usize].get()), 1);
}

#[test]
fn a_body_that_is_not_as_long_as_stated_is_refused() {
    let endpoint = H2Server::saying("hello");
    let proxy = before(&[endpoint.addr], "");
    let mut client = proxy.client();
    let bad = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nzz\r\n";
    assert_eq!(client.send(bad).response().status(), 400);
    let mut client = proxy.client();
    client.send(&post("/", b"hello")[..]);
    assert_eq!(client.response().status(), 200);
}

#[test]
fn an_endpoint_that_does_not_choose_http2_over_tls_is_named_or_gets_http1() {
    let ca = Authority::new("ca");
    let endpoint = answering(ca.server("b.test", &[], |_| ()), |_| ok("HTTP/1"));
    let secured = || to_pool(ca.client(BOTH), "b.test");
    let behind = proxy(endpoint.addr, secured(), "", "protocol = 'h2'\nretry = { attempts = 0 }\noutlier = 'off'");
    let answer = behind.client().get("/");
    assert_eq!(answer.status(), 502);
    assert!(answer.body_text().contains("it does not support HTTP/2"), "{}", answer.body_text());
    let behind = proxy(endpoint.addr, secured(), "", "protocol = 'auto'");
    for _ in 0..3 {
        assert_eq!(behind.client().get("/").body_text(), "HTTP/1");
    }
}
