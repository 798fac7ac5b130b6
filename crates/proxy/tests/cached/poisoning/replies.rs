//! Responses: renewals that change whose they are, fields that are for one hop, odd spellings of what forbids storing, and
//! the ends of stored responses.

use super::world::{Ask, Got, VERSIONS, Version, World, all_fail, ask, get, reflects, seen, with};
use crate::support::h2_server::H2Server;
use crate::support::message::Message;
use crate::support::{Endpoint, Proxy, wait_until};

/// A page with a tag that is always stale, and a 304 with what `X-Says` of the request says.
fn renewed(request: &Message) -> Vec<u8> {
    match (request.field("if-none-match"), request.field("x-says")) {
        (Some("\"a\""), Some(says)) => {
            format!("HTTP/1.1 304 Not Modified\r\n{}\r\n\r\n", says.replace('~', "\r\n")).into_bytes()
        }
        (Some("\"a\""), None) => b"HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\n\r\n".to_vec(),
        _ => with("200 OK", "Cache-Control: max-age=0|ETag: \"a\"", "page"),
    }
}

#[test]
fn a_renewal_gives_others_nothing_of_its_client() {
    for says in [
        "ETag: \"a\"~Cache-Control: max-age=60~Set-Cookie: session=evil",
        "ETag: \"a\"~Cache-Control: max-age=60~Set-Cookie2: session=evil",
        "ETag: \"a\"~Cache-Control: private, max-age=60~X-Personal: evil",
        "ETag: \"a\"~Cache-Control: no-store~X-Personal: evil",
        "ETag: \"a\"~Cache-Control: max-age=60, private=\"X-Personal\"~X-Personal: evil",
        "ETag: \"a\"~Cache-Control: max-age=60~Vary: *~X-Personal: evil",
        "ETag: \"a\"~Cache-Control: max-age=60~Vary: X-Says~X-Personal: evil",
        "ETag: \"b\"~Cache-Control: max-age=60~X-Personal: evil",
        "ETag: W/\"b\"~Cache-Control: max-age=60~X-Personal: evil",
        "ETag: \"a\"~Cache-Control: max-age=60~Connection: X-Personal~X-Personal: evil",
        "ETag: \"a\"~Cache-Control: max-age=60; private~X-Personal: evil",
    ] {
        for version in VERSIONS {
            let world = World::new(Version::H1, renewed, "cache = true");
            world.ask(version, &get(""));
            let own = world.ask(version, &get(&format!("X-Says: {says}")));
            assert_eq!((own.status, &*own.body), (200, "page"), "{says}, {version:?}");
            let other = world.ask(version, &get(""));
            assert_eq!((other.status, &*other.body), (200, "page"), "{says}, {version:?}");
            assert!(!format!("{other:?}").contains("evil"), "{says}, {version:?}: {other:?}");
        }
    }
}

#[test]
fn a_renewal_of_a_guarded_page_is_for_its_client() {
    fn guarded(request: &Message) -> Vec<u8> {
        let user = request.field("authorization").unwrap_or("nobody");
        match request.field("if-none-match") {
            Some(_) if user != "nobody" => format!(
                "HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\nCache-Control: max-age=60\r\nX-User: {user}\r\n\r\n"
            )
            .into(),
            _ => with("200 OK", "Cache-Control: max-age=0|ETag: \"a\"", "page"),
        }
    }
    let world = World::new(Version::H1, guarded, "cache = true");
    world.ask(Version::H1, &get(""));
    world.ask(Version::H1, &get("Authorization: Bearer ann"));
    let other = world.ask(Version::H1, &get(""));
    assert!(!other.is_hit() && other.field("x-user").is_none(), "{other:?}");
}

/// Response to a second request, after a first one was answered by this response.
fn second(response: &'static [u8]) -> Got {
    let endpoint = Endpoint::answering(|_| response.to_vec());
    let proxy = Proxy::with(&[endpoint.addr], "h2c = true", "", "[[route]]\npool = 'web'\ncache = true\n");
    for _ in 0..2 {
        let mut client = proxy.client();
        client.send("GET /p HTTP/1.1\r\nHost: a\r\nTE: trailers\r\n\r\n");
        while client.response().status() < 200 {}
        // The first response is stored once its last byte was there.
        wait_until("the request has ended", || proxy.in_flight() == 0);
    }
    let mut client = proxy.client();
    Got::of(&client.send("GET /p HTTP/1.1\r\nHost: a\r\nTE: trailers\r\n\r\n").response())
}

#[test]
fn what_is_for_one_hop_or_one_client_is_not_stored() {
    for response in [
        &b"HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nConnection: X-Secret, close\r\nX-Secret: 1\r\nContent-Length: 1\r\n\r\nx"[..],
        b"HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nKeep-Alive: X-Secret\r\nContent-Length: 1\r\n\r\nx",
        b"HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nProxy-Authenticate: X-Secret\r\nContent-Length: 1\r\n\r\nx",
        b"HTTP/1.1 200 OK\r\nCache-Control: max-age=60, private=\"X-Secret\"\r\nX-Secret: 1\r\nContent-Length: 1\r\n\r\nx",
        b"HTTP/1.1 200 OK\r\nCache-Control: max-age=60, no-cache=X-Secret\r\nX-Secret: 1\r\nContent-Length: 1\r\n\r\nx",
        b"HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nTrailer: X-Secret\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\nX-Secret: 1\r\n\r\n",
        b"HTTP/1.1 103 Early Hints\r\nX-Secret: 1\r\n\r\nHTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 1\r\n\r\nx",
        b"HTTP/1.1 100 Continue\r\nX-Secret: 1\r\n\r\nHTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 1\r\n\r\nx",
    ] {
        let got = second(response);
        assert!(got.is_hit() && got.body == "x", "{got:?}");
        assert!(got.fields.iter().all(|(name, value)| name != "x-secret" && value != "1"), "{got:?}");
    }
}

#[test]
fn trailers_of_http2_are_not_stored_and_change_nothing() {
    let endpoint = H2Server::start(|mut exchange| async move {
        exchange.read().await;
        let trailers = [("set-cookie", "session=evil"), ("cache-control", "no-store"), ("x-secret", "1")];
        exchange.reply(200, &[("cache-control", "max-age=60")], b"x", &trailers).await;
    });
    let proxy =
        Proxy::with(&[endpoint.addr], "h2c = true", "protocol = 'h2'", "[[route]]\npool = 'web'\ncache = true\n");
    proxy.client().get("/p");
    let hit = proxy.client().get("/p");
    assert!(hit.field("cache-status").is_some_and(|status| status.contains("hit")));
    assert!(!hit.head.contains("secret") && !String::from_utf8_lossy(&hit.wire).contains("secret"), "{hit:?}");
}

/// Fields of responses that must not be stored, whatever the route's lifetimes are.
const FORBIDDEN: &[&str] = &[
    "Cache-Control: private",
    "Cache-Control: no-store",
    "cache-control: PRIVATE",
    "CACHE-CONTROL: No-Store",
    "Cache-Control: max-age=60, private",
    "Cache-Control: max-age=60|Cache-Control: private",
    "Cache-Control: max-age=60,,private,",
    "Cache-Control: \tprivate\t",
    "Cache-Control: private=",
    "Cache-Control: private=\"\"",
    "Cache-Control: private=\"a b\"",
    "Cache-Control: private=\"",
    "Cache-Control: no-store=1",
    "Cache-Control: private; max-age=60",
    "Cache-Control: max-age=60; private",
    "Cache-Control: max-age=60;private",
    "Cache-Control: max-age=60 private",
    "Cache-Control: no-store no-cache max-age=60",
    "Cache-Control: no-cache, no-store, must-revalidate",
    "Cache-Control: public, private, max-age=60",
    "Cache-Control: public, no-store, max-age=60",
    "Cache-Control: max-age=60, ext=\"a, private",
    "Cache-Control: max-age=60, ext=\"a\"private",
    "Cache-Control: s-maxage=60, private",
    "Cache-Control: max-age=60, no-store|Expires: Sun, 06 Nov 2094 08:49:37 GMT",
    "Cache-Control: no-store, must-understand, private",
    "CDN-Cache-Control: private",
    "CDN-Cache-Control: no-store|Cache-Control: public, max-age=60",
    "CDN-Cache-Control: private; max-age=60|Cache-Control: private",
    "CDN-Cache-Control: |Cache-Control: private",
    "CDN-Cache-Control: max-age=\"60\"|Cache-Control: private",
    "Vary: *",
    "Set-Cookie: session=1",
];

#[test]
fn what_forbids_storing_is_found_in_every_spelling() {
    fn says(request: &Message) -> Vec<u8> {
        with("200 OK", &request.field("x-says").unwrap_or_default().replace('~', "|"), &seen(request))
    }
    let route = "cache = { ttl = { \"2xx\" = '10m' }, min_ttl = '1m', heuristics = true, stale_if_error = '1h', \
                 stale_while_revalidate = '1h' }";
    for fields in FORBIDDEN {
        let first = get(&format!("X-Says: {}|X-User: ann", fields.replace('|', "~")));
        for endpoint in VERSIONS {
            let world = World::new(endpoint, says, route);
            world.ask(Version::H1, &first);
            let got = world.ask(Version::H1, &get("X-Says: Cache-Control: no-store|X-User: evil"));
            assert!(!got.is_hit() && !got.body.contains("ann"), "{fields}, {endpoint:?}: {got:?}");
        }
    }
}

#[test]
fn what_has_expired_is_not_served() {
    const NEVER: &str = "Date: Sun, 06 Nov 2094 08:49:37 GMT";
    fn says(request: &Message) -> Vec<u8> {
        with("200 OK", &request.field("x-says").unwrap_or_default().replace('~', "|"), "page")
    }
    let until = "Expires: Sun, 06 Nov 1994 08:49:37 GMT".to_string();
    for fields in [
        "Cache-Control: max-age=60|Age: 60".to_string(),
        "Cache-Control: max-age=60|Age: 99999999999999999999".into(),
        "Cache-Control: max-age=60|Age: 61, 0".into(),
        "Cache-Control: max-age=-1".into(),
        "Cache-Control: max-age=6e9".into(),
        "Cache-Control: max-age = 60".into(),
        "Cache-Control: max-age=\"60".into(),
        "Cache-Control: max-age=0, max-age=60".into(),
        "Cache-Control: s-maxage=0, max-age=60".into(),
        "Cache-Control: max-age=60|Date: Sun, 06 Nov 1994 08:49:37 GMT".into(),
        "Expires: 0".into(),
        "Expires: -1".into(),
        "Expires: tomorrow".into(),
        until.clone(),
        format!("{until}|{NEVER}"),
        format!("{NEVER}|Expires: Sun, 06 Nov 2094 08:49:37 GMT"),
        format!("Expires: Sun, 06 Nov 2094 08:49:37 GMT|{until}"),
        "Cache-Control: no-cache, max-age=60".into(),
        "Pragma: no-cache".into(),
    ] {
        let world = World::new(Version::H1, says, "cache = true");
        let ask = get(&format!("X-Says: {}", fields.replace('|', "~")));
        world.ask(Version::H1, &ask);
        assert!(!world.ask(Version::H1, &ask).is_hit(), "{fields}");
    }
}

#[test]
fn unsafe_requests_end_what_is_stored_of_their_own_host_alone() {
    fn posts(request: &Message) -> Vec<u8> {
        match request.field("x-location") {
            Some(location) if request.line().starts_with("POST") => {
                with("303 See Other", &format!("Location: {location}|Content-Location: {location}"), "")
            }
            None if request.line().starts_with("PURGE") => with("405 Method Not Allowed", "", ""),
            _ => with("200 OK", "Cache-Control: max-age=60", &seen(request)),
        }
    }
    let world = World::new(Version::H1, posts, "cache = true");
    let victim = get("").host("b");
    let is_hit = |ask: &Ask| world.ask(Version::H1, ask).is_hit();
    is_hit(&victim);
    for location in [
        "http://b/p",
        "//b/p",
        "http://a@b/p",
        "http://a:80@b/p",
        "https://b/p",
        "http://a\\@b/p",
        "/\\b/p",
        "http:b/p",
        "//b:80/p",
    ] {
        world.ask(Version::H1, &ask("POST /q", &format!("X-Location: {location}")));
        assert!(is_hit(&victim), "{location}");
    }
    for line in ["POST /p", "PURGE /p", "DELETE /p", "BAN /p", "PURGE /", "PURGE *"] {
        world.ask(Version::H1, &ask(line, ""));
        assert!(is_hit(&victim), "{line}");
    }
    // An error changes nothing, and its sender ends nothing by it.
    world.ask(Version::H1, &ask("PURGE /p", "").host("b"));
    assert!(is_hit(&victim));
    world.ask(Version::H1, &ask("POST /p", "").host("b"));
    assert!(!is_hit(&victim));
}

#[test]
fn filters_change_stored_responses_as_they_change_those_of_endpoints() {
    fn moved(_: &Message) -> Vec<u8> {
        with("301 Moved Permanently", "Cache-Control: max-age=60|Location: /q|Set-Cookie: a=1; Path=/", "")
    }
    let route = "match = { prefix = '/x' }\nstrip_prefix = true\nrestore_prefix = true\ncache = { set_cookie = 'store' }\n\
                 cookies = { secure = true, http_only = true }\nresponse_headers = { set = { X-Frame-Options = 'DENY' } }";
    let same = || ask("GET /x/p", "");
    all_fail(moved, route, vec![("itself", same(), same())]);
    let world = World::new(Version::H1, moved, route);
    for is_hit in [false, true] {
        let got = world.ask(Version::H1, &same());
        assert_eq!((got.is_hit(), got.field("location")), (is_hit, Some("/x/q")));
        assert!(got.field("set-cookie").is_some_and(|cookie| cookie.contains("Path=/x") && cookie.contains("Secure")));
    }
}

#[test]
fn a_validation_behind_a_stale_response_is_as_others_would_ask() {
    fn again(request: &Message) -> Vec<u8> {
        let of = if request.field("if-none-match").is_some() { "again" } else { "first" };
        let fields = "Cache-Control: max-age=0, stale-while-revalidate=600|ETag: \"a\"";
        with("200 OK", fields, &format!("{of} {}", seen(request).replace("if-none-match: \"a\"|", "")))
    }
    for attacker in [
        "X-Host: evil",
        "X-Original-URL: /evil",
        "Range: bytes=0-0",
        "If-None-Match: \"evil\"",
        "If-Range: \"evil\"|Range: bytes=0-",
    ] {
        for version in VERSIONS {
            let world = World::new(version, again, "cache = true");
            let first = world.ask(version, &get("")).body;
            world.ask(version, &get(attacker));
            wait_until("the new response is stored", || world.ask(version, &get("")).body != first);
            assert_eq!(world.ask(version, &get("")).body, first.replace("first", "again"), "{attacker}, {version:?}");
        }
    }
}

#[test]
fn a_validation_behind_a_stale_response_stores_nothing_of_its_user() {
    fn again(request: &Message) -> Vec<u8> {
        let user = request.field("authorization").unwrap_or("nobody");
        with("200 OK", "Cache-Control: max-age=0, stale-while-revalidate=600|ETag: \"a\"", &format!("page of {user}"))
    }
    let world = World::new(Version::H1, again, "cache = true");
    world.ask(Version::H1, &get(""));
    // It may be served what all are; what comes for it behind that is for it alone.
    assert_eq!(world.ask(Version::H1, &get("Authorization: Bearer ann")).body, "page of nobody");
    wait_until("it was asked", || world.answered() == 2 && world.proxy.in_flight() == 0);
    for _ in 0..3 {
        assert_eq!(world.ask(Version::H1, &get("")).body, "page of nobody");
    }
}

#[test]
fn an_error_behind_a_stale_response_ends_nothing() {
    fn wanted(request: &Message) -> Vec<u8> {
        let fields = "Cache-Control: max-age=0, stale-while-revalidate=600|ETag: \"a\"";
        match request.field("x-want") {
            Some(status) => with(&format!("{status} X"), "Cache-Control: max-age=60", "evil"),
            None => with("200 OK", fields, "page"),
        }
    }
    for status in ["400", "403", "431", "500", "503"] {
        let world = World::new(Version::H1, wanted, "cache = true");
        world.ask(Version::H1, &get(""));
        world.ask(Version::H1, &get(&format!("X-Want: {status}")));
        wait_until("it was asked", || world.answered() == 2 && world.proxy.in_flight() == 0);
        let got = world.ask(Version::H1, &get(""));
        assert!(got.is_hit() && got.body == "page", "{status}: {got:?}");
    }
}

#[test]
fn another_plan_does_not_read_what_is_stored_in_another_way() {
    let endpoint = Endpoint::answering(reflects);
    let config = |cache: &str| {
        format!(
            "[runtime]\nworkers = 1\n[listener.web]\nbind = ['$BIND']\n[pool.web]\nendpoints = ['{}']\n\
             [[route]]\nname = 'r'\npool = 'web'\ncache = {cache}\n",
            endpoint.addr
        )
    };
    let mut proxy = Proxy::start(&config("{ headers = ['x-a'] }"));
    let of = |proxy: &Proxy, fields: &str| {
        proxy.client().send(format!("GET /p HTTP/1.1\r\nHost: a\r\n{fields}\r\n\r\n")).response().body_text()
    };
    assert!(of(&proxy, "X-A: 1").contains("x-a: 1"));
    proxy.reload(&config("{ headers = ['x-b'] }")).expect("a good plan");
    assert!(of(&proxy, "X-B: 1").contains("x-b: 1"));
    proxy.reload(&config("true")).expect("a good plan");
    assert!(!of(&proxy, "X-C: 1").contains("x-b"));
}
