//! `body_max` of routes: bodies with a stated length are refused with their head, others once they exceed the limit, for
//! any protocol on either side.

use super::parts::{ask_h1, ask_h2, echo_h1, echo_h2, post};
use crate::support::h2_client::{DATA, END_STREAM, Frame, H2Client};
use crate::support::h2_server::H2Server;
use crate::support::{Client, Endpoint, Proxy, noise, text, wait_until};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

const H2: &str = "protocol = 'h2'";

/// A proxy whose route takes bodies up to 100,000 bytes.
fn before(endpoint: SocketAddr, pool: &str) -> Proxy {
    Proxy::start(&format!(
        "[runtime]\nworkers = 1\n[listener.web]\nbind = ['$BIND']\nerrors = 'detailed'\nh2c = true\n[[route]]\n\
         pool = 'web'\nbody_max = '100kB'\nrequest_trailers = ['X-Sum']\n[[route]]\npool = 'web'\nmatch = {{ prefix = '/any' }}\nbody_max = 'off'\n\
         [pool.web]\noutlier = 'off'\nendpoints = ['{endpoint}']\n{pool}\n"
    ))
}

fn refused(proxy: &Proxy) -> u64 {
    proxy.listener(|listener| listener.body_refused.get())
}

/// The fields of a POST with a stated length.
fn stated(length: &str) -> [(&str, &str); 5] {
    [(":method", "POST"), (":scheme", "http"), (":path", "/a"), (":authority", "a"), ("content-length", length)]
}

#[test]
fn a_stated_length_over_the_limit_is_refused_before_an_endpoint_is_picked() {
    let (h1, h2) = (Endpoint::saying("hello"), H2Server::saying("hello"));
    for (addr, pool) in [(h1.addr, ""), (h2.addr, H2)] {
        let proxy = before(addr, pool);
        let mut client = proxy.client();
        let answer = client.send(post("Content-Length: 100001\r\nExpect: 100-continue", "")).response();
        assert_eq!((answer.status(), answer.field("connection")), (413, Some("close")), "{pool}");
        assert!(answer.body_text().contains("limit of 100000"), "{}", answer.body_text());
        client.finish_sending();
        client.ends();
        // Over HTTP/2 the refusal costs the stream, not the connection.
        let mut client = H2Client::connect(proxy.addr());
        client.head(1, &stated("100001"), false);
        let answer = client.answer(1);
        assert_eq!((answer.status(), answer.goaway), (413, None), "{pool}");
        client.head(3, &stated("5"), false);
        client.send(&Frame::new(DATA, END_STREAM, 3, "hello"));
        assert_eq!(client.answer(3).status(), 200, "{pool}");
        wait_until("both are counted", || proxy.ended(413) == 2);
        assert_eq!((refused(&proxy), proxy.in_flight()), (2, 0), "{pool}");
    }
    assert_eq!((h1.seen().len(), h2.seen().len()), (1, 1), "the endpoints saw those under the limit");
}

#[tokio::test]
async fn bodies_up_to_the_limit_pass_with_and_without_a_length() {
    let (h1, h2) = (echo_h1(), echo_h2());
    for (addr, pool) in [(h1.addr, ""), (h2.addr, H2)] {
        let proxy = before(addr, pool);
        for size in [0, 1, 100_000] {
            let body = noise(size);
            for (client, echo) in [("h1", ask_h1(&proxy, &body)), ("h2", ask_h2(&proxy, &body).await)] {
                let at = format!("{client}, {pool}, {size}");
                assert!(echo.body == body, "{at}: {} bytes", echo.body.len());
                assert_eq!((echo.status, echo.sum.as_deref()), (200, Some("7")), "{at}");
            }
            let mut client = proxy.client();
            client.send([post(&format!("Content-Length: {size}"), "").into_bytes(), body.clone()].concat());
            let answer = last(&mut client);
            assert!(answer.body == body, "{pool}, {size}");
        }
        // Another route has no limit.
        let mut client = proxy.client();
        client.send("POST /any HTTP/1.1\r\nHost: a\r\nContent-Length: 100001\r\n\r\n").send(noise(100_001));
        assert_eq!(last(&mut client).body.len(), 100_001, "{pool}");
        assert_eq!(refused(&proxy), 0, "{pool}");
    }
    // Framed as it came: nothing of a stated length is done in parts.
    let seen = h1.seen();
    assert_eq!(seen.iter().filter(|seen| seen.field("content-length").is_some()).count(), 4);
}

/// The final response, after any interim ones.
fn last(client: &mut Client) -> crate::support::message::Message {
    loop {
        let answer = client.response();
        if answer.status() >= 200 {
            return answer;
        }
    }
}

#[tokio::test]
async fn a_body_without_a_length_is_cut_at_the_limit_and_never_looks_whole_to_the_endpoint() {
    let whole = Arc::new(AtomicUsize::new(0));
    let counts = whole.clone();
    let h1 = Endpoint::start(move |conn| {
        conn.head();
        if text(&conn.rest()).ends_with("0\n\n") {
            counts.fetch_add(1, SeqCst);
        }
    });
    let counts = whole.clone();
    let h2 = H2Server::start(move |mut exchange| {
        let counts = counts.clone();
        async move {
            loop {
                match exchange.body.data().await {
                    Some(Ok(part)) => drop(exchange.body.flow_control().release_capacity(part.len())),
                    Some(Err(_)) => return,
                    None => break,
                }
            }
            counts.fetch_add(1, SeqCst);
        }
    });
    for (addr, pool) in [(h1.addr, ""), (h2.addr, H2)] {
        let proxy = before(addr, pool);
        for (n, size) in [(1, 100_001), (2, 3_000_000)] {
            for client in ["h1", "h2"] {
                let at = format!("{client}, {pool}, {size}");
                let (status, body) = match client {
                    "h1" => chunked(&proxy, size),
                    _ => streamed(&proxy, size),
                };
                assert_eq!(status, 413, "{at}: {body}");
                assert!(body.contains("over the route's limit"), "{at}: {body}");
            }
            wait_until("they are over", || proxy.in_flight() == 0);
            assert_eq!(refused(&proxy), 2 * n, "{pool}, {size}");
        }
        let errors = proxy.endpoint(0, |stats| stats.errors.iter().map(|errors| errors.get()).sum::<u64>());
        assert_eq!(errors, 0, "the endpoint is not to blame");
    }
    assert_eq!(whole.load(SeqCst), 0);
}

/// Sends a body in chunks over HTTP/1, as far as the proxy takes it.
fn chunked(proxy: &Proxy, size: usize) -> (u16, String) {
    let mut client = proxy.client();
    let mut request = post("Transfer-Encoding: chunked", "").into_bytes();
    for piece in noise(size).chunks(3000) {
        request.extend_from_slice(format!("{:x}\r\n", piece.len()).as_bytes());
        request.extend_from_slice(piece);
        request.extend_from_slice(b"\r\n");
    }
    request.extend_from_slice(b"0\r\n\r\n");
    let sending = client.send_aside(request);
    let answer = client.response();
    client.finish_sending();
    // The proxy may have closed before all of it was sent.
    let _ = sending.join().expect("no panic");
    (answer.status(), answer.body_text())
}

/// Sends a body without a length over HTTP/2, as far as the windows allow without any given.
fn streamed(proxy: &Proxy, size: usize) -> (u16, String) {
    let mut client = H2Client::connect(proxy.addr());
    client.head(1, &stated("")[..4], false);
    let mut left = noise(size);
    // As the window is smaller than the limit, frames follow the updates of the proxy.
    let mut window = 65_535_i64;
    loop {
        while !left.is_empty() && window >= 8000 {
            let piece: Vec<u8> = left.drain(..left.len().min(8000)).collect();
            window -= piece.len() as i64;
            let flags = if left.is_empty() { END_STREAM } else { 0 };
            client.send(&Frame::new(DATA, flags, 1, piece));
        }
        let Some(frame) = client.frame() else { return (0, String::new()) };
        match (frame.kind, frame.stream) {
            (crate::support::h2_client::WINDOW_UPDATE, 1) => {
                window += i64::from(u32::from_be_bytes(frame.payload[..4].try_into().expect("4 bytes")));
            }
            (crate::support::h2_client::HEADERS, 1) => {
                let status = client.head.iter().find(|(name, _)| name == ":status");
                let status = status.and_then(|(_, value)| value.parse().ok()).unwrap_or(0);
                return (status, client.answer(1).body_text());
            }
            (crate::support::h2_client::RST_STREAM, 1) => return (0, "reset".into()),
            _ => {}
        }
    }
}

#[test]
fn a_response_that_has_begun_ends_with_the_body_that_is_cut() {
    let h1 = Endpoint::start(|conn| {
        conn.head();
        conn.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n");
        conn.rest();
    });
    let proxy = before(h1.addr, "");
    let mut client = proxy.client();
    let head = client.send(post("Transfer-Encoding: chunked", "1\r\na\r\n")).head();
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    let mut more = b"186a0\r\n".to_vec();
    more.extend(noise(100_000));
    let sending = client.send_aside(more);
    let rest = text(&client.rest());
    assert!(rest.starts_with("5\nfirst\n") && !rest.ends_with("0\n\n"), "{rest}");
    let _ = sending.join().expect("no panic");
    let mut client = H2Client::connect(proxy.addr());
    client.head(1, &stated("")[..4], false);
    client.send(&Frame::new(DATA, 0, 1, "a"));
    while client.frame().is_some_and(|frame| frame.kind != crate::support::h2_client::HEADERS) {}
    for _ in 0..6 {
        client.send(&Frame::new(DATA, 0, 1, noise(10_000)));
    }
    client.next(crate::support::h2_client::WINDOW_UPDATE);
    for _ in 0..6 {
        client.send(&Frame::new(DATA, 0, 1, noise(10_000)));
    }
    let answer = client.answer(1);
    assert!(answer.reset.is_some() && !answer.ended, "{answer:?}");
    wait_until("they are over", || proxy.in_flight() == 0);
    assert_eq!(refused(&proxy), 2);
}
