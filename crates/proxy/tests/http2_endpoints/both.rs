//! HTTP/2 on both sides.

use crate::support::h2_server::{Exchange, H2Server};
use crate::support::{Proxy, SOON, noise};
use bytes::Bytes;
use h2::client::SendRequest;
use h2::ext::Protocol;
use http::HeaderMap;
use std::future::poll_fn;
use std::net::SocketAddr;

fn before(endpoints: &[SocketAddr]) -> Proxy {
    Proxy::with(endpoints, "h2c = true", "protocol = 'h2'", "")
}

pub async fn connect(proxy: &Proxy) -> SendRequest<Bytes> {
    let tcp = tokio::net::TcpStream::connect(proxy.addr()).await.expect("it listens");
    let (client, connection) = h2::client::handshake(tcp).await.expect("it speaks HTTP/2");
    tokio::spawn(async move {
        let _ = connection.await;
    });
    client.ready().await.expect("it takes requests")
}

/// Sends a POST with trailers, and returns status, body and trailers of the response.
async fn ask(client: &SendRequest<Bytes>, path: &str, body: &[u8]) -> (u16, Vec<u8>, Option<HeaderMap>) {
    let request = http::Request::post(format!("http://a{path}")).header("te", "trailers").body(()).expect("a good one");
    let mut client = client.clone().ready().await.expect("it takes requests");
    let (response, mut send) = client.send_request(request, false).expect("it takes one more");
    let mut left = Bytes::copy_from_slice(body);
    let sending = async move {
        while !left.is_empty() {
            send.reserve_capacity(left.len());
            let room = poll_fn(|cx| send.poll_capacity(cx)).await.expect("room").expect("room");
            send.send_data(left.split_to(room.min(left.len())), false).expect("it goes on");
        }
        let mut trailers = HeaderMap::new();
        trailers.insert("x-sum", "7".parse().expect("a value"));
        send.send_trailers(trailers).expect("it goes on");
    };
    let receiving = async {
        let response = response.await.expect("an answer");
        let status = response.status().as_u16();
        let (mut body, mut all) = (response.into_body(), Vec::new());
        while let Some(part) = body.data().await {
            let part = part.expect("it goes on");
            body.flow_control().release_capacity(part.len()).expect("it was taken");
            all.extend_from_slice(&part);
        }
        (status, all, body.trailers().await.expect("the end"))
    };
    tokio::time::timeout(SOON, async { tokio::join!(sending, receiving).1 }).await.expect("in time")
}

#[tokio::test]
async fn bodies_and_trailers_pass_both_ways_byte_for_byte() {
    let endpoint = H2Server::start(|mut exchange| async move {
        let (body, trailers) = exchange.read().await;
        let sum = trailers.and_then(|map| Some(map.get("x-sum")?.to_str().ok()?.to_string())).unwrap_or_default();
        exchange
            .reply(200, &[("content-type", "application/grpc")], &body, &[("grpc-status", "0"), ("x-sum", &sum)])
            .await;
    });
    let kept = "[defaults.route]\nrequest_trailers = ['X-Sum']";
    let proxy = Proxy::with(&[endpoint.addr], "h2c = true", "protocol = 'h2'", kept);
    let client = connect(&proxy).await;
    for size in [0, 1, 20_000, 10_000_000] {
        let content = noise(size);
        let (status, body, trailers) = ask(&client, "/echo", &content).await;
        let trailers = trailers.expect("there are trailers");
        assert_eq!(
            (status, trailers["grpc-status"].as_bytes(), trailers["x-sum"].as_bytes()),
            (200, &b"0"[..], &b"7"[..])
        );
        assert!(body == content, "{size}: {} bytes", body.len());
    }
    let seen = endpoint.seen();
    assert_eq!((seen[0].field("te"), seen[0].uri.as_str()), (Some("trailers"), "http://a/echo"));
    assert_eq!(endpoint.accepted(), 1);
}

#[tokio::test]
async fn streams_of_many_clients_do_not_mix_on_one_connection() {
    let endpoint = H2Server::start(|mut exchange: Exchange| async move {
        let (body, _) = exchange.read().await;
        let text = format!("{} {}", exchange.path(), body.len());
        exchange.reply(200, &[], text.as_bytes(), &[]).await;
    });
    let proxy = before(&[endpoint.addr]);
    let mut tasks = Vec::new();
    for n in 0..4 {
        let client = connect(&proxy).await;
        for m in 0..40usize {
            let client = client.clone();
            tasks.push(tokio::spawn(async move {
                let (status, body, _) = ask(&client, &format!("/{n}/{m}"), &noise(m * 777)).await;
                assert_eq!(
                    (status, String::from_utf8_lossy(&body).into_owned()),
                    (200, format!("/{n}/{m} {}", m * 777))
                );
            }));
        }
    }
    for task in tasks {
        task.await.expect("no panic");
    }
    assert!(endpoint.accepted() <= 2, "{} connections", endpoint.accepted());
}

#[tokio::test]
async fn both_sides_of_a_call_may_speak_by_turns() {
    let endpoint = H2Server::start(|mut exchange| async move {
        let head = http::Response::builder().status(200).body(()).expect("a good head");
        let mut send = exchange.respond.send_response(head, false).expect("the stream is open");
        while let Some(Ok(part)) = exchange.body.data().await {
            let _ = exchange.body.flow_control().release_capacity(part.len());
            send.send_data(part, false).expect("the stream is open");
        }
        send.send_trailers(HeaderMap::new()).expect("the stream is open");
    });
    let proxy = before(&[endpoint.addr]);
    let mut client = connect(&proxy).await;
    let request = http::Request::post("http://a/").body(()).expect("a good one");
    let (response, mut send) = client.send_request(request, false).expect("it takes one more");
    let mut body = response.await.expect("a head comes before any data").into_body();
    for n in 0..20u8 {
        send.send_data(Bytes::from(vec![n; 5]), false).expect("it goes on");
        let part = tokio::time::timeout(SOON, body.data()).await.expect("in time").expect("more").expect("it goes on");
        assert_eq!(part, vec![n; 5]);
    }
    send.send_data(Bytes::new(), true).expect("it goes on");
    assert!(tokio::time::timeout(SOON, body.data()).await.expect("in time").is_none());
}

#[tokio::test]
async fn a_websocket_goes_straight_through() {
    let endpoint = H2Server::with(
        |builder| {
            builder.enable_connect_protocol();
        },
        |mut exchange| async move {
            assert!(exchange.request.extensions().get::<Protocol>().is_some());
            let head = http::Response::builder().status(200).body(()).expect("a good head");
            let mut send = exchange.respond.send_response(head, false).expect("the stream is open");
            while let Some(Ok(part)) = exchange.body.data().await {
                let _ = exchange.body.flow_control().release_capacity(part.len());
                send.send_data(part, false).expect("the stream is open");
            }
            send.send_data(Bytes::new(), true).expect("the stream is open");
        },
    );
    let proxy = before(&[endpoint.addr]);
    let mut client = connect(&proxy).await;
    let mut request = http::Request::connect("http://a/chat").body(()).expect("a good one");
    request.extensions_mut().insert(Protocol::from_static("websocket"));
    let (response, mut send) = client.send_request(request, false).expect("it takes one more");
    let response = tokio::time::timeout(SOON, response).await.expect("in time").expect("an answer");
    assert_eq!(response.status(), 200);
    let mut body = response.into_body();
    send.send_data(Bytes::from_static(b"hello"), false).expect("it goes on");
    let part = tokio::time::timeout(SOON, body.data()).await.expect("in time").expect("more").expect("it goes on");
    assert_eq!(&part[..], b"hello");
    send.send_data(Bytes::new(), true).expect("it goes on");
    let end = tokio::time::timeout(SOON, body.data()).await.expect("in time");
    assert!(end.is_none_or(|part| part.is_ok_and(|part| part.is_empty())) && body.is_end_stream());
}
