//! Pings to silent endpoints: few, as gRPC servers end connections that ping too often.

use super::before;
use crate::support::h2_client::{ACK, HEADERS, PING};
use crate::support::h2_frames::{H2Frames, data, head};
use crate::support::{Client, wait_until};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

const POOL: &str = "http2 = { ping_after = '50ms' }\ntimeouts = { response = 'off' }\nretry = { attempts = 0 }";

/// An endpoint whose responses begin and do not end, and the number of pings it got. `speaks`: it sends data after each
/// ping.
fn silent(speaks: bool) -> (H2Frames, Arc<AtomicU32>) {
    let pings = Arc::new(AtomicU32::new(0));
    let counted = pings.clone();
    let endpoint = H2Frames::start(move |conn, frame| {
        if frame.kind == HEADERS {
            conn.send(&[head(frame.stream, "200", &[], false)]);
        }
        if frame.kind == PING && frame.flags & ACK == 0 {
            counted.fetch_add(1, SeqCst);
            if speaks {
                conn.send(&[data(1, "here", false)]);
            }
        }
    });
    (endpoint, pings)
}

#[test]
fn an_endpoint_gets_two_pings_at_most_before_it_sends_something() {
    let (quiet, pings) = silent(false);
    let (lively, others) = silent(true);
    let proxies = [before(&[quiet.addr], POOL), before(&[lively.addr], POOL)];
    let clients = proxies.each_ref().map(|proxy| {
        let mut client = proxy.client();
        assert!(client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n").head().starts_with("HTTP/1.1 200"));
        client
    });
    // Both connections are looked at every second.
    wait_until("one is asked again and again", || others.load(SeqCst) >= 5);
    assert_eq!(pings.load(SeqCst), 2);
    assert_eq!(proxies[0].endpoint(0, |e| e.http2.connections.get()), 1, "its calls go on");
    clients.into_iter().for_each(Client::reset);
}
