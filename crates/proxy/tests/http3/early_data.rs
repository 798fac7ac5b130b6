//! Early data (0-RTT, RFC 8470): which requests are answered before the handshake is complete, and how often.

use crate::support::endpoint::{ok, status};
use crate::support::h3_client::{
    CONTROL, H3Client, LISTENS, SETTINGS, connecting, frame, quic, request, socket, trusting,
};
use crate::support::lossy::Lossy;
use crate::support::message::Message;
use crate::support::{Endpoint, Proxy, wait_until};
use quinn::{ClientConfig, TransportConfig};
use std::net::{SocketAddr, UdpSocket};

const EARLY: &str = "tls = { self_signed = true }\nhttp3 = { early_data = true }";

const HOME: [u8; 4] = [127, 0, 0, 1];

/// Configuration of a proxy with more lines for its listener.
fn config(endpoint: SocketAddr, workers: usize, listener: &str) -> String {
    format!(
        "[runtime]\nworkers = {workers}\n[listener.web]\nbind = [\"$BIND\"]\n{listener}\npool = \"web\"\n\
         [pool.web]\nendpoints = [\"{endpoint}\"]\n"
    )
}

/// Settings of a client that remembers its sessions, and sends early data.
fn returning() -> ClientConfig {
    let mut tls = trusting();
    tls.enable_early_data = true;
    quic(tls, TransportConfig::default())
}

/// Connects, and gets a session for another connection.
async fn first_visit(to: SocketAddr, config: &ClientConfig) {
    let client = H3Client::with(socket(HOME), to, config.clone()).await.expect("a handshake");
    assert_eq!(client.get("/first").await.status(), 200);
    client.quic.close(0u8.into(), b"");
}

/// A client that has returned with a request in early data.
struct Returned {
    client: H3Client,
    relay: Lossy,
    /// True if its early data was accepted.
    was_accepted: bool,
    status: u16,
}

/// Returns from an address with a request in early data, whose session `is_known`.
async fn again(proxy: &Proxy, from: [u8; 4], config: &ClientConfig, method: &str, is_known: bool) -> Returned {
    let requests = || proxy.listener(|l| l.http3.early_requests.iter().map(|count| count.get()).sum());
    let before = requests();
    let relay = Lossy::start_from(from, proxy.addr(), 1, 0, 0);
    relay.record();
    // The handshake cannot be completed.
    relay.mute();
    let endpoint = socket(HOME);
    let (quic, accepted) = connecting(&endpoint, relay.addr, config.clone()).into_0rtt().expect("a session");
    let mut client = H3Client { endpoint, quic, control: None };
    client.control = Some(client.uni(CONTROL, frame(SETTINGS, "")).await);
    let mut early = client.begin(&request(method, "/early")).await;
    let _ = early.send.finish();
    if is_known {
        wait_until("the request has arrived", || requests() > before);
    }
    relay.unmute();
    let was_accepted = accepted.await;
    // Streams of refused early data are gone, and clients send the request again.
    let answer = match was_accepted {
        true => early.answer().await,
        false => client.ask(&request(method, "/early")).await,
    };
    Returned { client, relay, was_accepted, status: answer.status() }
}

/// Value of `Early-Data` of each request to `/early`.
fn marks(seen: &[Message]) -> Vec<Option<String>> {
    let early = seen.iter().filter(|message| message.line().contains("/early"));
    early.map(|message| message.field("early-data").map(str::to_string)).collect()
}

#[tokio::test]
async fn safe_requests_are_answered_early_and_others_after_the_handshake() {
    let endpoint = Endpoint::saying("hello");
    let proxy = Proxy::start(&config(endpoint.addr, 1, EARLY));
    let client = returning();
    first_visit(proxy.addr(), &client).await;
    let mut expected = Vec::new();
    for (method, is_early) in [("GET", true), ("POST", false), ("OPTIONS", true), ("DELETE", false), ("PUT", false)] {
        let returned = again(&proxy, HOME, &client, method, true).await;
        assert_eq!((returned.status, returned.was_accepted), (200, true), "{method}");
        expected.push(is_early.then(|| "1".to_string()));
        assert_eq!(marks(&endpoint.seen()), expected, "{method}");
    }
    let counts = proxy.listener(|l| l.http3.early_requests[0].get() << 8 | l.http3.early_requests[1].get());
    assert_eq!(counts, 2 << 8 | 3);
    assert_eq!(proxy.listener(|l| l.http3.early_data.get()), 5);
    assert_eq!(proxy.listener(|l| l.tls.shaken[1].get()), 5, "resumed");
}

#[tokio::test]
async fn early_data_is_off_by_default() {
    let endpoint = Endpoint::saying("hello");
    let proxy = Proxy::with(&[endpoint.addr], LISTENS, "", "");
    let client = returning();
    first_visit(proxy.addr(), &client).await;
    assert!(connecting(&socket(HOME), proxy.addr(), client.clone()).into_0rtt().is_err());
    let resumed = H3Client::with(socket(HOME), proxy.addr(), client).await.expect("a handshake");
    assert_eq!(resumed.get("/").await.status(), 200);
    assert_eq!(proxy.listener(|l| l.tls.shaken[1].get()), 1, "tickets resume as before");
}

/// The address could be forged, and access lists would believe it.
#[tokio::test]
async fn a_client_at_another_address_waits_for_the_handshake() {
    let endpoint = Endpoint::saying("hello");
    let proxy = Proxy::start(&config(endpoint.addr, 1, EARLY));
    let client = returning();
    first_visit(proxy.addr(), &client).await;
    let returned = again(&proxy, [127, 0, 0, 2], &client, "GET", true).await;
    assert_eq!((returned.status, returned.was_accepted), (200, true));
    assert_eq!(marks(&endpoint.seen()), [None]);
    assert_eq!(proxy.listener(|l| l.http3.early_requests[1].get()), 1);
}

#[tokio::test]
async fn a_425_of_an_endpoint_reaches_the_client() {
    let endpoint = Endpoint::answering(|request| match request.field("early-data") {
        Some("1") => status("425 Too Early", ""),
        _ => ok("later"),
    });
    let proxy = Proxy::start(&config(endpoint.addr, 1, EARLY));
    let client = returning();
    first_visit(proxy.addr(), &client).await;
    let returned = again(&proxy, HOME, &client, "GET", true).await;
    assert_eq!(returned.status, 425);
    let retried = returned.client.get("/early").await;
    assert_eq!((retried.status(), &*retried.body_text()), (200, "later"));
}

#[tokio::test]
async fn a_replayed_first_flight_is_answered_once() {
    let endpoint = Endpoint::saying("hello");
    let proxy = Proxy::start(&config(endpoint.addr, 2, EARLY));
    let client = returning();
    first_visit(proxy.addr(), &client).await;
    let returned = again(&proxy, HOME, &client, "GET", true).await;
    assert_eq!((returned.status, returned.was_accepted), (200, true));
    let flight = returned.relay.recorded();
    assert!(flight.len() > 1);
    let replay = || {
        // Several ports, so that both workers get copies.
        for _ in 0..16 {
            let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
            flight.iter().for_each(|datagram| drop(socket.send_to(datagram, proxy.addr())));
        }
    };
    // While the connection is there, and once it has gone.
    replay();
    returned.client.quic.close(0u8.into(), b"");
    wait_until("it has ended", || proxy.listener(|l| l.http3.active.get()) == 0);
    let accepted = || proxy.listener(|l| l.accepted.get());
    let before = accepted();
    replay();
    wait_until("a copy began a handshake", || accepted() > before);
    for _ in 0..4 {
        // Each worker has handled what came before.
        first_visit(proxy.addr(), &returning()).await;
    }
    assert_eq!(marks(&endpoint.seen()), [Some("1".to_string())]);
    assert_eq!(proxy.listener(|l| l.http3.early_requests[0].get()), 1);
}

#[tokio::test]
async fn sessions_outlive_reloads_unless_limits_change() {
    let endpoint = Endpoint::saying("hello");
    let mut proxy = Proxy::start(&config(endpoint.addr, 2, EARLY));
    let client = returning();
    for (listener, accepted) in [
        (format!("{EARLY}\ntimeouts = {{ client_idle = '9s' }}"), true),
        (EARLY.replace("early_data", "streams = 50, early_data"), false),
        (EARLY.replace("early_data", "streams = 50, sessions = 5, early_data"), true),
    ] {
        first_visit(proxy.addr(), &client).await;
        proxy.reload(&config(endpoint.addr, 2, &listener)).expect("a good configuration");
        let returned = again(&proxy, HOME, &client, "GET", accepted).await;
        assert_eq!((returned.status, returned.was_accepted), (200, accepted), "{listener}");
    }
    first_visit(proxy.addr(), &client).await;
    proxy.reload(&config(endpoint.addr, 2, LISTENS)).expect("a good configuration");
    let returned = again(&proxy, HOME, &client, "GET", false).await;
    assert_eq!((returned.status, returned.was_accepted), (200, false), "switched off");
}
