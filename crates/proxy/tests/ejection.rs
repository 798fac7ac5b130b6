//! Ejection of endpoints whose requests fail, and their way back.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "a test is no worker: it may lock and wait")]

use crate::support::endpoint::{ok, status};
use crate::support::{Client, Endpoint, Proxy, SOON, own_addr, wait_until};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};

/// An endpoint that answers with the status line in the returned cell, or resets if that is `reset`.
fn told() -> (Endpoint, Arc<Mutex<&'static str>>) {
    let what = Arc::new(Mutex::new("200 OK"));
    let says = what.clone();
    let endpoint = Endpoint::start(move |conn| {
        while conn.request().is_some() {
            match *says.lock().expect("no panic") {
                "reset" => return conn.reset_at_end(),
                line => conn.send(status(line, "told")),
            }
        }
    });
    (endpoint, what)
}

fn proxy(endpoints: &[SocketAddr], more: &str) -> Proxy {
    Proxy::with(endpoints, "", &format!("retry = {{ attempts = 0 }}\n{more}"), "")
}

/// Sends requests until `had` is true, and not one more. An ejection and its end take effect a moment after the request
/// that caused them, and another request in that moment would count, too.
fn send_until(proxy: &Proxy, mut had: impl FnMut() -> bool) {
    wait_until("requests have their effect", || {
        proxy.client().send("GET / HTTP/1.1\r\nHost: a\r\n\r\n").response();
        had()
    });
}

/// A client that has sent a request.
fn asking(proxy: &Proxy) -> Client {
    let mut client = proxy.client();
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    client
}

#[test]
fn an_endpoint_that_fails_requests_is_ejected() {
    for (answer, rule) in [
        ("reset", "consecutive_gateway = 2"),
        ("503 No", "consecutive_gateway = 2"),
        ("500 No", "consecutive_5xx = 2, consecutive_gateway = 0"),
    ] {
        let ((bad, what), good) = (told(), Endpoint::saying("good"));
        *what.lock().expect("no panic") = answer;
        let proxy = proxy(&[bad.addr, good.addr], &format!("outlier = {{ {rule}, eject = '1h', eject_max = '1h' }}"));
        send_until(&proxy, || bad.seen().len() == 2);
        proxy.becomes(bad.addr, "ejected");
        assert_eq!(proxy.answers(6), ["good"]);
        assert_eq!(bad.seen().len(), 2, "{answer}");
    }
    let (dead, good) = (own_addr(), Endpoint::saying("good"));
    let proxy = proxy(&[dead, good.addr], "outlier = { consecutive_connect = 2, eject = '1h', eject_max = '1h' }");
    let connects = || proxy.endpoint(0, |e| e.connects.get());
    send_until(&proxy, || connects() == 2);
    proxy.becomes(dead, "ejected");
    assert_eq!(proxy.answers(6), ["good"]);
    assert_eq!(connects(), 2);
}

#[test]
fn a_page_that_fails_ejects_no_endpoint_unless_asked_for() {
    let ((first, says), (second, says_too)) = (told(), told());
    for what in [&says, &says_too] {
        *what.lock().expect("no panic") = "500 No";
    }
    let proxy = proxy(&[first.addr, second.addr], "panic = { healthy_below = 0 }");
    (0..12).for_each(|_| assert_eq!(proxy.client().get("/").status(), 500));
    // Ejections are asynchronous, but the control thread handles them in order: once the second endpoint's is visible,
    // so would be one of the first.
    *says_too.lock().expect("no panic") = "503 No";
    send_until(&proxy, || proxy.state(second.addr) == "ejected");
    assert_eq!(proxy.state(first.addr), "up");
}

#[test]
fn a_page_that_fails_does_not_keep_an_endpoint_out() {
    let ((bad, what), good) = (told(), Endpoint::saying("good"));
    *what.lock().expect("no panic") = "reset";
    let proxy = proxy(&[bad.addr, good.addr], "outlier = { consecutive_gateway = 1, eject = '100ms' }");
    send_until(&proxy, || bad.seen().len() == 1);
    *what.lock().expect("no panic") = "500 No";
    proxy.becomes(bad.addr, "probation");
    send_until(&proxy, || bad.seen().len() == 2);
    proxy.becomes(bad.addr, "up");
}

#[test]
fn an_ejected_endpoint_is_back_after_one_request_that_goes_well() {
    let ((bad, what), good) = (told(), Endpoint::saying("good"));
    *what.lock().expect("no panic") = "500 No";
    let proxy = proxy(&[bad.addr, good.addr], "outlier = { consecutive_5xx = 1, eject = '300ms' }");
    send_until(&proxy, || bad.seen().len() == 1);
    proxy.becomes(bad.addr, "probation");
    send_until(&proxy, || bad.seen().len() == 2);
    wait_until("a single request was enough to see", || proxy.ejections(bad.addr) == 2);
    *what.lock().expect("no panic") = "200 OK";
    proxy.becomes(bad.addr, "probation");
    send_until(&proxy, || bad.seen().len() == 3);
    proxy.becomes(bad.addr, "up");
    assert_eq!(proxy.answers(4), ["good", "told"]);
}

#[test]
fn in_probation_there_is_one_request_at_a_time() {
    let (go_on, may_go_on): (Sender<()>, _) = channel();
    let (may_go_on, failed) = (Mutex::new(may_go_on), AtomicBool::new(false));
    let bad = Endpoint::start(move |conn| {
        while conn.request().is_some() {
            if !failed.swap(true, SeqCst) {
                conn.send(status("500 No", "first"));
                continue;
            }
            may_go_on.lock().expect("no panic").recv_timeout(SOON).expect("the test goes on");
            conn.send(ok("told"));
        }
    });
    let good = Endpoint::saying("good");
    let proxy = proxy(&[bad.addr, good.addr], "outlier = { consecutive_5xx = 1, eject = '100ms' }");
    send_until(&proxy, || bad.seen().len() == 1);
    proxy.becomes(bad.addr, "probation");
    // While the probation request runs, all others are sent elsewhere.
    let mut clients = [asking(&proxy), asking(&proxy)];
    wait_until("one is there", || bad.seen().len() == 2);
    assert_eq!(proxy.answers(6), ["good"]);
    assert_eq!((bad.seen().len(), proxy.state(bad.addr)), (2, "probation"));
    go_on.send(()).expect("it waits");
    proxy.becomes(bad.addr, "up");
    let mut said: Vec<String> = clients.iter_mut().map(|client| client.response().body_text()).collect();
    said.sort();
    assert_eq!(said, ["good", "told"]);
    // It may get further requests on its way out.
    (0..10).for_each(|_| go_on.send(()).expect("it waits"));
}

#[test]
fn no_more_are_ejected_than_the_pool_can_spare() {
    let bad: Vec<Endpoint> = (0..4).map(|_| Endpoint::answering(|_| status("500 No", "bad"))).collect();
    let addrs: Vec<SocketAddr> = bad.iter().map(|e| e.addr).collect();
    let outlier = "outlier = { consecutive_5xx = 2, eject = '1h', eject_max = '1h', eject_at_most = 0.5 }";
    let proxy = proxy(&addrs, &format!("{outlier}\npanic = {{ healthy_below = 0 }}"));
    let ejected = || addrs.iter().filter(|addr| proxy.state(addr) == "ejected").count();
    wait_until("two are out", || {
        assert_eq!(proxy.client().get("/").status(), 500);
        ejected() == 2
    });
    let before: usize = bad.iter().map(|e| e.seen().len()).sum();
    (0..20).for_each(|_| assert_eq!(proxy.client().get("/").status(), 500));
    let seen: usize = bad.iter().map(|e| e.seen().len()).sum();
    assert_eq!((ejected(), seen), (2, before + 20));
}
