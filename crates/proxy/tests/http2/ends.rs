//! Ends of streams and connections: by either side, in the middle, and by timeouts.

use super::{before, client};
use crate::support::endpoint::ok;
use crate::support::h2_client::{
    ACK, DATA, END_HEADERS, END_STREAM, Frame, GOAWAY, H2Client, HEADERS, PING, RST_STREAM, SETTINGS, block, get,
};
use crate::support::{Endpoint, Proxy, wait_until};
use evenkeel_proxy::Command;
use evenkeel_proxy::end::Cause;
use std::net::Shutdown;

const CANCEL: u32 = 8;

#[test]
fn a_client_that_resets_a_stream_cancels_its_request_and_no_other() {
    let endpoint = Endpoint::start(|conn| {
        let path = conn.head();
        if path.starts_with("GET /slow ") {
            assert_eq!(conn.rest(), b"", "the proxy closes");
        } else {
            conn.send(ok("fast"));
            conn.rest();
        }
    });
    let proxy = before(&[endpoint.addr]);
    let mut client = client(&proxy);
    client.get(1, "/slow");
    wait_until("it is under way", || proxy.in_flight() == 1);
    client.send(&Frame::new(RST_STREAM, 0, 1, CANCEL.to_be_bytes()));
    wait_until("it is cancelled", || proxy.in_flight() == 0);
    client.get(3, "/fast");
    assert_eq!(client.answer(3).body_text(), "fast");
    wait_until("both are counted", || proxy.listener(|l| l.ends[Cause::Client as usize].get()) == 1);
    assert_eq!(proxy.endpoint(0, |e| e.errors.iter().map(|n| n.get()).sum()), 0, "it is no fault of the endpoint");
}

#[test]
fn what_is_taken_back_before_it_begins_reaches_no_endpoint() {
    let endpoint = Endpoint::saying("hello");
    let proxy = before(&[endpoint.addr]);
    let mut client = client(&proxy);
    let taken_back = |stream: u32| {
        let head = Frame::new(HEADERS, END_HEADERS | END_STREAM, stream, block(&get("/"))).bytes();
        [head, Frame::new(RST_STREAM, 0, stream, CANCEL.to_be_bytes()).bytes()].concat()
    };
    // In one write, so that the first read gets all of it, and no more than begin in a turn.
    let all: Vec<u8> = (0..30).flat_map(|n| taken_back(2 * n + 1)).collect();
    assert!(client.send_bytes(&all));
    client.get(61, "/");
    assert_eq!(client.answer(61).body_text(), "hello");
    wait_until("all are counted", || proxy.listener(|l| l.ends[Cause::Client as usize].get()) == 30);
    assert_eq!((endpoint.accepted(), endpoint.seen().len()), (1, 1));
}

#[test]
fn a_connection_that_is_lost_cancels_all_of_its_requests() {
    let endpoint = Endpoint::silent();
    let proxy = before(&[endpoint.addr]);
    for reset in [false, true] {
        let client = client(&proxy);
        (0..5).for_each(|n| assert!(client.get(2 * n + 1, "/")));
        wait_until("they are under way", || proxy.in_flight() == 5);
        if reset {
            let socket = socket2::SockRef::from(&client.stream);
            socket.set_linger(Some(std::time::Duration::ZERO)).expect("sockets have options");
        }
        drop(client);
        wait_until("they are cancelled", || proxy.in_flight() == 0 && proxy.listener(|l| l.active.get()) == 0);
    }
    wait_until("all are counted", || proxy.listener(|l| l.ends[Cause::Client as usize].get()) == 10);
}

#[test]
fn an_answer_that_is_cut_short_ends_in_a_reset() {
    let endpoint = Endpoint::start(|conn| {
        conn.head();
        conn.send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf");
    });
    let proxy = before(&[endpoint.addr]);
    let mut client = client(&proxy);
    client.get(1, "/");
    let answer = client.answer(1);
    assert_eq!((answer.status(), answer.body_text().as_str(), answer.reset), (200, "half", Some(2)));
    // The connection stays open.
    client.get(3, "/");
    assert_eq!(client.answer(3).status(), 200);
}

#[test]
fn an_endpoint_that_fails_makes_a_502_of_its_stream() {
    let endpoint = Endpoint::resetting();
    let proxy = before(&[endpoint.addr]);
    let mut client = client(&proxy);
    client.get(1, "/");
    assert_eq!(client.answer(1).status(), 502);
}

#[test]
fn a_draining_worker_sends_two_goaways_and_serves_what_has_begun() {
    let endpoint = Endpoint::start(|conn| {
        while let Some(request) = conn.request() {
            if request.line().starts_with("GET /slow") {
                conn.stream.set_nonblocking(false).expect("a socket");
            }
            conn.send(ok(request.line()));
        }
    });
    let proxy = before(&[endpoint.addr]);
    let mut client = client(&proxy);
    client.get(1, "/first");
    assert_eq!(client.answer(1).status(), 200);
    proxy.server().command(Command::Drain);
    let notice = client.next(GOAWAY).expect("a notice");
    assert_eq!((notice.last(), notice.code()), (0x7fff_ffff, 0));
    // Served: requests that were sent before the client could know, those right after its answer to the first ping, which
    // may have overtaken them, and those of a thread that has not seen the notice when another answers the second ping.
    let ping = client.next(PING).expect("a ping");
    client.get(3, "/between");
    client.send(&Frame::new(PING, 1, 0, ping.payload));
    client.get(5, "/overtaken");
    let (mut last, mut bodies) = (None, [const { String::new() }; 3]);
    while let Some(frame) = client.frame() {
        match frame.kind {
            GOAWAY => last = Some((frame.last(), frame.code())),
            PING => {
                client.send(&Frame::new(PING, 1, 0, frame.payload));
                client.get(7, "/late");
            }
            DATA => bodies[(frame.stream as usize - 3) / 2] += &String::from_utf8_lossy(&frame.payload),
            _ => {}
        }
    }
    let served = ["GET /between HTTP/1.1", "GET /overtaken HTTP/1.1", "GET /late HTTP/1.1"].map(str::to_owned);
    assert_eq!((last, bodies), (Some((7, 0)), served));
}

#[test]
fn a_listener_that_leaves_ends_its_connections_with_their_last_answer() {
    let endpoint = Endpoint::start(|conn| {
        while let Some(request) = conn.request() {
            conn.send(ok(request.line()));
        }
    });
    let other = crate::support::own_addr();
    let lines = |listener: &str, bind: &str| {
        format!(
            "[runtime]\nworkers = 1\n[listener.{listener}]\nbind = [\"{bind}\"]\nh2c = true\n[pool.web]\nendpoints = [\"{}\"]\n",
            endpoint.addr
        )
    };
    let mut proxy = Proxy::start(&lines("web", "$BIND"));
    let mut client = H2Client::connect(proxy.addr());
    client.get(1, "/");
    assert_eq!(client.answer(1).status(), 200);
    proxy.reload(&lines("other", &other.to_string())).expect("nothing fails");
    assert_eq!(client.next(GOAWAY).map(|frame| frame.last()), Some(0x7fff_ffff));
    for _ in 0..2 {
        let ping = client.next(PING).expect("a ping");
        client.send(&Frame::new(PING, 1, 0, ping.payload));
    }
    assert_eq!(client.next(GOAWAY).map(|frame| frame.last()), Some(1));
    assert_eq!(client.frame(), None);
}

#[test]
fn a_request_follows_the_rules_that_hold_when_it_begins() {
    let (a, b) = (Endpoint::saying("a"), Endpoint::saying("b"));
    let lines = |addr| {
        format!(
            "[runtime]\nworkers = 1\n[listener.web]\nbind = [\"$BIND\"]\nh2c = true\n[pool.web]\nendpoints = [\"{addr}\"]\n"
        )
    };
    let mut proxy = Proxy::start(&lines(a.addr));
    let mut client = client(&proxy);
    client.get(1, "/");
    assert_eq!(client.answer(1).body_text(), "a");
    proxy.reload(&lines(b.addr)).expect("nothing fails");
    client.get(3, "/");
    assert_eq!(client.answer(3).body_text(), "b");
}

#[test]
fn after_so_many_requests_the_connection_ends() {
    let endpoint = Endpoint::saying("hello");
    let proxy = Proxy::with(&[endpoint.addr], "h2c = true\nlimits = { requests_per_connection = 3 }", "", "");
    let mut client = client(&proxy);
    let all: Vec<u8> = (0..5)
        .flat_map(|n| Frame::new(HEADERS, END_HEADERS | END_STREAM, 2 * n + 1, block(&get("/"))).bytes())
        .collect();
    client.send_bytes(&all);
    let (mut ended, mut last) = (Vec::new(), Vec::new());
    while let Some(frame) = client.frame() {
        match frame.kind {
            GOAWAY => last.push((frame.last(), frame.code())),
            PING if frame.flags & ACK == 0 => {
                client.send(&Frame::new(PING, ACK, 0, frame.payload));
            }
            DATA | HEADERS if frame.flags & END_STREAM != 0 => ended.push(frame.stream),
            _ => {}
        }
    }
    ended.sort_unstable();
    // Requests that were sent before the client could know are served, too.
    assert_eq!((ended, last), (vec![1, 3, 5, 7, 9], vec![(0x7fff_ffff, 0), (9, 0)]));
}

#[test]
fn an_idle_connection_serves_what_was_sent_before_its_client_could_know_of_its_end() {
    let endpoint = Endpoint::saying("hello");
    let proxy = Proxy::with(&[endpoint.addr], "h2c = true\ntimeouts = { client_idle = \"100ms\" }", "", "");
    let mut client = client(&proxy);
    client.get(1, "/");
    assert_eq!(client.answer(1).status(), 200);
    let notice = client.next(GOAWAY).expect("it was idle for too long");
    assert_eq!((notice.last(), notice.code()), (0x7fff_ffff, 0));
    client.get(3, "/");
    assert_eq!(client.answer(3).status(), 200);
    client.ends();
}

#[test]
fn a_client_that_begins_no_request_is_let_go() {
    let endpoint = Endpoint::saying("hello");
    let times = "timeouts = { client_header = \"100ms\", client_idle = \"100ms\" }";
    let proxy = Proxy::with(&[endpoint.addr], &format!("h2c = true\n{times}"), "", "");
    let begun = [
        // Only the preface, settings, part of a head, and a request.
        Vec::new(),
        Frame::new(SETTINGS, 0, 0, "").bytes(),
        Frame::new(HEADERS, END_HEADERS | END_STREAM, 1, block(&get("/"))).bytes()[..20].to_vec(),
        Frame::new(HEADERS, END_STREAM, 1, block(&get("/"))).bytes(),
        Frame::new(HEADERS, END_HEADERS | END_STREAM, 1, block(&get("/"))).bytes(),
    ];
    for bytes in begun {
        let mut client = client(&proxy);
        client.send_bytes(&bytes);
        while client.frame().is_some() {}
    }
    let client = H2Client::silent(proxy.addr());
    client.send_bytes(b"PRI * HTTP/2.0\r\n\r\n");
    let _ = client.stream.shutdown(Shutdown::Write);
    client.ends();
    wait_until("all are closed", || proxy.listener(|l| l.active.get()) == 0);
}

#[test]
fn a_client_that_is_silent_while_it_waits_is_asked_for_a_sign_of_life() {
    let endpoint = Endpoint::silent();
    let http2 = "http2 = { ping_after = \"100ms\", ping_timeout = \"100ms\" }";
    let proxy = Proxy::with(&[endpoint.addr], &format!("h2c = true\n{http2}"), "", "");
    let mut client = client(&proxy);
    client.get(1, "/");
    for _ in 0..3 {
        let ping = client.next(PING).expect("a ping");
        client.send(&Frame::new(PING, 1, 0, ping.payload));
    }
    assert_eq!(proxy.in_flight(), 1, "it lives");
    client.next(PING).expect("a ping");
    assert_eq!(client.next(PING), None, "an answer was due");
    wait_until("its request is over", || proxy.in_flight() == 0);
}

#[test]
fn resets_and_errors_are_counted_by_code() {
    let endpoint = Endpoint::silent();
    let proxy = before(&[endpoint.addr]);
    let mut client = client(&proxy);
    client.get(1, "/");
    wait_until("it is under way", || proxy.in_flight() == 1);
    client.send(&Frame::new(RST_STREAM, 0, 1, CANCEL.to_be_bytes()));
    wait_until("it is counted", || proxy.listener(|l| l.http2.resets_received[CANCEL as usize].get()) == 1);
    // A malformed request is reset with PROTOCOL_ERROR.
    client.head(3, &[(":method", "GET")], true);
    assert_eq!(client.answer(3).reset, Some(1));
    wait_until("it is counted", || proxy.listener(|l| l.http2.resets_sent[1].get()) == 1);
    assert_eq!(proxy.listener(|l| l.malformed.get()), 1);
    // A connection error.
    client.send(&Frame::new(SETTINGS, 0, 1, ""));
    assert_eq!(client.next(GOAWAY).map(|frame| frame.code()), Some(1));
    wait_until("it is counted", || proxy.listener(|l| l.http2.errors[1].get()) == 1);
}
