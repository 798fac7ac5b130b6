//! WebSocket to HTTP/2 endpoints.

use super::before;
use crate::support::h2_server::{Exchange, H2Server};
use crate::support::log::Log;
use crate::support::{Client, Proxy, noise, text};
use h2::ext::Protocol;

const ASK: &str = "GET /chat HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                   Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

/// An endpoint that accepts tunnels if it `takes` them, and echoes their bytes.
fn echo(takes: bool) -> H2Server {
    H2Server::with(
        move |builder| {
            if takes {
                builder.enable_connect_protocol();
            }
        },
        |mut exchange: Exchange| async move {
            let is_tunnel = exchange.request.extensions().get::<Protocol>().is_some_and(|p| p.as_str() == "websocket");
            if !is_tunnel || exchange.path() == "/refused" {
                return exchange.reply(403, &[], b"no", &[]).await;
            }
            let head = http::Response::builder().status(200).header("sec-websocket-protocol", "chat");
            let head = head.body(()).expect("a good head");
            let mut send = exchange.respond.send_response(head, false).expect("the stream is open");
            while let Some(Ok(part)) = exchange.body.data().await {
                let _ = exchange.body.flow_control().release_capacity(part.len());
                send.send_data(part, false).expect("the stream is open");
            }
            send.send_data("bye".into(), true).expect("the stream is open");
        },
    )
}

#[test]
fn a_client_of_http1_gets_one_through_a_tunnel() {
    let endpoint = echo(true);
    let proxy = before(&[endpoint.addr], "");
    let mut client = proxy.client();
    let head = client.send(ASK).head();
    assert!(head.starts_with("HTTP/1.1 101 Switching Protocols\r\n"), "{head}");
    for field in ["upgrade: websocket", "Connection: upgrade", "sec-websocket-accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo="] {
        assert!(head.contains(field), "{field} in {head}");
    }
    let content = noise(1_000_000);
    let sending = client.send_aside(content.clone());
    assert!(client.bytes(content.len()) == content);
    sending.join().expect("no panic").expect("the proxy takes it");
    client.finish_sending();
    assert_eq!(text(&client.rest()), "bye");
    let seen = endpoint.seen();
    assert_eq!((seen[0].method.as_str(), seen[0].field("sec-websocket-version")), ("CONNECT", Some("13")));
    assert_eq!([seen[0].field("sec-websocket-key"), seen[0].field("upgrade")], [None, None]);
}

#[test]
fn an_endpoint_that_refuses_one_is_heard() {
    let endpoint = echo(true);
    let proxy = before(&[endpoint.addr], "");
    let mut client: Client = proxy.client();
    let answer = client.send(ASK.replace("/chat", "/refused")).response();
    assert_eq!((answer.status(), answer.body_text().as_str()), (403, "no"));
    assert_eq!(answer.field("connection"), Some("close"));
}

#[test]
fn an_endpoint_that_takes_no_tunnels_gets_none() {
    let endpoint = echo(false);
    let proxy = before(&[endpoint.addr], "");
    let answer = proxy.client().send(ASK).response();
    assert_eq!(answer.status(), 502);
    assert!(answer.body_text().contains("does not accept WebSocket over HTTP/2"), "{}", answer.body_text());
    assert_eq!(proxy.client().get("/").status(), 403, "other requests go on");
    assert_eq!((endpoint.seen().len(), endpoint.accepted()), (1, 1));
}

#[test]
fn one_that_is_silent_for_too_long_is_the_fault_of_no_side() {
    let endpoint = echo(true);
    let log = Log::new();
    let pool = "protocol = 'h2'\ntimeouts = { idle = '100ms' }";
    let proxy = Proxy::with(&[endpoint.addr], "", pool, &log.config());
    let mut client = proxy.client();
    let head = client.send(ASK).head();
    assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
    client.ends();
    assert_eq!(proxy.endpoint(0, |e| e.errors.iter().map(|c| c.get()).sum()), 0);
    let lines = log.lines(proxy);
    assert_eq!((lines[0]["status"].as_u64(), lines[0]["term"].as_str()), (Some(101), Some("ID")), "{}", lines[0]);
    assert!(lines[0]["reason"].as_str().is_some_and(|reason| reason.contains("timeouts.idle")), "{}", lines[0]);
}
