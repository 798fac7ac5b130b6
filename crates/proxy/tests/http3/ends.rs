//! Ends of streams and connections in the middle, by either side.

use super::before;
use crate::support::endpoint::ok;
use crate::support::h3_client::{H3Client, request};
use crate::support::{Endpoint, wait_until};
use evenkeel_proxy::end::Cause;
use evenkeel_wire::h3::ErrorCode::{self, *};
use evenkeel_wire::h3::Flood;
use quinn::VarInt;

fn fast_and_slow() -> Endpoint {
    Endpoint::start(|conn| {
        while let Some(head) = conn.next_head_if_whole() {
            if head.contains(" /slow ") {
                return drop(conn.rest());
            }
            conn.send(ok("fast"));
        }
    })
}

fn index(code: ErrorCode) -> usize {
    ErrorCode::index(code as u64).expect("a known code")
}

#[tokio::test]
async fn a_client_that_stops_or_resets_a_stream_cancels_its_request_and_no_other() {
    let endpoint = fast_and_slow();
    let proxy = before(&[endpoint.addr]);
    let client = H3Client::connect(proxy.addr()).await;
    let code = VarInt::from_u32(RequestCancelled as u32);
    for (n, how) in ["stop", "reset", "both"].into_iter().enumerate() {
        // A request whose body is complete can only be stopped.
        let method = if how == "stop" { "GET" } else { "POST" };
        let mut slow = client.begin(&request(method, "/slow")).await;
        if how == "stop" {
            let _ = slow.send.finish();
        }
        wait_until("it is under way", || proxy.in_flight() == 1);
        if how != "stop" {
            let _ = slow.send.reset(code);
        }
        if how != "reset" {
            let _ = slow.recv.stop(code);
        }
        wait_until(&format!("it is cancelled: {how}"), || proxy.in_flight() == 0);
        assert_eq!(client.get("/fast").await.body_text(), "fast");
        wait_until("it is counted", || proxy.listener(|l| l.ends[Cause::Client as usize].get()) == n as u64 + 1);
        let counted = || proxy.listener(|l| l.http3.resets_received[index(RequestCancelled)].get());
        wait_until("its reset is counted", || counted() == n as u64 + 1);
    }
    assert_eq!(proxy.endpoint(0, |e| e.errors.iter().map(|n| n.get()).sum()), 0, "it is no fault of the endpoint");
}

#[tokio::test]
async fn a_connection_that_is_lost_cancels_all_of_its_requests() {
    let endpoint = Endpoint::start(|conn| {
        conn.next_head_if_whole();
        conn.rest();
    });
    let proxy = before(&[endpoint.addr]);
    let client = H3Client::connect(proxy.addr()).await;
    let mut asked = Vec::new();
    for _ in 0..5 {
        asked.push(client.begin(&request("POST", "/slow")).await);
    }
    wait_until("they are under way", || proxy.in_flight() == 5);
    client.quic.close(VarInt::from_u32(0x100), b"");
    wait_until("they are cancelled", || proxy.in_flight() == 0 && proxy.listener(|l| l.active.get()) == 0);
    wait_until("all are counted", || proxy.listener(|l| l.ends[Cause::Client as usize].get()) == 5);
}

#[tokio::test]
async fn an_answer_that_is_cut_short_ends_in_a_reset() {
    let endpoint = Endpoint::start(|conn| {
        conn.head();
        conn.send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf");
    });
    let proxy = before(&[endpoint.addr]);
    let client = H3Client::connect(proxy.addr()).await;
    for _ in 0..2 {
        let mut exchange = client.begin(&request("GET", "/")).await;
        let _ = exchange.send.finish();
        // The reset may overtake the start of the response.
        let answer = exchange.answer().await;
        assert_eq!((answer.ended, answer.reset), (false, Some(InternalError as u64)), "{answer:?}");
    }
    wait_until("both are counted", || proxy.listener(|l| l.http3.resets_sent[index(InternalError)].get()) == 2);
}

#[tokio::test]
async fn an_endpoint_that_fails_makes_a_502_of_its_stream() {
    let endpoint = Endpoint::resetting();
    let proxy = before(&[endpoint.addr]);
    let client = H3Client::connect(proxy.addr()).await;
    assert_eq!(client.get("/").await.status(), 502);
}

/// The response may end before the request: the rest is stopped without an error (RFC 9114 section 4.1).
#[tokio::test]
async fn an_early_answer_stops_the_rest_of_the_request() {
    let endpoint = Endpoint::start(|conn| {
        conn.head();
        conn.send("HTTP/1.1 413 Content Too Large\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno");
        conn.rest();
    });
    let proxy = before(&[endpoint.addr]);
    let client = H3Client::connect(proxy.addr()).await;
    let mut exchange = client.begin(&request("POST", "/")).await;
    exchange.data(vec![1; 1000]).await;
    let answer = exchange.answer().await;
    assert_eq!((answer.status(), answer.body_text().as_str(), answer.ended), (413, "no", true));
    while exchange.data(vec![1; 60_000]).await {}
    assert_eq!(client.get("/").await.status(), 413);
}

/// Asserts that requests that are taken back at once cost the client its connection (Rapid Reset), once those that had
/// begun are served.
#[tokio::test]
async fn a_flood_of_resets_ends_the_connection() {
    let endpoint = Endpoint::start(|conn| {
        while conn.request_if_whole().is_some() {
            conn.send(ok("hello"));
        }
    });
    let proxy = before(&[endpoint.addr]);
    let client = H3Client::connect(proxy.addr()).await;
    let flooding = async {
        loop {
            let Ok((mut send, mut recv)) = client.quic.open_bi().await else { return };
            let head = crate::support::h3_client::block(&request("GET", "/"));
            let _ = send.write_all(&crate::support::h3_client::frame(1, head)).await;
            let _ = send.reset(VarInt::from_u32(RequestCancelled as u32));
            let _ = recv.stop(VarInt::from_u32(RequestCancelled as u32));
        }
    };
    crate::support::h3_client::soon(flooding).await;
    wait_until("it is counted", || proxy.listener(|l| l.http3.floods[Flood::Resets as usize].get()) == 1);
    assert_eq!(H3Client::connect(proxy.addr()).await.get("/").await.body_text(), "hello");
    wait_until("nothing is under way", || proxy.in_flight() == 0 && proxy.listener(|l| l.active.get()) == 0);
}
