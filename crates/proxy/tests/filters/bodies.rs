//! Filters that change bodies, between any two protocols: each byte is doubled, and the length is appended.

use super::parts::{ask_h1, ask_h2, ask_h3, echo_h1, echo_h2, pass_time, post, proxy_for};
use crate::support::endpoint::{Conn, ok, status};
use crate::support::h2_server::H2Server;
use crate::support::{Endpoint, Proxy, SOON, noise, own_addr, text, wait_until};
use h2::Reason;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, mpsc};

const H2: &str = "protocol = 'h2'\n";

fn before(endpoints: &[SocketAddr], pool: &str) -> Proxy {
    proxy_for("bodies", endpoints, pool, "")
}

/// Output of the filter for a body.
fn twice(body: &[u8]) -> Vec<u8> {
    let mut all: Vec<u8> = body.iter().flat_map(|&byte| [byte, byte]).filter(|byte| *byte != b'!').collect();
    all.extend_from_slice(format!("<{}>", body.len()).as_bytes());
    all
}

/// An endpoint that reads and never answers.
fn listening() -> Endpoint {
    Endpoint::start(|conn| drop(conn.rest()))
}

/// A body that the filter does not reject: noise without `!`.
fn quiet(len: usize) -> Vec<u8> {
    noise(len).into_iter().map(|byte| if byte == b'!' { b'.' } else { byte }).collect()
}

#[tokio::test]
async fn bodies_are_changed_both_ways_between_any_two_protocols() {
    let (h1, h2) = (echo_h1(), echo_h2());
    for (addr, pool) in [(h1.addr, ""), (h2.addr, H2)] {
        let proxy = before(&[addr], pool);
        for size in [0, 1, 5000, 20_000, 700_000] {
            let body = quiet(size);
            let of_h3 = ask_h3(&proxy, &body).await;
            for (client, echo) in [("h1", ask_h1(&proxy, &body)), ("h2", ask_h2(&proxy, &body).await), ("h3", of_h3)] {
                let at = format!("{client}, {pool}, {size}");
                assert!(echo.body == twice(&twice(&body)), "{at}: {} bytes", echo.body.len());
                assert_eq!((echo.status, echo.sum.as_deref()), (200, Some("7")), "{at}");
            }
        }
    }
    assert_eq!((h1.accepted(), h2.accepted()), (1, 1), "connections carry all requests of a proxy");
}

#[test]
fn no_false_length_is_forwarded() {
    let (h1, h2) = (
        Endpoint::answering(|request| ok(&request.body_text())),
        H2Server::start(|mut exchange| async move {
            let (body, trailers) = exchange.read().await;
            let came = trailers.and_then(|map| Some(map.get("x-came")?.to_str().ok()?.to_string())).unwrap_or_default();
            let length = body.len().to_string();
            exchange.reply(200, &[("content-length", &length), ("x-came", &came)], &body, &[]).await;
        }),
    );
    for (addr, pool) in [(h1.addr, ""), (h2.addr, H2)] {
        let proxy = before(&[addr], pool);
        let mut client = proxy.client();
        // Complete with the head, in both framings, and with the next request in the same write.
        client.send(
            post("Content-Length: 5", "hello")
                + &post("Transfer-Encoding: chunked", "2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n"),
        );
        for _ in 0..2 {
            let answer = client.response();
            assert_eq!(text(&answer.body), text(&twice(&twice(b"hello"))), "{pool}");
            assert_eq!((answer.field("content-length"), answer.field("transfer-encoding")), (None, Some("chunked")));
        }
        // Split at every position.
        let whole = post("Content-Length: 5", "hello");
        for at in whole.len() - 5..whole.len() {
            client.send(&whole[..at]);
            proxy.has_heard();
            assert_eq!(text(&client.send(&whole[at..]).response().body), text(&twice(&twice(b"hello"))), "{pool} {at}");
        }
        // HTTP/1.0 has no chunks.
        let old = client.send("POST /a HTTP/1.0\r\nContent-Length: 2\r\n\r\nhi").rest();
        assert!(
            text(&old).ends_with(&format!("Connection: close\n\n{}", text(&twice(&twice(b"hi"))))),
            "{}",
            text(&old)
        );
        // A request without a body stays without one, and HEAD gets the head of GET.
        let mut client = proxy.client();
        assert_eq!(client.get("/").body_text(), "", "{pool}: none is one still");
        let head = client.send("HEAD / HTTP/1.1\r\nHost: a\r\n\r\n").head().to_lowercase();
        assert!(!head.contains("content-length"), "{head}");
        assert_eq!(client.get("/").status(), 200, "nothing follows a head");
    }
    let seen = h1.seen();
    assert_eq!((seen[0].field("content-length"), seen[0].field("transfer-encoding")), (None, Some("chunked")));
    assert!(text(&seen[0].wire).ends_with("0\nx-came: 5\n\n"), "{}", text(&seen[0].wire));
    assert!(h2.seen().iter().all(|seen| seen.field("content-length").is_none()));
}

#[test]
fn answers_of_this_side_pass_it_too() {
    let proxy = before(&[own_addr()], "outlier = 'off'");
    let answer = proxy.client().get("/");
    let (body, length) = (answer.body_text(), answer.body.len().to_string());
    assert_eq!((answer.status(), answer.field("content-length")), (502, Some(length.as_str())));
    assert!(body.starts_with("550022") && body.ends_with('>'), "{body}");
}

#[tokio::test]
async fn a_body_that_does_not_pass_is_refused_or_cut() {
    let (h1, h2) = (listening(), H2Server::start(|mut exchange| async move { drop(exchange.read().await) }));
    for (addr, pool) in [(h1.addr, ""), (h2.addr, H2)] {
        let proxy = before(&[addr], pool);
        // Rejected with the head, and later in the body.
        for body in [b"hey!".to_vec(), [quiet(100_000), b"!".to_vec()].concat()] {
            let of_h3 = ask_h3(&proxy, &body).await;
            for (client, echo) in [("h1", ask_h1(&proxy, &body)), ("h2", ask_h2(&proxy, &body).await), ("h3", of_h3)] {
                assert!(text(&echo.body).starts_with("442222"), "{client} {pool}: {}", text(&echo.body));
                assert_eq!(echo.status, 422, "{client} {pool}");
            }
        }
        wait_until("they are over", || proxy.in_flight() == 0);
        assert_eq!(
            proxy.endpoint(0, |stats| stats.errors.iter().map(|errors| errors.get()).sum()),
            0,
            "it is not to blame"
        );
    }
    let loud = Endpoint::saying("hey!");
    let proxy = before(&[loud.addr], "");
    let answer = text(&proxy.client().send("GET / HTTP/1.1\r\nHost: a\r\n\r\n").rest());
    assert!(answer.starts_with("HTTP/1.1 200") && !answer.ends_with("0\n\n"), "{answer}");
}

#[test]
fn another_try_gets_what_the_filter_made() {
    let busy = || Endpoint::answering(|_| status("503 No", "x"));
    let busy_h2 = || {
        H2Server::start(|mut exchange| async move {
            exchange.read().await;
            exchange.reply(503, &[], b"x", &[]).await;
        })
    };
    let retry = "outlier = 'off'\nretry = { attempts = 1, on = ['503'], backoff = '1ms..2ms', budget = 1 }\n";
    let (h1, h2) = ((busy(), echo_h1()), (busy_h2(), echo_h2()));
    for (addrs, pool) in [([h1.0.addr, h1.1.addr], ""), ([h2.0.addr, h2.1.addr], H2)] {
        let proxy = before(&addrs, &format!("{retry}{pool}"));
        for n in 0..4 {
            let request = "PUT /a HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello";
            let answer = last(proxy.client().send(request));
            assert_eq!(answer, text(&twice(&twice(b"hello"))), "{pool} {n}");
        }
        assert!(proxy.pool(|pool| pool.retries.get()) >= 2);
    }
    // If the endpoint takes messages, the part of the body that follows the head is kept for retries.
    let proxy = before(&[h2.0.addr, h2.1.addr], &format!("{retry}{H2}"));
    for _ in 0..4 {
        let mut client = proxy.client();
        client.send("PUT /a HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhe");
        proxy.has_heard();
        assert_eq!(last(client.send("llo")), text(&twice(&twice(b"hello"))));
    }
}

/// The body of the final response, after any interim ones.
fn last(client: &mut crate::support::Client) -> String {
    loop {
        let answer = client.response();
        if answer.status() >= 200 {
            assert_eq!(answer.status(), 200);
            return text(&answer.body);
        }
    }
}

const SLOW: &str = "PUT /slow HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello";
const HEDGED: &str = "outlier = 'off'\nretry = { attempts = 0, hedge_after = 'p95', hedge_budget = 1 }\n";

/// Sends 200 fast requests, so that the usual latency is known, and then a slow one, which is hedged.
fn overtake(proxy: &Proxy) {
    let mut client = proxy.client();
    for _ in 0..200 {
        assert_eq!(client.get("/").status(), 200);
    }
    assert_eq!(text(&client.send(SLOW).response().body), text(&twice(&twice(b"hello"))));
    // On a busy machine, the second copy may arrive first, and the first one be answered.
    assert!(proxy.pool(|pool| pool.hedges.get()) >= 1);
}

#[test]
fn a_second_endpoint_gets_what_the_filter_made() {
    let slow = Arc::new(AtomicUsize::new(0));
    let endpoint = |slow: Arc<AtomicUsize>| {
        Endpoint::start(move |conn: &mut Conn| {
            while let Some(request) = conn.request() {
                if request.line().contains(" /slow ") && slow.fetch_add(1, SeqCst) == 0 {
                    // Silent until the hedge has won.
                    conn.rest();
                    return;
                }
                conn.send(ok(&request.body_text()));
            }
        })
    };
    let endpoints = [endpoint(slow.clone()), endpoint(slow.clone())];
    overtake(&before(&[endpoints[0].addr, endpoints[1].addr], HEDGED));
    slow.store(0, SeqCst);
    let endpoint = |slow: Arc<AtomicUsize>| {
        H2Server::start(move |mut exchange| {
            let slow = slow.clone();
            async move {
                let (body, _) = exchange.read().await;
                if exchange.path() == "/slow" && slow.fetch_add(1, SeqCst) == 0 {
                    let _ = std::future::poll_fn(|cx| exchange.respond.poll_reset(cx)).await;
                    return;
                }
                exchange.reply(200, &[], &body, &[]).await;
            }
        })
    };
    let endpoints = [endpoint(slow.clone()), endpoint(slow)];
    overtake(&before(&[endpoints[0].addr, endpoints[1].addr], &format!("{HEDGED}{H2}")));
}

#[tokio::test]
async fn a_side_that_leaves_within_a_body_ends_both() {
    let cut = Endpoint::start(|conn| {
        conn.request();
        conn.send("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nbody");
        conn.reset_at_end();
    });
    let has_begun = Arc::new(tokio::sync::Notify::new());
    let begun = has_begun.clone();
    let reset = H2Server::start(move |mut exchange| {
        let begun = begun.clone();
        async move {
            let head = http::Response::builder().status(200).body(()).expect("a good head");
            let mut send = exchange.respond.send_response(head, false).expect("it is open");
            send.send_data("body".into(), false).expect("it is open");
            begun.notified().await;
            send.send_reset(Reason::INTERNAL_ERROR);
        }
    });
    for (addr, pool) in [(cut.addr, ""), (reset.addr, H2)] {
        let proxy = before(&[addr], pool);
        let mut client = proxy.client();
        let head = client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n").head();
        has_begun.notify_one();
        assert!(head.starts_with("HTTP/1.1 200"), "{pool}: {head}");
        assert_eq!(text(&client.rest()), "8\nbbooddyy\n", "{pool}: it does not look whole");
        wait_until("it is over", || proxy.in_flight() == 0);
    }
    let (h1, h2) = (listening(), H2Server::start(|mut exchange| async move { drop(exchange.read().await) }));
    for (addr, pool) in [(h1.addr, ""), (h2.addr, H2)] {
        let proxy = before(&[addr], pool);
        let mut client = proxy.client();
        client.send(post("Content-Length: 100", "some"));
        wait_until("it is on its way", || proxy.in_flight() == 1);
        client.reset();
        wait_until("it is over", || proxy.in_flight() == 0);
    }
}

#[test]
fn a_side_that_does_not_read_keeps_the_other_from_sending() {
    const LEN: usize = 32 << 20;
    let (go, gate) = mpsc::sync_channel::<()>(1);
    let gate = Mutex::new(gate);
    let wait = move || gate.lock().expect("nothing panics with it").recv_timeout(SOON).expect("the test goes on");
    let endpoint = Endpoint::start(move |conn| {
        conn.head();
        wait();
        let mut read = 0;
        while read < 2 * LEN {
            read += conn.some(1 << 20).len();
        }
        conn.send(ok("all"));
        conn.rest();
    });
    let proxy = before(&[endpoint.addr], "");
    let mut client = proxy.client();
    client.send(post(&format!("Content-Length: {LEN}"), ""));
    let sending = client.send_aside(quiet(LEN));
    pass_time();
    assert!(!sending.is_finished(), "sockets hold less");
    go.send(()).expect("the endpoint waits");
    assert_eq!(text(&client.response().body), text(&twice(b"all")));
    sending.join().expect("no panic").expect("the proxy takes it");

    let sent = Arc::new(AtomicUsize::new(0));
    let counter = sent.clone();
    let endpoint = Endpoint::start(move |conn| {
        conn.request();
        conn.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {LEN}\r\n\r\n"));
        for piece in quiet(LEN).chunks(1 << 20) {
            conn.send(piece);
            counter.fetch_add(piece.len(), SeqCst);
        }
        conn.rest();
    });
    let proxy = before(&[endpoint.addr], "");
    let mut client = proxy.client();
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    pass_time();
    assert!(sent.load(SeqCst) < LEN, "sockets hold less");
    let answer = client.response();
    assert!(answer.body == twice(&quiet(LEN)), "{} bytes", answer.body.len());
}
