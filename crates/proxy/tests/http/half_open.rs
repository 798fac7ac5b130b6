//! Peers that vanish, like a machine that loses its power or network. Nothing comes from them, not even an end, so only
//! timeouts help.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "a test is no worker: it may lock and wait")]

use crate::support::endpoint::ok;
use crate::support::{Endpoint, Proxy, wait_until};
use evenkeel_proxy::end::Cause;
use std::io;
use std::net::TcpStream;
use std::os::fd::AsRawFd;

const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

/// Makes a socket vanish when it is closed: with `TCP_REPAIR` (tcp(7)) the kernel drops it without a packet. `false`
/// without `CAP_NET_ADMIN`.
fn vanishes(stream: &TcpStream) -> bool {
    let on: libc::c_int = 1;
    let len = size_of_val(&on) as libc::socklen_t;
    // SAFETY: the descriptor is open for the call, and the pointer and length describe `on`, which outlives it.
    let set = unsafe {
        libc::setsockopt(stream.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_REPAIR, (&raw const on).cast(), len)
    };
    let may = set == 0;
    if !may {
        eprintln!("left out: {}", io::Error::last_os_error());
    }
    may
}

#[track_caller]
fn nothing_is_left(proxy: &Proxy) {
    wait_until("no request is in flight", || proxy.in_flight() == 0);
    wait_until("no client is connected", || proxy.listener(|l| l.active.get()) == 0);
}

#[test]
fn clients_that_vanish_are_let_go_of_in_time_wherever_they_were() {
    let endpoint = Endpoint::start(|conn| {
        while let Some(head) = conn.next_head() {
            if head.starts_with("POST ") {
                return drop(conn.rest()); // never complete
            }
            conn.send(ok("fine"));
        }
    });
    let times = "timeouts = { client_header = \"100ms\", client_idle = \"100ms\", client_body = \"100ms\" }";
    let proxy = Proxy::with(&[endpoint.addr], times, "", "");
    for said in ["", "GET / HT", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\nhalf of it", GET] {
        let mut client = proxy.client();
        client.send(said);
        if said == GET {
            assert_eq!(client.response().body_text(), "fine", "and then it is idle");
        }
        if !vanishes(&client.stream) {
            return;
        }
        drop(client);
        nothing_is_left(&proxy);
        assert_eq!(proxy.client().get("/").body_text(), "fine", "after {said:?}");
        nothing_is_left(&proxy);
    }
}

#[test]
fn an_endpoint_that_vanishes_costs_a_request_its_time_and_no_more() {
    let endpoint = Endpoint::start(|conn| {
        while let Some(request) = conn.request() {
            if request.head.starts_with("GET /vanish ") && vanishes(&conn.stream) {
                return;
            }
            conn.send(ok("fine"));
        }
    });
    // The short timeout is for this path only: everything else may take as long as a busy machine needs.
    let vanish = "[[route]]\nmatch = { path = '/vanish' }\npool = 'web'\ntimeouts = { response = '100ms' }\n\
                  [[route]]\npool = 'web'";
    let proxy = Proxy::with(&[endpoint.addr], "", "retry = { attempts = 0 }", vanish);
    let mut client = proxy.client();
    let answer = client.get("/vanish");
    if answer.status() == 200 {
        return; // lacks CAP_NET_ADMIN
    }
    assert_eq!(answer.status(), 504);
    assert_eq!(client.get("/").body_text(), "fine");
    drop(client);
    nothing_is_left(&proxy);
    wait_until("it is counted", || proxy.listener(|l| l.ends[Cause::EndpointSlow as usize].get()) == 1);
}

#[test]
fn an_idle_connection_whose_endpoint_has_vanished_is_replaced() {
    let endpoint = Endpoint::start(|conn| {
        if let Some(_request) = conn.request() {
            conn.send(ok("fine"));
            if conn.index == 0 {
                vanishes(&conn.stream);
                return;
            }
            while conn.request().is_some() {
                conn.send(ok("again"));
            }
        }
    });
    let proxy = Proxy::with(&[endpoint.addr], "", "retry = { attempts = 0 }", "");
    let mut client = proxy.client();
    assert_eq!([(); 3].map(|()| client.get("/").status()), [200; 3]);
    assert_eq!(endpoint.accepted(), 2);
}
