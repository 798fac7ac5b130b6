//! Heads that are larger than a buffer, of requests and of responses, within limits and over them.

use crate::support::endpoint::ok;
use crate::support::h2_client::{H2Client, get};
use crate::support::h2_server::H2Server;
use crate::support::{Endpoint, Proxy};
use std::net::SocketAddr;

/// A pool whose endpoints are ejected by the first failure.
const EJECTS: &str = "outlier = { consecutive_gateway = 1, eject = '1h', eject_max = '1h' }";

/// Largest response head that the client of HTTP/2 takes, as it reads no more than a frame.
const FRAME: usize = 14_000;

/// Fields of about `size` bytes in all, each of at most 20,000.
fn fields(size: usize) -> Vec<(String, String)> {
    let sizes = (0..size).step_by(20_000).map(|at| (size - at).min(20_000));
    sizes.enumerate().map(|(n, len)| (format!("x-{n}"), "v".repeat(len))).collect()
}

/// Size in a path such as `/50000`, and a number of fields in one such as `/n300`.
fn asked(path: &str) -> Vec<(String, String)> {
    let path = path.trim_start_matches('/');
    match path.strip_prefix('n') {
        Some(count) => (0..count.parse().unwrap_or(0)).map(|n| (format!("x-{n}"), "v".to_string())).collect(),
        None => fields(path.parse().unwrap_or(0)),
    }
}

fn h1() -> Endpoint {
    Endpoint::start(|conn| {
        while let Some(request) = conn.request_if_whole() {
            let path = request.line().split(' ').nth(1).unwrap_or_default().to_string();
            let lines: String = asked(&path).iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
            // The proxy closes where it has read enough.
            let whole = format!("HTTP/1.1 200 OK\r\n{lines}Content-Length: 4\r\n\r\nbody");
            if std::io::Write::write_all(&mut conn.stream, whole.as_bytes()).is_err() {
                return;
            }
        }
    })
}

fn h2() -> H2Server {
    H2Server::start(|mut exchange| async move {
        let all = asked(exchange.path());
        let fields: Vec<(&str, &str)> = all.iter().map(|(name, value)| (&**name, &**value)).collect();
        exchange.reply(200, &fields, b"body", &[]).await;
    })
}

/// Status, bytes of all fields that begin with `x-`, and the body of a response to an HTTP/1 client.
fn by_h1(proxy: &Proxy, path: &str) -> (u16, usize, String) {
    let answer = proxy.client().get(path);
    let lines = answer.head.lines().filter_map(|line| line.strip_prefix("x-")?.split_once(": "));
    (answer.status(), lines.map(|(_, value)| value.len()).sum(), answer.body_text())
}

/// A client that asks for a path.
type Ask = fn(&Proxy, &str) -> (u16, usize, String);

fn by_h2(proxy: &Proxy, path: &str) -> (u16, usize, String) {
    let mut client = H2Client::connect(proxy.addr());
    client.head(1, &get(path), true);
    let answer = client.answer(1);
    let fields = answer.heads.iter().flatten().filter(|(name, _)| name.starts_with("x-"));
    (answer.status(), fields.map(|(_, value)| value.len()).sum(), answer.body_text())
}

fn proxy(addr: SocketAddr, pool: &str) -> Proxy {
    Proxy::with(&[addr], "h2c = true", &format!("{EJECTS}\n{pool}"), "")
}

#[test]
fn a_response_head_within_its_limit_passes_and_a_larger_one_costs_no_endpoint() {
    let (h1, h2) = (h1(), h2());
    for (addr, protocol) in [(h1.addr, "http1"), (h2.addr, "h2")] {
        for (limit, fits, over) in [
            ("", &["/0", "/31000", "/33000", "/50000", "/n300", "/n1000"][..], &["/70000", "/n1100"][..]),
            ("limits = { response_headers = '1MiB' }", &["/70000", "/900000", "/0"], &["/1100000"]),
            ("limits = { response_headers = '8KiB' }", &["/7000"], &["/9000"]),
        ] {
            let proxy = proxy(addr, &format!("protocol = '{protocol}'\n{limit}"));
            for (most, by) in [(usize::MAX, by_h1 as Ask), (FRAME, by_h2 as Ask)] {
                for path in fits {
                    let size = asked(path).iter().map(|(_, value)| value.len()).sum();
                    if size > most {
                        continue;
                    }
                    assert_eq!(by(&proxy, path), (200, size, "body".into()), "{protocol} {limit} {path}");
                }
                for path in over {
                    let (status, _, why) = by(&proxy, path);
                    assert_eq!(status, 502, "{protocol} {limit} {path}: {why}");
                    // HTTP/2 does not read on far over its limit.
                    let named = ["the head is over the size limit", "the head has too many fields", "closed"];
                    assert!(named.iter().any(|text| why.contains(text)), "{protocol} {path}: {why}");
                }
                assert_eq!(by(&proxy, "/0").0, 200, "{protocol} {limit}: it is not ejected");
            }
        }
    }
}

#[test]
fn trailers_over_their_limit_are_named() {
    let endpoint = Endpoint::start(|conn| {
        while conn.request_if_whole().is_some() {
            let long = "v".repeat(17_000);
            conn.send(format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX-A: {long}\r\n\r\n"));
        }
    });
    let proxy = Proxy::with(&[endpoint.addr], "", EJECTS, "");
    for _ in 0..3 {
        let answer = proxy.client().get("/");
        assert_eq!(answer.status(), 502);
        assert!(answer.body_text().contains("the trailers are over 16 KiB"), "{}", answer.body_text());
    }
}

#[test]
fn trailers_over_their_limit_cost_no_endpoint_of_http2() {
    let endpoint = H2Server::start(|mut exchange| async move {
        let all = asked(exchange.path());
        let trailers: Vec<(&str, &str)> = all.iter().map(|(name, value)| (&**name, &**value)).collect();
        exchange.reply(200, &[], b"body", &trailers).await;
    });
    let proxy = proxy(endpoint.addr, "protocol = 'h2'");
    for path in ["/70000", "/n1100"] {
        let mut client = proxy.client();
        let head = client.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n")).head();
        assert!(head.starts_with("HTTP/1.1 200"), "{path}: {head}");
        // The body has no end that a client could take for the whole.
        assert!(!client.rest().ends_with(b"0\r\n\r\n"), "{path}");
        assert_eq!(by_h1(&proxy, "/0").0, 200, "{path}: it is not ejected");
    }
}

#[test]
fn a_request_head_within_its_limit_passes() {
    let endpoint = Endpoint::answering(|request| ok(&request.field("x-a").unwrap_or_default().len().to_string()));
    for (limit, fits, over) in
        [("", &[20_000, 32_000][..], 33_000), ("limits = { headers = '128KiB' }", &[33_000, 65_600, 130_000], 131_100)]
    {
        let proxy = Proxy::with(&[endpoint.addr], limit, "", "");
        let request = |len: usize| format!("GET / HTTP/1.1\r\nHost: a\r\nX-A: {}\r\n\r\n", "v".repeat(len));
        for &len in fits {
            let mut client = proxy.client();
            // At once, and in pieces.
            assert_eq!(client.send(request(len)).response().body_text(), len.to_string(), "{limit}");
            for piece in request(len).as_bytes().chunks(len / 5) {
                client.send(piece);
                proxy.has_heard();
            }
            assert_eq!(client.response().body_text(), len.to_string(), "{limit} in pieces");
            assert_eq!(client.get("/").status(), 200, "the connection goes on");
        }
        let mut client = proxy.client();
        let _ = client.send_aside(request(over).into_bytes());
        assert_eq!(client.response().status(), 431, "{limit}");
    }
}
