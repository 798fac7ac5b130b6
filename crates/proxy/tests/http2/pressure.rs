//! Back-pressure when one side is slow: the other waits, and the proxy holds no more than the windows.

use super::{before, client};
use crate::support::h2_client::{DATA, END_STREAM, Frame, HEADERS, RST_STREAM, SETTINGS, WINDOW_UPDATE, get};
use crate::support::{Endpoint, Proxy, noise, wait_until};
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

/// Bytes that sockets between client and endpoint may hold, far fewer than in the responses.
const IN_SOCKETS: usize = 24 << 20;

#[test]
fn a_client_that_opens_no_window_stops_the_endpoint() {
    let sent = Arc::new(AtomicUsize::new(0));
    let counts = sent.clone();
    let endpoint = Endpoint::start(move |conn| {
        conn.head();
        conn.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", 100 << 20));
        let part = noise(64 << 10);
        while conn.stream.write_all(&part).is_ok() && counts.fetch_add(part.len(), SeqCst) < 100 << 20 {}
    });
    let proxy = before(&[endpoint.addr]);
    let mut client = client(&proxy);
    client.get(1, "/");
    let mut got = 0;
    while got < 65535 {
        got += client.next(DATA).expect("as the window allows").payload.len();
    }
    assert_eq!(got, 65535);
    wait_until("the endpoint waits", {
        let (mut last, mut same) = (0, 0);
        let sent = sent.clone();
        move || {
            let now = sent.load(SeqCst);
            same = if now == last { same + 1 } else { 0 };
            last = now;
            same > 100
        }
    });
    assert!(sent.load(SeqCst) < IN_SOCKETS, "{} bytes", sent.load(SeqCst));
    // Other streams continue once the connection's window is opened.
    client.give(0, 1 << 20);
    client.give(1, 100_000);
    let mut more = 0;
    while more < 100_000 {
        more += client.next(DATA).expect("as the window allows").payload.len();
    }
    assert_eq!(more, 100_000);
    client.send(&Frame::new(RST_STREAM, 0, 1, [0, 0, 0, 8]));
    wait_until("it is over", || proxy.in_flight() == 0);
}

#[test]
fn an_endpoint_that_does_not_read_gives_the_client_no_window() {
    let (tell, told) = std::sync::mpsc::channel::<()>();
    let told = std::sync::Mutex::new(told);
    let endpoint = Endpoint::start(move |conn| {
        conn.head();
        let _ = told.lock().expect("one connection").recv();
    });
    let proxy = before(&[endpoint.addr]);
    let mut client = client(&proxy);
    client.head(1, &[(":method", "POST"), (":scheme", "http"), (":path", "/"), (":authority", "a")], false);
    let (mut window, mut connection, mut sent) = (65535usize, 65535usize, 0usize);
    client.stream.set_read_timeout(Some(std::time::Duration::from_secs(1))).expect("sockets have timeouts");
    loop {
        let n = window.min(connection).min(16384);
        if n > 0 {
            assert!(client.send(&Frame::new(DATA, 0, 1, vec![b'x'; n])));
            (window, connection, sent) = (window - n, connection - n, sent + n);
            assert!(sent < IN_SOCKETS, "it takes everything");
            continue;
        }
        // Until no window is opened for a second, as the sockets are full.
        let Ok(Some(update)) = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| client.next(WINDOW_UPDATE)))
        else {
            break;
        };
        let more = u32::from_be_bytes(update.payload.try_into().expect("4 bytes")) as usize;
        if update.stream == 0 { connection += more } else { window += more }
    }
    // The connection's window is not used up, so a second request is still served.
    assert!(connection > 0 || window == 0, "{window} {connection}");
    drop(tell);
}

/// Streams take turns, though one could send for ever.
#[test]
fn a_large_response_does_not_hold_up_small_ones() {
    const LARGE: usize = 1 << 30;
    let endpoint = Endpoint::start(|conn| {
        while let Some(head) = conn.next_head() {
            if head.starts_with("GET /large ") {
                conn.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {LARGE}\r\n\r\n"));
                let part = vec![b'x'; 64 << 10];
                for _ in 0..LARGE / part.len() {
                    if conn.stream.write_all(&part).is_err() {
                        return;
                    }
                }
            } else {
                conn.send("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nsmall");
            }
        }
    });
    let proxy = before(&[endpoint.addr]);
    let mut client = client(&proxy);
    client.send(&Frame::new(SETTINGS, 0, 0, [0, 4, 0x7f, 0xff, 0xff, 0xff]));
    client.give(0, 0x7000_0000);
    client.get(1, "/large");
    let mut large = client.next(DATA).expect("it begins").payload.len();
    for n in 1..6 {
        let stream = 2 * n + 1;
        client.head(stream, &get("/small"), true);
        loop {
            let frame = client.next(DATA).expect("it goes on");
            if frame.stream == stream {
                assert_eq!(frame.payload, b"small");
                break;
            }
            large += frame.payload.len();
        }
        // Sockets hold a part of the large one before each small one.
        assert!(large < LARGE / 2, "the small ones wait for the large one");
    }
}

/// Both streams always have data, and the client opens the window for one of them at a time.
#[test]
fn of_two_responses_the_urgent_one_goes_first() {
    let endpoint = Endpoint::answering(|_| crate::support::endpoint::ok(&"x".repeat(200_000)));
    let proxy = before(&[endpoint.addr]);
    let mut client = client(&proxy);
    // Only the connection's window is a limit, not those of the streams.
    client.send(&Frame::new(SETTINGS, 0, 0, [0, 4, 0x7f, 0xff, 0xff, 0xff]));
    client.head(1, &[&get("/")[..], &[("priority", "u=6")]].concat(), true);
    client.head(3, &[&get("/")[..], &[("priority", "i, u=1")]].concat(), true);
    let (mut got, mut heads) = ([0; 2], 0);
    while got[0] + got[1] < 65535 || heads < 2 {
        let frame = client.frame().expect("it goes on");
        heads += usize::from(frame.kind == HEADERS);
        if frame.kind == DATA {
            got[frame.stream as usize / 2] += frame.payload.len();
        }
    }
    // Both are blocked now.
    client.give(0, 100_000);
    let mut more = [0; 2];
    while more[0] + more[1] < 100_000 {
        let frame = client.next(DATA).expect("it goes on");
        more[frame.stream as usize / 2] += frame.payload.len();
    }
    assert!(more[1] > more[0], "{more:?}");
}

/// Blocked streams cost at most a buffer each, and end when the client is idle for too long.
#[test]
fn responses_that_no_window_is_opened_for_end_in_time() {
    let endpoint = Endpoint::answering(|_| crate::support::endpoint::ok(&"x".repeat(1000)));
    let listener = "h2c = true\ntimeouts = { client_idle = \"200ms\" }";
    let proxy = Proxy::with(&[endpoint.addr], listener, "", "");
    let mut client = client(&proxy);
    client.send(&Frame::new(SETTINGS, 0, 0, [0, 4, 0, 0, 0, 0]));
    (0..50).for_each(|n| assert!(client.get(2 * n + 1, "/")));
    let mut reset = 0;
    while reset < 50 {
        let frame = client.frame().expect("streams end, not the connection");
        assert!(frame.kind != DATA || frame.payload.is_empty());
        assert!(frame.kind != HEADERS || frame.flags & END_STREAM == 0);
        reset += usize::from(frame.kind == RST_STREAM);
    }
    assert_eq!(proxy.in_flight(), 0);
}

/// `timeouts.response` is for the endpoint, which has answered: a client that reads nothing has `timeouts.idle`.
#[test]
fn a_client_that_takes_nothing_for_longer_than_a_response_may_take_gets_it_whole() {
    let endpoint = Endpoint::answering(|_| crate::support::endpoint::ok(&"x".repeat(200_000)));
    let proxy = Proxy::with(&[endpoint.addr], "h2c = true", "timeouts = { response = \"100ms\", idle = \"20s\" }", "");
    let mut client = client(&proxy);
    client.send(&Frame::new(SETTINGS, 0, 0, [0, 4, 0, 0, 0, 0]));
    client.get(1, "/");
    client.next(HEADERS).expect("the head");
    // The time that passes is the subject of the test.
    std::thread::sleep(std::time::Duration::from_millis(600));
    assert_eq!(proxy.in_flight(), 1);
    client.send(&Frame::new(SETTINGS, 0, 0, [0, 4, 0x7f, 0xff, 0xff, 0xff]));
    client.give(0, 1 << 20);
    assert_eq!(client.answer(1).body.len(), 200_000);
}
