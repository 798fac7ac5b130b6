//! The queue of requests when every endpoint is full: admission, order and timeouts.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "a test is no worker: it may lock and wait")]

use crate::support::endpoint::ok;
use crate::support::log::Log;
use crate::support::{Client, Endpoint, Proxy, SOON, wait_until};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// An endpoint that answers one request for each message.
fn gated() -> (Endpoint, Sender<()>) {
    let (go_on, may_go_on) = channel::<()>();
    let may_go_on = Mutex::new(may_go_on);
    let endpoint = Endpoint::start(move |conn| {
        while conn.request().is_some() {
            may_go_on.lock().expect("no panic").recv_timeout(SOON).expect("the test goes on");
            conn.send(ok("done"));
        }
    });
    (endpoint, go_on)
}

/// Pool settings for one request at a time, and this queue.
fn pool(queue: &str) -> String {
    format!("limits = {{ requests_per_endpoint = 1 }}\nqueue = {{ {queue} }}")
}

/// A client that has sent a request for this path.
fn asking(proxy: &Proxy, path: &str) -> Client {
    let mut client = proxy.client();
    client.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"));
    client
}

/// Two clients: the first one's request is at the endpoint, the second one's in the queue.
fn first_and_second(proxy: &Proxy) -> (Client, Client) {
    let first = asking(proxy, "/first");
    wait_until("the first is at the endpoint", || proxy.in_flight() == 1);
    let second = asking(proxy, "/second");
    wait_until("the second waits", || proxy.waiting() == 1);
    (first, second)
}

fn rejected(proxy: &Proxy) -> [u64; 2] {
    [0, 1].map(|why| proxy.pool(|pool| pool.queue_rejected[why].get()))
}

#[test]
fn the_second_request_waits_until_the_first_has_ended() {
    let ((endpoint, go_on), log) = (gated(), Log::new());
    let proxy = Proxy::with(&[endpoint.addr], "", &pool("timeout = '20s'"), &log.config());
    let (mut first, mut second) = first_and_second(&proxy);
    second.is_quiet();
    for client in [&mut first, &mut second] {
        go_on.send(()).expect("the endpoint waits");
        assert_eq!(client.response().status(), 200);
    }
    assert_eq!(endpoint.accepted(), 1, "its connection was there to be used again");
    assert_eq!(proxy.waiting(), 0);
    assert_eq!(rejected(&proxy), [0, 0]);
    let lines = log.lines(proxy);
    let waited = |path: &str| {
        let line = lines.iter().find(|line| line["path"] == path).expect("a line for each");
        line["t_queue"].as_f64().expect("a number")
    };
    assert_eq!(waited("/first"), 0.0);
    assert!(waited("/second") > 0.0);
}

#[test]
fn they_are_served_in_the_order_in_which_they_came_whichever_worker_took_them() {
    let (endpoint, go_on) = gated();
    let lines = pool("timeout = '20s'");
    let proxy = Proxy::start(&format!(
        "[runtime]\nworkers = 4\n[listener.web]\nbind = ['$BIND']\n[pool.web]\nendpoints = ['{}']\n{lines}",
        endpoint.addr
    ));
    let mut clients = vec![asking(&proxy, "/0")];
    wait_until("the first is at the endpoint", || proxy.in_flight() == 1);
    for n in 1..12 {
        clients.push(asking(&proxy, &format!("/{n}")));
        wait_until("it waits", || proxy.waiting() == n);
    }
    for client in &mut clients {
        go_on.send(()).expect("the endpoint waits");
        assert_eq!(client.response().status(), 200);
    }
    let order: Vec<String> = endpoint.seen().iter().map(|request| request.line().to_string()).collect();
    let came: Vec<String> = (0..12).map(|n| format!("GET /{n} HTTP/1.1")).collect();
    assert_eq!(order, came);
}

#[test]
fn a_full_queue_refuses_at_once() {
    let (endpoint, go_on) = gated();
    let proxy = Proxy::with(&[endpoint.addr], "", &pool("max = 1, timeout = '20s'"), "");
    let (mut first, mut second) = first_and_second(&proxy);
    let refused = asking(&proxy, "/third").response();
    assert_eq!(refused.status(), 503);
    let text = refused.body_text();
    assert!(text.contains("pool \"web\"") && text.contains("the queue is full"), "{text}");
    assert_eq!(rejected(&proxy), [1, 0]);
    for client in [&mut first, &mut second] {
        go_on.send(()).expect("the endpoint waits");
        assert_eq!(client.response().status(), 200);
    }
}

#[test]
fn nobody_waits_where_there_is_no_queue() {
    let (endpoint, go_on) = gated();
    let proxy = Proxy::with(&[endpoint.addr], "", &pool("max = 0"), "");
    let mut first = asking(&proxy, "/first");
    wait_until("it is at the endpoint", || proxy.in_flight() == 1);
    let refused = asking(&proxy, "/second").response();
    assert_eq!(refused.status(), 503);
    assert!(refused.body_text().contains("every eligible endpoint is at its limit"), "{}", refused.body_text());
    go_on.send(()).expect("the endpoint waits");
    assert_eq!(first.response().status(), 200);
}

#[test]
fn a_request_that_waited_too_long_is_refused() {
    let ((endpoint, go_on), log) = (gated(), Log::new());
    let proxy = Proxy::with(&[endpoint.addr], "", &pool("timeout = '30ms'"), &log.config());
    let mut first = asking(&proxy, "/first");
    wait_until("it is at the endpoint", || proxy.in_flight() == 1);
    let refused = asking(&proxy, "/second").response();
    assert_eq!(refused.status(), 503);
    assert!(refused.body_text().contains("none became available in time"), "{}", refused.body_text());
    assert_eq!((rejected(&proxy), proxy.waiting()), ([0, 1], 0));
    go_on.send(()).expect("the endpoint waits");
    assert_eq!(first.response().status(), 200);
    let lines = log.lines(proxy);
    assert_eq!((&lines[0]["term"], &lines[0]["tries"]), (&"PQ".into(), &0.into()), "{}", lines[0]);
    assert!(lines[0]["t_queue"].as_f64() > Some(0.0), "{}", lines[0]);
}

#[test]
fn a_client_that_goes_away_leaves_the_queue_to_those_behind_it() {
    let ((endpoint, go_on), log) = (gated(), Log::new());
    let proxy = Proxy::with(&[endpoint.addr], "", &pool("timeout = '20s'"), &log.config());
    let (mut first, second) = first_and_second(&proxy);
    let mut third = asking(&proxy, "/third");
    wait_until("two wait", || proxy.waiting() == 2);
    second.reset();
    wait_until("one waits", || proxy.waiting() == 1);
    for client in [&mut first, &mut third] {
        go_on.send(()).expect("the endpoint waits");
        assert_eq!(client.response().status(), 200);
    }
    let seen: Vec<String> = endpoint.seen().iter().map(|request| request.line().to_string()).collect();
    assert_eq!(seen, ["GET /first HTTP/1.1", "GET /third HTTP/1.1"]);
    let lines = log.lines(proxy);
    let left = lines.iter().find(|line| line["path"] == "/second").expect("a line for each");
    assert_eq!((&left["term"], &left["status"]), (&"CQ".into(), &0.into()), "{left}");
}

/// A request that has tried the endpoint that becomes free must not block those behind it in the queue.
#[test]
fn a_retry_waits_for_another_endpoint_only() {
    let (gate, go_on) = gated();
    let bad = Endpoint::resetting();
    let lines = pool("timeout = '20s'") + "\noutlier = 'off'\nretry = { backoff = '1ms..1ms' }";
    let proxy = Proxy::with(&[gate.addr, bad.addr], "", &lines, "");
    let mut clients: Vec<Client> = (0..3).map(|n| asking(&proxy, &format!("/{n}"))).collect();
    wait_until("one is served, two wait for it", || proxy.in_flight() == 1 && proxy.waiting() == 2);
    (0..3).for_each(|_| go_on.send(()).expect("the endpoint waits"));
    for client in &mut clients {
        assert_eq!(client.response().status(), 200);
    }
}

#[test]
fn a_limit_that_follows_latency_falls_when_the_endpoint_gets_slower() {
    let slow = Arc::new(AtomicBool::new(false));
    let is_slow = slow.clone();
    let endpoint = Endpoint::answering(move |_| {
        if is_slow.load(SeqCst) {
            // Stands for work.
            std::thread::sleep(Duration::from_millis(40));
        }
        ok("done")
    });
    let limits = "limits = { concurrency = { min = 3, start = 20, max = 20, interval = '100ms' } }";
    let proxy = Proxy::with(&[endpoint.addr], "", limits, "");
    let limit = || proxy.server().control().pools()["web"].pool.view().set.members()[0].in_flight_max;
    assert_eq!(limit(), 20);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..20 {
            let mut client = proxy.client();
            let stop = &stop;
            scope.spawn(move || {
                while !stop.load(SeqCst) {
                    assert_eq!(client.get("/").status(), 200);
                }
            });
        }
        wait_until("it knows how fast it can be", || proxy.ended(200) > 2000);
        slow.store(true, SeqCst);
        let falls = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| wait_until("it falls", || limit() <= 10)));
        stop.store(true, SeqCst);
        falls.expect("it falls");
    });
}
