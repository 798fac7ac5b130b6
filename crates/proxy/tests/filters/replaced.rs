//! Responses that a filter replaces by one of the proxy's own: those of endpoints of any protocol, and its own.

use super::parts::proxy_for;
use super::{ask_h1, ask_h2, field};
use crate::support::endpoint::{ok, status};
use crate::support::h2_server::H2Server;
use crate::support::{Endpoint, noise};
use std::net::SocketAddr;

/// Path that an endpoint answers with a body, of which the proxy discards as much as has come.
const LONG: &str = "/long";

fn h1() -> Endpoint {
    Endpoint::answering(|request| match request.line().split(' ').nth(1) {
        Some("/304") => b"HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\n\r\n".to_vec(),
        Some("/404") => status("404 Not Found", "nothing here"),
        Some(LONG) => status("404 Not Found", &"x".repeat(1 << 20)),
        _ => ok("as it is"),
    })
}

fn h2() -> H2Server {
    H2Server::start(|mut exchange| async move {
        let long = "x".repeat(1 << 20);
        let (status, body) = match exchange.path() {
            "/304" => (304, ""),
            "/404" => (404, "nothing here"),
            LONG => (404, &*long),
            _ => (200, "as it is"),
        };
        exchange.reply(status, &[], body.as_bytes(), &[]).await;
    })
}

#[tokio::test]
async fn the_client_gets_the_other_response_whatever_both_sides_speak() {
    let (h1, h2) = (h1(), h2());
    for (addr, pool) in [(h1.addr, ""), (h2.addr, "protocol = 'h2'")] {
        for filter in ["replaces", "replaces_parts"] {
            let proxy = proxy_for(filter, &[addr], pool, "");
            for client in ["h1", "h2"] {
                let ask = async |path: &str, size: &str| match client {
                    "h1" => ask_h1(&proxy, path, &[("X-Size", size)], ""),
                    _ => ask_h2(&proxy, path, &[("x-size", size)], "").await,
                };
                for (path, size, of) in
                    [("/304", "0", "304"), ("/304", "700000", "304"), ("/404", "40", "404"), (LONG, "16384", "404")]
                {
                    let at = format!("{client} {pool} {filter} {path} {size}");
                    let (status, fields, body) = ask(path, size).await;
                    assert_eq!(
                        (status, body.len().to_string(), body.bytes().all(|b| b == b'x')),
                        (200, size.into(), true),
                        "{at}"
                    );
                    let answer = (status, fields, body);
                    assert_eq!(
                        (field(&answer, "x-instead-of"), field(&answer, "x-of")),
                        (Some(of), Some("200")),
                        "{at}"
                    );
                }
                let plain = ask("/", "5").await;
                assert_eq!(
                    (plain.0, &*plain.2, field(&plain, "x-of")),
                    (200, "as it is", Some("200")),
                    "{client} {pool}"
                );
            }
        }
    }
}

#[test]
fn an_endpoint_keeps_its_connection_if_its_response_was_read_to_its_end() {
    let endpoint = h1();
    let proxy = proxy_for("replaces", &[endpoint.addr], "", "");
    let mut client = proxy.client();
    for path in ["/304", "/404", "/", "/304"] {
        client.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\nX-Size: 9\r\n\r\n"));
        assert_eq!(client.response().status(), 200, "{path}");
    }
    assert_eq!(endpoint.accepted(), 1);
    client.send(format!("GET {LONG} HTTP/1.1\r\nHost: a\r\nX-Size: 9\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"));
    assert_eq!((client.response().body_text(), client.response().body_text()), ("x".repeat(9), "as it is".into()));
    assert_eq!(endpoint.accepted(), 2);
}

#[test]
fn a_request_that_no_endpoint_answers_is_answered_all_the_same() {
    let dead: SocketAddr = ([127, 0, 0, 1], 1).into();
    let proxy = proxy_for("replaces", &[dead], "", "");
    let answer = ask_h1(&proxy, "/", &[("X-Size", "7")], "");
    assert_eq!((answer.0, &*answer.2, field(&answer, "x-instead-of")), (200, "xxxxxxx", Some("502")));
}

#[test]
fn the_rest_of_a_body_is_not_taken_for_the_next_request() {
    let endpoint = Endpoint::start(|conn| {
        conn.next_head();
        conn.send("HTTP/1.1 304 Not Modified\r\n\r\n");
        conn.rest();
    });
    for filter in ["replaces", "replaces_parts"] {
        let proxy = proxy_for(filter, &[endpoint.addr], "", "");
        let mut client = proxy.client();
        client.send("POST / HTTP/1.1\r\nHost: a\r\nX-Size: 9\r\nContent-Length: 9000\r\n\r\n");
        client.send(noise(1000));
        let response = client.response();
        assert_eq!((response.status(), response.body_text()), (200, "x".repeat(9)), "{filter}");
        assert!(response.head.to_lowercase().contains("connection: close"), "{filter}: {}", response.head);
    }
}
