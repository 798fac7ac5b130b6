//! `compress` of routes: what clients get, over all protocols on either side, and what endpoints are asked.

#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "a test is no worker: it may lock and wait")]

use crate::support::decoder::{Decoder, decoded};
use crate::support::endpoint::status;
use crate::support::h2_client::{DATA, H2Client, HEADERS};
use crate::support::h2_server::H2Server;
use crate::support::h3_client;
use crate::support::{Endpoint, Proxy, wait_until};
use evenkeel_proxy::stats::RouteStats;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, mpsc};

/// Codings, as clients name them.
pub(super) const CODINGS: [&str; 3] = ["zstd", "br", "gzip"];

const ALL: &str = "compress = { algorithms = ['zstd', 'br', 'gzip'] }";

/// Status, fields and body of a response, as sent.
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) fields: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
}

impl Answer {
    /// Values of a field, joined; `-` without it.
    pub(super) fn field(&self, name: &str) -> String {
        let named = self.fields.iter().filter(|(known, _)| known == name).map(|(_, value)| value.as_str());
        let values: Vec<&str> = named.collect();
        if values.is_empty() { "-".into() } else { values.join(" | ") }
    }

    pub(super) fn coding(&self) -> Option<&str> {
        self.fields.iter().find(|(name, _)| name == "content-encoding").map(|(_, value)| value.as_str())
    }

    fn text(&self) -> String {
        String::from_utf8(decoded(self.coding(), &self.body)).expect("text")
    }
}

/// Sends a request without a body over the protocol of this client.
pub(super) fn ask(client: &str, proxy: &Proxy, method: &str, path: &str, fields: &[(&str, &str)]) -> Answer {
    if client == "h1" {
        let lines: String = fields.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let mut client = proxy.client();
        client.send(format!("{method} {path} HTTP/1.1\r\nHost: a\r\n{lines}\r\n"));
        let (head, body) = if method == "HEAD" {
            (client.head(), Vec::new())
        } else {
            let response = client.response();
            (response.head, response.body)
        };
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
        let fields = head.lines().skip(1).filter_map(|line| line.split_once(": "));
        let fields = fields.map(|(name, value)| (name.to_lowercase(), value.trim().to_string())).collect();
        return Answer { status, fields, body };
    }
    if client == "h3" {
        let answer = h3_client::ask_now(proxy, method, path, fields);
        assert_eq!((answer.reset, answer.closed), (None, None), "{method} {path}");
        let status = answer.status();
        return Answer { status, fields: answer.heads.into_iter().next().unwrap_or_default(), body: answer.body };
    }
    let names: Vec<(String, &str)> = fields.iter().map(|(name, value)| (name.to_lowercase(), *value)).collect();
    let mut head = vec![(":method", method), (":scheme", "http"), (":path", path), (":authority", "a")];
    head.extend(names.iter().map(|(name, value)| (&**name, *value)));
    let mut client = H2Client::connect(proxy.addr());
    client.head(1, &head, true);
    let answer = client.answer(1);
    assert_eq!((answer.reset, answer.goaway), (None, None), "{method} {path}");
    Answer { status: answer.status(), fields: answer.heads.first().cloned().unwrap_or_default(), body: answer.body }
}

pub(super) fn proxy(endpoint: SocketAddr, pool: &str, routes: &str) -> Proxy {
    Proxy::start(&format!(
        "[runtime]\nworkers = 1\n[telemetry.explain]\nsample = 1\n[listener.web]\nbind = ['$BIND']\nh2c = true\n\
         errors = 'detailed'\n{}[pool.web]\nendpoints = ['{endpoint}']\n{pool}\n{routes}",
        h3_client::secure("web", "")
    ))
}

pub(super) fn route(keys: &str) -> String {
    format!("[[route]]\npool = 'web'\n{keys}\n")
}

pub(super) fn text(n: usize) -> String {
    (0..n).map(|i| format!("line {} of some text that repeats itself, {}\n", i, i * 7919 % 1009)).collect()
}

/// Fields of the endpoints' response.
const SENT: [(&str, &str); 6] = [
    ("content-type", "text/html; charset=utf-8"),
    ("etag", "\"v1\""),
    ("vary", "Origin"),
    ("accept-ranges", "bytes"),
    ("repr-digest", "sha-256=:AA==:"),
    ("x-other", "1"),
];

/// Response of an endpoint of HTTP/1.
pub(super) fn html(fields: &[(&str, &str)], body: &str) -> Vec<u8> {
    let lines: String = fields.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n{lines}\r\n{body}", body.len()).into_bytes()
}

#[test]
fn each_client_gets_the_coding_that_it_prefers_whatever_both_sides_speak() {
    let body = Arc::new(text(4000));
    let (of_h1, of_h2) = (body.clone(), body.clone());
    let h1 = Endpoint::answering(move |_| html(&SENT, &of_h1));
    let h2 = H2Server::start(move |mut exchange| {
        let body = of_h2.clone();
        async move {
            if exchange.request.method() == "HEAD" {
                return exchange.reply(200, &SENT, b"", &[]).await;
            }
            exchange.reply(200, &SENT, body.as_bytes(), &[("x-trailer", "t"), ("digest", "x")]).await;
        }
    });
    for (addr, pool) in [(h1.addr, ""), (h2.addr, "protocol = 'h2'")] {
        let proxy = proxy(addr, pool, &route(ALL));
        for client in ["h1", "h2", "h3"] {
            let mut lengths = Vec::new();
            for (accepts, coding) in [
                ("gzip, deflate, br, zstd", Some("zstd")),
                ("br, gzip;q=0.9", Some("br")),
                ("x-gzip", Some("gzip")),
                ("deflate", None),
                ("gzip;q=0, identity;q=0", None),
            ] {
                let at = format!("{client} {pool} {accepts}");
                let answer = ask(client, &proxy, "GET", "/", &[("Accept-Encoding", accepts)]);
                assert_eq!((answer.status, answer.coding()), (200, coding), "{at}");
                assert!(answer.text() == *body, "{at}");
                assert_eq!(answer.field("vary"), "Origin, Accept-Encoding", "{at}");
                assert_eq!(answer.field("x-other"), "1", "{at}");
                let tag = coding.map_or("\"v1\"".into(), |coding| format!("\"v1-{coding}\""));
                let gone = if coding.is_some() { "-" } else { "bytes" };
                assert_eq!((answer.field("etag"), answer.field("accept-ranges")), (tag, gone.into()), "{at}");
                assert_eq!(answer.field("content-length") == "-", coding.is_some() || addr == h2.addr, "{at}");
                assert_eq!(answer.field("repr-digest") == "-", coding.is_some(), "{at}");
                lengths.push(answer.body.len());
                let head = ask(client, &proxy, "HEAD", "/", &[("Accept-Encoding", accepts)]);
                for name in ["content-encoding", "vary", "etag", "accept-ranges"] {
                    assert_eq!(head.field(name), answer.field(name), "{at} {name}");
                }
            }
            assert!(lengths[..3].iter().all(|len| len * 4 < body.len()), "{lengths:?}");
        }
    }
}

/// The memory is that of less than one usual compressor, but for gzip.
#[test]
fn without_memory_a_body_gets_what_there_is_room_for_and_at_last_no_coding() {
    let body = Arc::new(text(2000));
    let sent = body.clone();
    let endpoint = Endpoint::answering(move |request| {
        if request.line().contains("/known") {
            return html(&SENT, &sent);
        }
        let lines: String = SENT.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let (head, len) = ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n", sent.len());
        format!("{head}{lines}\r\n{len:x}\r\n{sent}\r\n0\r\n\r\n").into_bytes()
    });
    let start = |memory: &str| {
        Proxy::start(&format!(
            "[runtime]\nworkers = 1\ncompression_memory = '{memory}'\n[listener.web]\nbind = ['$BIND']\nh2c = true\n\
             [pool.web]\nendpoints = ['{}']\n{}",
            endpoint.addr,
            route("compress = { algorithms = ['zstd', 'br', 'gzip'], level = { br = 5 } }")
        ))
    };
    let proxy = start("1MiB");
    for client in ["h1", "h2"] {
        for (path, accepts, coding) in [
            ("/known", "zstd", Some("zstd")),
            ("/open", "zstd", None),
            ("/open", "zstd, gzip", Some("gzip")),
            ("/open", "br, gzip;q=0.5", Some("gzip")),
            ("/known", "br", None),
            ("/open", "gzip", Some("gzip")),
        ] {
            let at = format!("{client} {path} {accepts}");
            let answer = ask(client, &proxy, "GET", path, &[("Accept-Encoding", accepts)]);
            assert_eq!((answer.status, answer.coding()), (200, coding), "{at}");
            assert!(answer.text() == *body, "{at}");
            assert_eq!(answer.field("vary"), "Origin, Accept-Encoding", "{at}");
            let tag = coding.map_or("\"v1\"".into(), |coding| format!("\"v1-{coding}\""));
            assert_eq!(answer.field("etag"), tag, "{at}");
            wait_until("its memory is given back", || proxy.metrics().contains("compression_memory_bytes 0\n"));
            assert_eq!(coding.is_some(), answer.body.len() * 3 < body.len(), "{at}");
        }
    }
    let metrics = proxy.metrics();
    for (outcome, n) in [("small_window", 4), ("identity", 4), ("stored", 0), ("given_up", 0)] {
        let line = format!("evenkeel_http_compression_memory_lacks_total{{outcome=\"{outcome}\"}} {n}");
        assert!(metrics.contains(&line), "{line}: {metrics}");
    }
}

#[test]
fn responses_that_must_not_be_compressed_pass_as_they_are() {
    let long = text(100);
    let cases: Vec<(&str, Vec<u8>)> = vec![
        ("/coded", html(&[("content-type", "text/css"), ("content-encoding", "br")], &long)),
        ("/fixed", html(&[("content-type", "text/css"), ("cache-control", "max-age=1, no-transform")], &long)),
        ("/image", html(&[("content-type", "image/png")], &long)),
        ("/untyped", html(&[], &long)),
        ("/short", html(&[("content-type", "text/css")], &long[..1023])),
        ("/grpc", html(&[("content-type", "application/grpc-web+proto")], &long)),
        (
            "/part",
            String::from_utf8(html(&[("content-type", "text/css"), ("content-range", "bytes 0-9/99")], &long))
                .expect("text")
                .replacen("200 OK", "206 Partial Content", 1)
                .into_bytes(),
        ),
        ("/none", b"HTTP/1.1 204 No Content\r\ncontent-type: text/css\r\n\r\n".to_vec()),
    ];
    let answers = cases.clone();
    let endpoint = Endpoint::answering(move |request| {
        let path = request.line().split(' ').nth(1).unwrap_or_default();
        answers.iter().find(|(known, _)| *known == path).map(|(_, answer)| answer.clone()).unwrap_or_default()
    });
    let proxy = proxy(endpoint.addr, "", &route("compress = { types = ['text/*', 'application/*'] }"));
    for client in ["h1", "h2"] {
        for (path, _) in &cases {
            let answer = ask(client, &proxy, "GET", path, &[("Accept-Encoding", "gzip")]);
            let coding = if *path == "/coded" { Some("br") } else { None };
            assert_eq!((answer.coding(), answer.field("vary")), (coding, "-".into()), "{client} {path}");
            if answer.status == 200 {
                let length = if *path == "/short" { 1023 } else { long.len() };
                assert_eq!((answer.body.len(), answer.field("content-length")), (length, length.to_string()), "{path}");
            }
        }
    }
}

#[test]
fn a_request_may_forbid_it_and_a_client_of_http_1_0_gets_no_chunks() {
    let endpoint = Endpoint::answering(|_| html(&[("content-type", "text/css")], &text(100)));
    let proxy = proxy(endpoint.addr, "", &route("compress = true"));
    let fields = [("Accept-Encoding", "gzip"), ("Cache-Control", "no-transform")];
    let answer = ask("h1", &proxy, "GET", "/", &fields);
    assert_eq!((answer.coding(), answer.field("vary")), (None, "Accept-Encoding".into()));
    let mut old = proxy.client();
    let response = old.send("GET / HTTP/1.0\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n").response();
    assert_eq!((response.field("content-encoding"), response.body_text() == text(100)), (None, true));
}

#[test]
fn conditions_with_tags_of_compressed_responses_are_understood_by_the_endpoint() {
    let endpoint = Endpoint::answering(|request| {
        let asked = request.field("if-none-match").unwrap_or_default().to_string();
        let names = |tag: &str| asked.split(", ").any(|named| named == tag);
        match request.line().split(' ').next() {
            Some("PUT") => status("200 OK", request.field("if-match").unwrap_or("-")),
            _ if names("\"v1\"") => b"HTTP/1.1 304 Not Modified\r\nETag: \"v1\"\r\nVary: Origin\r\n\r\n".to_vec(),
            _ => html(&[("content-type", "text/css"), ("etag", "\"v1\"")], &text(100)),
        }
    });
    let proxy = proxy(endpoint.addr, "", &route(ALL));
    for client in ["h1", "h2"] {
        let get = |accepts: &str, tag: &str| {
            let answer = ask(client, &proxy, "GET", "/", &[("Accept-Encoding", accepts), ("If-None-Match", tag)]);
            (answer.status, answer.field("etag"), answer.field("vary"))
        };
        let vary = || "Origin, Accept-Encoding".to_string();
        assert_eq!(get("gzip", "\"v1-gzip\""), (304, "\"v1-gzip\"".into(), vary()), "{client}");
        assert_eq!(get("gzip", "\"v1\""), (304, "\"v1\"".into(), vary()), "the plain one is still right");
        assert_eq!(get("br", "\"v1-gzip\"").0, 200, "a client that accepts another coding now gets that");
        assert_eq!(get("deflate", "\"v1-gzip\""), (200, "\"v1\"".into(), "Accept-Encoding".into()));
        assert_eq!(get("br", "\"v1-gzip\", \"v1-br\"").1, "\"v1-br\"");
    }
    let put = |fields: &[(&str, &str)]| ask("h1", &proxy, "PUT", "/", fields).text();
    assert_eq!(put(&[("If-Match", "\"v1-gzip\"")]), "\"v1\", \"v1-gzip\"");
    assert_eq!(put(&[("If-Match", "\"v1-gzip\""), ("Range", "bytes=0-1")]), "\"v1-gzip\"");
    assert_eq!(put(&[("If-Match", "*")]), "*");
}

#[test]
fn what_is_stored_is_compressed_for_clients_and_own_responses_too() {
    let body = text(20_000);
    let sent = body.clone();
    let endpoint = Endpoint::answering(move |request| match request.line().split(' ').nth(1) {
        Some("/down") => status("503 Service Unavailable", "down"),
        _ => html(&[("content-type", "text/css"), ("cache-control", "max-age=60"), ("etag", "\"s\"")], &sent),
    });
    let page = text(30);
    let own = format!(
        "[[route]]\nmatch = {{ path = '/own' }}\nrespond = {{ status = 200, body = '''{}''', type = 'text/plain' }}\n\
         compress = true\n[[route]]\nmatch = {{ path = '/no' }}\nrespond = 403\ncompress = true\n",
        &page[..1020]
    );
    let proxy = proxy(endpoint.addr, "", &(route("compress = { min_length = '100B' }\ncache = true") + &own));
    for client in ["h1", "h2"] {
        for coding in CODINGS {
            let get = |fields: &[(&str, &str)]| ask(client, &proxy, "GET", "/", fields);
            let answer = get(&[("Accept-Encoding", coding)]);
            assert_eq!((answer.status, answer.coding()), (200, Some(coding)), "{client}");
            assert!(answer.text() == body, "{client} {coding}");
            let tag = format!("\"s-{coding}\"");
            let again = get(&[("Accept-Encoding", coding), ("If-None-Match", &tag)]);
            assert_eq!((again.status, again.field("etag")), (304, tag), "{client}");
            let head = ask(client, &proxy, "HEAD", "/", &[("Accept-Encoding", coding)]);
            assert_eq!(head.coding(), Some(coding), "{client}");
        }
        assert_eq!(ask(client, &proxy, "GET", "/no", &[("Accept-Encoding", "gzip")]).coding(), None, "{client}");
    }
    assert_eq!(endpoint.seen().len(), 1, "all but the first came from the cache");
    let part = ask("h1", &proxy, "GET", "/", &[("Accept-Encoding", "gzip"), ("Range", "bytes=5-8")]);
    assert_eq!((part.status, part.coding(), &*part.body), (206, None, &body.as_bytes()[5..9]));
}

/// Endpoint that sends what the test gives it, and ends then.
fn fed(head: &'static str) -> (Endpoint, mpsc::Sender<String>) {
    let (give, given) = mpsc::channel::<String>();
    let given = Mutex::new(given);
    let endpoint = Endpoint::start(move |conn| {
        while conn.request().is_some() {
            conn.send(head);
            for event in given.lock().expect("no panic").iter().take_while(|event| !event.is_empty()) {
                conn.send(format!("{:x}\r\n{event}\r\n", event.len()));
            }
            conn.send("0\r\n\r\n");
        }
    });
    (endpoint, give)
}

#[test]
fn each_event_can_be_read_before_the_next_one_is_sent() {
    for media_type in ["text/event-stream", "text/html"] {
        let head: &'static str =
            format!("HTTP/1.1 200 OK\r\nContent-Type: {media_type}\r\nTransfer-Encoding: chunked\r\n\r\n").leak();
        let (endpoint, give) = fed(head);
        let proxy = proxy(endpoint.addr, "", &route(ALL));
        for coding in CODINGS {
            let events = || (0..20).map(|n| format!("data: event {n} of {coding}\n\n{}", " ".repeat(n * n * 9)));
            let mut h1 = proxy.client();
            h1.send(format!("GET / HTTP/1.1\r\nHost: a\r\nAccept-Encoding: {coding}\r\n\r\n"));
            let (mut decoder, mut sent) = (Decoder::new(Some(coding)), String::new());
            for (n, event) in events().enumerate() {
                give.send(event.clone()).expect("the endpoint waits");
                if n == 0 {
                    assert!(h1.head().to_lowercase().contains(&format!("content-encoding: {coding}\r\n")));
                }
                sent += &event;
                while decoder.push(&[]).len() < sent.len() {
                    let size = h1_line(&mut h1);
                    let chunk = h1.bytes(usize::from_str_radix(&size, 16).expect("a size"));
                    decoder.push(&chunk);
                    assert_eq!(h1_line(&mut h1), "");
                }
                assert!(decoder.push(&[]) == sent.as_bytes(), "{coding} {n}");
            }
            give.send(String::new()).expect("the endpoint waits");

            let mut h2 = H2Client::connect(proxy.addr());
            let fields = [
                (":method", "GET"),
                (":scheme", "http"),
                (":path", "/"),
                (":authority", "a"),
                ("accept-encoding", coding),
            ];
            h2.head(1, &fields, true);
            let (mut decoder, mut sent) = (Decoder::new(Some(coding)), String::new());
            for (n, event) in events().enumerate() {
                give.send(event.clone()).expect("the endpoint waits");
                if n == 0 {
                    h2.next(HEADERS).expect("a head");
                    assert!(h2.head.contains(&("content-encoding".into(), coding.into())), "{:?}", h2.head);
                }
                sent += &event;
                while decoder.push(&[]).len() < sent.len() {
                    let frame = h2.next(DATA).expect("it goes on");
                    decoder.push(&frame.payload);
                }
                assert!(decoder.push(&[]) == sent.as_bytes(), "{coding} {n}");
            }
            give.send(String::new()).expect("the endpoint waits");
        }
    }
}

/// Next line of a client, without its end.
fn h1_line(client: &mut crate::support::Client) -> String {
    let mut line = Vec::new();
    while !line.ends_with(b"\r\n") {
        line.extend(client.bytes(1));
    }
    String::from_utf8_lossy(&line[..line.len() - 2]).into_owned()
}

#[test]
fn what_was_done_is_counted_and_explained() {
    let long = text(1000);
    let (sent, length) = (long.clone(), long.len());
    let endpoint = Endpoint::answering(move |request| match request.line().split(' ').nth(1) {
        Some("/image") => html(&[("content-type", "image/png")], &sent),
        _ => html(&[("content-type", "text/css")], &sent),
    });
    let proxy = proxy(endpoint.addr, "", &route("compress = true"));
    let sizes: Vec<usize> = [("/", "gzip"), ("/image", "gzip"), ("/", "deflate")]
        .into_iter()
        .map(|(path, coding)| ask("h1", &proxy, "GET", path, &[("Accept-Encoding", coding)]).body.len())
        .collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("an event loop");
    let kept = || runtime.block_on(proxy.server().looker().explanations());
    wait_until("all are kept", || kept().len() == 3);
    let steps = kept().into_iter().flat_map(|one| one.filters).filter(|step| step.name == "compress");
    let mut did: Vec<String> = steps.map(|step| step.did.into_owned()).collect();
    did.sort();
    let grouped = |n: usize| if n < 1000 { n.to_string() } else { format!("{},{:03}", n / 1000, n % 1000) };
    let want = [
        format!("gzip, {} to {} bytes", grouped(length), grouped(sizes[0])),
        "not compressed: its type is not in the list".to_string(),
        "not compressed: the client accepts no coding of the route".to_string(),
    ];
    assert_eq!(did, want);
    let stats = proxy.server().stats();
    let all = || stats.iter().flat_map(|worker| worker.routes[0].all());
    let sum = |count: fn(&RouteStats) -> u64| all().map(|route| count(&route)).sum::<u64>();
    assert_eq!(sum(|route| route.compression.responses.each_ref().map(|n| n.get()).iter().sum()), 1);
    assert_eq!(sum(|route| route.compression.before.get()), length as u64);
    assert_eq!(sum(|route| route.compression.after.get()), sizes[0] as u64);
}
