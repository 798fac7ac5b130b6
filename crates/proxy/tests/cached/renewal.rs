//! Responses under a wall clock that is set, under spellings of `Accept-Encoding`, and under a 304 for other content.

use super::basics::{cached, get, with};
use crate::support::{Endpoint, Proxy};
use std::time::Duration;

const HOUR_MS: i64 = 3_600_000;

/// Age of a stored response.
fn age(proxy: &Proxy, path: &str) -> u64 {
    let response = proxy.client().send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n")).response();
    response.field("age").and_then(|age| age.parse().ok()).expect("a stored response")
}

#[test]
fn a_wall_clock_that_is_set_changes_no_age() {
    let endpoint = Endpoint::answering(|_| with("200 OK", "Cache-Control: max-age=60\r\n", "hello"));
    let proxy = cached(endpoint.addr, "true");
    let numbers = proxy.server().numbers();
    let mut client = proxy.client();
    assert_eq!(get(&mut client, "/a", "").1, "fwd=uri-miss; ttl=60; stored");
    for step in [HOUR_MS, -HOUR_MS, -HOUR_MS, HOUR_MS] {
        numbers.step_cache_wall_clock(step);
        assert!(age(&proxy, "/a") < 30, "after {step} ms");
        // A response that is stored meanwhile has its own date, and an age from then on.
        let path = format!("/{step}-{}", endpoint.seen().len());
        assert_eq!(get(&mut client, &path, "").1, "fwd=uri-miss; ttl=60; stored");
        assert!(age(&proxy, &path) < 30, "after {step} ms");
    }
    // Time itself still passes.
    numbers.skip_cache_time(Duration::from_secs(61));
    assert_eq!(get(&mut client, "/a", "").1, "fwd=stale; ttl=60; stored");
}

#[test]
fn a_reload_changes_no_age_while_the_wall_clock_is_wrong() {
    let endpoint = Endpoint::answering(|_| with("200 OK", "Cache-Control: max-age=60\r\n", "hello"));
    let mut proxy = cached(endpoint.addr, "true");
    get(&mut proxy.client(), "/a", "");
    proxy.server().numbers().step_cache_wall_clock(HOUR_MS);
    assert!(age(&proxy, "/a") < 30);
    proxy
        .reload(&format!(
            "[listener.web]\nbind = [\"$BIND\"]\n[pool.web]\nendpoints = [\"{}\"]\n[[route]]\npool = 'web'\n\
             cache = {{ max_ttl = '1h' }}\n",
            endpoint.addr
        ))
        .expect("a good plan");
    proxy.server().numbers().step_cache_wall_clock(-HOUR_MS);
    assert!(age(&proxy, "/a") < 30);
    assert_eq!(get(&mut proxy.client(), "/b", "").1, "fwd=uri-miss; ttl=60; stored");
    assert!(age(&proxy, "/b") < 30);
    assert_eq!(endpoint.seen().len(), 2);
}

/// Coding that an endpoint chooses as servers do: its first coding that the client accepts.
fn chosen(accept: &str, own: &[&'static str]) -> Option<&'static str> {
    let weight = |coding: &str| {
        let of = |name: &str| {
            accept.split(',').find_map(|member| {
                let (known, weight) = member.split_once(';').unwrap_or((member, "q=1"));
                let is_it = known.trim().eq_ignore_ascii_case(name);
                is_it.then(|| weight.trim().trim_start_matches("q=").parse::<f32>().unwrap_or(1.0))
            })
        };
        of(coding).or_else(|| of(&format!("x-{coding}"))).or_else(|| of("*")).unwrap_or(0.0)
    };
    own.iter().find(|coding| weight(coding) > 0.0).copied()
}

const SPELLINGS: [&str; 20] = [
    "gzip, deflate, br",
    "gzip,deflate,br",
    "br, gzip, deflate",
    "GZip, Deflate, Br",
    "gzip;q=1.0, br;q=0.9",
    "gzip",
    "x-gzip",
    "gzip;q=0.5",
    "gzip, deflate",
    "deflate, gzip;q=1.0",
    "gzip, identity",
    "gzip, *;q=0.1",
    "compress;q=0.5, gzip;q=1.0",
    "gzip, br;q=0",
    "gzip, deflate, br, zstd",
    "*",
    "identity",
    "",
    "deflate",
    "identity;q=0.5",
];

#[test]
fn twenty_spellings_of_accept_encoding_are_as_many_fetches_as_there_are_codings() {
    for own in [&["br", "gzip"][..], &["gzip"], &[]] {
        let endpoint = Endpoint::answering(move |request| {
            let coding = chosen(request.field("accept-encoding").unwrap_or_default(), own);
            let field = coding.map(|coding| format!("Content-Encoding: {coding}\r\n")).unwrap_or_default();
            let fields = format!("Cache-Control: max-age=60\r\nVary: Accept-Encoding\r\n{field}");
            with("200 OK", &fields, coding.unwrap_or("identity"))
        });
        let proxy = cached(endpoint.addr, "true");
        let mut client = proxy.client();
        for spelling in SPELLINGS {
            client.send(format!("GET /a HTTP/1.1\r\nHost: a\r\nAccept-Encoding: {spelling}\r\n\r\n"));
            let response = client.response();
            let coding = response.field("content-encoding").unwrap_or("identity").to_owned();
            assert_eq!(response.body_text(), coding, "{spelling}");
            let accepted =
                coding == "identity" || chosen(spelling, &[if coding == "br" { "br" } else { "gzip" }]).is_some();
            assert!(accepted, "{spelling} got {coding}");
        }
        assert_eq!(endpoint.seen().len(), own.len() + 1, "{own:?}");
    }
}

/// The stored page is validated, and the 304 is for what another client got: the page stays as it is.
#[test]
fn a_304_adds_no_coding_to_what_is_stored() {
    let endpoint = Endpoint::answering(|request| match request.field("if-none-match") {
        Some(_) => {
            b"HTTP/1.1 304 Not Modified\r\nCache-Control: max-age=60\r\nETag: \"a\"\r\nContent-Encoding: gzip\r\n\
            Content-Type: image/png\r\nContent-Range: bytes 0-1/5\r\n\r\n"
                .to_vec()
        }
        None => with("200 OK", "Cache-Control: max-age=0\r\nETag: \"a\"\r\n", "hello"),
    });
    let proxy = cached(endpoint.addr, "true");
    let mut client = proxy.client();
    get(&mut client, "/a", "");
    for _ in 0..2 {
        client.send("GET /a HTTP/1.1\r\nHost: a\r\n\r\n");
        let response = client.response();
        assert_eq!((response.status(), response.body_text()), (200, "hello".to_owned()));
        for name in ["content-encoding", "content-type", "content-range"] {
            assert_eq!(response.field(name), None, "{name}");
        }
    }
    assert_eq!(endpoint.seen().len(), 2);
}

#[test]
fn a_304_for_another_strong_tag_is_fetched_anew_at_once() {
    let endpoint = Endpoint::answering(|request| match (request.field("if-none-match"), request.field("range")) {
        (Some(_), _) => b"HTTP/1.1 304 Not Modified\r\nETag: \"b\"\r\n\r\n".to_vec(),
        (None, None) if request.field("x-first").is_some() => {
            with("200 OK", "Cache-Control: max-age=0\r\nETag: \"a\"\r\n", "old")
        }
        (None, None) => with("200 OK", "Cache-Control: max-age=60\r\nETag: \"b\"\r\n", "new one"),
        _ => with("500 Range", "", "the whole was wanted"),
    });
    for (fields, status, body) in [
        ("", 200, "new one"),
        ("Range: bytes=4-6\r\n", 206, "one"),
        ("If-None-Match: \"b\"\r\n", 304, ""),
        ("If-None-Match: \"a\"\r\n", 200, "new one"),
    ] {
        let proxy = cached(endpoint.addr, "true");
        let mut client = proxy.client();
        assert_eq!(get(&mut client, "/a", "X-First: 1\r\n").2, "old");
        let got = get(&mut client, "/a", fields);
        assert_eq!(got, (status, "fwd=stale; stored".to_owned(), body.to_owned()), "{fields}");
        assert_eq!(get(&mut client, "/a", ""), (200, "hit; ttl=60".to_owned(), "new one".to_owned()), "{fields}");
        let metrics = proxy.metrics();
        assert!(metrics.contains("result=\"stored\"} 2"), "{metrics}");
    }
}

#[test]
fn an_endpoint_that_fails_after_a_304_for_other_content_is_a_502() {
    let endpoint = Endpoint::answering(|request| match request.field("if-none-match") {
        Some(_) => b"HTTP/1.1 304 Not Modified\r\nETag: \"b\"\r\n\r\n".to_vec(),
        None if request.field("x-first").is_some() => {
            with("200 OK", "Cache-Control: max-age=0\r\nETag: \"a\"\r\n", "old")
        }
        None => b"no response\r\n\r\n".to_vec(),
    });
    let proxy = cached(endpoint.addr, "true");
    let mut client = proxy.client();
    assert_eq!(get(&mut client, "/a", "X-First: 1\r\n").2, "old");
    let (status, how, _) = get(&mut client, "/a", "");
    assert_eq!((status, &*how), (502, "fwd=stale; detail=\"cut off\""));
    let lenient = cached(endpoint.addr, "{ stale_if_error = '1h' }");
    let mut client = lenient.client();
    assert_eq!(get(&mut client, "/a", "X-First: 1\r\n").2, "old");
    assert_eq!(get(&mut client, "/a", "").2, "old");
}

/// NOT STORED is the sum of its reasons, whatever became of a request.
#[test]
fn every_response_that_is_not_stored_has_a_reason() {
    let endpoint = Endpoint::answering(|request| match request.line().split(' ').nth(1) {
        Some("/private") => with("200 OK", "Cache-Control: private\r\n", "hello"),
        Some("/bare") => with("200 OK", "", "hello"),
        Some("/part") => b"HTTP/1.1 206 Part\r\nContent-Length: 1\r\nContent-Range: bytes 0-0/9\r\n\r\nx".to_vec(),
        Some("/gone") => b"no response\r\n\r\n".to_vec(),
        Some("/late") => {
            with("200 OK", "Cache-Control: max-age=60\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n", "hello")
        }
        Some("/once") if request.field("if-none-match").is_some() => {
            b"HTTP/1.1 304 Not Modified\r\nCache-Control: no-store\r\nETag: \"a\"\r\n\r\n".to_vec()
        }
        _ => with("200 OK", "Cache-Control: max-age=0\r\nETag: \"a\"\r\n", "hello"),
    });
    let proxy = cached(endpoint.addr, "true");
    let mut client = proxy.client();
    for (path, fields) in [
        ("/private", ""),
        ("/bare", ""),
        ("/part", "Range: bytes=0-0\r\n"),
        ("/late", ""),
        ("/once", ""),
        ("/once", ""),
    ] {
        get(&mut client, path, fields);
    }
    client.send("HEAD /head HTTP/1.1\r\nHost: a\r\n\r\n");
    client.head();
    assert_eq!(get(&mut proxy.client(), "/gone", "").0, 502);
    let sum = |what: &str| -> u64 {
        let metrics = proxy.metrics();
        let lines = metrics.lines().filter(|line| line.starts_with("evenkeel_cache_") && line.contains(what));
        lines.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
    };
    assert_eq!((sum("not_stored_total{"), sum("result=\"not_stored\"}")), (6, 6));
    for reason in ["private", "no_lifetime", "part", "method", "no_response", "clock"] {
        assert_eq!(sum(&format!("reason=\"{reason}\"}}")), 1, "{reason}");
    }
}
