//! Stored responses that are compressed once for all clients, over both protocols.

use super::compress::{Answer, CODINGS, ask, html, proxy, route, text};
use crate::support::decoder::decoded;
use crate::support::{Client, Endpoint, Proxy, wait_until};
use evenkeel_view::cache::Purge;

const BOTH: &str = "compress = { algorithms = ['zstd', 'br', 'gzip'] }\ncache = true";

/// Fields of the endpoint's response.
const SENT: [(&str, &str); 6] = [
    ("content-type", "text/html"),
    ("cache-control", "max-age=60"),
    ("etag", "\"v1\""),
    ("vary", "Origin"),
    ("accept-ranges", "bytes"),
    ("repr-digest", "sha-256=:AA==:"),
];

/// Endpoint whose response to each path has this body, and which validates it.
fn endpoint(body: &str, control: &'static str) -> Endpoint {
    let body = body.to_owned();
    Endpoint::answering(move |request| {
        if request.field("if-none-match").is_some_and(|tags| tags.contains("\"v1\"")) {
            return b"HTTP/1.1 304 Not Modified\r\nETag: \"v1\"\r\n\r\n".to_vec();
        }
        let mut fields = SENT;
        fields[1].1 = control;
        html(&fields, &body)
    })
}

fn get(client: &str, proxy: &Proxy, path: &str, coding: &str) -> Answer {
    ask(client, proxy, "GET", path, &[("Accept-Encoding", coding)])
}

/// Value of a metric, by the beginning of its line.
fn metric(proxy: &Proxy, name: &str) -> u64 {
    let metrics = proxy.metrics();
    let line = metrics.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("no {name} in {metrics}"));
    line.rsplit(' ').next().and_then(|value| value.parse().ok()).expect("a number")
}

fn made(proxy: &Proxy, coding: &str) -> u64 {
    metric(proxy, &format!("evenkeel_cache_encoded_total{{coding=\"{coding}\"}}"))
}

fn purge_all(proxy: &Proxy, soft: bool) {
    let purge = Purge { all: true, soft, ..Purge::default() };
    proxy.server().numbers().purge_cache(&purge).expect("it is an order").end().expect("it is done here");
}

#[test]
fn each_hit_has_the_same_bytes_and_their_length() {
    let body = text(300);
    assert!(body.len() < 16 << 10);
    let endpoint = endpoint(&body, "max-age=60");
    let proxy = proxy(endpoint.addr, "", &route(BOTH));
    for coding in CODINGS {
        let streamed = get("h1", &proxy, &format!("/{coding}"), coding);
        assert_eq!((streamed.coding(), streamed.field("content-length")), (Some(coding), "-".into()));
        let mut first: Option<Answer> = None;
        for client in ["h1", "h2", "h1", "h2"] {
            let at = format!("{client} {coding}");
            let hit = get(client, &proxy, &format!("/{coding}"), coding);
            assert!(hit.field("cache-status").starts_with("evenkeel; hit"), "{at}");
            assert!(decoded(hit.coding(), &hit.body) == body.as_bytes(), "{at}");
            assert_eq!(hit.field("content-length"), hit.body.len().to_string(), "{at}");
            for name in ["content-encoding", "content-type", "vary", "etag", "accept-ranges", "repr-digest"] {
                assert_eq!(hit.field(name), streamed.field(name), "{at} {name}");
            }
            let head = ask(client, &proxy, "HEAD", &format!("/{coding}"), &[("Accept-Encoding", coding)]);
            for name in ["content-encoding", "content-length", "vary", "etag", "accept-ranges"] {
                assert_eq!(head.field(name), hit.field(name), "{at} {name}");
            }
            let tag = format!("\"v1-{coding}\"");
            let fields = [("Accept-Encoding", coding), ("If-None-Match", &tag)];
            let same = ask(client, &proxy, "GET", &format!("/{coding}"), &fields);
            assert_eq!((same.status, same.field("etag")), (304, tag), "{at}");
            let fields = [("Accept-Encoding", coding), ("Range", "bytes=2-5")];
            let part = ask(client, &proxy, "GET", &format!("/{coding}"), &fields);
            assert_eq!((part.status, part.coding(), &*part.body), (206, None, &body.as_bytes()[2..6]), "{at}");
            let plain = ask(client, &proxy, "GET", &format!("/{coding}"), &[]);
            assert_eq!((plain.coding(), plain.field("content-length")), (None, body.len().to_string()), "{at}");
            assert!(plain.body == body.as_bytes(), "{at}");
            let first = first.get_or_insert(hit);
            assert_eq!(get(client, &proxy, &format!("/{coding}"), coding).body, first.body, "{at}");
        }
        assert_eq!(made(&proxy, coding), 1, "{coding}");
    }
    assert_eq!(endpoint.seen().len(), CODINGS.len(), "all others came from the cache");
    assert_eq!(metric(&proxy, "evenkeel_http_compressed_stored_responses_total"), 3 * 8);
}

#[test]
fn a_large_body_is_compressed_once_for_many_clients_while_streams_serve_them() {
    let body = text(6000);
    let endpoint = endpoint(&body, "max-age=60");
    let proxy = proxy(endpoint.addr, "", &route(BOTH));
    for coding in CODINGS {
        let path = format!("/{coding}");
        ask("h1", &proxy, "GET", &path, &[]);
        let mut clients: Vec<Client> = (0..30).map(|_| proxy.client()).collect();
        for client in &mut clients {
            client.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\nAccept-Encoding: {coding}\r\n\r\n"));
        }
        let answers = clients.iter_mut().map(|client| client.response());
        let lengths: Vec<usize> = answers
            .map(|answer| {
                assert_eq!(answer.field("content-encoding"), Some(coding));
                assert!(decoded(Some(coding), &answer.body) == body.as_bytes());
                answer.body.len()
            })
            .collect();
        wait_until("it is compressed", || made(&proxy, coding) > 0);
        for client in ["h1", "h2"] {
            let hit = get(client, &proxy, &path, coding);
            assert!(decoded(hit.coding(), &hit.body) == body.as_bytes(), "{client} {coding}");
            assert_eq!(hit.field("content-length"), hit.body.len().to_string(), "{client} {coding}");
            // The first one was compressed as a stream.
            assert!(hit.body.len() < lengths[0], "{coding}: {} of {}", hit.body.len(), lengths[0]);
            let head = ask(client, &proxy, "HEAD", &path, &[("Accept-Encoding", coding)]);
            assert_eq!(head.field("content-length"), hit.field("content-length"), "{client} {coding}");
        }
        assert_eq!(made(&proxy, coding), 1, "{coding}");
    }
    let unmade = "evenkeel_cache_not_encoded_total{reason=";
    let why = |reason: &str| metric(&proxy, &format!("{unmade}\"{reason}\"}}"));
    assert_eq!(["no_smaller", "queue_full", "no_memory", "not_stored"].map(why), [0; 4]);
    let shown = proxy.server().numbers().cache_show("http://a/gzip").expect("it is a URL");
    let forms: Vec<&str> = shown[0].encoded.iter().map(|form| &*form.coding).collect();
    assert_eq!((forms, shown[0].body_bytes), (vec!["gzip"], body.len() as u64));
    assert!(shown[0].encoded[0].bytes > 0 && shown[0].bytes > shown[0].encoded[0].bytes + shown[0].body_bytes);
}

#[test]
fn a_body_that_becomes_no_smaller_is_tried_once_and_sent_as_it_is() {
    let mut state = 7u64;
    let mut byte = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    for len in [5000, 50_000] {
        let body: Vec<u8> = (0..len).map(|_| byte()).collect();
        let sent = body.clone();
        let endpoint = Endpoint::answering(move |_| {
            [html(&SENT, &"x".repeat(len))[..].strip_suffix(&vec![b'x'; len][..]).expect("a body"), &sent].concat()
        });
        let proxy = proxy(endpoint.addr, "", &route(BOTH));
        for coding in CODINGS {
            let reason = "evenkeel_cache_not_encoded_total{reason=\"no_smaller\"}";
            get("h1", &proxy, "/", coding);
            let before = metric(&proxy, reason);
            get("h1", &proxy, "/", coding);
            wait_until("it was tried", || metric(&proxy, reason) >= before);
            wait_until("it is known", || get("h1", &proxy, "/", coding).coding().is_none());
            for client in ["h1", "h2"] {
                let hit = get(client, &proxy, "/", coding);
                assert_eq!((hit.coding(), hit.field("etag")), (None, "\"v1\"".into()), "{client} {coding}");
                assert_eq!(hit.field("vary"), "Origin, Accept-Encoding", "{client} {coding}");
                assert!(hit.body == body, "{client} {coding}");
            }
        }
        assert_eq!(metric(&proxy, "evenkeel_cache_not_encoded_total{reason=\"no_smaller\"}"), 3);
    }
}

#[test]
fn forms_outlive_a_validation_and_go_with_a_purge() {
    let body = text(300);
    let endpoint = endpoint(&body, "max-age=60");
    let proxy = proxy(endpoint.addr, "", &route(BOTH));
    let length = |expected: &str| {
        let answer = get("h1", &proxy, "/", "gzip");
        assert!(answer.field("cache-status").starts_with(&format!("evenkeel; {expected}")), "{expected}");
        assert!(decoded(answer.coding(), &answer.body) == body.as_bytes());
        answer.field("content-length")
    };
    assert_eq!(length("fwd=uri-miss"), "-");
    let known = length("hit");
    purge_all(&proxy, true);
    assert_eq!(length("fwd=stale; fwd-status=304"), known);
    assert_eq!((length("hit"), made(&proxy, "gzip")), (known.clone(), 1));
    purge_all(&proxy, false);
    assert_eq!(length("fwd=uri-miss"), "-");
    assert_eq!((length("hit"), made(&proxy, "gzip")), (known, 2));
}

#[test]
fn what_is_validated_with_each_request_is_compressed_once_too() {
    let body = text(6000);
    let endpoint = endpoint(&body, "no-cache");
    let proxy = proxy(endpoint.addr, "", &route(BOTH));
    get("h1", &proxy, "/", "zstd");
    // Each has a new head, also while a thread compresses the body.
    wait_until("it is compressed", || get("h1", &proxy, "/", "zstd").field("content-length") != "-");
    for client in ["h1", "h2"] {
        let hit = get(client, &proxy, "/", "zstd");
        assert!(hit.field("cache-status").starts_with("evenkeel; fwd=stale; fwd-status=304"), "{client}");
        assert!(decoded(hit.coding(), &hit.body) == body.as_bytes(), "{client}");
        assert_eq!(hit.field("content-length"), hit.body.len().to_string(), "{client}");
    }
    assert_eq!(made(&proxy, "zstd"), 1);
}

#[test]
fn memory_has_its_bound_with_all_forms() {
    let body = text(200);
    let endpoint = endpoint(&body, "max-age=60");
    let cache = "[cache]\nmemory = '1MiB'\nobject_max = '64KiB'\n";
    let proxy = proxy(endpoint.addr, "", &(cache.to_owned() + &route(BOTH)));
    for n in 0..150 {
        for coding in ["gzip", "zstd", "br", "gzip"] {
            let answer = get("h1", &proxy, &format!("/{n}"), coding);
            assert!(decoded(answer.coding(), &answer.body) == body.as_bytes(), "{n} {coding}");
        }
        assert!(metric(&proxy, "evenkeel_cache_bytes") <= metric(&proxy, "evenkeel_cache_capacity_bytes"), "{n}");
    }
    assert!(metric(&proxy, "evenkeel_cache_evicted_total") > 0 && made(&proxy, "gzip") > 50);
}
