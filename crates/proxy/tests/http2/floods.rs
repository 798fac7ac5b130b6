//! Floods by a client: its connection ends, others are served, and no memory grows.

use super::{before, client};
use crate::support::h2_client::{
    ACK, CONTINUATION, DATA, END_HEADERS, END_STREAM, Frame, GOAWAY, H2Client, HEADERS, PING, PRIORITY, RST_STREAM,
    SETTINGS, WINDOW_UPDATE, block, get,
};
use crate::support::{Endpoint, Proxy, wait_until};
use evenkeel_wire::h2::Flood;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

/// A request that is reset at once.
fn request_and_reset(n: u32) -> Vec<u8> {
    let head = Frame::new(HEADERS, END_HEADERS | END_STREAM, 2 * n + 1, block(&get("/"))).bytes();
    [head, Frame::new(RST_STREAM, 0, 2 * n + 1, [0, 0, 0, 8]).bytes()].concat()
}

/// Frames of the n-th turn of a flood.
type Frames = fn(u32) -> Vec<u8>;

/// Sends `frames` repeatedly until the proxy ends the connection. Returns the code of its GOAWAY, if that still
/// arrives.
fn flood(client: &mut H2Client, frames: impl Fn(u32) -> Vec<u8> + Send + 'static) -> Option<u32> {
    let sender = client.stream.try_clone().expect("descriptors can be had");
    let sending = std::thread::spawn(move || {
        use std::io::Write;
        // A million is more than any budget.
        for n in 0..1_000_000 {
            if (&sender).write_all(&frames(n)).is_err() {
                return n;
            }
        }
        panic!("the proxy takes everything");
    });
    let mut code = None;
    while let Some(frame) = client.frame() {
        if frame.kind == GOAWAY {
            code = Some(frame.code());
        }
    }
    sending.join().expect("the proxy ends it");
    code
}

/// Asserts that the same worker serves others after the flood, and that nothing is left of it.
fn is_well(proxy: &Proxy) {
    assert_eq!(proxy.client().get("/").status(), 200);
    let mut client = client(proxy);
    client.get(1, "/");
    assert_eq!(client.answer(1).status(), 200);
    client.ends();
    wait_until("nothing is under way", || proxy.in_flight() == 0 && proxy.listener(|l| l.active.get()) == 0);
}

#[test]
fn floods_of_frames_end_their_connection() {
    let endpoint = Endpoint::saying("hello");
    let proxy = before(&[endpoint.addr]);
    let floods: [(&str, Frames); 7] = [
        ("PING", |_| Frame::new(PING, 0, 0, [0; 8]).bytes().repeat(100)),
        ("SETTINGS", |_| Frame::new(SETTINGS, 0, 0, [0, 4, 0, 1, 0, 0]).bytes().repeat(100)),
        ("empty SETTINGS", |_| Frame::new(SETTINGS, 0, 0, "").bytes().repeat(100)),
        ("PRIORITY", |_| Frame::new(PRIORITY, 0, 1, [0, 0, 0, 0, 1]).bytes().repeat(100)),
        ("WINDOW_UPDATE", |_| Frame::new(WINDOW_UPDATE, 0, 0, [0, 0, 0, 1]).bytes().repeat(100)),
        ("rapid reset", request_and_reset),
        ("unknown frames without a stream", |_| Frame::new(0xbe, 0, 0, "").bytes().repeat(100)),
    ];
    for (name, frames) in floods {
        let mut attacker = client(&proxy);
        let code = flood(&mut attacker, frames);
        assert!(code.is_none_or(|code| code == 0xb), "{name}: {code:?}");
        is_well(&proxy);
    }
    assert_eq!(proxy.listener(|l| l.http2.floods.iter().map(|n| n.get()).sum()), 7);
}

/// Frames for a stream that was reset are discarded, but still count as a flood.
#[test]
fn what_is_thrown_away_is_counted() {
    let endpoint = Endpoint::saying("hello");
    let proxy = before(&[endpoint.addr]);
    let floods: [(&str, Frames); 3] = [
        ("heads", |_| Frame::new(HEADERS, END_HEADERS | END_STREAM, 1, block(&get("/"))).bytes().repeat(100)),
        ("data", |_| Frame::new(DATA, 0, 1, "x").bytes().repeat(500)),
        ("resets", |_| Frame::new(RST_STREAM, 0, 1, [0, 0, 0, 8]).bytes().repeat(500)),
    ];
    for (at, (name, frames)) in floods.into_iter().enumerate() {
        let mut attacker = client(&proxy);
        // A malformed head, so that the proxy resets the stream.
        attacker.head(1, &[(":method", "GET")], false);
        assert_eq!(attacker.answer(1).reset, Some(1));
        let code = flood(&mut attacker, frames);
        assert!(code.is_none_or(|code| code == 0xb), "{name}: {code:?}");
        is_well(&proxy);
        assert_eq!(proxy.listener(|l| l.http2.floods[Flood::LateFrames as usize].get()), at as u64 + 1, "{name}");
    }
}

/// The connection may be that of a proxy with many users, only one of whom resets.
#[test]
fn a_flood_of_resets_lets_the_requests_finish_that_have_begun() {
    let gate = Arc::new(AtomicBool::new(false));
    let open = gate.clone();
    let endpoint = Endpoint::start(move |conn| {
        while let Some(request) = conn.request() {
            if request.line().contains("/slow") {
                wait_until("the gate is open", || open.load(SeqCst));
            }
            conn.send(crate::support::endpoint::ok("hello"));
        }
    });
    let proxy = before(&[endpoint.addr]);
    let mut client = client(&proxy);
    client.get(1, "/slow");
    wait_until("it is under way", || proxy.in_flight() == 1);
    let resets: Vec<u8> = (1..=2000).flat_map(request_and_reset).collect();
    assert!(client.send_bytes(&resets));
    assert_eq!(client.next(GOAWAY).map(|frame| frame.code()), Some(0xb));
    gate.store(true, SeqCst);
    assert_eq!(client.next(HEADERS).map(|frame| frame.stream), Some(1));
    assert_eq!(client.next(DATA).map(|frame| (frame.stream, frame.payload)), Some((1, b"hello".to_vec())));
    // Then the connection ends.
    while client.frame().is_some() {}
    assert_eq!(proxy.listener(|l| l.http2.floods[Flood::Resets as usize].get()), 1);
    is_well(&proxy);
}

/// 24 users each cancel repeatedly, on a connection that others use, too.
#[test]
fn cancels_of_some_cost_no_other_request_of_the_connection() {
    let endpoint = Endpoint::start(|conn| {
        while let Some(request) = conn.request() {
            if request.line().contains("/cancelled") {
                conn.rest();
                return;
            }
            conn.send(crate::support::endpoint::ok("hello"));
        }
    });
    let proxy = before(&[endpoint.addr]);
    let mut client = client(&proxy);
    let mut stream = 1;
    // More than the minimum allowance of 200 at once and 50 a second.
    for _ in 0..40 {
        for _ in 0..20 {
            client.get(stream, "/cancelled");
            client.send(&Frame::new(RST_STREAM, 0, stream, [0, 0, 0, 8]));
            stream += 2;
        }
        client.get(stream, "/");
        let answer = client.answer(stream);
        assert_eq!(answer.body_text(), "hello", "{answer:?}");
        stream += 2;
    }
    assert_eq!(proxy.listener(|l| l.http2.floods.iter().map(|n| n.get()).sum()), 0);
}

/// A client may open any number of streams before it has read the limit.
#[test]
fn of_a_first_flight_beyond_the_limit_the_rest_is_refused_and_the_others_are_served() {
    let endpoint = Endpoint::answering(|request| crate::support::endpoint::ok(&request.body_text()));
    let proxy = before(&[endpoint.addr]);
    let mut client = client(&proxy);
    let streams: Vec<u32> = (0..310).map(|n| 2 * n + 1).collect();
    let fields = [(":method", "POST"), (":scheme", "http"), (":path", "/"), (":authority", "a")];
    let heads: Vec<u8> =
        streams.iter().flat_map(|stream| Frame::new(HEADERS, END_HEADERS, *stream, block(&fields)).bytes()).collect();
    let bodies = streams.iter().flat_map(|stream| Frame::new(DATA, END_STREAM, *stream, "body").bytes());
    client.send_bytes(&[heads, bodies.collect()].concat());
    let answers = client.answers(&streams);
    let served = answers.iter().filter(|answer| answer.status() == 200 && answer.body == b"body").count();
    let refused = answers.iter().filter(|answer| answer.reset == Some(7)).count();
    assert!(served >= 100 && served + refused == 310, "{served} served, {refused} refused");
}

#[test]
fn a_head_that_does_not_end_ends_its_connection() {
    let endpoint = Endpoint::saying("hello");
    let proxy = before(&[endpoint.addr]);
    for part in ["", "\0\x01a\x01b"] {
        let mut attacker = client(&proxy);
        attacker.send(&Frame::new(HEADERS, END_STREAM, 1, block(&get("/"))));
        let part = part.to_string();
        flood(&mut attacker, move |_| Frame::new(CONTINUATION, 0, 1, part.clone()).bytes().repeat(100));
        is_well(&proxy);
    }
}

#[test]
fn data_without_bytes_ends_its_connection() {
    let endpoint = Endpoint::start(|conn| {
        while conn.next_head().is_some_and(|head| head.starts_with("GET ")) {
            conn.send(crate::support::endpoint::ok("hello"));
        }
        conn.rest();
    });
    let proxy = before(&[endpoint.addr]);
    let mut attacker = client(&proxy);
    attacker.head(1, &[(":method", "POST"), (":scheme", "http"), (":path", "/"), (":authority", "a")], false);
    flood(&mut attacker, |_| Frame::new(DATA, 0, 1, "").bytes().repeat(100));
    is_well(&proxy);
}

/// A small frame may expand to many megabytes: a field in the table, referenced again and again.
#[test]
fn a_bomb_of_references_is_not_a_request() {
    let endpoint = Endpoint::saying("hello");
    let proxy = before(&[endpoint.addr]);
    let mut attacker = client(&proxy);
    let mut bomb = block(&get("/"));
    // Adds a field of 4000 bytes to the table, and then references it 12,000 times.
    bomb.extend([0x40, 1, b'a', 0x7f, 0xa1, 0x1e]);
    bomb.extend([b'x'; 4000]);
    bomb.extend([0xbe; 12_000]);
    attacker.send(&Frame::new(HEADERS, END_HEADERS | END_STREAM, 1, bomb));
    let answer = attacker.answer(1);
    assert!(answer.status() == 431 || answer.reset.is_some() || answer.goaway.is_some(), "{answer:?}");
    is_well(&proxy);
}

/// The attacker sends pings and reads none of the answers.
#[test]
fn a_client_that_does_not_read_makes_no_answers_pile_up() {
    let endpoint = Endpoint::saying("hello");
    let proxy = before(&[endpoint.addr]);
    let attacker = client(&proxy);
    attacker.stream.set_write_timeout(Some(std::time::Duration::from_millis(500))).expect("sockets have timeouts");
    let pings = Frame::new(PING, 0, 0, [0; 8]).bytes().repeat(1000);
    // Until the connection ends or blocks.
    while attacker.send_bytes(&pings) {}
    drop(attacker);
    is_well(&proxy);
}

#[test]
fn streams_beyond_the_limit_are_refused_and_may_be_sent_again() {
    let endpoint = Endpoint::silent();
    let proxy = Proxy::with(&[endpoint.addr], "h2c = true\nhttp2 = { streams = 3 }", "", "");
    let mut client = client(&proxy);
    (0..5).for_each(|n| assert!(client.get(2 * n + 1, "/")));
    let refused: Vec<_> = (0..2).map(|_| client.next(RST_STREAM).map(|f| (f.stream, f.code()))).collect();
    assert_eq!(refused, [Some((7, 7)), Some((9, 7))]);
    wait_until("three are under way", || proxy.in_flight() == 3);
}

#[test]
fn garbage_in_every_place_costs_its_connection_and_no_worker() {
    let endpoint = Endpoint::saying("hello");
    let proxy = before(&[endpoint.addr]);
    let mut seed = 0x2545_f491_4f6c_dd1d_u64;
    let mut random = move |below: usize| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        (seed % below as u64) as usize
    };
    for _ in 0..300 {
        let client = client(&proxy);
        for n in 0..10u32 {
            let good = [
                Frame::new(HEADERS, END_HEADERS | END_STREAM, 2 * n + 1, block(&get("/"))),
                Frame::new(DATA, 0, 1, "data"),
                Frame::new(SETTINGS, 0, 0, [0, 4, 0, 1, 0, 0]),
                Frame::new(PING, ACK, 0, [1; 8]),
                Frame::new(WINDOW_UPDATE, 0, 1, [0, 0, 0, 9]),
            ];
            let mut bytes = good[random(good.len())].bytes();
            for _ in 0..random(4) {
                let at = random(bytes.len());
                bytes[at] = random(256) as u8;
            }
            if !client.send_bytes(&bytes) {
                break;
            }
        }
        let _ = client.stream.shutdown(std::net::Shutdown::Write);
    }
    is_well(&proxy);
}
