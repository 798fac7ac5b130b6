//! Requests and checks of endpoints over TLS.

use crate::support::endpoint::ok;
use crate::support::message::read_message;
use crate::support::tls::{Authority, BOTH, V12, V13, answering, endpoint, proxy, to_pool};
use crate::support::{Client, Proxy, noise};
use evenkeel_proxy::stats::ErrorKind;
use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

#[test]
fn large_bodies_pass_both_ways_on_one_connection() {
    for versions in [V12, V13] {
        let ca = Authority::new("ca");
        let endpoint = answering(ca.server("b.test", &[], |_| ()), |request| {
            let mut answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", request.body.len()).into_bytes();
            answer.extend_from_slice(&request.body);
            answer
        });
        let proxy = proxy(endpoint.addr, to_pool(ca.client(versions), "b.test"), "", "");
        let body = noise(3_000_000);
        let mut client = Client::connect(proxy.addr());
        for _ in 0..3 {
            let head = format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", body.len());
            let sending = client.send(head).send_aside(body.clone());
            assert!(client.response().body == body);
            sending.join().unwrap().unwrap();
        }
        assert_eq!(endpoint.accepted(), 1);
        assert_eq!(proxy.endpoint(0, |e| e.connects.get()), 1);
    }
}

#[test]
fn an_endpoint_that_cannot_show_who_it_is_gets_no_request() {
    let (ca, other) = (Authority::new("ca"), Authority::new("other"));
    let expired = |params: &mut rcgen::CertificateParams| params.not_after = rcgen::date_time_ymd(2020, 1, 1);
    let cases = [
        (other.server("b.test", &[], |_| ()), "untrusted CA"),
        (ca.server("c.test", &[], |_| ()), "for another name"),
        (ca.server("b.test", &[], expired), "has expired"),
    ];
    for (config, why) in cases {
        let endpoint = answering(config, |_| ok("never"));
        let proxy = proxy(endpoint.addr, to_pool(ca.client(BOTH), "b.test"), "", "");
        let answer = proxy.client().get("/");
        assert_eq!(answer.status(), 502);
        assert!(answer.body_text().contains(why), "{}", answer.body_text());
        assert_ne!(proxy.endpoint(0, |e| e.errors[ErrorKind::Tls as usize].get()), 0);
        assert_eq!(proxy.endpoint(0, |e| e.errors[ErrorKind::Connect as usize].get()), 0);
    }
}

#[test]
fn checks_see_what_requests_would_see() {
    let ca = Authority::new("ca");
    for (name, becomes) in [("b.test", "up"), ("c.test", "down")] {
        let endpoint = answering(ca.server(name, &[], |_| ()), |_| ok("well"));
        // The opposite state, so that the check has to change it.
        let initial = if becomes == "up" { "unhealthy" } else { "healthy" };
        let config = format!(
            "[runtime]\nworkers = 1\n[listener.web]\nbind = [\"$BIND\"]\n[pool.web]\nendpoints = [\"{}\"]\n\
             health = {{ http = {{ path = '/', body = 'well' }}, interval = '300ms', initial = '{initial}' }}\n",
            endpoint.addr
        );
        let proxy = Proxy::start_secured(&config, &to_pool(ca.client(BOTH), "b.test"));
        proxy.becomes(endpoint.addr, becomes);
    }
}

#[test]
fn an_endpoint_that_speaks_no_tls_is_an_error_of_tls() {
    let plain = crate::support::Endpoint::start(|conn| {
        conn.send(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
    });
    let ca = Authority::new("ca");
    let proxy = proxy(plain.addr, to_pool(ca.client(BOTH), "b.test"), "", "");
    assert_eq!(proxy.client().get("/").status(), 502);
    assert_ne!(proxy.endpoint(0, |e| e.errors[ErrorKind::Tls as usize].get()), 0);
}

#[test]
fn the_second_connection_resumes_the_session_of_the_first() {
    for versions in [V12, V13] {
        let ca = Authority::new("ca");
        let kinds = Arc::new(Mutex::new(Vec::new()));
        let seen = kinds.clone();
        let endpoint = endpoint(ca.server("b.test", &[], |_| ()), move |conn| {
            seen.lock().unwrap().push(conn.get_ref().conn.handshake_kind().unwrap());
            while let Ok(Some(_)) = read_message(conn, false) {
                let close = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok";
                conn.get_mut().write_all(close).unwrap();
            }
        });
        let proxy = proxy(endpoint.addr, to_pool(ca.client(versions), "b.test"), "", "");
        for _ in 0..3 {
            assert_eq!(proxy.client().get("/").body_text(), "ok");
        }
        drop(proxy);
        drop(endpoint);
        use rustls::HandshakeKind::{Full, Resumed};
        assert_eq!(*kinds.lock().unwrap(), [Full, Resumed, Resumed]);
    }
}

#[test]
fn a_body_that_ends_with_the_connection_must_end_with_a_word() {
    for says_so in [true, false] {
        let ca = Authority::new("ca");
        let endpoint = endpoint(ca.server("b.test", &[], |_| ()), move |conn| {
            let _ = read_message(conn, false);
            let stream = conn.get_mut();
            stream.write_all(b"HTTP/1.0 200 OK\r\n\r\nall of it?").unwrap();
            if says_so {
                stream.conn.send_close_notify();
            }
            while stream.conn.wants_write() {
                stream.conn.write_tls(&mut stream.sock).unwrap();
            }
        });
        let proxy = proxy(endpoint.addr, to_pool(ca.client(BOTH), "b.test"), "", "");
        let mut client = proxy.client();
        // The response is chunked, so that a cut can be seen.
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        let whole = client.response_if_any();
        assert_eq!(whole.is_some_and(|answer| answer.body_text() == "all of it?"), says_so);
    }
}

/// Tickets that come after the last response on a connection do not make it look broken.
#[test]
fn an_idle_connection_with_late_tickets_carries_the_next_request() {
    let ca = Authority::new("ca");
    let served = Arc::new(AtomicUsize::new(0));
    let count = served.clone();
    let endpoint = endpoint(ca.server("b.test", &[], |_| ()), move |conn| {
        while let Ok(Some(_)) = read_message(conn, false) {
            conn.get_mut().write_all(&ok("ok")).unwrap();
            // A key update instead of tickets: also a record without data.
            conn.get_mut().conn.refresh_traffic_keys().unwrap();
            conn.get_mut().flush().unwrap();
            count.fetch_add(1, SeqCst);
        }
    });
    let proxy = proxy(endpoint.addr, to_pool(ca.client(V13), "b.test"), "", "");
    let mut client = proxy.client();
    for n in 1..=3 {
        assert_eq!(client.get("/").body_text(), "ok");
        crate::support::wait_until("the new key is sent", || served.load(SeqCst) == n);
        proxy.has_heard();
    }
    assert_eq!(endpoint.accepted(), 1);
}
