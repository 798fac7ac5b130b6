//! Methods, bodies, ranges, conditions, and errors that one request provokes.

use super::world::{Got, Version, World, all_fail, ask, get, reflects, seen, victims_are_spared, with};
use crate::support::h2_client::{DATA, END_STREAM, Frame, H2Client};
use crate::support::message::Message;
use crate::support::{Client, Endpoint, Proxy};
use std::net::SocketAddr;

#[test]
fn requests_with_content_neither_fill_nor_use_the_cache() {
    let attacks = vec![
        ("content", get("").body("a=evil"), get("")),
        ("content of a HEAD", ask("HEAD /p", "").body("a=evil"), get("")),
        ("a form", get("Content-Type: application/x-www-form-urlencoded").body("q=evil"), get("")),
        ("an overridden method", get("X-HTTP-Method-Override: POST").body("q=evil"), get("")),
        ("GET for HEAD", ask("HEAD /p", "").body("a=evil"), ask("HEAD /p", "")),
    ];
    all_fail(reflects, "cache = true", attacks);
}

#[test]
fn other_methods_neither_fill_nor_use_the_cache() {
    let methods =
        ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "PROPFIND", "PURGE", "QUERY", "get", "GETX", "LINK"];
    let attacks = methods.map(|method| (method, ask(&format!("{method} /p"), "Cookie: a"), get("")));
    all_fail(reflects, "cache = true", attacks.into());
}

#[test]
fn content_of_length_zero_and_none_are_the_same() {
    let world = World::new(Version::H1, seen_without_length, "cache = true");
    let alone = World::new(Version::H1, seen_without_length, "cache = true").ask(Version::H1, &get(""));
    let mut client = world.proxy.client();
    client.send("GET /p HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n").response();
    client.send("GET /q HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n").response();
    assert_eq!(world.ask(Version::H1, &get("")), alone);
    assert!(!world.ask(Version::H1, &ask("GET /q", "")).is_hit());
}

fn seen_without_length(request: &Message) -> Vec<u8> {
    with("200 OK", "Cache-Control: max-age=60", &seen(request).replace("content-length: 0|", ""))
}

/// Endpoint of HTTP/1 that reflects the head of a request and reads its body, which may be cut, to the end.
fn patient() -> Endpoint {
    Endpoint::start(|conn| {
        let Some(head) = conn.next_head() else { return };
        let body = seen(&Message { head, ..Message::default() });
        conn.send(with("200 OK", "Cache-Control: max-age=60|Connection: close", &body));
        conn.finish_sending();
        conn.rest();
    })
}

/// Sends a GET with content over HTTP/2, whose stated length may be another one, and reads what comes.
fn get_with_content(addr: SocketAddr, length: Option<&str>) {
    let mut client = H2Client::connect(addr);
    let mut fields = vec![(":method", "GET"), (":scheme", "http"), (":path", "/p"), (":authority", "a")];
    fields.extend(length.map(|length| ("content-length", length)));
    client.head(1, &fields, false);
    client.send(&Frame::new(DATA, END_STREAM, 1, "a=evil"));
    client.answer(1);
}

#[test]
fn content_over_http2_counts_whatever_its_stated_length() {
    for length in [None, Some("0"), Some("6"), Some("5")] {
        let world = || World::new(Version::H2, reflects, "cache = true");
        let (both, alone) = (world(), world().ask(Version::H2, &get("")));
        get_with_content(both.proxy.addr(), length);
        assert_eq!(both.ask(Version::H2, &get("")), alone, "{length:?}");

        let endpoint = patient();
        let proxy = || Proxy::with(&[endpoint.addr], "h2c = true", "", "[[route]]\npool = 'web'\ncache = true\n");
        let (both, alone) = (proxy(), Got::of(&proxy().client().get("/p")));
        get_with_content(both.addr(), length);
        assert_eq!(Got::of(&both.client().get("/p")), alone, "{length:?}");
    }
}

/// Content that is to come is not seen before the response is there.
#[test]
fn an_open_stream_of_length_zero_neither_fills_nor_uses_the_cache() {
    let world = World::new(Version::H1, reflects, "cache = true");
    let mut client = H2Client::connect(world.proxy.addr());
    let fields =
        [(":method", "GET"), (":scheme", "http"), (":path", "/p"), (":authority", "a"), ("content-length", "0")];
    for stream in [1, 3] {
        client.head(stream, &fields, false);
        let state = client.answer(stream).field("cache-status").unwrap_or_default();
        assert!(state.contains("fwd=bypass"), "{state}");
        client.send(&Frame::new(DATA, END_STREAM, stream, ""));
        assert_eq!(world.ask(Version::H1, &get("")).is_hit(), stream == 3);
    }
}

#[test]
fn a_head_does_not_answer_a_get_and_a_get_may_answer_a_head() {
    fn by_method(request: &Message) -> Vec<u8> {
        let body = if request.line().starts_with("HEAD") { "" } else { "content" };
        let response = with("200 OK", "Cache-Control: max-age=60|ETag: \"a\"", "content");
        if body.is_empty() { response[..response.len() - 7].to_vec() } else { response }
    }
    let attacks = vec![
        ("HEAD", ask("HEAD /p", ""), get("")),
        ("HEAD with a range", ask("HEAD /p", "Range: bytes=0-0"), get("")),
        ("HEAD with a condition", ask("HEAD /p", "If-None-Match: \"a\""), get("")),
    ];
    for (name, attacker, victim) in attacks {
        let world = World::new(Version::H1, by_method, "cache = true");
        world.ask(Version::H1, &attacker);
        assert_eq!(world.ask(Version::H1, &victim).body, "content", "{name}");
        assert_eq!(world.ask(Version::H1, &ask("HEAD /p", "")).status, 200, "{name}");
    }
}

/// Has a page of ten bytes whose parts it sends, and calls every answer cacheable.
fn in_parts(request: &Message) -> Vec<u8> {
    const ALWAYS: &str = "Cache-Control: max-age=60|ETag: \"a\"|Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT";
    match request.field("range") {
        _ if request.field("if-none-match") == Some("\"a\"") => {
            format!("HTTP/1.1 304 Not Modified\r\n{}\r\n\r\n", ALWAYS.replace('|', "\r\n")).into_bytes()
        }
        None => with("200 OK", ALWAYS, "0123456789"),
        Some("bytes=0-1") => with("206 Partial Content", &format!("{ALWAYS}|Content-Range: bytes 0-1/10"), "01"),
        Some("bytes=-2") => with("206 Partial Content", &format!("{ALWAYS}|Content-Range: bytes 8-9/10"), "89"),
        // As some applications do.
        Some("bytes=2-3") => with("200 OK", &format!("{ALWAYS}|Content-Range: bytes 2-3/10"), "23"),
        Some("bytes=0-1,0-1") => {
            let parts = "--x\r\n\r\n01\r\n--x\r\n\r\n01\r\n--x--";
            with("206 Partial Content", &format!("{ALWAYS}|Content-Type: multipart/byteranges; boundary=x"), parts)
        }
        Some("bytes=a-b") => with("400 Bad Request", ALWAYS, "no range"),
        Some("bytes=5-4") => with("404 Not Found", ALWAYS, "no such part"),
        Some(_) => with("416 Range Not Satisfiable", &format!("{ALWAYS}|Content-Range: bytes */10"), "no such part"),
    }
}

#[test]
fn a_part_is_not_stored_as_the_whole() {
    let ranges = [
        "Range: bytes=0-1",
        "Range: bytes=-2",
        "Range: bytes=2-3",
        "Range: bytes=0-1,0-1",
        "Range: bytes=a-b",
        "Range: bytes=5-4",
        "Range: bytes=100-",
        "Range: bytes=18446744073709551616-",
        "Range: lines=1-2",
        "Range: bytes=0-1|If-Range: \"a\"",
        "Range: bytes=0-1|If-Range: \"b\"",
        "Range: bytes=0-1|If-None-Match: \"a\"",
        "Range: bytes=100-|If-None-Match: \"a\"",
        "If-None-Match: \"a\"",
        "If-None-Match: *",
        "If-Modified-Since: Sun, 06 Nov 2094 08:49:37 GMT",
        "If-Match: \"b\"",
        "If-Unmodified-Since: Sun, 06 Nov 1984 08:49:37 GMT",
    ];
    for fields in ranges {
        for version in super::world::VERSIONS {
            for endpoint in super::world::VERSIONS {
                let world = World::new(endpoint, in_parts, "cache = true");
                world.ask(version, &get(fields));
                world.ask(version, &ask("HEAD /p", fields));
                let got = world.ask(version, &get(""));
                assert_eq!((got.status, &*got.body), (200, "0123456789"), "{fields}, {version:?} to {endpoint:?}");
            }
        }
    }
}

/// Answers requests that it does not like with errors, and calls all of them cacheable.
fn errors(request: &Message) -> Vec<u8> {
    const ALWAYS: &str = "Cache-Control: max-age=60|ETag: \"e\"";
    let has = |name: &str| request.field(name).is_some();
    let is_long = request.head.lines().any(|line| line.len() > 2000);
    match request.field("x-want") {
        _ if is_long => with("400 Bad Request", ALWAYS, "field too long"),
        Some(status) => with(&format!("{status} X"), ALWAYS, "as you want"),
        _ if has("x-evil") => with("403 Forbidden", ALWAYS, "firewall"),
        _ if has("expect") => with("417 Expectation Failed", ALWAYS, ""),
        _ if request.field("accept") == Some("a/b") => with("406 Not Acceptable", ALWAYS, ""),
        _ if has("authorization") => with("401 Unauthorized", &format!("{ALWAYS}|WWW-Authenticate: Basic"), ""),
        _ => with("200 OK", ALWAYS, "fine"),
    }
}

#[test]
fn errors_that_fields_of_one_request_provoke_are_for_that_request() {
    let long = format!("X-Long: {}", "x".repeat(8000));
    let mut attacks = vec![
        ("long field", get(&long), get("")),
        ("firewall", get("X-Evil: <script>"), get("")),
        ("type", get("Accept: a/b"), get("")),
        ("credentials", get("Authorization: Basic eDp5"), get("")),
    ];
    let statuses = [
        "400", "401", "402", "403", "406", "407", "408", "409", "411", "412", "413", "415", "416", "417", "418", "421",
        "422", "423", "424", "425", "426", "428", "429", "431", "499", "500", "502", "503", "504", "505", "507", "511",
        "599",
    ];
    attacks.extend(statuses.map(|status| (status, get(&format!("X-Want: {status}")), get(""))));
    victims_are_spared(errors, "cache = true", attacks);
}

#[test]
fn errors_without_a_stated_lifetime_are_stored_only_if_the_route_names_them() {
    fn silent(request: &Message) -> Vec<u8> {
        let status = request.field("x-want").unwrap_or("200");
        with(&format!("{status} X"), "ETag: \"e\"|Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT", status)
    }
    for status in ["400", "403", "404", "405", "410", "414", "431", "500", "501", "503"] {
        for (route, is_named) in [
            ("cache = { ttl = { \"200\" = '1m' } }", false),
            ("cache = { ttl = { \"4xx\" = '1m', \"5xx\" = '1m' } }", true),
        ] {
            let world = World::new(Version::H1, silent, route);
            world.ask(Version::H1, &get(&format!("X-Want: {status}")));
            let second = world.ask(Version::H1, &get(""));
            assert_eq!(second.is_hit(), is_named, "{status}");
        }
    }
}

#[test]
fn stale_responses_survive_errors_that_one_request_provokes() {
    fn then_errors(request: &Message) -> Vec<u8> {
        const STALE: &str = "Cache-Control: max-age=0, stale-if-error=600|ETag: \"e\"";
        match request.field("x-want") {
            Some(status) => with(&format!("{status} X"), "Cache-Control: max-age=60", "evil"),
            None if request.field("if-none-match").is_some() => with("503 X", "", "down"),
            None => with("200 OK", STALE, "fine"),
        }
    }
    let world = World::new(Version::H1, then_errors, "cache = true");
    assert_eq!(world.ask(Version::H1, &get("")).body, "fine");
    for status in ["400", "403", "431", "500", "503"] {
        world.ask(Version::H1, &get(&format!("X-Want: {status}")));
        assert_eq!(world.ask(Version::H1, &get("")).body, "fine", "{status}");
    }
}

#[test]
fn a_head_with_a_condition_of_its_own_does_not_renew_what_is_stored() {
    fn changed(request: &Message) -> Vec<u8> {
        match request.field("if-none-match") {
            // It names no tag, as it answers for the only one that was asked for.
            Some("\"new\"") => b"HTTP/1.1 304 Not Modified\r\nCache-Control: max-age=60\r\n\r\n".to_vec(),
            None if request.field("x-first").is_some() => {
                with("200 OK", "Cache-Control: max-age=0|ETag: \"old\"", "old")
            }
            _ if request.line().starts_with("HEAD") => b"HTTP/1.1 200 OK\r\nETag: \"new\"\r\n\r\n".to_vec(),
            _ => with("200 OK", "Cache-Control: max-age=0|ETag: \"new\"", "new"),
        }
    }
    let world = World::new(Version::H1, changed, "cache = true");
    world.ask(Version::H1, &get("X-First: 1"));
    world.ask(Version::H1, &ask("HEAD /p", "If-None-Match: \"new\""));
    assert_eq!(world.ask(Version::H1, &get("")).body, "new");
}

#[test]
fn http10_and_http11_clients_share_responses_but_no_framing() {
    let world = World::new(Version::H2, reflects, "cache = true");
    let first = world.ask(Version::H1, &get(""));
    let mut old = Client::connect(world.proxy.addr());
    old.send("GET /p HTTP/1.0\r\nHost: a\r\n\r\n");
    let rest = String::from_utf8(old.rest()).expect("text");
    assert!(rest.ends_with(&first.body) && !rest.to_lowercase().contains("transfer-encoding"), "{rest}");
}

#[test]
fn tunnels_and_calls_pass_by() {
    fn upgrades(request: &Message) -> Vec<u8> {
        match request.field("upgrade") {
            Some(_) => b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nCache-Control: max-age=60\r\n\r\n".to_vec(),
            None => reflects(request),
        }
    }
    let world = World::new(Version::H1, upgrades, "cache = true");
    let mut client = world.proxy.client();
    client.send("GET /p HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
    assert!(client.head().starts_with("HTTP/1.1 101"));
    drop(client);
    assert_eq!(world.ask(Version::H1, &get("")).status, 200);
    assert!(world.ask(Version::H1, &get("")).is_hit());
    let mut refused = world.proxy.client();
    refused.send("GET /p HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
    assert!(refused.head().starts_with("HTTP/1.1 101"), "a stored response must not answer it");
    let call = ask("POST /p", "Content-Type: application/grpc|Te: trailers").body("\0\0\0\0\0");
    all_fail(reflects, "cache = true", vec![("a call", call, get(""))]);
}
