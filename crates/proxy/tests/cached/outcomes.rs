//! Final outcomes: what `Cache-Status` says once the head of a response is there, and what counters and the access log have once
//! its body has ended.

use super::basics::{cached, get, with};
use super::operators::purge;
use crate::support::endpoint::Conn;
use crate::support::log::Log;
use crate::support::{Client, Endpoint, Proxy, SOON, wait_until};
use evenkeel_view::cache::Purge;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};

const FRESH: &str = "Cache-Control: max-age=60\r\nSurrogate-Key: all\r\n";

/// Number of responses of a result, or that were not stored for a reason.
fn count(proxy: &Proxy, label: &str) -> String {
    let metrics = proxy.metrics();
    let line = metrics.lines().find(|line| {
        line.contains(&format!("\"{label}\""))
            && !line.starts_with("evenkeel_cache_refused")
            && line.contains("_cache_")
    });
    line.and_then(|line| line.rsplit(' ').next()).unwrap_or("none").to_owned()
}

/// A chunk of this many bytes.
fn chunk(length: usize) -> String {
    format!("{length:x}\r\n{}\r\n", "x".repeat(length))
}

/// Endpoint that sends head and half of a body of ten bytes, and the rest when it is told to.
fn halting() -> (Endpoint, Sender<()>) {
    let (go, gone) = channel();
    let gone = Mutex::new(gone);
    let endpoint = Endpoint::start(move |conn: &mut Conn| {
        while let Some(request) = conn.request() {
            if request.field("if-none-match").is_some() {
                wait(&gone);
                conn.send(format!("HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\n{FRESH}\r\n"));
                continue;
            }
            conn.send(format!("HTTP/1.1 200 OK\r\n{FRESH}ETag: \"a\"\r\nContent-Length: 10\r\n\r\n01234"));
            wait(&gone);
            conn.send("56789");
        }
    });
    (endpoint, go)
}

fn wait(gone: &Mutex<Receiver<()>>) {
    gone.lock().expect("no panic").recv_timeout(SOON).expect("the test lets it go");
}

fn ask(client: &mut Client, path: &str) -> String {
    let head = client.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n")).head();
    let line =
        head.lines().find_map(|line| line.strip_prefix("cache-status: ").or(line.strip_prefix("Cache-Status: ")));
    line.unwrap_or_default().replace("evenkeel; ", "")
}

#[test]
fn a_length_that_is_too_much_is_known_at_once() {
    let endpoint = Endpoint::answering(|request| match request.line().split(' ').nth(1) {
        Some("/body") => with("200 OK", FRESH, &"x".repeat(2000)),
        // What is stored has fields, too.
        _ => with("200 OK", FRESH, &"x".repeat(1000)),
    });
    let proxy =
        Proxy::with(&[endpoint.addr], "", "", "[cache]\nobject_max = '1KiB'\n[[route]]\npool = 'web'\ncache = true\n");
    for path in ["/body", "/fields"] {
        let (_, status, body) = get(&mut proxy.client(), path, "");
        assert_eq!((&*status, body.len() >= 1000), ("fwd=uri-miss; detail=\"content too large\"", true), "{path}");
    }
    assert_eq!(["body_too_large", "not_stored", "stored"].map(|label| count(&proxy, label)), ["2", "2", "0"]);
}

#[test]
fn a_length_that_is_not_stated_counts_at_the_end() {
    let log = Log::new();
    let endpoint = Endpoint::answering(|_| {
        let chunks: String = (0..3).map(|_| chunk(500)).collect();
        format!("HTTP/1.1 200 OK\r\n{FRESH}Transfer-Encoding: chunked\r\n\r\n{chunks}0\r\n\r\n").into_bytes()
    });
    let route = "[cache]\nobject_max = '1KiB'\n[[route]]\npool = 'web'\ncache = true\n";
    let proxy = Proxy::with(&[endpoint.addr], "", "", &format!("{route}{}", log.config()));
    let (_, status, body) = get(&mut proxy.client(), "/a", "");
    assert_eq!((&*status, body.len()), ("fwd=uri-miss; ttl=60; stored", 1500));
    wait_until("it has ended", || count(&proxy, "not_stored") == "1");
    assert_eq!(["body_too_large", "stored"].map(|label| count(&proxy, label)), ["1", "0"]);
    assert_eq!(log.lines(proxy)[0]["cache"], "not_stored");
}

#[test]
fn a_purge_before_the_end_is_why_nothing_is_stored() {
    for (url, tag) in [(Some("http://a/p"), None), (None, Some("all"))] {
        let (endpoint, go) = halting();
        let proxy = cached(endpoint.addr, "true");
        let order = || Purge { url: url.map(Into::into), tag: tag.map(Into::into), ..Purge::default() };
        let mut client = proxy.client();
        assert_eq!(ask(&mut client, "/p"), "fwd=uri-miss; ttl=60; stored");
        client.bytes(5);
        purge(&proxy, &order());
        go.send(()).expect("the endpoint waits");
        client.bytes(5);
        wait_until("it has ended", || count(&proxy, "not_stored") == "1");
        assert_eq!(["purged", "stored"].map(|label| count(&proxy, label)), ["1", "0"], "{url:?} {tag:?}");
        go.send(()).expect("the endpoint waits");
        assert!(get(&mut client, "/p", "").1.starts_with("fwd=uri-miss"), "{url:?} {tag:?}");
    }
}

#[test]
fn a_purge_before_the_head_is_known_at_once() {
    let (go, gone) = channel();
    let gone = Mutex::new(gone);
    let endpoint = Endpoint::answering(move |_| {
        wait(&gone);
        with("200 OK", FRESH, "hello")
    });
    let proxy = cached(endpoint.addr, "true");
    let mut client = proxy.client();
    client.send("GET /p HTTP/1.1\r\nHost: a\r\n\r\n");
    wait_until("the endpoint is asked", || endpoint.seen().len() == 1);
    purge(&proxy, &Purge { all: true, ..Purge::default() });
    go.send(()).expect("the endpoint waits");
    let status = client.response().field("cache-status").unwrap_or_default().to_owned();
    assert_eq!(status, "evenkeel; fwd=uri-miss; detail=\"purged meanwhile\"");
    assert_eq!(["purged", "not_stored"].map(|label| count(&proxy, label)), ["1", "1"]);
    assert!(proxy.metrics().contains("evenkeel_cache_refused_total{reason=\"purged\"} 1\n"));
}

#[test]
fn a_response_that_is_validated_while_it_is_purged_is_not_stored_again() {
    let (endpoint, go) = halting();
    let proxy = cached(endpoint.addr, "true");
    let mut client = proxy.client();
    go.send(()).expect("the endpoint waits");
    assert_eq!(get(&mut client, "/p", "").1, "fwd=uri-miss; ttl=60; stored");
    proxy.server().numbers().skip_cache_time(std::time::Duration::from_secs(61));
    client.send("GET /p HTTP/1.1\r\nHost: a\r\n\r\n");
    wait_until("the endpoint is asked", || endpoint.seen().len() == 2);
    purge(&proxy, &Purge { url: Some("http://a/p".into()), ..Purge::default() });
    go.send(()).expect("the endpoint waits");
    let response = client.response();
    assert_eq!((response.status(), response.body_text()), (200, "0123456789".into()));
    let status = response.field("cache-status").unwrap_or_default();
    assert_eq!(status, "evenkeel; fwd=stale; fwd-status=304; ttl=60; detail=\"purged meanwhile\"");
    assert_eq!(["renewed", "not_stored"].map(|label| count(&proxy, label)), ["1", "0"]);
}

#[test]
fn those_who_come_after_a_purge_are_one_request_again() {
    let (endpoint, go) = halting();
    let proxy = cached(endpoint.addr, "true");
    let mut first = proxy.client();
    assert_eq!(ask(&mut first, "/p"), "fwd=uri-miss; ttl=60; stored");
    let ask_with = |n: usize| {
        let mut clients: Vec<Client> = (0..n).map(|_| proxy.client()).collect();
        clients.iter_mut().for_each(|client| {
            client.send("GET /p HTTP/1.1\r\nHost: a\r\n\r\n");
        });
        proxy.has_heard();
        clients
    };
    // Those who read it already are answered by it.
    let mut others = ask_with(5);
    purge(&proxy, &Purge { url: Some("http://a/p".into()), ..Purge::default() });
    others.extend(ask_with(20));
    [(), ()].into_iter().for_each(|()| go.send(()).expect("the endpoint waits"));
    others.iter_mut().for_each(|client| assert_eq!(client.response().body_text(), "0123456789"));
    assert_eq!(endpoint.seen().len(), 2);
}

#[test]
fn a_response_that_is_cut_off_counts_as_that() {
    let log = Log::new();
    let endpoint = Endpoint::start(|conn| {
        conn.request();
        conn.send(format!("HTTP/1.1 200 OK\r\n{FRESH}Content-Length: 10\r\n\r\n01234"));
    });
    let route = format!("[[route]]\npool = 'web'\ncache = true\n{}", log.config());
    let proxy = Proxy::with(&[endpoint.addr], "", "", &route);
    let mut client = proxy.client();
    assert_eq!(ask(&mut client, "/p"), "fwd=uri-miss; ttl=60; stored");
    client.rest();
    wait_until("it has ended", || count(&proxy, "not_stored") == "1");
    assert_eq!(["cut_off", "stored"].map(|label| count(&proxy, label)), ["1", "0"]);
    assert_eq!(log.lines(proxy)[0]["cache"], "not_stored");
}

#[test]
fn bodies_that_come_at_once_have_a_share_of_the_memory() {
    // A quarter of the memory: two bodies of this length fit beside each other, and a third one does not.
    const LENGTH: usize = 100_000;
    let (go, gone) = channel();
    let gone = Mutex::new(gone);
    let endpoint = Endpoint::start(move |conn| {
        while let Some(request) = conn.request() {
            if request.line().starts_with("GET /held") {
                conn.send(format!("HTTP/1.1 200 OK\r\n{FRESH}Transfer-Encoding: chunked\r\n\r\n{}", chunk(LENGTH)));
                wait(&gone);
                conn.send("0\r\n\r\n");
            } else {
                conn.send(with("200 OK", FRESH, &"x".repeat(LENGTH)));
            }
        }
    });
    let route = "[cache]\nmemory = '1MiB'\nobject_max = '128KiB'\n[[route]]\npool = 'web'\ncache = true\n";
    let proxy = Proxy::with(&[endpoint.addr], "", "", route);
    let mut held: Vec<Client> = (0..2).map(|_| proxy.client()).collect();
    for (at, client) in held.iter_mut().enumerate() {
        assert_eq!(ask(client, &format!("/held{at}")), "fwd=uri-miss; ttl=60; stored");
        client.bytes(LENGTH);
    }
    let no_room = "fwd=uri-miss; detail=\"no room beside other responses that come\"";
    assert_eq!(get(&mut proxy.client(), "/a", "").1, no_room);
    [(), ()].into_iter().for_each(|()| go.send(()).expect("the endpoint waits"));
    wait_until("they have ended", || count(&proxy, "stored") == "2");
    assert_eq!(get(&mut proxy.client(), "/b", "").1, "fwd=uri-miss; ttl=60; stored");
    assert_eq!(count(&proxy, "no_room"), "1");
}

#[test]
fn a_client_that_has_the_response_needs_no_body_that_stalls() {
    let endpoint = Endpoint::start(|conn: &mut Conn| {
        while conn.request().is_some() {
            conn.send(format!("HTTP/1.1 200 OK\r\n{FRESH}ETag: \"a\"\r\nContent-Length: 10\r\n\r\n01234"));
            conn.rest();
        }
    });
    let route = "[[route]]\npool = 'web'\ncache = true\ntimeouts = { idle = '100ms' }\n";
    let proxy = Proxy::with(&[endpoint.addr], "", "", route);
    let response = proxy.client().send("GET /p HTTP/1.1\r\nHost: a\r\nIf-None-Match: \"a\"\r\n\r\n").response();
    assert_eq!((response.status(), response.field("etag")), (304, Some("\"a\"")));
    wait_until("it has ended", || count(&proxy, "not_stored") == "1");
}
