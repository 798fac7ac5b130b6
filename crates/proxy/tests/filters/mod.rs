//! Filters, with test filters that change the heads of requests and responses or make a request wait: for any protocol
//! on either side, and also for the proxy's own responses.

#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "a test is no worker: it may lock and wait")]

pub mod access;
mod auth;
mod bandwidth;
mod bodies;
mod body_max;
mod cors;
pub mod echo;
mod guides;
mod headers;
mod hosts;
pub mod jwt;
mod limits;
mod maps;
mod mirror;
mod page;
mod parts;
mod readers;
mod replaced;
mod rewrites;
mod routing;
mod trailers;

use crate::support::endpoint::ok;
use crate::support::h2_server::H2Server;
use crate::support::h3_client;
use crate::support::{Endpoint, Proxy, SOON, wait_until};
use std::net::SocketAddr;

fn proxy(listener: &str, endpoint: SocketAddr, pool: &str) -> Proxy {
    Proxy::start(&format!(
        "[runtime]\nworkers = 1\n[listener.{listener}]\nbind = [\"$BIND\"]\nerrors = \"detailed\"\nh2c = true\n\
         {}[pool.web]\nbalance = \"round_robin\"\nendpoints = [\"{endpoint}\"]\n{pool}",
        h3_client::secure(listener, "")
    ))
}

/// Status, fields and body of a response.
type Answer = (u16, Vec<(String, String)>, String);

fn field<'a>(answer: &'a Answer, name: &str) -> Option<&'a str> {
    answer.1.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| &**value)
}

fn ask_h1(proxy: &Proxy, path: &str, fields: &[(&str, &str)], body: &str) -> Answer {
    let lines: String = fields.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let length = if body.is_empty() { String::new() } else { format!("Content-Length: {}\r\n", body.len()) };
    let method = if body.is_empty() { "GET" } else { "POST" };
    let mut client = proxy.client();
    client.send(format!("{method} {path} HTTP/1.1\r\nHost: a\r\n{lines}{length}\r\n{body}"));
    let response = client.response();
    let fields = response.head.lines().skip(1).filter_map(|line| line.split_once(": "));
    let fields = fields.map(|(name, value)| (name.to_string(), value.to_string())).collect();
    (response.status(), fields, response.body_text())
}

async fn ask_h2(proxy: &Proxy, path: &str, fields: &[(&str, &str)], body: &str) -> Answer {
    let tcp = tokio::net::TcpStream::connect(proxy.addr()).await.expect("it listens");
    let (client, connection) = h2::client::handshake(tcp).await.expect("it speaks HTTP/2");
    tokio::spawn(connection);
    let mut client = client.ready().await.expect("it takes requests");
    let mut request = http::Request::builder().method(if body.is_empty() { "GET" } else { "POST" });
    request = request.uri(format!("http://a{path}"));
    for (name, value) in fields {
        request = request.header(*name, *value);
    }
    let request = request.body(()).expect("a good one");
    let (response, mut send) = client.send_request(request, body.is_empty()).expect("it takes one more");
    if !body.is_empty() {
        send.send_data(body.to_string().into(), true).expect("it goes on");
    }
    let response = tokio::time::timeout(SOON, response).await.expect("in time").expect("an answer");
    let status = response.status().as_u16();
    let text = |value: &http::HeaderValue| value.to_str().expect("ASCII").to_string();
    let fields = response.headers().iter().map(|(name, value)| (name.to_string(), text(value))).collect();
    let mut body = response.into_body();
    let mut content = Vec::new();
    while let Some(part) = body.data().await {
        let part = part.expect("it goes on");
        body.flow_control().release_capacity(part.len()).expect("it was taken");
        content.extend_from_slice(&part);
    }
    (status, fields, String::from_utf8(content).expect("text"))
}

/// Sends a request over HTTP/3 to the second listener of the proxy.
async fn ask_h3(proxy: &Proxy, path: &str, fields: &[(&str, &str)], body: &str) -> Answer {
    h3_client::ask(h3_client::secure_addr(proxy), path, fields, body).await
}

#[tokio::test]
async fn heads_are_changed_for_any_two_protocols_and_for_answers_of_this_side() {
    let h1 = Endpoint::answering(|request| {
        let fields = ["host", "x-secret", "x-seen"].map(|name| request.field(name).unwrap_or("-").to_string());
        let path = request.line().split(' ').nth(1).unwrap_or_default().to_string();
        let answer = String::from_utf8(ok(&format!("{path} {}", fields.join(" ")))).expect("text");
        answer.replacen("\r\n\r\n", "\r\nServer: s\r\n\r\n", 1).into_bytes()
    });
    let h2 = H2Server::start(|mut exchange| async move {
        let head = &exchange.request;
        let value =
            |name: &str| head.headers().get(name).map_or("-", |value| value.to_str().expect("ASCII")).to_string();
        let host = head.uri().authority().map(|authority| authority.to_string()).unwrap_or_default();
        let path = head.uri().path_and_query().map(|path| path.to_string()).unwrap_or_default();
        let body = format!("{path} {host} {} {}", value("x-secret"), value("x-seen"));
        exchange.reply(200, &[("server", "s")], body.as_bytes(), &[]).await;
    });
    for (addr, pool) in [(h1.addr, ""), (h2.addr, "protocol = 'h2'")] {
        let proxy = proxy("heads", addr, pool);
        for client in ["h1", "h2", "h3"] {
            let ask = async |path: &str| match client {
                "h1" => ask_h1(&proxy, path, &[("X-Secret", "1")], ""),
                "h3" => ask_h3(&proxy, path, &[("x-secret", "1")], "").await,
                _ => ask_h2(&proxy, path, &[("x-secret", "1")], "").await,
            };
            let (at, answer) = (format!("{client} {pool}"), ask("/p?q").await);
            assert_eq!((answer.0, &*answer.2), (200, "/under/p?q endpoint.example - yes"), "{at}");
            assert_eq!((field(&answer, "x-of"), field(&answer, "server")), (Some("endpoint 200"), None), "{at}");
            let refused = ask("/refused").await;
            assert_eq!(
                (refused.0, field(&refused, "x-of"), field(&refused, "x-why")),
                (403, Some("here 403"), Some("filter")),
                "{at}"
            );
            assert!(refused.2.contains("not here"), "{at}: {}", refused.2);
        }
    }
}

#[tokio::test]
async fn a_request_that_waits_continues_with_its_body_or_is_answered() {
    let h1 = Endpoint::answering(|request| {
        ok(&format!("{} {}", request.field("x-user").unwrap_or("-"), request.body_text()))
    });
    let h2 = H2Server::start(|mut exchange| async move {
        let user = exchange.request.headers().get("x-user").map(|user| user.to_str().expect("ASCII").to_string());
        let (body, _) = exchange.read().await;
        let body = format!("{} {}", user.unwrap_or_default(), String::from_utf8_lossy(&body));
        exchange.reply(200, &[], body.as_bytes(), &[]).await;
    });
    for (addr, pool) in [(h1.addr, ""), (h2.addr, "protocol = 'h2'")] {
        let proxy = proxy("waits", addr, pool);
        for client in ["h1", "h2", "h3"] {
            for times in ["1", "7"] {
                let ask = async |fields: &[(&str, &str)]| match client {
                    "h1" => ask_h1(&proxy, "/", fields, "hello"),
                    "h3" => ask_h3(&proxy, "/", fields, "hello").await,
                    _ => ask_h2(&proxy, "/", fields, "hello").await,
                };
                let at = format!("{client} {pool} {times}");
                let known = ask(&[("x-wait", times), ("authorization", "me")]).await;
                assert_eq!((known.0, &*known.2), (200, &*format!("after {times} hello")), "{at}");
                let unknown = ask(&[("x-wait", times)]).await;
                assert_eq!((unknown.0, field(&unknown, "x-waited")), (401, Some("yes")), "{at}");
            }
        }
    }
}

#[test]
fn a_client_that_leaves_while_its_request_waits_is_noticed() {
    let endpoint = Endpoint::answering(|_| ok("never"));
    let proxy = proxy("waits", endpoint.addr, "");
    let mut client = proxy.client();
    client.send("GET /forever HTTP/1.1\r\nHost: a\r\n\r\n");
    wait_until("it is open", || proxy.listener(|stats| stats.active.get()) == 1);
    client.reset();
    wait_until("it is gone", || proxy.listener(|stats| stats.active.get()) == 0);
    assert_eq!(endpoint.accepted(), 0);
}
