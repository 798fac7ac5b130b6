//! Connections: their limits, handshakes and times, and clients whose address changes.

use super::before;
use crate::support::endpoint::ok;
use crate::support::h3_client::{self, H3Client, LISTENS, Part, quic, request, soon, trusting};
use crate::support::lossy::Lossy;
use crate::support::pki::{Pki, config};
use crate::support::{Endpoint, Proxy, noise, wait_until};
use evenkeel_net::tls::Cause;
use evenkeel_wire::h3::ErrorCode::*;
use quinn::{ConnectionError, TransportConfig};
use sha2::{Digest, Sha256};
use std::net::UdpSocket;
use std::time::Duration;

async fn connect(proxy: &Proxy, from: [u8; 4]) -> Result<H3Client, ConnectionError> {
    H3Client::with(h3_client::socket(from), proxy.addr(), quic(trusting(), TransportConfig::default())).await
}

fn is_refused(connected: &Result<H3Client, ConnectionError>) -> bool {
    matches!(connected, Err(ConnectionError::ConnectionClosed(close))
        if close.error_code == quinn::TransportErrorCode::CONNECTION_REFUSED)
}

#[tokio::test]
async fn limits_of_connections_refuse_clients_until_others_end() {
    let endpoint = Endpoint::saying("hello");
    for (limits, other) in [("connections = 2", [127, 0, 0, 9]), ("connections_per_address = 2", [127, 0, 0, 1])] {
        let proxy = Proxy::with(&[endpoint.addr], &format!("{LISTENS}\nlimits = {{ {limits} }}"), "", "");
        let first = connect(&proxy, [127, 0, 0, 1]).await.expect("a handshake");
        let _second = connect(&proxy, [127, 0, 0, 1]).await.expect("a handshake");
        assert!(is_refused(&connect(&proxy, other).await), "{limits}");
        if limits.contains("address") {
            assert!(connect(&proxy, [127, 0, 0, 9]).await.is_ok());
        }
        let rejected = || proxy.listener(|l| l.rejected.iter().map(|n| n.get()).sum());
        // The client counts once, whose hello takes two datagrams.
        assert_eq!(rejected(), 1, "{limits}");
        first.quic.close(0u8.into(), b"");
        first.endpoint.wait_idle().await;
        crate::support::wait_until_asked("there is room again", async || connect(&proxy, other).await.is_ok()).await;
    }
}

#[tokio::test]
async fn clients_prove_their_address_if_so_many_handshakes_are_in_progress() {
    let endpoint = Endpoint::saying("hello");
    for (above, retries) in [(0, 1), (1, 0)] {
        let listens = format!("tls = {{ self_signed = true }}\nhttp3 = {{ retry_above = {above} }}");
        let proxy = Proxy::with(&[endpoint.addr], &listens, "", "");
        let client = H3Client::connect(proxy.addr()).await;
        assert_eq!(client.get("/").await.body_text(), "hello");
        // The client counts once, whose hello takes two datagrams.
        assert_eq!(proxy.listener(|l| l.http3.retries.get()), retries, "{above}");
    }
}

#[tokio::test]
async fn a_handshake_that_is_not_completed_ends_and_frees_its_place() {
    let endpoint = Endpoint::saying("hello");
    let listens =
        "tls = { self_signed = true, handshake_timeout = '200ms' }\nhttp3 = true\nlimits = { connections = 1 }";
    let proxy = Proxy::with(&[endpoint.addr], listens, "", "");
    let relay = Lossy::start(proxy.addr(), 1, 0, 0);
    relay.mute();
    let socket = h3_client::socket([127, 0, 0, 1]);
    let config = quic(trusting(), TransportConfig::default());
    let half = h3_client::connecting(&socket, relay.addr, config);
    wait_until("it is there", || proxy.listener(|l| l.accepted.get()) > 0);
    let timeouts = || proxy.listener(|l| l.tls.failed[Cause::Timeout as usize].get());
    wait_until("it has ended", || timeouts() == 1);
    drop(half);
    drop(socket);
    crate::support::wait_until_asked("its place is free", async || connect(&proxy, [127, 0, 0, 1]).await.is_ok()).await;
    wait_until("a whole handshake is counted", || proxy.listener(|l| l.http3.connections.get()) >= 1);
}

#[tokio::test]
async fn handshakes_that_fail_are_counted_by_cause() {
    let endpoint = Endpoint::saying("hello");
    let proxy = before(&[endpoint.addr]);
    let mut tls = trusting();
    tls.alpn_protocols = vec![b"h2".to_vec()];
    let crypto = quinn::crypto::rustls::QuicClientConfig::try_from(tls).expect("TLS 1.3");
    let config = quinn::ClientConfig::new(std::sync::Arc::new(crypto));
    assert!(H3Client::with(h3_client::socket([127, 0, 0, 1]), proxy.addr(), config).await.is_err());
    wait_until("it is counted", || proxy.listener(|l| l.tls.failed[Cause::Protocol as usize].get()) == 1);
    assert_eq!(H3Client::connect(proxy.addr()).await.get("/").await.status(), 200);
}

#[tokio::test]
async fn client_certificates_are_asked_for_and_reach_the_endpoint() {
    let (pki, endpoint) = (Pki::new(), Endpoint::answering(|request| ok(&request.head)));
    let (server, shop) = (pki.issue("a"), pki.numbered("shop.test", 0xa7));
    let listens = format!(
        "http3 = true\ntls = {{ certificates = [{}], client_auth = {{ ca = {:?}, mode = 'required' }} }}",
        server.entry(),
        pki.ca()
    );
    let proxy = Proxy::start(&config(&listens, &endpoint, ""));
    let with = |shown| {
        let tls = (*pki.client(crate::support::tls::V13, shown)).clone();
        H3Client::with(h3_client::socket([127, 0, 0, 1]), proxy.addr(), quic(tls, TransportConfig::default()))
    };
    let client = with(Some(&shop)).await.expect("a handshake");
    let head = client.get("/").await.body_text().to_lowercase();
    let fingerprint: String = Sha256::digest(&shop.der).iter().map(|byte| format!("{byte:02x}")).collect();
    for line in [
        format!("x-client-cert-fingerprint: {fingerprint}"),
        "x-client-cert-serial: a7".into(),
        "x-client-cert-subject: cn=shop.test,o=example\\, inc.".into(),
        "x-client-cert-verified: success".into(),
    ] {
        assert!(head.lines().any(|l| l == line), "{line}: {head}");
    }
    // The client has completed its handshake before it is refused.
    match with(None).await {
        Err(error) => assert!(matches!(error, ConnectionError::ConnectionClosed(_)), "{error}"),
        Ok(client) => assert!(matches!(soon(client.quic.closed()).await, ConnectionError::ConnectionClosed(_))),
    }
    wait_until("it is counted", || proxy.listener(|l| l.tls.failed[Cause::CertificateRequired as usize].get()) == 1);
}

#[tokio::test]
async fn sessions_are_resumed() {
    let endpoint = Endpoint::saying("hello");
    let proxy = before(&[endpoint.addr]);
    let config = quic(trusting(), TransportConfig::default());
    for n in 0..2 {
        let socket = h3_client::socket([127, 0, 0, 1]);
        let client = H3Client::with(socket, proxy.addr(), config.clone()).await.expect("a handshake");
        assert_eq!(client.get("/").await.status(), 200);
        assert_eq!(proxy.listener(|l| l.tls.shaken[1].get()), n);
    }
}

#[tokio::test]
async fn a_client_whose_address_changes_keeps_its_connection() {
    let body = noise(20_000_000);
    let down = body.clone();
    let endpoint = Endpoint::answering(move |_| {
        [format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", down.len()).as_bytes(), &down].concat()
    });
    let proxy = Proxy::start(&format!(
        "[runtime]\nworkers = 2\n[listener.web]\nbind = ['$BIND']\n{LISTENS}\n[pool.web]\nendpoints = ['{}']",
        endpoint.addr
    ));
    let client = H3Client::connect(proxy.addr()).await;
    let mut exchange = client.begin(&request("GET", "/")).await;
    let _ = exchange.send.finish();
    assert!(matches!(exchange.part().await, Part::Head(_)));
    let (mut got, mut moves) = (Vec::new(), 0);
    loop {
        match exchange.part().await {
            Part::Data(data) => got.extend(data),
            Part::End => break,
            other => panic!("{other:?} after {} bytes and {moves} moves", got.len()),
        }
        if got.len() > (moves + 1) * 2_000_000 {
            moves += 1;
            client.endpoint.rebind(UdpSocket::bind("127.0.0.1:0").expect("a free port")).expect("another port");
        }
    }
    assert!(got == body && moves >= 5, "{} bytes, {moves} moves", got.len());
    assert_eq!(proxy.listener(|l| l.http3.connections.get()), 1);
}

#[tokio::test]
async fn an_idle_connection_ends_after_its_time() {
    let endpoint = Endpoint::saying("hello");
    let proxy = Proxy::with(&[endpoint.addr], &format!("{LISTENS}\ntimeouts = {{ client_idle = '300ms' }}"), "", "");
    let client = H3Client::connect(proxy.addr()).await;
    assert_eq!(client.get("/").await.status(), 200);
    assert_eq!(soon(client.quic.closed()).await, ConnectionError::TimedOut);
    wait_until("it is gone", || proxy.listener(|l| l.active.get()) == 0);
}

#[tokio::test]
async fn no_more_streams_than_allowed_are_open() {
    let endpoint = Endpoint::start(|conn| {
        conn.next_head_if_whole();
        conn.rest();
    });
    let listens = "tls = { self_signed = true }\nhttp3 = { streams = 3 }";
    let proxy = Proxy::with(&[endpoint.addr], listens, "", "");
    let client = H3Client::connect(proxy.addr()).await;
    let mut asked = Vec::new();
    for _ in 0..3 {
        asked.push(client.begin(&request("GET", "/")).await);
    }
    wait_until("they are under way", || proxy.in_flight() == 3);
    let fourth = tokio::time::timeout(Duration::from_millis(200), client.quic.open_bi()).await;
    assert!(fourth.is_err(), "a fourth stream");
    asked.iter_mut().for_each(|exchange| exchange.cancel(RequestCancelled as u32));
    assert!(soon(client.quic.open_bi()).await.is_ok());
    wait_until("they are cancelled", || proxy.in_flight() == 0);
}
