//! Number, opening and end of shared connections to endpoints.

use super::{before, status};
use crate::support::h2_server::H2Server;
use crate::support::{Proxy, noise, wait_until};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use tokio::sync::Semaphore;

/// An endpoint that holds requests until the test adds permits, and the number that it holds.
fn gated(streams: u32) -> (H2Server, Arc<Semaphore>, Arc<AtomicUsize>) {
    let (gate, inside) = (Arc::new(Semaphore::new(0)), Arc::new(AtomicUsize::new(0)));
    let (held, counted) = (gate.clone(), inside.clone());
    let endpoint = H2Server::with(
        move |builder| {
            builder.max_concurrent_streams(streams);
        },
        move |mut exchange| {
            let (held, counted) = (held.clone(), counted.clone());
            async move {
                counted.fetch_add(1, SeqCst);
                held.acquire().await.expect("never closed").forget();
                exchange.reply(200, &[], b"done", &[]).await;
            }
        },
    );
    (endpoint, gate, inside)
}

fn connections(proxy: &Proxy) -> u64 {
    proxy.endpoint(0, |e| e.http2.connections.get())
}

#[test]
fn requests_share_a_connection_up_to_the_limit_and_then_open_another() {
    let (endpoint, gate, inside) = gated(1000);
    let proxy = before(&[endpoint.addr], "http2 = { streams = 10 }");
    let mut clients: Vec<_> = (0..25).map(|_| proxy.client()).collect();
    for client in &mut clients {
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    }
    wait_until("all are there", || inside.load(SeqCst) == 25);
    assert_eq!((endpoint.accepted(), connections(&proxy)), (3, 3));
    assert_eq!(proxy.endpoint(0, |e| e.http2.streams.get()), 25);
    gate.add_permits(100);
    for client in &mut clients {
        assert_eq!(client.response().status(), 200);
    }
    // One connection suffices now.
    assert_eq!(clients[0].get("/").status(), 200);
    assert_eq!(endpoint.accepted(), 3);
}

#[test]
fn an_endpoint_that_allows_fewer_gets_fewer_and_the_rest_waits_for_a_place() {
    let (endpoint, gate, inside) = gated(2);
    let proxy = before(&[endpoint.addr], "http2 = { connections = 2 }\ntimeouts = { connect = '20s' }");
    // The endpoint's settings are known before the other requests begin.
    gate.add_permits(1);
    assert_eq!(status(&proxy, "/"), 200);
    let mut clients: Vec<_> = (0..7).map(|_| proxy.client()).collect();
    for client in &mut clients {
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    }
    wait_until("as many are there as may", || inside.load(SeqCst) == 1 + 4);
    assert_eq!(endpoint.accepted(), 2);
    gate.add_permits(100);
    for client in &mut clients {
        assert_eq!(client.response().status(), 200);
    }
    assert_eq!(endpoint.accepted(), 2);
}

#[test]
fn an_endpoint_may_end_its_connections_under_load_without_a_failed_request() {
    const CLIENTS: usize = 8;
    const REQUESTS: usize = 150;
    let endpoint = H2Server::start(|mut exchange| async move {
        let (body, _) = exchange.read().await;
        exchange.reply(200, &[], &body, &[]).await;
    });
    let proxy = before(&[endpoint.addr], "retry = { attempts = 0 }");
    let done = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|_| {
                scope.spawn(|| {
                    let mut client = proxy.client();
                    for n in 0..REQUESTS {
                        let content = noise(n);
                        let answer = client.send(super::post("/", &content)).response();
                        assert_eq!((answer.status(), answer.body == content), (200, true), "{}", answer.body_text());
                        done.fetch_add(1, SeqCst);
                    }
                })
            })
            .collect();
        let mut at = 0;
        while !clients.iter().all(|client| client.is_finished()) {
            if done.load(SeqCst) >= at + 20 {
                at = done.load(SeqCst);
                endpoint.go_away();
            }
            std::thread::yield_now();
        }
    });
    assert!(endpoint.accepted() > 3, "{} connections", endpoint.accepted());
    assert!(proxy.endpoint(0, |e| e.http2.go_aways.get()) > 3);
    assert_eq!(proxy.endpoint(0, |e| e.errors.iter().map(|c| c.get()).sum()), 0);
}

#[test]
fn a_connection_ends_when_it_was_idle_for_long_and_when_its_endpoint_leaves() {
    let endpoint = H2Server::saying("hello");
    let mut proxy = before(&[endpoint.addr], "timeouts = { upstream_idle = '1ms' }");
    assert_eq!(status(&proxy, "/"), 200);
    wait_until("it ends", || connections(&proxy) == 0);
    assert_eq!(status(&proxy, "/"), 200);
    assert_eq!(endpoint.accepted(), 2);
    let (other, gate, inside) = gated(100);
    let config = |addr| {
        format!(
            "[runtime]\nworkers = 1\n[listener.web]\nbind = [\"$BIND\"]\n[pool.web]\nprotocol = 'h2'\n\
             balance = 'round_robin'\nendpoints = ['{addr}']"
        )
    };
    proxy.reload(&config(other.addr)).expect("a good plan");
    let mut client = proxy.client();
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    wait_until("the request is there", || inside.load(SeqCst) == 1);
    proxy.reload(&config(endpoint.addr)).expect("a good plan");
    assert_eq!(proxy.client().get("/").body_text(), "hello");
    gate.add_permits(1);
    assert_eq!(client.response().body_text(), "done", "what runs at an endpoint that left goes on");
}

#[test]
fn a_client_that_takes_nothing_stops_its_own_response_alone() {
    const LARGE: usize = 64 << 20;
    let sent = Arc::new(AtomicUsize::new(0));
    let counted = sent.clone();
    let endpoint = H2Server::start(move |mut exchange| {
        let counted = counted.clone();
        async move {
            if exchange.path() != "/large" {
                return exchange.reply(200, &[], &noise(300_000), &[]).await;
            }
            let head = http::Response::builder().status(200).body(()).expect("a good head");
            let mut send = exchange.respond.send_response(head, false).expect("the stream is open");
            for _ in 0..LARGE / 16_384 {
                send.reserve_capacity(16_384);
                let mut room = 0;
                while room < 16_384 {
                    let Some(Ok(more)) = std::future::poll_fn(|cx| send.poll_capacity(cx)).await else { return };
                    room = more;
                }
                let _ = send.send_data(vec![0; 16_384].into(), false);
                counted.fetch_add(16_384, SeqCst);
            }
            let _ = send.send_data("".into(), true);
        }
    });
    let proxy = before(&[endpoint.addr], "");
    let mut slow = proxy.client();
    slow.send("GET /large HTTP/1.1\r\nHost: a\r\n\r\n");
    wait_until("it has begun", || sent.load(SeqCst) > 0);
    // Other streams of the same connection continue.
    let mut quick = proxy.client();
    for _ in 0..50 {
        assert!(quick.get("/").body == noise(300_000));
    }
    // Sockets hold a part, and the proxy a window.
    let held = sent.load(SeqCst);
    assert!(held < LARGE / 2, "{held} bytes left the endpoint");
    assert_eq!(endpoint.accepted(), 1);
    let (mut all, mut left) = (0, true);
    while left {
        let part = slow.response_if_any();
        left = false;
        all = part.map_or(0, |message| message.body.len());
    }
    assert_eq!(all, LARGE);
}

#[test]
fn a_request_that_finds_no_place_in_time_is_not_held_against_the_endpoint() {
    let (endpoint, gate, inside) = gated(100);
    let pool = "http2 = { connections = 1, streams = 1 }\ntimeouts = { connect = '50ms' }\nretry = { attempts = 0 }";
    let proxy = before(&[endpoint.addr], pool);
    let mut client = proxy.client();
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    wait_until("it is there", || inside.load(SeqCst) == 1);
    let answer = proxy.client().get("/");
    assert_eq!(answer.status(), 503);
    assert!(answer.body_text().contains("at its limit of concurrent requests"), "{}", answer.body_text());
    assert_eq!(proxy.endpoint(0, |e| e.errors.iter().map(|c| c.get()).sum()), 0);
    gate.add_permits(1);
    assert_eq!(client.response().status(), 200);
}
