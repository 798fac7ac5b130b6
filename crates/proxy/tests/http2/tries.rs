//! Requests that are retried, hedged, answered early or cut short at HTTP/1 endpoints.

use super::{before, client};
use crate::support::endpoint::ok;
use crate::support::h2_client::{DATA, Frame};
use crate::support::{Endpoint, Proxy, SOON};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, mpsc};

const POST: [(&str, &str); 4] = [(":method", "POST"), (":scheme", "http"), (":path", "/"), (":authority", "a")];

#[test]
fn a_request_is_tried_again() {
    let (resets, well) = (Endpoint::resetting(), Endpoint::saying("well"));
    let behind = "[defaults.retry]\nattempts = 2\n";
    let proxy = Proxy::with(&[resets.addr, well.addr], "h2c = true", "", behind);
    let mut client = client(&proxy);
    for stream in [1, 3] {
        client.get(stream, "/");
        let answer = client.answer(stream);
        assert_eq!((answer.status(), answer.body_text().as_str()), (200, "well"));
    }
    assert!(proxy.pool(|pool| pool.retries.get()) >= 1, "at least the first met the endpoint that resets");
}

/// Enough fast responses for a percentile, and then an endpoint that ignores the first copy of a request.
#[test]
fn a_request_is_hedged() {
    let silent = Arc::new(AtomicBool::new(false));
    let endpoint = || {
        let silent = silent.clone();
        Endpoint::start(move |conn| {
            while let Some(request) = conn.request() {
                if request.line().contains("/slow") && !silent.swap(true, SeqCst) {
                    conn.rest();
                    return;
                }
                conn.send(ok("fast"));
            }
        })
    };
    let endpoints = [endpoint(), endpoint()];
    let hedging = "outlier = 'off'\nretry = { attempts = 0, hedge_after = 'p95', hedge_budget = 1 }";
    let proxy = Proxy::with(&endpoints.each_ref().map(|endpoint| endpoint.addr), "h2c = true", hedging, "");
    let mut client = client(&proxy);
    for (stream, path) in (1..).step_by(2).zip(["/"; 200].into_iter().chain(["/slow"])) {
        client.get(stream, path);
        let answer = client.answer(stream);
        assert_eq!((answer.status(), answer.body_text().as_str()), (200, "fast"));
    }
    // On a busy machine, the second copy may arrive first, and the first one be answered.
    assert!(proxy.pool(|pool| pool.hedges.get()) >= 1, "a second copy was sent");
}

#[test]
fn two_requests_of_one_client_have_a_deadline_each() {
    let (answer, told) = mpsc::sync_channel::<()>(1);
    let told = Mutex::new(told);
    let endpoint = Endpoint::start(move |conn| {
        let Some(request) = conn.request() else { return };
        if request.line().contains("/slow") {
            let _ = told.lock().expect("nothing panics with it").recv_timeout(SOON);
            conn.send(ok("late, and in time"));
        }
        conn.rest();
    });
    let routes = "[[route]]\nname = 'short'\nmatch = { path = '/short' }\npool = 'web'\n\
                  timeouts = { request = '50ms', response = '50ms', connect = '50ms' }\n\
                  [[route]]\nname = 'long'\nmatch = { path = '/slow' }\npool = 'web'\n";
    let proxy = Proxy::with(&[endpoint.addr], "h2c = true", "", routes);
    let mut client = client(&proxy);
    client.get(1, "/slow");
    client.get(3, "/short");
    assert_eq!(client.answer(3).status(), 504);
    answer.send(()).expect("the endpoint waits for it");
    let late = client.answer(1);
    assert_eq!((late.status(), late.body_text().as_str()), (200, "late, and in time"));
}

#[test]
fn a_response_before_the_end_of_its_request_is_passed_on_and_its_connection_not_used_again() {
    let endpoint = Endpoint::start(|conn| {
        if conn.next_head().is_some() {
            conn.send(ok("early"));
            conn.rest();
        }
    });
    let proxy = before(&[endpoint.addr]);
    let mut client = client(&proxy);
    for stream in [1, 3] {
        client.head(stream, &[&POST[..], &[("content-length", "1073741824")]].concat(), false);
        client.send(&Frame::new(DATA, 0, stream, "some"));
        let answer = client.answer(stream);
        assert_eq!((answer.body_text().as_str(), answer.ended, answer.reset), ("early", true, None));
    }
    assert_eq!(endpoint.accepted(), 2);
}

#[test]
fn a_response_that_is_cut_short_is_an_error_of_its_endpoint() {
    let cut = Endpoint::start(|conn| {
        if conn.request().is_some() {
            conn.send("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\npart");
            // Only after the proxy has read all of it.
            conn.finish_sending();
        }
    });
    let proxy = before(&[cut.addr]);
    let mut client = client(&proxy);
    client.get(1, "/");
    let answer = client.answer(1);
    assert_eq!((answer.body_text().as_str(), answer.ended, answer.reset.is_some()), ("part", false, true));
    assert_eq!(proxy.endpoint(0, |e| e.errors.iter().map(|c| c.get()).sum()), 1);
}

/// More than sockets hold: the client is stopped while the endpoint does not read, and all of it arrives once that
/// does.
#[test]
fn an_endpoint_that_reads_late_gets_all() {
    const SIZE: usize = 32 << 20;
    let (go_on, told) = mpsc::sync_channel::<()>(1);
    let told = Mutex::new(told);
    let endpoint = Endpoint::start(move |conn| {
        if conn.next_head().is_some() {
            let _ = told.lock().expect("nothing panics with it").recv_timeout(SOON);
            conn.bytes(SIZE);
            conn.send(ok("done"));
        }
    });
    let proxy = before(&[endpoint.addr]);
    let mut client = client(&proxy);
    let size = SIZE.to_string();
    client.head(1, &[&POST[..], &[("content-length", &*size)]].concat(), false);
    let (mut windows, mut left, mut go_on) = ([65535; 2], SIZE, Some(go_on));
    while left > 0 {
        let n = windows[0].min(windows[1]).min(16384).min(left);
        if n > 0 {
            left -= n;
            windows = windows.map(|window| window - n);
            client.send(&Frame::new(DATA, u8::from(left == 0), 1, vec![b'x'; n]));
            continue;
        }
        // Every window was exhausted at least once before the endpoint reads.
        if let Some(go_on) = go_on.take() {
            go_on.send(()).expect("the endpoint waits for it");
        }
        let update = client.next(crate::support::h2_client::WINDOW_UPDATE).expect("it goes on");
        windows[update.stream as usize] += u32::from_be_bytes(update.payload.try_into().expect("4 bytes")) as usize;
    }
    assert_eq!(client.answer(1).body_text(), "done");
}
