//! `bandwidth` of routes: bodies pass whole and no faster than the route allows, for any protocol on either side.

use super::parts::{ask_h1, ask_h2, echo_h1, echo_h2};
use crate::support::endpoint::ok;
use crate::support::h2_client::H2Client;
use crate::support::{Endpoint, Proxy, noise};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

const SIZE: usize = 60_000;

/// A proxy whose routes pass 100,000 bytes a second.
fn before(endpoint: SocketAddr, pool: &str, bandwidth: &str) -> Proxy {
    Proxy::start(&format!(
        "[runtime]\nworkers = 1\n[listener.web]\nbind = ['$BIND']\nh2c = true\n[[route]]\npool = 'web'\nbandwidth = \
         {bandwidth}\n[pool.web]\noutlier = 'off'\nendpoints = ['{endpoint}']\n{pool}\n"
    ))
}

/// Least time of an exchange: a tenth of a second may be caught up, nothing waits behind the last piece, and what comes
/// with a head does not count.
fn least(paced: [bool; 2]) -> Duration {
    let uncounted = [15_000 + 32_768, 15_000];
    let ms = paced.into_iter().zip(uncounted).map(|(is, uncounted)| if is { (SIZE - uncounted) / 100 } else { 0 });
    Duration::from_millis(ms.sum::<usize>() as u64)
}

#[tokio::test]
async fn bodies_pass_whole_and_no_faster_than_their_route_allows() {
    let (h1, h2) = (echo_h1(), echo_h2());
    let body = noise(SIZE);
    for (addr, pool) in [(h1.addr, ""), (h2.addr, "protocol = 'h2'")] {
        for (bandwidth, paced) in [
            ("'100kB'", [false, true]),
            ("{ download = '100kB' }", [false, true]),
            ("{ upload = '100kB' }", [true, false]),
            ("{ upload = '10MB', upload_per_connection = '100kB', download_per_connection = '100kB' }", [true, true]),
        ] {
            let proxy = before(addr, pool, bandwidth);
            for client in ["h1", "h2"] {
                let began = Instant::now();
                let echo = if client == "h1" { ask_h1(&proxy, &body) } else { ask_h2(&proxy, &body).await };
                let at = format!("{client}, {pool}, {bandwidth}: {:?}", began.elapsed());
                assert!(echo.status == 200 && echo.body == body, "{at}: {} bytes", echo.body.len());
                assert!(began.elapsed() >= least(paced), "{at}");
            }
        }
    }
}

/// A burst is for the connection and not for each of its requests.
#[test]
fn the_requests_of_a_connection_share_its_bandwidth() {
    let body = "x".repeat(30_000);
    let endpoint = Endpoint::answering(move |_| ok(&body));
    let proxy = before(endpoint.addr, "", "{ download_per_connection = '100kB' }");
    let began = Instant::now();
    let mut client = H2Client::connect(proxy.addr());
    let fields = [(":method", "GET"), (":scheme", "http"), (":path", "/"), (":authority", "a")];
    for stream in [1, 3] {
        client.head(stream, &fields, true);
        let answer = client.answer(stream);
        assert_eq!((answer.status(), answer.body.len()), (200, 30_000));
    }
    assert!(began.elapsed() >= Duration::from_millis(450), "{:?}", began.elapsed());
}

/// The bytes of a tunnel pass as slowly as a body, in both directions.
#[test]
fn tunnels_are_no_faster_than_their_route_allows() {
    const ASK: &str = "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n";
    let endpoint = Endpoint::start(|conn| {
        conn.head();
        conn.send("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n");
        let bytes = conn.bytes(SIZE);
        conn.send(bytes);
    });
    let body = noise(SIZE);
    // A tenth of a second may be caught up, and nothing waits behind the last piece.
    let each = Duration::from_millis((SIZE as u64 - 15_000) / 100);
    for (bandwidth, ways) in [("'100kB'", 1), ("{ upload_per_connection = '100kB', download = '100kB' }", 2)] {
        let proxy = before(endpoint.addr, "", bandwidth);
        let began = Instant::now();
        let mut client = proxy.client();
        client.send(ASK);
        assert!(client.head().starts_with("HTTP/1.1 101 "));
        client.send(&body);
        assert!(client.bytes(SIZE) == body, "{bandwidth}");
        assert!(began.elapsed() >= ways * each, "{bandwidth}: {:?}", began.elapsed());
    }
}
