//! Parts of stored responses, and whole responses that are fetched behind requests for a part.

use super::basics::{cached, get, with};
use super::operators::purge;
use crate::support::message::Message;
use crate::support::{Endpoint, Proxy, SOON, wait_until};
use evenkeel_cache::moment::Date;
use evenkeel_cache::syntax::date;
use evenkeel_view::cache::Purge;
use std::sync::Mutex;
use std::sync::mpsc::{Sender, channel};
use std::time::{SystemTime, UNIX_EPOCH};

const FRESH: &str = "Cache-Control: max-age=60\r\nETag: \"a\"\r\n";
const BEHIND: &str = "fwd=uri-miss; detail=\"part, the whole is fetched behind it\"";
const PART: &str = "fwd=uri-miss; detail=\"part of what is not stored\"";
const RANGE: &str = "Range: bytes=2-4\r\n";

/// Answer of an endpoint that has ten bytes, and sends the part from the third to the fifth.
fn in_parts(request: &Message, fields: &str) -> Vec<u8> {
    match request.field("range") {
        None => with("200 OK", fields, "0123456789"),
        Some(_) => with("206 Partial Content", &format!("{fields}Content-Range: bytes 2-4/10\r\n"), "234"),
    }
}

/// Fetches of whole responses that ended so.
fn whole(proxy: &Proxy, result: &str) -> u64 {
    let metrics = proxy.metrics();
    let is_it =
        |line: &&str| line.starts_with("evenkeel_cache_whole_fetches") && line.contains(&format!("\"{result}\""));
    metrics.lines().filter(is_it).filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
}

#[test]
fn a_range_is_of_a_date_only_if_nothing_else_can_have_that_date() {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs();
    let modified = now - 100;
    let date = |seconds: u64| date::write(Date::from_seconds(seconds));
    let endpoint = Endpoint::answering(move |request| {
        let dated = match request.line().split(' ').nth(1) {
            Some("/later") => format!("Date: {}\r\n", date(modified + 1)),
            Some("/same") => format!("Date: {}\r\n", date(modified)),
            _ => String::new(),
        };
        let (modified, tag) = match request.line().contains("/weak") {
            true => (now, "ETag: W/\"a\"\r\n"),
            false => (modified, ""),
        };
        let fields = format!("Cache-Control: max-age=5000\r\nLast-Modified: {}\r\n{dated}{tag}", date(modified));
        with("200 OK", &fields, "0123456789")
    });
    let proxy = cached(endpoint.addr, "true");
    let mut client = proxy.client();
    for (path, condition, is_part) in [
        ("/later", date(modified), true),
        ("/later", date(modified + 1), false),
        ("/later", date(modified - 1), false),
        ("/later", "\"a\"".into(), false),
        ("/same", date(modified), false),
        // Without a date of its own, it has that of this proxy, more than a minute later.
        ("/undated", date(modified), true),
        ("/weak", date(now), false),
        ("/weak", "W/\"a\"".into(), false),
    ] {
        get(&mut client, path, "");
        let (status, state, body) = get(&mut client, path, &format!("{RANGE}If-Range: {condition}\r\n"));
        let expected = if is_part { (206, "234") } else { (200, "0123456789") };
        assert_eq!((status, &*body), expected, "{path} {condition}");
        assert!(state.starts_with("hit"), "{path} {condition}: {state}");
    }
}

#[test]
fn a_part_of_what_is_not_stored_has_the_whole_fetched_behind_it() {
    let endpoint = Endpoint::answering(|request| in_parts(request, FRESH));
    let proxy = cached(endpoint.addr, "{ query_ignore = ['utm'] }");
    let mut client = proxy.client();
    let fields = format!("{RANGE}If-Range: \"a\"\r\nX-A: 1\r\n");
    assert_eq!(get(&mut client, "/a?utm=1&b=2", &fields), (206, BEHIND.into(), "234".into()));
    wait_until("the whole has come", || {
        whole(&proxy, "stored") == 1 && proxy.server().numbers().cache_fetches_behind() == 0
    });
    assert_eq!(get(&mut client, "/a?b=2", "Range: bytes=-1\r\n"), (206, "hit; ttl=60".into(), "9".into()));
    assert_eq!(get(&mut client, "/a?b=2", "").2, "0123456789");
    let seen = endpoint.seen();
    assert_eq!((seen.len(), seen[1].line(), seen[1].field("x-a")), (2, "GET /a?b=2 HTTP/1.1", Some("1")));
    assert_eq!((seen[1].field("range"), seen[1].field("if-range"), seen[1].field("host")), (None, None, Some("a")));
    assert_eq!(seen[0].field("range"), Some("bytes=2-4"));
}

/// An endpoint that answers parts at once, and a whole when it is told to.
fn held() -> (Endpoint, Sender<()>) {
    let (go, gone) = channel();
    let gone = Mutex::new(gone);
    let endpoint = Endpoint::answering(move |request| {
        if request.field("range").is_none() {
            gone.lock().expect("no panic").recv_timeout(SOON).expect("the test lets it go");
        }
        in_parts(request, FRESH)
    });
    (endpoint, go)
}

#[test]
fn the_whole_is_fetched_once_at_a_time_and_no_part_waits_for_it() {
    let (endpoint, go) = held();
    let proxy = cached(endpoint.addr, "{ whole_fetches_max = 1 }");
    let mut client = proxy.client();
    assert_eq!(get(&mut client, "/a", RANGE).1, BEHIND);
    for _ in 0..5 {
        assert_eq!(get(&mut client, "/a", RANGE), (206, PART.into(), "234".into()));
    }
    assert_eq!((get(&mut client, "/b", RANGE).1, whole(&proxy, "skipped")), (PART.into(), 1));
    // One for the whole waits.
    let mut waits = proxy.client();
    waits.send("GET /a HTTP/1.1\r\nHost: a\r\n\r\n");
    proxy.has_heard();
    go.send(()).expect("the endpoint waits");
    let response = waits.response();
    assert_eq!(
        (response.body_text(), response.field("cache-status")),
        ("0123456789".into(), Some("evenkeel; hit; ttl=60"))
    );
    assert_eq!(endpoint.seen().iter().filter(|request| request.field("range").is_none()).count(), 1);
}

#[test]
fn a_whole_that_cannot_be_stored_is_not_fetched() {
    let endpoint = Endpoint::answering(|request| match request.line().split(' ').nth(1) {
        Some("/private") => in_parts(request, "Cache-Control: private\r\n"),
        Some("/silent") => in_parts(request, ""),
        Some("/cookie") => in_parts(request, &format!("{FRESH}Set-Cookie: a=b\r\n")),
        Some("/large") => {
            with("206 Partial Content", &format!("{FRESH}Content-Range: bytes 2-4/10000000000\r\n"), "234")
        }
        Some("/unknown") => with("206 Partial Content", &format!("{FRESH}Content-Range: bytes 2-4/*\r\n"), "234"),
        _ => in_parts(request, FRESH),
    });
    let proxy = cached(endpoint.addr, "true");
    let mut client = proxy.client();
    let paths = ["/private", "/silent", "/cookie", "/large", "/unknown"];
    for path in paths {
        assert_eq!(get(&mut client, path, RANGE), (206, PART.into(), "234".into()), "{path}");
    }
    assert_eq!(get(&mut client, "/user", &format!("{RANGE}Authorization: Basic eDp5\r\n")).1, PART);
    let off = cached(endpoint.addr, "{ whole_fetches_max = 0 }");
    assert_eq!(get(&mut off.client(), "/a", RANGE).1, PART);
    assert_eq!(endpoint.seen().len(), paths.len() + 2);
}

#[test]
fn a_whole_that_is_not_as_its_part_promised_is_not_stored_and_not_fetched_again_for_a_while() {
    let endpoint = Endpoint::answering(|request| match request.field("range") {
        None => with("200 OK", "Cache-Control: no-store\r\n", "0123456789"),
        Some(_) => in_parts(request, FRESH),
    });
    let proxy = cached(endpoint.addr, "true");
    let mut client = proxy.client();
    assert_eq!(get(&mut client, "/a", RANGE).1, BEHIND);
    wait_until("the whole has come", || {
        whole(&proxy, "not_stored") == 1 && proxy.server().numbers().cache_fetches_behind() == 0
    });
    assert_eq!((get(&mut client, "/a", RANGE).1, endpoint.seen().len()), (PART.into(), 3));
}

#[test]
fn a_purge_while_the_whole_is_fetched_holds() {
    let (endpoint, go) = held();
    let proxy = cached(endpoint.addr, "true");
    assert_eq!(get(&mut proxy.client(), "/a", RANGE).1, BEHIND);
    wait_until("the whole is asked for", || endpoint.seen().len() == 2);
    purge(&proxy, &Purge { url: Some("http://a/a".into()), ..Purge::default() });
    go.send(()).expect("the endpoint waits");
    wait_until("the whole has come", || whole(&proxy, "not_stored") == 1);
    assert_eq!(proxy.server().numbers().shown_cache().expect("a cache").objects, 0);
}

#[test]
fn conditions_that_compress_has_changed_do_not_reach_the_endpoint_from_a_miss() {
    let endpoint = Endpoint::answering(|_| {
        with("200 OK", &format!("{FRESH}Content-Type: text/plain\r\n"), &"hello ".repeat(1000))
    });
    let route = "[[route]]\npool = 'web'\ncache = true\ncompress = true\n";
    let proxy = Proxy::with(&[endpoint.addr], "", "", route);
    let mut client = proxy.client();
    let ask = |condition: &str| format!("GET /a HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\n{condition}\r\n");
    let tag = client.send(ask("")).response().field("etag").expect("it has a tag").to_owned();
    assert_ne!(tag, "\"a\"", "that of the compressed response");
    purge(&proxy, &Purge { all: true, ..Purge::default() });
    assert_eq!(
        client.send(ask(&format!("If-None-Match: {tag}\r\n"))).response().status(),
        304,
        "it holds for what came"
    );
    assert_eq!(endpoint.seen()[1].field("if-none-match"), None);
    assert_eq!(client.send(ask(&format!("If-None-Match: {tag}\r\n"))).response().status(), 304);
}
