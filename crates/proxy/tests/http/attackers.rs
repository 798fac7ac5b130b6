//! Clients and endpoints that attack, fail or vanish do not affect others: another client is served meanwhile, and
//! afterwards every counter is where it was before.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "a test is no worker: it may lock and wait")]

use crate::support::endpoint::{Conn, ok};
use crate::support::{Client, Endpoint, Proxy, SOON, noise, text, wait_until};
use evenkeel_proxy::end::Cause;
use std::io::{ErrorKind, Read, Write};
use std::sync::Mutex;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

/// Pool settings under which a fault of the endpoint reaches the client.
const ONE_TRY: &str = "retry = { attempts = 0 }";

const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

/// An endpoint that answers `GET /ok`, and runs `script` for any other request.
fn or_else(script: impl Fn(&mut Conn, String) + Send + Sync + 'static) -> Endpoint {
    Endpoint::start(move |conn| {
        while let Some(head) = conn.next_head() {
            if !head.starts_with("GET /ok ") {
                return script(conn, head);
            }
            conn.send(ok("fine"));
        }
    })
}

#[track_caller]
fn others_are_served(proxy: &Proxy) {
    assert_eq!(proxy.client().get("/ok").body_text(), "fine");
}

/// Asserts that nothing is left: no client connection, no request in flight, no unexpected error.
#[track_caller]
fn nothing_is_left(proxy: &Proxy) {
    wait_until("no request is in flight", || proxy.in_flight() == 0);
    wait_until("no client is connected", || proxy.listener(|l| l.active.get()) == 0);
    others_are_served(proxy);
}

fn ended(proxy: &Proxy, cause: Cause) -> u64 {
    proxy.listener(|l| l.ends[cause as usize].get())
}

fn errors(proxy: &Proxy) -> u64 {
    proxy.endpoint(0, |e| e.errors.iter().map(|n| n.get()).sum())
}

/// Sends a byte now and then until the proxy closes.
fn drip(client: &mut Client, bytes: &[u8], every: Duration) {
    let deadline = Instant::now() + SOON;
    client.stream.set_nonblocking(true).expect("sockets can be polled");
    for byte in bytes.iter().cycle() {
        if !matches!(client.stream.peek(&mut [0]), Err(error) if error.kind() == ErrorKind::WouldBlock) {
            break;
        }
        assert!(Instant::now() < deadline, "bytes that trickle hold the connection");
        let _ = client.stream.write(&[*byte]);
        std::thread::sleep(every);
    }
    client.stream.set_nonblocking(false).expect("sockets can be waited for");
}

#[test]
fn many_heads_that_never_end_hold_nobody_up() {
    let endpoint = or_else(|_, _| {});
    let proxy = Proxy::with(&[endpoint.addr], "timeouts = { client_header = \"500ms\" }", "", "");
    let mut slow: Vec<Client> = (0..200).map(|_| proxy.client()).collect();
    for client in &mut slow {
        client.send("GET / HTTP/1.1\r\nHost: a\r\nA: ");
    }
    others_are_served(&proxy);
    for client in &mut slow {
        assert_eq!(client.response().status(), 408);
    }
    drop(slow);
    nothing_is_left(&proxy);
    assert_eq!(ended(&proxy, Cause::ClientSlow), 200);
    assert_eq!(endpoint.accepted(), 1);
}

/// Every byte is in time, but the body never ends.
#[test]
fn a_body_that_trickles_is_cut() {
    let endpoint = or_else(|conn, _| drop(conn.rest()));
    let proxy = Proxy::with(&[endpoint.addr], "timeouts = { client_body = \"400ms\" }", "", "");
    for (framing, bytes) in [("Content-Length: 100000", &b"x"[..]), ("Transfer-Encoding: chunked", b"1\r\nx\r\n")] {
        let mut client = proxy.client();
        client.send(format!("POST / HTTP/1.1\r\nHost: a\r\n{framing}\r\n\r\n"));
        wait_until("it is under way", || proxy.in_flight() == 1);
        others_are_served(&proxy);
        drip(&mut client, bytes, Duration::from_millis(20));
        let response = client.response();
        assert_eq!((response.status(), response.field("connection")), (408, Some("close")));
        drop(client);
        nothing_is_left(&proxy);
    }
    assert_eq!((ended(&proxy, Cause::ClientSlow), errors(&proxy)), (2, 0));
}

/// The rate is a minimum, not a deadline: a client that keeps it may take much longer than a silent one.
#[test]
fn a_slow_body_that_keeps_the_pace_comes_through() {
    let endpoint = Endpoint::saying("fine");
    let proxy = Proxy::with(&[endpoint.addr], "timeouts = { client_body = \"1s\" }", "", "");
    let mut client = proxy.client();
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10000\r\n\r\n");
    for _ in 0..100 {
        client.send([b'x'; 100]);
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(client.response().body_text(), "fine");
}

/// Time spent waiting for the endpoint does not count against the client.
#[test]
fn an_endpoint_that_reads_slowly_does_not_make_its_client_slow() {
    let endpoint = Endpoint::start(|conn| {
        conn.head();
        let body = (0..20).fold(0, |n, _| {
            std::thread::sleep(Duration::from_millis(100));
            n + conn.bytes(1_000_000).len()
        });
        assert_eq!(body, 20_000_000);
        conn.send(ok("fine"));
    });
    let proxy = Proxy::with(&[endpoint.addr], "timeouts = { client_body = \"1s\" }", "", "");
    let mut client = proxy.client();
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 20000000\r\n\r\n");
    let sending = client.send_aside(noise(20_000_000));
    assert_eq!(client.response().body_text(), "fine");
    assert!(sending.join().expect("it does not panic").is_ok());
}

#[test]
fn readers_that_never_read_hold_nobody_up_and_are_cut() {
    let endpoint = or_else(|conn, _| {
        conn.send("HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n");
        while conn.stream.write_all(&[b'x'; 65536]).is_ok() {}
    });
    let proxy = Proxy::with(&[endpoint.addr], "", "timeouts = { idle = \"1s\" }", "");
    let mut slow: Vec<Client> = (0..20).map(|_| proxy.client()).collect();
    for client in &mut slow {
        client.send(GET);
    }
    // They may never be in flight all at once: the first is cut a second after its reader has stopped.
    wait_until("all are under way", || endpoint.accepted() == 20);
    others_are_served(&proxy);
    wait_until("all are cut", || proxy.in_flight() == 0);
    wait_until("all are counted", || ended(&proxy, Cause::ClientSlow) == 20);
    assert_eq!(errors(&proxy), 0, "not the endpoint's fault");
    drop(slow);
    nothing_is_left(&proxy);
}

/// An endpoint that holds requests until the proxy closes; the closure waits for one such close.
fn thinking() -> (Endpoint, impl Fn()) {
    let (closed, has_closed) = channel();
    let endpoint = or_else(move |conn, _| {
        assert_eq!(conn.rest(), b"");
        closed.send(()).expect("the test waits");
    });
    (endpoint, move || has_closed.recv_timeout(SOON).expect("the endpoint is told"))
}

#[test]
fn a_client_that_resets_while_the_endpoint_thinks_frees_its_place() {
    let (endpoint, is_told) = thinking();
    let proxy = Proxy::with(&[endpoint.addr], "", "timeouts = { response = \"1h\" }", "");
    for (n, request) in [
        // On a new connection, on a kept one, and with a body.
        (1, GET.to_string()),
        (2, GET.to_string()),
        (3, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n".to_string()),
        (4, format!("{GET}GET /pipelined HTTP/1.1\r\nHost: a\r\n\r\n")),
    ] {
        let mut client = proxy.client();
        if n == 2 {
            assert_eq!(client.get("/ok").body_text(), "fine");
            wait_until("it is over", || proxy.in_flight() == 0);
        }
        client.send(request);
        wait_until("it is under way", || proxy.in_flight() == 1);
        client.reset();
        is_told();
        wait_until("its place is free", || proxy.in_flight() == 0);
        wait_until("it is counted", || ended(&proxy, Cause::Client) == n);
    }
    nothing_is_left(&proxy);
    assert_eq!(errors(&proxy), 0, "not the endpoint's fault");
}

/// Some clients shut down their sending side at once. HAProxy answers them by default, too.
#[test]
fn a_client_that_only_sends_no_more_gets_its_answer_however_long_it_takes() {
    let (answer, may_answer) = channel();
    let may_answer = Mutex::new(may_answer);
    let endpoint = or_else(move |conn, _| {
        may_answer.lock().expect("one at a time").recv_timeout(SOON).expect("the test goes on");
        conn.send(ok("late"));
    });
    let proxy = Proxy::before(&[endpoint.addr]);
    let mut client = proxy.client();
    client.send(GET).finish_sending();
    wait_until("it is under way", || proxy.in_flight() == 1);
    // Longer than the interval in which the proxy looks at the client.
    let looked = Instant::now() + Duration::from_millis(1200);
    wait_until("the proxy has looked", || Instant::now() > looked);
    answer.send(()).expect("the endpoint waits");
    assert_eq!(client.response().body_text(), "late");
    client.ends();
    nothing_is_left(&proxy);
    assert_eq!(ended(&proxy, Cause::Client), 0);
}

#[test]
fn clients_that_vanish_anywhere_leave_nothing_behind() {
    let endpoint = or_else(|conn, head| {
        if head.starts_with("GET /large ") {
            conn.send("HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n");
            while conn.stream.write_all(&[b'x'; 65536]).is_ok() {}
        }
        conn.rest();
    });
    let proxy = Proxy::before(&[endpoint.addr]);
    let request = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n5\r\nhel";
    for resets in [true, false] {
        for cut in (1..request.len()).step_by(7).chain([request.len()]) {
            let mut client = proxy.client();
            client.send(&request[..cut]);
            if resets { client.reset() } else { drop(client) }
        }
        let mut client = proxy.client();
        client.send("GET /large HTTP/1.1\r\nHost: a\r\n\r\n").bytes(100_000);
        if resets { client.reset() } else { drop(client) }
    }
    nothing_is_left(&proxy);
    assert_eq!(errors(&proxy), 0, "not the endpoint's fault");
}

#[test]
fn an_endpoint_that_resets_at_any_point_is_a_502_or_a_cut() {
    let response = "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n0123456789";
    let head_len = response.len() - 10;
    let at = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let (cut, order) = (at.clone(), std::sync::atomic::Ordering::SeqCst);
    let (seen, has_seen) = channel();
    let has_seen = Mutex::new(has_seen);
    let endpoint = or_else(move |conn, _| {
        let cut = cut.load(order);
        conn.send(&response[..cut]);
        if cut > head_len {
            // A reset would discard bytes that were sent and not read yet.
            has_seen.lock().expect("one at a time").recv_timeout(SOON).expect("the test goes on");
        }
        conn.reset_at_end();
    });
    let proxy = Proxy::with(&[endpoint.addr], "", ONE_TRY, "");
    for cut in 0..response.len() {
        at.store(cut, order);
        let mut client = proxy.client();
        client.send(GET);
        if cut > head_len {
            assert_eq!(text(&client.bytes(cut)), text(&response.as_bytes()[..cut]));
            seen.send(()).expect("the endpoint waits");
            client.ends();
        } else {
            // The kernel decides whether the head or the reset comes first.
            let head = client.head();
            let whole = cut == head_len && head.starts_with("HTTP/1.1 200 ");
            assert!(whole || head.starts_with("HTTP/1.1 502 "), "after {cut}: {head}");
        }
        others_are_served(&proxy);
    }
    nothing_is_left(&proxy);
    assert_eq!(errors(&proxy), response.len() as u64);
    assert_eq!(ended(&proxy, Cause::Endpoint), response.len() as u64);
}

#[test]
fn an_endpoint_that_sends_its_response_byte_by_byte_is_passed_on() {
    let responses = [
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    ];
    for response in responses {
        let endpoint = or_else(move |conn, _| {
            for byte in response.bytes() {
                conn.send([byte]);
            }
        });
        let proxy = Proxy::before(&[endpoint.addr]);
        let mut client = proxy.client();
        assert_eq!(client.send(GET).response().body_text(), "hello");
        drop(client);
        nothing_is_left(&proxy);
        assert_eq!(errors(&proxy), 0);
    }
}

#[test]
fn an_endpoint_that_sends_garbage_is_a_502() {
    let garbage = noise(64 * 1024);
    let sent = garbage.clone();
    let endpoint = or_else(move |conn, head| {
        let at: usize = head.split('/').nth(1).and_then(|s| s.split(' ').next()?.parse().ok()).expect("a number");
        conn.send(&sent[at..at + 1024]);
        conn.finish_sending();
        conn.rest();
    });
    let proxy = Proxy::with(&[endpoint.addr], "", ONE_TRY, "");
    for n in 0..60 {
        assert_eq!(proxy.client().get(&format!("/{}", n * 1024)).status(), 502);
    }
    nothing_is_left(&proxy);
    assert_eq!((errors(&proxy), ended(&proxy, Cause::Endpoint)), (60, 60));
}

#[test]
fn an_endpoint_that_never_stops_its_head_is_cut() {
    let endpoint = or_else(|conn, _| {
        let mut sent = conn.stream.write_all(b"HTTP/1.1 200 OK\r\n");
        while sent.is_ok() {
            sent = conn.stream.write_all(b"A: b\r\n");
        }
    });
    let proxy = Proxy::before(&[endpoint.addr]);
    assert_eq!(proxy.client().send(GET).response().status(), 502);
    nothing_is_left(&proxy);
    assert_eq!(errors(&proxy), 0, "only a limit of this side is in the way");
}

/// Floods one by one and in crowds, over and below the limit.
#[test]
fn floods_of_connections_pass() {
    let endpoint = or_else(|_, _| {});
    let proxy = Proxy::with(&[endpoint.addr], "limits = { connections = 50 }", "", "");
    for crowd in [1, 40, 200] {
        let mut clients: Vec<Client> = (0..crowd).map(|_| proxy.client()).collect();
        for client in &mut clients {
            let _ = client.stream.write_all(&GET.as_bytes()[..10]);
        }
        for client in &mut clients {
            let _ = client.stream.shutdown(std::net::Shutdown::Write);
            let _ = client.stream.read(&mut [0; 16]);
        }
        drop(clients);
        nothing_is_left(&proxy);
        wait_until("it is over", || proxy.listener(|l| l.active.get()) == 0);
    }
    let seen = proxy.listener(|l| l.accepted.get() + l.rejected[0].get());
    assert!(seen >= 241, "{seen}");
}
