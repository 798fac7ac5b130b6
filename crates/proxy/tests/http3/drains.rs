//! Ends that evenkeel announces, and reloads, which end nothing.

use super::before;
use crate::support::datagrams::{self, Echo};
use crate::support::endpoint::ok;
use crate::support::h3_client::{H3Client, LISTENS, Part, request};
use crate::support::{Endpoint, Proxy, own_addr, wait_until};
use evenkeel_proxy::Command;
use evenkeel_wire::h3::ErrorCode::*;
use std::net::{SocketAddr, UdpSocket};

/// Last identifier of requests: the first GOAWAY names it.
const LAST: u64 = (1 << 62) - 4;

/// An endpoint whose responses to `/slow` take until the request has a body.
fn endpoint() -> Endpoint {
    Endpoint::start(|conn| {
        while let Some(head) = conn.next_head_if_whole() {
            if head.contains("/slow") {
                conn.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n");
                conn.next_line();
                conn.bytes(4);
                conn.bytes(2);
                conn.next_line();
                conn.next_line();
                conn.send("3\r\nend\r\n0\r\n\r\n");
            } else {
                conn.send(ok("fast"));
            }
        }
    })
}

#[tokio::test]
async fn a_draining_worker_sends_two_goaways_and_serves_what_has_begun() {
    let endpoint = endpoint();
    let proxy = before(&[endpoint.addr]);
    let client = H3Client::connect(proxy.addr()).await;
    let mut control = client.server_control().await;
    let mut slow = client.begin(&request("POST", "/slow")).await;
    assert!(matches!(slow.part().await, Part::Head(_)));
    assert_eq!(slow.part().await, Part::Data(b"half".to_vec()));
    proxy.server().command(Command::Drain);
    assert_eq!(control.go_away().await, Some(LAST));
    assert_eq!(client.get("/between").await.body_text(), "fast");
    assert_eq!(control.go_away().await, Some(8));
    assert_eq!(client.get("/late").await.reset, Some(RequestRejected as u64));
    slow.data("body").await;
    let _ = slow.send.finish();
    let answer = slow.answer().await;
    assert_eq!((answer.body_text().as_str(), answer.ended), ("end", true), "{answer:?}");
    assert_eq!(client.closed().await, Some(NoError as u64));
}

fn config(plain: SocketAddr, listener: &str, endpoint: &Endpoint) -> String {
    format!(
        "[runtime]\nworkers = 1\ndrain_timeout = '20s'\n[listener.plain]\nbind = ['{plain}']\npool = 'web'\n{listener}\n\
         [pool.web]\nendpoints = ['{}']\n",
        endpoint.addr
    )
}

#[tokio::test]
async fn a_listener_that_is_removed_finishes_what_has_begun() {
    let endpoint = endpoint();
    let web = format!("[listener.web]\nbind = ['$BIND']\npool = 'web'\n{LISTENS}");
    let plain = own_addr();
    let mut proxy = Proxy::start(&config(plain, &web, &endpoint));
    let addr = crate::support::h3_client::secure_addr(&proxy);
    let client = H3Client::connect(addr).await;
    let mut control = client.server_control().await;
    let mut slow = client.begin(&request("POST", "/slow")).await;
    assert!(matches!(slow.part().await, Part::Head(_)));
    proxy.reload(&config(plain, "", &endpoint)).expect("a good configuration");
    assert_eq!(control.go_away().await, Some(LAST));
    assert_eq!(control.go_away().await, Some(4));
    slow.data("body").await;
    let _ = slow.send.finish();
    assert!(slow.answer().await.ended);
    assert_eq!(client.closed().await, Some(NoError as u64));
}

#[tokio::test]
async fn a_reload_keeps_connections_and_new_rules_apply_to_new_requests() {
    let endpoint = endpoint();
    let (first, second) =
        ("response_headers = { set = { X-Rules = '1' } }", "response_headers = { set = { X-Rules = '2' } }");
    let with = |rules: &str| {
        format!(
            "[runtime]\nworkers = 1\n[listener.web]\nbind = ['$BIND']\n{LISTENS}\n[pool.web]\nendpoints = ['{}']\n\
             [[route]]\npool = 'web'\n{rules}",
            endpoint.addr
        )
    };
    let mut proxy = Proxy::start(&with(first));
    let client = H3Client::connect(proxy.addr()).await;
    let mut slow = client.begin(&request("POST", "/slow")).await;
    assert!(matches!(slow.part().await, Part::Head(_)));
    for n in 0..10 {
        let (rules, expected) = if n % 2 == 0 { (second, "2") } else { (first, "1") };
        proxy.reload(&with(rules)).expect("a good configuration");
        assert_eq!(client.get("/").await.field("x-rules"), Some(expected));
    }
    slow.data("body").await;
    let _ = slow.send.finish();
    let answer = slow.answer().await;
    assert_eq!((answer.body_text().as_str(), answer.ended), ("halfend", true));
    assert_eq!(proxy.listener(|l| l.http3.connections.get()), 1);
    assert!(client.quic.close_reason().is_none());
    wait_until("nothing is under way", || proxy.in_flight() == 0);
}

#[tokio::test]
async fn a_connection_with_a_limit_of_requests_ends_after_them() {
    let endpoint = endpoint();
    let proxy =
        Proxy::with(&[endpoint.addr], &format!("{LISTENS}\nlimits = {{ requests_per_connection = 3 }}"), "", "");
    let client = H3Client::connect(proxy.addr()).await;
    let mut control = client.server_control().await;
    for _ in 0..3 {
        assert_eq!(client.get("/").await.status(), 200);
    }
    assert_eq!(control.go_away().await, Some(LAST));
    assert_eq!(client.closed().await, Some(NoError as u64));
}

/// The sockets stay, as other processes may hold the address, and so do their clients' routes to workers.
#[tokio::test]
async fn a_reload_changes_a_socket_between_flows_and_http3() {
    let (http, echo) = (endpoint(), Echo::new("echo "));
    let (plain, bind) = (own_addr(), own_addr());
    let with = |listener: &str| {
        format!(
            "[runtime]\nworkers = 2\n[listener.plain]\nbind = ['{plain}']\npool = 'web'\n[listener.both]\n\
             bind = ['{bind}']\n{listener}\n[pool.web]\nendpoints = ['{}']\n[pool.flows]\nendpoints = ['{}']\n",
            http.addr, echo.addr
        )
    };
    let flows = with("mode = 'udp'\npool = 'flows'");
    let http3 = with(&format!("pool = 'web'\n{LISTENS}"));
    let mut proxy = Proxy::start(&flows);
    for round in 0..3 {
        for n in 0..8 {
            // Bytes that look like those of an id.
            let datagram = vec![n | 0x40; 30];
            let answer = datagrams::ask_until_answered(&datagrams::client(bind), &datagram);
            assert_eq!(answer, [b"echo ", &datagram[..]].concat(), "{round}");
        }
        proxy.reload(&http3).expect("a good configuration");
        let client = H3Client::connect(bind).await;
        for _ in 0..3 {
            assert_eq!(client.get("/").await.body_text(), "fast", "{round}");
            client.endpoint.rebind(UdpSocket::bind("127.0.0.1:0").expect("a free port")).expect("another port");
        }
        proxy.reload(&flows).expect("a good configuration");
        assert_eq!(client.closed().await, Some(NoError as u64), "{round}");
    }
    // Flows have no end of their own.
    proxy.stop();
}
