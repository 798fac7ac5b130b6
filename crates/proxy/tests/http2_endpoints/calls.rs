//! Are calls of gRPC tried again, and held to the time that their clients give them?

use crate::both::connect;
use crate::support::h2_server::{Exchange, H2Server};
use crate::support::{Proxy, SOON};
use bytes::Bytes;
use h2::Reason;
use h2::client::SendRequest;
use http::HeaderMap;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

const RETRY: &str =
    "protocol = 'h2'\noutlier = 'off'\nretry = { on = ['grpc:unavailable'], backoff = '1ms..2ms', budget = 1 }";

fn before(endpoints: &[SocketAddr], pool: &str) -> Proxy {
    Proxy::with(endpoints, "h2c = true", pool, "")
}

/// A server that has no time for any call, and says so at once or behind the call's message.
fn unavailable(waits: bool) -> H2Server {
    H2Server::start(move |mut exchange| async move {
        if waits {
            exchange.read().await;
        }
        let fields = [("content-type", "application/grpc"), ("grpc-status", "14"), ("grpc-message", "not now")];
        exchange.reply(200, &fields, b"", &[]).await;
    })
}

/// One that answers with the message of the call.
fn echo() -> H2Server {
    H2Server::start(|mut exchange: Exchange| async move {
        let (body, _) = exchange.read().await;
        exchange.reply(200, &[("content-type", "application/grpc")], &body, &[("grpc-status", "0")]).await;
    })
}

/// How a call ended: its status, and its message.
#[derive(Debug, PartialEq, Eq)]
struct Ended {
    status: String,
    body: Vec<u8>,
}

/// A call whose message comes in these parts, each by itself behind the head.
async fn call(client: &SendRequest<Bytes>, parts: &[&[u8]], timeout: Option<&str>) -> Ended {
    let mut request = http::Request::post("http://a/pkg.Service/Method")
        .header("content-type", "application/grpc")
        .header("te", "trailers");
    if let Some(timeout) = timeout {
        request = request.header("grpc-timeout", timeout);
    }
    let mut client = client.clone().ready().await.expect("it takes requests");
    let (response, mut send) =
        client.send_request(request.body(()).expect("a good one"), false).expect("it takes one more");
    for part in parts {
        send.send_data(Bytes::copy_from_slice(part), false).expect("it goes on");
        tokio::task::yield_now().await;
    }
    send.send_data(Bytes::new(), true).expect("it goes on");
    let receiving = async {
        let response = response.await.expect("an answer");
        let head = response.headers().clone();
        let (mut body, mut all) = (response.into_body(), Vec::new());
        while let Some(part) = body.data().await {
            all.extend_from_slice(&part.expect("it goes on"));
        }
        let trailers = body.trailers().await.expect("the end").unwrap_or_default();
        let status = |fields: &HeaderMap| Some(fields.get("grpc-status")?.to_str().expect("a number").to_string());
        Ended { status: status(&trailers).or(status(&head)).expect("a status"), body: all }
    };
    tokio::time::timeout(SOON, receiving).await.expect("in time")
}

#[tokio::test]
async fn a_call_that_finds_no_server_is_tried_elsewhere_with_its_message() {
    for waits in [true, false] {
        let (busy, good) = (unavailable(waits), echo());
        let proxy = before(&[busy.addr, good.addr], RETRY);
        let client = connect(&proxy).await;
        for _ in 0..8 {
            let ended = call(&client, &[b"hel", b"lo"], None).await;
            assert_eq!(ended, Ended { status: "0".into(), body: b"hello".to_vec() }, "{waits}");
        }
        assert!(!busy.seen().is_empty() && good.seen().len() == 8);
        assert_eq!(proxy.pool(|pool| pool.retries.get()), busy.seen().len() as u64);
    }
}

#[tokio::test]
async fn a_call_with_a_long_message_gets_the_status_that_there_is() {
    let (busy, other) = (unavailable(true), unavailable(true));
    let proxy = before(&[busy.addr, other.addr], RETRY);
    let client = connect(&proxy).await;
    let ended = call(&client, &[&[7; 6000], &[7; 6000]], None).await;
    assert_eq!(ended, Ended { status: "14".into(), body: Vec::new() });
    assert_eq!(busy.seen().len() + other.seen().len(), 1);
}

#[tokio::test]
async fn a_call_that_was_not_looked_at_goes_elsewhere_without_any_setting() {
    let refuses = H2Server::start(|mut exchange| async move {
        exchange.read().await;
        exchange.reset(Reason::REFUSED_STREAM);
    });
    let good = echo();
    let proxy = before(
        &[refuses.addr, good.addr],
        "protocol = 'h2'\noutlier = 'off'\nretry = { backoff = '1ms..2ms', budget = 1 }",
    );
    let client = connect(&proxy).await;
    for _ in 0..8 {
        assert_eq!(call(&client, &[b"hello"], None).await.body, b"hello");
    }
    assert!(!refuses.seen().is_empty());
}

fn nanos(timeout: &str) -> u64 {
    let (digits, unit) = timeout.split_at(timeout.len() - 1);
    digits.parse::<u64>().expect("a number")
        * match unit {
            "n" => 1,
            "u" => 1_000,
            "m" => 1_000_000,
            "S" => 1_000_000_000,
            other => panic!("{other}"),
        }
}

#[tokio::test]
async fn endpoints_are_told_how_much_time_is_left() {
    let (busy, other) = (unavailable(true), echo());
    let proxy = before(&[busy.addr, other.addr], RETRY);
    let client = connect(&proxy).await;
    while busy.seen().is_empty() {
        assert_eq!(call(&client, &[b"hello"], Some("20S")).await.status, "0");
    }
    assert_eq!(call(&client, &[b"hello"], None).await.status, "0");
    let first = nanos(busy.seen()[0].field("grpc-timeout").expect("it is told"));
    let seen = other.seen();
    let again = nanos(seen[seen.len() - 2].field("grpc-timeout").expect("it is told"));
    assert!(first <= nanos("20S") && again < first && again > nanos("1S"), "{first} {again}");
    assert_eq!(seen[seen.len() - 1].field("grpc-timeout"), None);
}

#[tokio::test]
async fn a_deadline_that_passes_ends_the_call_on_both_sides() {
    let cancelled = Arc::new(AtomicUsize::new(0));
    let endpoint = H2Server::start({
        let cancelled = cancelled.clone();
        move |mut exchange| {
            let cancelled = cancelled.clone();
            async move {
                exchange.read().await;
                let reason = poll_fn(|cx| exchange.respond.poll_reset(cx)).await;
                assert_eq!(reason.ok(), Some(Reason::CANCEL));
                cancelled.fetch_add(1, SeqCst);
            }
        }
    });
    let proxy = before(&[endpoint.addr], "protocol = 'h2'");
    let client = connect(&proxy).await;
    assert_eq!(call(&client, &[b"hello"], Some("100m")).await.status, "4");
    let done = async {
        while cancelled.load(SeqCst) == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(SOON, done).await.expect("the endpoint is told");
}
