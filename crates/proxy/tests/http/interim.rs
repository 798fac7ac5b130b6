//! Interim responses, and tunnels after a switch of protocols.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "a test is no worker: it may lock and wait")]

use crate::support;
use crate::support::endpoint::ok;
use crate::support::{Endpoint, Proxy, text, wait_until};

const EXPECTING: &str = "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n";

#[test]
fn the_endpoint_decides_when_to_continue() {
    let endpoint = Endpoint::start(|conn| {
        for _ in 0..2 {
            assert!(conn.head().contains("\r\nExpect: 100-continue\r\n"));
            conn.send("HTTP/1.1 100 Continue\r\n\r\n");
            assert_eq!(conn.bytes(5), b"hello");
            conn.send(ok("world"));
        }
    });
    let proxy = Proxy::before(&[endpoint.addr]);
    let mut client = proxy.client();
    for _ in 0..2 {
        client.send(EXPECTING);
        assert_eq!(client.head(), "HTTP/1.1 100 Continue\r\n\r\n");
        assert_eq!(client.send("hello").response().body_text(), "world");
    }
    wait_until("all are counted", || proxy.ended(200) == 2);
}

#[test]
fn an_endpoint_that_wants_no_body_may_say_so_at_once() {
    let endpoint = Endpoint::start(|conn| {
        conn.head();
        conn.send("HTTP/1.1 417 No\r\nContent-Length: 0\r\n\r\n");
        conn.rest();
    });
    let proxy = Proxy::before(&[endpoint.addr]);
    let mut client = proxy.client();
    client.send(EXPECTING);
    assert_eq!(client.response().status(), 417);
    wait_until("it is counted", || proxy.ended(417) == 1);
    assert_eq!(proxy.endpoint(0, |e| e.idle.get()), 0, "nobody knows whether the body comes");
}

#[test]
fn a_client_may_send_its_body_without_waiting() {
    let endpoint = Endpoint::start(|conn| {
        while let Some(request) = conn.request() {
            assert_eq!(request.body, b"hello");
            conn.send(format!("HTTP/1.1 100 Continue\r\n\r\n{}", text(&ok("")).replace('\n', "\r\n")));
        }
    });
    let proxy = Proxy::before(&[endpoint.addr]);
    let mut client = proxy.client();
    for _ in 0..3 {
        client.send(EXPECTING).send("hello");
        assert_eq!(client.head(), "HTTP/1.1 100 Continue\r\n\r\n");
        assert_eq!(client.response().status(), 200);
    }
    assert_eq!(endpoint.accepted(), 1);
}

#[test]
fn http_1_0_clients_get_no_interim_response() {
    let endpoint = Endpoint::start(|conn| {
        let request = conn.request().expect("a request");
        assert_eq!(request.field("expect"), None);
        conn.send("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n");
        conn.send(ok("world"));
    });
    let proxy = Proxy::before(&[endpoint.addr]);
    let mut client = proxy.client();
    client.send("POST / HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\nhello");
    assert_eq!(text(&client.rest()), "HTTP/1.1 200 OK\nContent-Length: 5\nConnection: close\n\nworld");
}

#[test]
fn early_hints_pass_in_whatever_pieces_they_come() {
    let hints = "HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\n\r\n";
    let endpoint = Endpoint::start(move |conn| {
        while conn.request().is_some() {
            let all = [hints.as_bytes(), hints.as_bytes(), &ok("hello")].concat();
            match conn.index {
                0 => conn.send(all),
                _ => all.iter().for_each(|b| conn.send([*b])),
            }
            if conn.index == 0 {
                return;
            }
        }
    });
    let proxy = Proxy::before(&[endpoint.addr]);
    let mut client = proxy.client();
    for _ in 0..3 {
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(client.head(), hints);
        assert_eq!(client.head(), hints);
        assert_eq!(client.response().body_text(), "hello");
    }
}

#[test]
fn a_flood_of_interim_responses_is_refused() {
    let endpoint = Endpoint::start(|conn| {
        conn.request();
        while std::io::Write::write_all(&mut conn.stream, b"HTTP/1.1 102 Processing\r\n\r\n").is_ok() {}
    });
    let proxy = Proxy::before(&[endpoint.addr]);
    let mut client = proxy.client();
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let interim = (0..).find(|_| !client.head().starts_with("HTTP/1.1 102 ")).expect("it ends");
    assert_eq!(interim, 16);
    wait_until("it is counted", || proxy.ended(502) == 1);
    assert_eq!(proxy.endpoint(0, |e| e.errors[3].get()), 1);
    assert_eq!(proxy.endpoint(0, |e| e.idle.get()), 0);
}

const UPGRADE: &str = "GET /chat HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: chat\r\n\r\n";
const SWITCH: &str = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: chat\r\n\r\n";
const SWITCHED: &str = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: chat\r\nConnection: upgrade\r\n\r\n";

#[test]
fn a_switch_makes_a_tunnel_both_ways() {
    let endpoint = Endpoint::start(|conn| {
        let head = conn.head();
        assert!(head.contains("\r\nUpgrade: chat\r\nConnection: upgrade\r\n"), "{head}");
        // The first bytes of the tunnel may come with the switch.
        conn.send(format!("{SWITCH}welcome"));
        for _ in 0..10 {
            let n = usize::from(conn.bytes(1)[0]);
            let word = conn.bytes(n);
            conn.send(word);
        }
        assert_eq!(conn.rest(), b"", "the client's end is passed on");
        conn.send("bye");
    });
    let proxy = Proxy::before(&[endpoint.addr]);
    let mut client = proxy.client();
    client.send(UPGRADE);
    assert_eq!(client.head(), SWITCHED);
    assert_eq!(client.bytes(7), b"welcome");
    for n in 0..10 {
        client.send([3, n, b'\r', b'\n']);
        assert_eq!(client.bytes(3), [n, b'\r', b'\n']);
    }
    client.finish_sending();
    assert_eq!(client.rest(), b"bye", "the other way stays open until its own end");
    wait_until("it is counted", || proxy.ended(101) == 1);
    assert_eq!(proxy.endpoint(0, |e| e.idle.get()), 0);
}

#[test]
fn the_end_of_a_tunnel_may_come_from_the_endpoint_first() {
    let endpoint = Endpoint::start(|conn| {
        conn.head();
        conn.send(SWITCH);
        conn.finish_sending();
        assert_eq!(conn.rest(), b"still here");
    });
    let proxy = Proxy::before(&[endpoint.addr]);
    let mut client = proxy.client();
    client.send(UPGRADE);
    assert_eq!(client.head(), SWITCHED);
    assert_eq!(client.rest(), b"");
    client.send("still here").finish_sending();
    wait_until("the tunnel ends", || proxy.in_flight() == 0);
}

/// Bytes of the tunnel that come in the same read as the request must not be lost.
#[test]
fn a_client_may_speak_before_it_hears_of_the_switch() {
    let endpoint = Endpoint::start(|conn| {
        conn.head();
        conn.send(SWITCH);
        assert_eq!(text(&conn.rest()), "early, later");
    });
    let proxy = Proxy::before(&[endpoint.addr]);
    let mut client = proxy.client();
    client.send(format!("{UPGRADE}early"));
    assert_eq!(client.head(), SWITCHED);
    client.send(", later").finish_sending();
    assert_eq!(client.rest(), b"");
}

#[test]
fn a_tunnel_carries_much_both_ways_at_once() {
    let sent = support::noise(3_000_000);
    let (expected, from_endpoint) = (sent.clone(), sent.clone());
    let endpoint = Endpoint::start(move |conn| {
        conn.head();
        conn.send(SWITCH);
        let mut stream = conn.stream.try_clone().expect("descriptors can be had");
        let sent = from_endpoint.clone();
        let sending = std::thread::spawn(move || std::io::Write::write_all(&mut stream, &sent));
        assert!(conn.bytes(expected.len()) == expected);
        assert!(sending.join().expect("it does not panic").is_ok());
        conn.finish_sending();
        assert_eq!(conn.rest(), b"");
    });
    let proxy = Proxy::before(&[endpoint.addr]);
    let mut client = proxy.client();
    client.send(UPGRADE);
    assert_eq!(client.head(), SWITCHED);
    let sending = client.send_aside(sent.clone());
    assert!(client.bytes(sent.len()) == sent);
    assert!(sending.join().expect("it does not panic").is_ok());
    client.finish_sending();
    client.ends();
}

#[test]
fn a_silent_tunnel_is_closed_after_the_idle_time() {
    let endpoint = Endpoint::start(|conn| {
        conn.head();
        conn.send(SWITCH);
        assert_eq!(conn.rest(), b"");
    });
    let proxy = Proxy::with(&[endpoint.addr], "", "timeouts = { idle = \"100ms\" }", "");
    let mut client = proxy.client();
    client.send(UPGRADE);
    assert_eq!(client.head(), SWITCHED);
    client.ends();
}

#[test]
fn a_tunnel_of_which_one_half_is_open_ends_after_a_time_of_its_own() {
    let (let_go, may_let_go) = std::sync::mpsc::channel::<()>();
    let may_let_go = std::sync::Mutex::new(may_let_go);
    let endpoint = Endpoint::start(move |conn| {
        conn.head();
        conn.send(SWITCH);
        assert_eq!(conn.rest(), b"");
        // The endpoint does not end its side.
        let _ = may_let_go.lock().expect("no panic").recv();
    });
    let proxy = Proxy::with(&[endpoint.addr], "", "timeouts = { idle = \"1h\", half_closed = \"300ms\" }", "");
    let mut client = proxy.client();
    client.send(UPGRADE);
    assert_eq!(client.head(), SWITCHED);
    client.finish_sending();
    client.ends();
    wait_until("its place is free", || proxy.in_flight() == 0);
    assert_eq!(proxy.endpoint(0, |e| e.errors.iter().map(|n| n.get()).sum()), 0, "its request was answered");
    drop(let_go);
}

/// A tunnel that was cut must not look like one that has ended.
#[test]
fn a_reset_of_a_tunnel_is_passed_on_as_one() {
    let (told, tells) = std::sync::mpsc::channel();
    let endpoint = Endpoint::start(move |conn| {
        conn.head();
        conn.send(format!("{SWITCH}half an ans"));
        if conn.bytes(1) == b"e" {
            return conn.reset_at_end();
        }
        told.send(std::io::Read::read(&mut conn.stream, &mut [0]).map_err(|error| error.kind()))
            .expect("the test waits");
    });
    let proxy = Proxy::before(&[endpoint.addr]);
    let begin = || {
        let mut client = proxy.client();
        client.send(UPGRADE);
        assert_eq!(client.head(), SWITCHED);
        assert_eq!(client.bytes(11), b"half an ans");
        client
    };
    let mut client = begin();
    client.send("e");
    let read = std::io::Read::read(&mut client.stream, &mut [0]);
    assert_eq!(read.map_err(|error| error.kind()), Err(std::io::ErrorKind::ConnectionReset));
    let mut client = begin();
    client.send("c");
    wait_until("its byte is on its way", || proxy.in_flight() == 1);
    client.reset();
    let read = tells.recv_timeout(support::SOON).expect("the endpoint learns of it");
    assert_eq!(read, Err(std::io::ErrorKind::ConnectionReset));
}

#[test]
fn a_refused_switch_leaves_the_connection_as_it_was() {
    let endpoint = Endpoint::saying("no");
    let proxy = Proxy::before(&[endpoint.addr]);
    let mut client = proxy.client();
    for _ in 0..3 {
        assert_eq!(client.send(UPGRADE).response().body_text(), "no");
    }
    assert_eq!(endpoint.accepted(), 1);
}

#[test]
fn a_switch_that_nobody_asked_for_is_refused() {
    let endpoint = Endpoint::start(|conn| {
        conn.request();
        conn.send(SWITCH);
        conn.rest();
    });
    let proxy = Proxy::before(&[endpoint.addr]);
    let mut client = proxy.client();
    let h2c = "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n";
    for request in ["GET / HTTP/1.1\r\nHost: a\r\n\r\n", h2c] {
        let response = client.send(request).response();
        assert_eq!(response.status(), 502);
        assert!(response.body_text().contains("a 101 that the client did not request"), "{}", response.body_text());
    }
    assert!(endpoint.seen().iter().all(|request| request.field("upgrade").is_none()));
}
