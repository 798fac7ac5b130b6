//! Responses that end too early: what came of them is not stored.

use super::world::{VERSIONS, Version, World, get, with};
use crate::support::h2_client::{H2Client, get as h2_get};
use crate::support::h2_server::H2Server;
use crate::support::{Endpoint, Proxy, wait_until};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const ROUTE: &str = "[[route]]\npool = 'web'\ncache = { stale_if_error = '1h', stale_while_revalidate = '1h' }\n";

/// End of a connection after a part of a response.
#[derive(Clone, Copy, Debug)]
enum How {
    Close,
    Reset,
}

#[test]
fn a_response_that_was_cut_is_not_stored() {
    const HEAD: &str = "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nETag: \"a\"\r\n";
    for (rest, how) in [
        ("Content-Length: 10\r\n\r\n01234", How::Close),
        ("Content-Length: 10\r\n\r\n01234", How::Reset),
        ("Content-Length: 10\r\n\r\n", How::Close),
        ("Transfer-Encoding: chunked\r\n\r\n5\r\n01234\r\n", How::Close),
        ("Transfer-Encoding: chunked\r\n\r\n5\r\n01234\r\n", How::Reset),
        ("Transfer-Encoding: chunked\r\n\r\na\r\n01234", How::Close),
        ("Transfer-Encoding: chunked\r\n\r\n5\r\n01234\r\n0\r\n", How::Close),
        ("Transfer-Encoding: chunked\r\n\r\n5\r\n01234\r\nzz\r\n", How::Close),
        ("Transfer-Encoding: chunked\r\n\r\n5\r\n01234567\r\n0\r\n\r\n", How::Close),
        ("\r\n01234", How::Reset),
        ("Content-Length: 5\r\nContent-Length: 10\r\n\r\n01234", How::Close),
        ("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n01234", How::Close),
        ("Content-Length: 10", How::Close),
    ] {
        for version in VERSIONS {
            let is_first = Arc::new(AtomicBool::new(true));
            let first = is_first.clone();
            let endpoint = Endpoint::start(move |conn| {
                while conn.request().is_some() {
                    if !first.swap(false, Ordering::SeqCst) {
                        conn.send(with("200 OK", "Cache-Control: max-age=60|ETag: \"b\"", "0123456789"));
                        continue;
                    }
                    conn.send(format!("{HEAD}{rest}"));
                    if let How::Reset = how {
                        conn.reset_at_end();
                    }
                    return;
                }
            });
            // A response that was not begun is tried again otherwise.
            let route = format!("{ROUTE}retry = {{ attempts = 0 }}\n");
            let proxy = Proxy::with(&[endpoint.addr], "h2c = true", "", &route);
            match version {
                Version::H1 => {
                    proxy.client().send("GET /p HTTP/1.1\r\nHost: a\r\n\r\n").response_if_any();
                }
                Version::H2 => {
                    let mut client = H2Client::connect(proxy.addr());
                    client.head(1, &h2_get("/p"), true);
                    client.answer(1);
                }
            }
            wait_until("it has ended", || proxy.in_flight() == 0);
            let second = proxy.client().get("/p");
            assert_eq!(second.body_text(), "0123456789", "{rest:?}, {how:?}, {version:?}");
            assert!(!second.field("cache-status").is_some_and(|status| status.contains("hit")), "{rest:?}, {how:?}");
        }
    }
}

#[test]
fn a_response_over_http2_that_was_reset_is_not_stored() {
    for length in [None, Some("10"), Some("5")] {
        let is_first = Arc::new(AtomicBool::new(true));
        let endpoint = H2Server::start(move |mut exchange| {
            let is_first = is_first.swap(false, Ordering::SeqCst);
            async move {
                exchange.read().await;
                if !is_first {
                    exchange.reply(200, &[("cache-control", "max-age=60")], b"0123456789", &[]).await;
                    return;
                }
                let mut head = http::Response::builder().status(200).header("cache-control", "max-age=60");
                if let Some(length) = length {
                    head = head.header("content-length", length);
                }
                let head = head.body(()).expect("a good head");
                let mut send = exchange.respond.send_response(head, false).expect("it listens");
                send.send_data("01234".into(), false).expect("it listens");
                send.send_reset(h2::Reason::INTERNAL_ERROR);
            }
        });
        let proxy = Proxy::with(&[endpoint.addr], "h2c = true", "protocol = 'h2'", ROUTE);
        proxy.client().send("GET /p HTTP/1.1\r\nHost: a\r\n\r\n").response_if_any();
        wait_until("it has ended", || proxy.in_flight() == 0);
        assert_eq!(proxy.client().get("/p").body_text(), "0123456789", "{length:?}");
    }
}

#[test]
fn a_client_that_leaves_stores_no_part() {
    let size = 4 << 20;
    let endpoint = Endpoint::start(move |conn| {
        while conn.request().is_some() {
            conn.send(with("200 OK", "Cache-Control: max-age=60", &"x".repeat(size)));
        }
    });
    let sections = format!("{ROUTE}[cache]\nobject_max = '8MiB'\n");
    let proxy = Proxy::with(&[endpoint.addr], "h2c = true", "", &sections);
    let mut client = proxy.client();
    client.send("GET /p HTTP/1.1\r\nHost: a\r\n\r\n").head();
    client.bytes(10);
    client.reset();
    wait_until("it has ended", || proxy.in_flight() == 0);
    assert_eq!(proxy.client().get("/p").body.len(), size);
}

#[test]
fn a_body_that_is_larger_than_stated_ends_where_it_was_stated() {
    fn excess(_: &crate::support::message::Message) -> Vec<u8> {
        b"HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 5\r\n\r\n01234HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 4\r\n\r\nevil".to_vec()
    }
    let world = World::new(Version::H1, excess, "cache = true");
    for _ in 0..3 {
        assert_eq!(world.ask(Version::H1, &get("")).body, "01234");
    }
    assert_eq!(world.ask(Version::H1, &super::world::ask("GET /q", "")).body, "01234");
}
