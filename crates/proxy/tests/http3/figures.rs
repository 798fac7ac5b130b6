//! Figures of connections: in the access log, in metrics, and as operators see them.

use crate::support::h3_client::{H3Client, LISTENS, request};
use crate::support::log::Log;
use crate::support::lossy::Lossy;
use crate::support::{Endpoint, Proxy, noise, wait_until};
use std::net::UdpSocket;

#[tokio::test]
async fn log_lines_have_handshake_migrations_and_loss() {
    let (endpoint, log) = (Endpoint::saying("hello"), Log::new());
    let proxy = Proxy::with(&[endpoint.addr], LISTENS, "", &log.config());
    let client = H3Client::connect(proxy.addr()).await;
    assert_eq!(client.get("/0").await.status(), 200);
    client.endpoint.rebind(UdpSocket::bind("127.0.0.1:0").expect("a free port")).expect("another port");
    assert_eq!(client.get("/1").await.status(), 200);
    drop(client);
    let lines = log.lines(proxy);
    for (n, line) in lines.iter().enumerate() {
        assert_eq!((line["proto"].as_str(), line["migrations"].as_u64()), (Some("HTTP/3"), Some(n as u64)), "{line}");
        assert!(line["t_handshake"].as_f64().is_some_and(|ms| ms > 0.0 && ms < 20_000.0), "{line}");
        assert!(line["packets_lost"].is_u64(), "{line}");
    }
    assert_eq!(lines.len(), 2);
}

#[tokio::test]
async fn connections_packets_and_migrations_are_counted() {
    let body = noise(1_000_000);
    let endpoint = Endpoint::answering(move |_| {
        [format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len()).as_bytes(), &body].concat()
    });
    // The end of the connection may be lost, too.
    let proxy = Proxy::with(&[endpoint.addr], &format!("{LISTENS}\ntimeouts = {{ client_idle = '3s' }}"), "", "");
    let relay = Lossy::start(proxy.addr(), 1, 50, 0);
    let client = H3Client::connect(relay.addr).await;
    assert_eq!(client.get("/").await.body.len(), 1_000_000);
    assert_eq!(proxy.listener(|l| l.http3.active.get()), 1);
    let direct = H3Client::connect(proxy.addr()).await;
    for _ in 0..3 {
        let mut exchange = direct.begin(&request("HEAD", "/")).await;
        let _ = exchange.send.finish();
        assert!(exchange.answer().await.ended);
        direct.endpoint.rebind(UdpSocket::bind("127.0.0.1:0").expect("a free port")).expect("another port");
    }
    direct.quic.close(0u8.into(), b"");
    client.quic.close(0u8.into(), b"");
    wait_until("both have ended", || proxy.listener(|l| l.http3.active.get()) == 0);
    let (sent, lost) = (proxy.listener(|l| l.http3.packets_sent.get()), proxy.listener(|l| l.http3.packets_lost.get()));
    assert!(sent > 700 && lost > 10 && lost < sent / 5, "{lost} of {sent}");
    let migrations = proxy.listener(|l| l.http3.migrations.get());
    assert!((2..=4).contains(&migrations), "{migrations}");
    let metrics = proxy.metrics();
    for line in [
        format!("evenkeel_http3_sent_packets_total{{listener=\"web\"}} {sent}"),
        format!("evenkeel_http3_lost_packets_total{{listener=\"web\"}} {lost}"),
        format!("evenkeel_http3_migrations_total{{listener=\"web\"}} {migrations}"),
    ] {
        assert!(metrics.contains(&line), "{line}");
    }
}
