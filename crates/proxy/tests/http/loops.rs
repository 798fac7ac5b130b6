//! Loop detection: a request that an endpoint sends back to the proxy ends after one round, and others pass.

use crate::support::endpoint::ok;
use crate::support::log::Log;
use crate::support::message::marks;
use crate::support::{Client, Endpoint, Proxy, own_addr, wait_until};
use std::net::SocketAddr;

/// Configuration of all proxies here, except for the endpoint. The limit ends a loop that is not detected.
fn config(endpoint: SocketAddr, listener: &str, behind: &str) -> String {
    format!(
        "[runtime]\nworkers = 2\n[listener.web]\nbind = [\"$BIND\"]\n{listener}\n[pool.web]\nendpoints = [\"{endpoint}\"]\n\
         limits = {{ requests_per_endpoint = 5 }}\nqueue = {{ timeout = \"100ms\" }}\n{behind}"
    )
}

#[test]
fn a_request_that_another_proxy_leads_back_is_a_508_after_one_round() {
    let log = Log::new();
    let behind = log.config();
    let mut first = Proxy::start(&config(own_addr(), "", &behind));
    let second = Proxy::start(&config(first.addr(), "", ""));
    first.reload(&config(second.addr(), "", &behind)).expect("another endpoint");
    let mut client = first.client();
    for n in 1..=2 {
        let response = client.get("/round");
        assert_eq!((response.status(), response.line()), (508, "HTTP/1.1 508 Loop Detected"));
        wait_until("both are counted", || first.ended(508) == 2 * n);
        assert_eq!((first.listener(|l| l.loops.get()), second.listener(|l| l.loops.get())), (n, 0));
        assert_eq!(first.endpoint(0, |e| e.requests[4].get()), n, "one round each");
    }
    drop(client);
    drop(second);
    let lines = log.lines(first);
    assert_eq!(lines.len(), 4, "{lines:?}");
    for line in &lines {
        let back = line["endpoint"].is_null();
        assert_eq!((line["status"].as_u64(), &line["term"]), (Some(508), &if back { "PR" } else { "--" }.into()));
        let reason =
            "loop detected: the request passed route \"default\" before; an endpoint of pool \"web\" leads back here";
        assert_eq!(line["reason"].as_str(), back.then_some(reason), "{line}");
    }
    assert_eq!(lines.iter().filter(|line| line["endpoint"].is_null()).count(), 2);
}

#[test]
fn three_in_a_row_that_are_set_up_alike_pass_a_request() {
    let endpoint = Endpoint::saying("hello");
    let last = Proxy::start(&config(endpoint.addr, "", ""));
    let middle = Proxy::start(&config(last.addr(), "", ""));
    let first = Proxy::start(&config(middle.addr(), "", ""));
    let mut client = first.client();
    let response = client.send("GET / HTTP/1.1\r\nHost: a\r\nCDN-Loop: cdn.example; n=1, b\r\n\r\n").response();
    assert_eq!((response.status(), response.body_text().as_str()), (200, "hello"));
    let seen = endpoint.seen();
    let marks = marks(&seen[0].head);
    assert!(marks.len() == 3 && marks[0] != marks[1] && marks[1] != marks[2] && marks[0] != marks[2], "{marks:?}");
    assert!(seen[0].head.contains("\r\nCDN-Loop: cdn.example; n=1, b\r\n"), "{}", seen[0].head);
}

#[test]
fn a_listener_may_be_the_endpoint_of_another_of_the_same_evenkeel() {
    let (endpoint, inner) = (Endpoint::saying("hello"), own_addr());
    let proxy = Proxy::start(&format!(
        "[listener.outer]\nbind = [\"$BIND\"]\npool = \"inner\"\n[listener.inner]\nbind = [\"{inner}\"]\npool = \"web\"\n\
         [pool.inner]\nendpoints = [\"{inner}\"]\n[pool.web]\nendpoints = [\"{}\"]",
        endpoint.addr
    ));
    assert_eq!(proxy.client().get("/").body_text(), "hello");
    assert_eq!(marks(&endpoint.seen()[0].head).len(), 2);
}

/// Like a cache between two passes through the same balancer.
#[test]
fn an_endpoint_may_send_a_request_on_to_another_route_of_the_listener() {
    let (endpoint, listen) = (Endpoint::saying("hello"), own_addr());
    let cache = Endpoint::answering(move |request| {
        let marked: String = marks(&request.head).iter().map(|mark| format!("CDN-Loop: {mark}\r\n")).collect();
        let request = format!("GET / HTTP/1.1\r\nHost: a\r\n{marked}\r\n");
        ok(&Client::connect(listen).send(request).response().body_text())
    });
    let _proxy = Proxy::start(&format!(
        "[listener.web]\nbind = [\"{listen}\"]\n[[route]]\npool = \"web\"\n[[route]]\npool = \"cache\"\n\
         match = {{ path = \"/cached\" }}\n[pool.web]\nendpoints = [\"{}\"]\n[pool.cache]\nendpoints = [\"{}\"]",
        endpoint.addr, cache.addr
    ));
    assert_eq!(Client::connect(listen).get("/cached").body_text(), "hello");
    assert_eq!(marks(&endpoint.seen()[0].head).len(), 2);
}

#[test]
fn the_mark_is_the_same_for_every_worker_and_behind_a_reload_and_is_not_written_if_it_shall_not() {
    let endpoint = Endpoint::saying("hello");
    let mut proxy = Proxy::start(&config(endpoint.addr, "", ""));
    let other = Proxy::start(&config(endpoint.addr, "", ""));
    let ask = |proxy: &Proxy| (0..8).for_each(|_| assert_eq!(proxy.client().get("/").status(), 200));
    ask(&proxy);
    proxy.reload(&config(endpoint.addr, "limits = { headers = \"8KiB\" }", "")).expect("other limits");
    ask(&proxy);
    let seen = endpoint.seen();
    let all: Vec<Vec<&str>> = seen.iter().map(|request| marks(&request.head)).collect();
    assert!(all.len() == 16 && all[0].len() == 1 && all.iter().all(|one| *one == all[0]), "{all:?}");
    ask(&other);
    assert_ne!(marks(&endpoint.seen()[16].head), all[0], "another evenkeel has another");
    proxy.reload(&config(endpoint.addr, "detect_loops = false", "")).expect("one more key");
    let request = format!("GET / HTTP/1.1\r\nHost: a\r\nCDN-Loop: {}\r\n\r\n", all[0][0]);
    assert_eq!(proxy.client().send(request).response().status(), 200);
    assert_eq!(marks(&endpoint.seen()[24].head), all[0], "it is the client's");
}
