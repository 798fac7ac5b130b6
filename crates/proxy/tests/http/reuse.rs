//! Reuse of connections to endpoints and of clients, and their orderly end.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "a test is no worker: it may lock and wait")]

use crate::support::endpoint::ok;
use crate::support::{Client, Endpoint, Proxy, SOON, text, wait_until};
use std::io::{ErrorKind, Read};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::BorrowedFd;
use std::sync::Mutex;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

#[test]
fn an_idle_connection_is_used_only_within_its_time() {
    let endpoint = Endpoint::saying("hello");
    let proxy = Proxy::with(&[endpoint.addr], "", "timeouts = { upstream_idle = \"0s\" }", "");
    let mut client = proxy.client();
    for connections in 1..=3 {
        assert_eq!(client.send(GET).response().status(), 200);
        assert_eq!(endpoint.accepted(), connections);
    }
}

#[test]
fn an_idle_connection_is_closed_after_its_time() {
    let (closed, is_closed) = channel();
    let endpoint = Endpoint::start(move |conn| {
        conn.request();
        conn.send(ok("hello"));
        assert_eq!(conn.rest(), b"");
        closed.send(()).expect("the test waits");
    });
    let proxy = Proxy::with(&[endpoint.addr], "", "timeouts = { upstream_idle = \"50ms\" }", "");
    assert_eq!(proxy.client().send(GET).response().status(), 200);
    is_closed.recv_timeout(SOON).expect("it is closed");
    wait_until("it is counted", || proxy.endpoint(0, |e| e.idle.get()) == 0);
}

/// The response begins while the request may still be needed, so it announces that the connection stays open.
#[test]
fn a_success_that_ends_before_its_request_costs_the_client_no_later_request() {
    let (go_on, may_go_on) = channel();
    let may_go_on = Mutex::new(may_go_on);
    let endpoint = Endpoint::start(move |conn| {
        if conn.head().starts_with("GET ") {
            // The connection closes, and a POST that took it could not be sent again.
            return conn.send("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 4\r\n\r\nnext");
        }
        conn.send("HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\ncount");
        may_go_on.lock().expect("no panic").recv_timeout(SOON).expect("the test continues");
        conn.send("ed");
    });
    let proxy = Proxy::before(&[endpoint.addr]);
    for size in [2, 100_000, 3_000_000] {
        let mut client = proxy.client();
        client.send(format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {size}\r\n\r\nx"));
        let head = client.head();
        assert!(!head.to_lowercase().contains("connection"), "{head}");
        go_on.send(()).expect("the endpoint waits");
        assert_eq!(client.bytes(7), b"counted");
        let sending = client.send_aside([&vec![b'x'; size - 1][..], GET.as_bytes()].concat());
        assert_eq!(client.response().body_text(), "next", "{size}");
        sending.join().expect("no panic").expect("the proxy takes it");
    }
}

/// A client that stalls within the rest of such a request has as long as for any body.
#[test]
fn the_rest_of_an_answered_request_has_its_time() {
    let endpoint = Endpoint::start(|conn| {
        conn.head();
        conn.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n7\r\ncounted\r\n");
        conn.send("0\r\n\r\n");
    });
    let proxy = Proxy::with(&[endpoint.addr], "timeouts = { client_body = \"200ms\" }", "", "");
    let mut client = proxy.client();
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nx");
    assert_eq!(client.response().body_text(), "counted");
    client.ends();
}

#[test]
fn as_many_connections_are_kept_as_are_allowed() {
    let (go_on, may_go_on) = channel();
    let may_go_on = Mutex::new(may_go_on);
    let endpoint = Endpoint::start(move |conn| {
        while conn.request().is_some() {
            may_go_on.lock().expect("no panic").recv_timeout(SOON).expect("the test goes on");
            conn.send(ok("hello"));
        }
    });
    let proxy = Proxy::with(&[endpoint.addr], "", "limits = { idle_per_endpoint = 2 }", "");
    let mut clients: Vec<Client> = (0..5).map(|_| proxy.client()).collect();
    clients.iter_mut().for_each(|client| _ = client.send(GET));
    wait_until("all are under way", || proxy.in_flight() == 5);
    (0..5).for_each(|_| go_on.send(()).expect("the endpoint waits"));
    clients.iter_mut().for_each(|client| assert_eq!(client.response().status(), 200));
    wait_until("all are over", || proxy.in_flight() == 0);
    assert_eq!(proxy.endpoint(0, |e| e.idle.get()), 2);
}

/// Servers that state a timeout close when it is over; a request sent at that moment is lost.
#[test]
fn an_idle_connection_is_not_used_beyond_the_time_that_its_endpoint_names() {
    for (named, kept) in
        [("timeout=1", false), ("max=100, Timeout = \"2\"", false), ("timeout=600", true), ("max=100", true)]
    {
        let (closed, is_closed) = channel();
        let endpoint = Endpoint::start(move |conn| {
            conn.request();
            let head = format!(
                "HTTP/1.1 200 OK\r\nKeep-Alive: {named}\r\nConnection: keep-alive\r\nContent-Length: 0\r\n\r\n"
            );
            conn.send(head);
            assert_eq!(conn.rest(), b"");
            closed.send(()).expect("the test waits");
        });
        let proxy = Proxy::before(&[endpoint.addr]);
        let answer = proxy.client().send(GET).response();
        assert_eq!((answer.status(), answer.field("keep-alive")), (200, None));
        if kept {
            wait_until("it is idle", || proxy.endpoint(0, |e| e.idle.get()) == 1);
            drop(proxy);
        }
        is_closed.recv_timeout(SOON).expect("it is closed");
    }
}

/// The proxy's socket of the connection from `client`, found in this process.
fn socket_of(proxy: &Proxy, client: &Client) -> BorrowedFd<'static> {
    let client = client.stream.local_addr().expect("it is connected");
    let is = |fd: &BorrowedFd<'_>| {
        let end = |addr: rustix::io::Result<_>| addr.ok().and_then(|addr| SocketAddr::try_from(addr).ok());
        end(rustix::net::getsockname(fd)) == Some(proxy.addr())
            && end(rustix::net::getpeername(fd).and_then(|addr| addr.ok_or(rustix::io::Errno::NOTCONN))) == Some(client)
    };
    // SAFETY: a number that is not an open descriptor only makes the calls fail, and the one that is found stays open
    // while the proxy serves the client.
    let found = (0..10_000).map(|fd| unsafe { BorrowedFd::borrow_raw(fd) }).find(is);
    found.expect("the proxy has accepted the client")
}

const PIECE: usize = 16 * 1024;

/// Commands to the endpoint of the test below.
#[derive(PartialEq)]
enum Next {
    /// Send a byte of the response.
    Byte,
    /// Send the rest of the response.
    Rest,
    /// Read the body of the request.
    Read,
}

const RESPONSE: usize = 100_000;

/// An endpoint that begins its response at once, and reads the request's body only at the end.
fn early() -> (Endpoint, Sender<Next>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    socket2::SockRef::from(&listener).set_recv_buffer_size(PIECE).expect("sockets have options");
    let (tell, told) = channel();
    let told = Mutex::new(told);
    let endpoint = Endpoint::on(listener, move |conn| {
        while let Some(head) = conn.next_head() {
            if !head.starts_with("POST") {
                conn.send(ok("next"));
                continue;
            }
            conn.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {RESPONSE}\r\n\r\n"));
            let told = told.lock().expect("no panic");
            let next = || told.recv_timeout(SOON).expect("the test goes on");
            let bytes = std::iter::from_fn(|| (next() == Next::Byte).then(|| conn.send("y"))).count();
            conn.send("y".repeat(RESPONSE - bytes));
            assert!(next() == Next::Read);
            let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
            let mut left: usize = length.expect("a length").parse().expect("a number");
            while left > 0 {
                let piece = conn.some(left);
                let other = piece.iter().position(|b| *b != b'x');
                assert_eq!(other.map(|at| text(&piece[at..])), None, "of another request");
                if piece.is_empty() {
                    return;
                }
                left -= piece.len();
            }
        }
    });
    (endpoint, tell)
}

/// Sends a body of `pieces` pieces, and returns the number that the proxy has read when it stops. The kernel lets the
/// send buffer towards the endpoint grow, up to a limit, when it hears from there; so the endpoint sends much before
/// this gives up.
fn send_pieces(proxy: &Proxy, client: &mut Client, pieces: usize, endpoint: &Sender<Next>) -> usize {
    client.send(format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", pieces * PIECE));
    client.head();
    let socket = socket_of(proxy, client);
    for n in 0..pieces {
        client.send([b'x'; PIECE]);
        let mut looks = 0;
        while rustix::io::ioctl_fionread(socket).expect("an open socket") > 0 {
            looks += 1;
            if looks == 100 {
                return n;
            }
            endpoint.send(Next::Byte).expect("the endpoint waits");
            std::thread::sleep(Duration::from_millis(2));
        }
    }
    pieces
}

/// A request whose last bytes still wait for the endpoint must not give its connection away: the next request's bytes
/// would be taken for the rest of its body.
#[test]
fn a_connection_that_owes_a_body_is_not_used_again() {
    // Number of pieces that fit into the buffers of the kernel and the proxy.
    let (endpoint, tell) = early();
    let proxy = Proxy::before(&[endpoint.addr]);
    let fit = send_pieces(&proxy, &mut proxy.client(), 10_000, &tell);
    tell.send(Next::Rest).and(tell.send(Next::Read)).expect("the endpoint waits");
    drop((proxy, endpoint));
    // Now the waiting piece is the last one of the body, or nearly.
    for pieces in [fit, fit - 1, fit + 1] {
        let (endpoint, tell) = early();
        let proxy = Proxy::before(&[endpoint.addr]);
        let mut client = proxy.client();
        send_pieces(&proxy, &mut client, pieces, &tell);
        tell.send(Next::Rest).expect("the endpoint waits");
        assert!(client.bytes(RESPONSE).iter().all(|b| *b == b'y'));
        wait_until("it is over", || proxy.in_flight() == 0);
        let mut next = proxy.client();
        next.send(GET);
        wait_until("it is under way", || proxy.in_flight() == 1 || endpoint.accepted() == 2);
        tell.send(Next::Read).expect("the endpoint waits");
        assert_eq!(next.response().body_text(), "next");
    }
}

/// A close with unread bytes resets the connection, and the reset may overtake the response.
#[test]
fn a_connection_that_the_proxy_ends_ends_in_order() {
    let (asked, has_asked) = channel();
    let (go_on, may_go_on) = channel();
    let may_go_on = Mutex::new(may_go_on);
    let endpoint = Endpoint::start(move |conn| {
        while conn.request().is_some() {
            asked.send(()).expect("the test waits");
            may_go_on.lock().expect("no panic").recv_timeout(SOON).expect("the test goes on");
            conn.send(ok("last"));
        }
    });
    let proxy = Proxy::with(&[endpoint.addr], "limits = { requests_per_connection = 1 }", "", "");
    let mut client = proxy.client();
    client.send(GET);
    has_asked.recv_timeout(SOON).expect("it is under way");
    // The client cannot know that this request comes too late.
    client.send(GET);
    go_on.send(()).expect("the endpoint waits");
    let response = client.response();
    assert_eq!((response.body_text(), response.field("connection")), ("last".into(), Some("close")));
    assert_eq!(ended(&mut client.stream), Ok(()));
}

fn ended(stream: &mut TcpStream) -> Result<(), ErrorKind> {
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).map(|_| ()).map_err(|error| error.kind())
}
