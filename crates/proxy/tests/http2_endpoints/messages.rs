//! Heads, bodies and trailers between HTTP/1 clients and HTTP/2 endpoints.

use super::{before, post};
use crate::support::h2_server::H2Server;
use crate::support::{noise, text, wait_until};
use std::sync::Arc;
use tokio::sync::Semaphore;

#[test]
fn a_request_of_http1_becomes_a_stream_with_what_the_proxy_adds() {
    let endpoint = H2Server::saying("hello");
    let proxy = before(&[endpoint.addr], "");
    let mut client = proxy.client();
    let request = "GET /a?b=c HTTP/1.1\r\nHost: example.com\r\nX-Own: 1\r\nConnection: x-gone\r\nX-Gone: 2\r\n\
                   TE: trailers\r\nX-Forwarded-For: 9.9.9.9\r\n\r\n";
    for _ in 0..3 {
        let answer = client.send(request).response();
        assert_eq!((answer.status(), answer.body_text().as_str()), (200, "hello"));
        assert_eq!(answer.field("transfer-encoding"), Some("chunked"), "no length was said");
    }
    let seen = endpoint.seen();
    assert_eq!((seen.len(), endpoint.accepted()), (3, 1), "they share a connection");
    assert_eq!((seen[0].method.as_str(), seen[0].uri.as_str()), ("GET", "http://example.com/a?b=c"));
    let fields = ["x-own", "x-gone", "te", "x-forwarded-for", "x-forwarded-proto", "x-forwarded-host", "connection"];
    assert_eq!(
        fields.map(|name| seen[0].field(name)),
        [Some("1"), None, Some("trailers"), Some("127.0.0.1"), Some("http"), Some("example.com"), None]
    );
    assert!(seen[0].field("cdn-loop").is_some_and(|mark| mark.starts_with("evenkeel-")));
    wait_until("they are counted", || proxy.ended(200) == 3);
}

#[test]
fn bodies_of_any_framing_pass_both_ways_byte_for_byte() {
    let endpoint = H2Server::start(|mut exchange| async move {
        let (body, _) = exchange.read().await;
        let length = body.len().to_string();
        let stated = [("content-length", &*length)];
        let fields = if exchange.path() == "/stated" { &stated[..] } else { &[] };
        exchange.reply(200, fields, &body, &[]).await;
    });
    let proxy = before(&[endpoint.addr], "");
    let mut client = proxy.client();
    for size in [0, 1, 100, 16_384, 70_000, 5_000_000] {
        let content = noise(size);
        for path in ["/stated", "/open"] {
            let sending = client.send_aside(post(path, &content));
            let answer = client.response();
            sending.join().expect("no panic").expect("the proxy takes it");
            assert!(answer.body == content, "{size} {path}: {} bytes", answer.body.len());
            let length = size.to_string();
            let want = if path == "/stated" || size == 0 { Some(&*length) } else { None };
            assert_eq!(answer.field("content-length"), want, "{size} {path}");
        }
        let mut chunked = b"PUT /open HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
        for piece in content.chunks(1000) {
            chunked.extend_from_slice(format!("{:x}\r\n", piece.len()).as_bytes());
            chunked.extend_from_slice(piece);
            chunked.extend_from_slice(b"\r\n");
        }
        chunked.extend_from_slice(b"0\r\n\r\n");
        let sending = client.send_aside(chunked);
        let answer = client.response();
        sending.join().expect("no panic").expect("the proxy takes it");
        assert!(answer.body == content, "{size} in chunks: {} bytes", answer.body.len());
    }
    assert_eq!(endpoint.accepted(), 1);
    assert!(endpoint.seen().iter().filter(|seen| seen.method == "POST").all(|s| s.field("content-length").is_some()));
    assert!(endpoint.seen().iter().filter(|seen| seen.method == "PUT").all(|s| s.field("content-length").is_none()));
}

#[test]
fn requests_that_come_at_once_on_one_connection_are_answered_in_order() {
    let endpoint = H2Server::start(|mut exchange| async move {
        let (body, _) = exchange.read().await;
        let path = exchange.path().to_string();
        exchange.reply(200, &[], &[path.as_bytes(), &body].concat(), &[]).await;
    });
    let proxy = before(&[endpoint.addr], "");
    let all: Vec<u8> = (0..20).flat_map(|n| post(&format!("/{n} ").replace(' ', "-"), &[b'x'; 5])).collect();
    let mut client = proxy.client();
    client.send(all);
    for n in 0..20 {
        assert_eq!(client.response().body_text(), format!("/{n}-xxxxx"));
    }
}

#[test]
fn trailers_pass_both_ways_to_clients_that_take_them() {
    let endpoint = H2Server::start(|mut exchange| async move {
        let (_, trailers) = exchange.read().await;
        let sum = trailers.and_then(|map| Some(map.get("x-sum")?.to_str().ok()?.to_string())).unwrap_or_default();
        exchange.reply(200, &[], b"body", &[("x-back", &sum), ("content-type", "a/b")]).await;
    });
    let proxy = before(&[endpoint.addr], "[defaults.route]\nrequest_trailers = ['X-Sum']");
    let mut client = proxy.client();
    let head = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n";
    let body = "2\r\nhi\r\n0\r\nX-Sum: 3\r\n\r\n";
    let answer = client.send(format!("{head}TE: trailers\r\n\r\n{body}")).response();
    assert!(answer.wire.ends_with(b"0\r\nx-back: 3\r\n\r\n"), "{}", text(&answer.wire));
    let answer = client.send(format!("{head}\r\n{body}")).response();
    assert!(answer.wire.ends_with(b"4\r\nbody\r\n0\r\n\r\n"), "{}", text(&answer.wire));
}

#[test]
fn responses_without_a_body_have_none() {
    let endpoint = H2Server::start(|mut exchange| async move {
        match exchange.path() {
            "/204" => exchange.reply(204, &[], b"", &[]).await,
            "/304" => exchange.reply(304, &[("content-length", "9"), ("etag", "\"a\"")], b"", &[]).await,
            _ => exchange.reply(200, &[("content-length", "9")], b"", &[]).await,
        }
    });
    let proxy = before(&[endpoint.addr], "");
    let mut client = proxy.client();
    let ask = |method: &str, path: &str| format!("{method} {path} HTTP/1.1\r\nHost: a\r\n\r\n");
    let head = client.send(ask("HEAD", "/")).head();
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n") && head.contains("Content-Length: 9\r\n"), "{head}");
    let head = client.send(ask("GET", "/204")).head();
    assert!(
        head.starts_with("HTTP/1.1 204 No Content\r\n") && !head.to_lowercase().contains("content-length"),
        "{head}"
    );
    let head = client.send(ask("GET", "/304")).head();
    assert!(head.starts_with("HTTP/1.1 304") && head.contains("etag"), "{head}");
    assert_eq!(client.send(ask("GET", "/204")).head().lines().next(), Some("HTTP/1.1 204 No Content"));
    client.is_quiet();
}

#[test]
fn a_client_of_http_1_0_reads_until_the_end_or_the_stated_length() {
    let endpoint = H2Server::start(|mut exchange| async move {
        let fields: &[_] = if exchange.path() == "/stated" { &[("content-length", "4")] } else { &[] };
        exchange.reply(200, fields, b"body", &[]).await;
    });
    let proxy = before(&[endpoint.addr], "");
    let ask = |path: &str| format!("GET {path} HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\n\r\n");
    let mut client = proxy.client();
    for _ in 0..2 {
        let answer = client.send(ask("/stated")).response();
        assert_eq!(answer.field("connection"), Some("keep-alive"));
    }
    let all = text(&client.send(ask("/")).rest());
    assert!(all.starts_with("HTTP/1.1 200 OK\n") && all.ends_with("Connection: close\n\nbody"), "{all}");
    assert!(!all.to_lowercase().contains("chunked"), "{all}");
}

#[test]
fn an_event_comes_when_it_is_sent_and_not_with_the_next() {
    let steps = Arc::new(Semaphore::new(0));
    let gate = steps.clone();
    let endpoint = H2Server::start(move |mut exchange| {
        let gate = gate.clone();
        async move {
            let head = http::Response::builder().status(200).body(()).expect("a good head");
            let mut send = exchange.respond.send_response(head, false).expect("the stream is open");
            for _ in 0..3 {
                gate.acquire().await.expect("never closed").forget();
                let _ = send.send_data("event".into(), false);
            }
            gate.acquire().await.expect("never closed").forget();
            let _ = send.send_data("".into(), true);
        }
    });
    let proxy = before(&[endpoint.addr], "");
    let mut client = proxy.client();
    let head = client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n").head();
    assert!(head.contains("chunked"), "the head comes before any data: {head}");
    for _ in 0..3 {
        steps.add_permits(1);
        assert_eq!(text(&client.bytes(10)), "5\nevent\n");
    }
    steps.add_permits(1);
    assert_eq!(text(&client.bytes(5)), "0\n\n");
}

#[test]
fn a_response_before_the_end_of_its_request_ends_that() {
    let endpoint = H2Server::start(|mut exchange| async move {
        // The rest of the request is dropped unread, so the stream is reset after its end.
        exchange.reply(413, &[("content-length", "5")], b"large", &[]).await;
    });
    let proxy = before(&[endpoint.addr], "");
    let mut client = proxy.client();
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000000\r\n\r\nsome");
    let answer = client.response();
    assert_eq!((answer.status(), answer.body_text().as_str()), (413, "large"));
    assert_eq!(answer.field("connection"), Some("close"), "the rest is not read");
    client.finish_sending();
    client.ends();
    assert_eq!(proxy.client().get("/").status(), 413);
    assert_eq!(endpoint.accepted(), 1, "the connection goes on");
}

/// Caches and counters answer an upload that they do not read. The client's next request found its connection closed,
/// although the response had announced that it stays open.
#[test]
fn a_success_before_the_end_of_its_request_costs_the_client_no_later_request() {
    let endpoint = H2Server::start(|mut exchange| async move {
        // The rest of the request is dropped unread.
        exchange.reply(200, &[], b"counted", &[]).await;
    });
    let proxy = before(&[endpoint.addr], "");
    let mut client = proxy.client();
    let content = noise(3_000_000);
    for size in [2, 100_000, 3_000_000] {
        let (first, rest) = content[..size].split_at(size / 2);
        let chunk = |content: &[u8]| [format!("{:x}\r\n", content.len()).as_bytes(), content, b"\r\n"].concat();
        let stated = (format!("Content-Length: {size}"), first.to_vec(), rest.to_vec());
        let ends = [&chunk(rest)[..], b"0\r\nX-Sum: 1\r\n\r\n"].concat();
        let chunked = ("Transfer-Encoding: chunked".to_string(), chunk(first), ends);
        for (framing, first, rest) in [stated, chunked] {
            let head = format!("POST / HTTP/1.1\r\nHost: a\r\n{framing}\r\n\r\n");
            client.send(head).send(first);
            let answer = client.response();
            assert_eq!((answer.status(), answer.body_text()), (200, "counted".into()), "{size} {framing}");
            assert_eq!(answer.field("connection"), None, "{size} {framing}");
            let sending = client.send_aside([&rest[..], b"GET /next HTTP/1.1\r\nHost: a\r\n\r\n"].concat());
            assert_eq!(client.response().body_text(), "counted", "{size} {framing}");
            sending.join().expect("no panic").expect("the proxy takes it");
        }
    }
    assert_eq!(endpoint.seen().len(), 12, "none of the rest was taken for a request");
}

/// After any other response than a 100, a client that waits for one need not send its body: the next bytes could be the
/// body or a request.
#[test]
fn a_success_in_place_of_a_100_ends_the_connection() {
    let endpoint = H2Server::start(|mut exchange| async move {
        if exchange.path() == "/100" {
            let head = http::Response::builder().status(100).body(()).expect("a good head");
            exchange.respond.send_informational(head).expect("the stream is open");
        }
        exchange.reply(200, &[], b"counted", &[]).await;
    });
    let proxy = before(&[endpoint.addr], "");
    let post =
        |path: &str| format!("POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n");
    let mut client = proxy.client();
    let answer = client.send(post("/")).response();
    assert_eq!((answer.status(), answer.field("connection")), (200, Some("close")));
    client.finish_sending();
    client.ends();
    let mut client = proxy.client();
    client.send(post("/100"));
    assert!(client.head().starts_with("HTTP/1.1 100 Continue\r\n"));
    assert_eq!(client.response().field("connection"), None);
    assert_eq!(client.send("hello").send(post("/")).response().field("connection"), Some("close"));
}

#[test]
fn interim_responses_come_before_the_final_one() {
    let endpoint = H2Server::start(|mut exchange| async move {
        for (status, name, value) in [(100, "x-a", "1"), (103, "link", "</a>")] {
            let head = http::Response::builder().status(status).header(name, value).body(()).expect("a good head");
            exchange.respond.send_informational(head).expect("the stream is open");
        }
        let (body, _) = exchange.read().await;
        exchange.reply(200, &[], &body, &[]).await;
    });
    let proxy = before(&[endpoint.addr], "");
    let mut client = proxy.client();
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n");
    assert!(client.head().starts_with("HTTP/1.1 100 Continue\r\n"), "before any of the body is sent");
    assert!(client.head().contains("link: </a>"));
    assert_eq!(client.send("hello").response().body_text(), "hello");
    assert_eq!(endpoint.seen()[0].field("expect"), Some("100-continue"));
    let mut old = proxy.client();
    let answer = old.send("POST / HTTP/1.0\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello").rest();
    assert!(text(&answer).starts_with("HTTP/1.1 200 OK"), "HTTP/1.0 knows none: {}", text(&answer));
}
