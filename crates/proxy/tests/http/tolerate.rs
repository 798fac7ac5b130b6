//! Faults of old servers that `tolerate` allows, and the response that the client gets.

use crate::support::log::Log;
use crate::support::{Endpoint, Proxy, text};

/// The fault, the endpoint's bytes in the parts in which they arrive, and the client's response if the fault is
/// tolerated.
const CASES: [(&str, &[&str], &str); 7] = [
    (
        "chunk-size-padding",
        &["HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5  \r\nhel", "lo\r\n0 \r\n\r\n"],
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    ),
    (
        "bare-lf-head",
        &["HTTP/1.1 200 OK\nX: y\nContent-Length: ", "5\n\nhello"],
        "HTTP/1.1 200 OK\r\nX: y\r\nContent-Length: 5\r\n\r\nhello",
    ),
    (
        "folded-fields",
        &["HTTP/1.1 200 OK\r\nX: y\r\n", "  z\r\nContent-Length: 5\r\n\r\nhello"],
        "HTTP/1.1 200 OK\r\nX: y z\r\nContent-Length: 5\r\n\r\nhello",
    ),
    (
        "duplicate-content-length",
        &["HTTP/1.1 200 OK\r\nContent-Length: 5, 5\r\nContent-Length: 5\r\n\r\nhello"],
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
    ),
    (
        "identity",
        &["HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\nContent-Length: 5\r\n\r\nhello"],
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
    ),
    (
        "duplicate-chunked",
        &[
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nX: y\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        ],
        "HTTP/1.1 200 OK\r\nX: y\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    ),
    (
        "duplicate-chunked",
        &["HTTP/1.1 200 OK\r\ntransfer-encoding: chunked, Chunked\r\n\r\n", "5\r\nhello\r\n0\r\n\r\n"],
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    ),
];

fn sending(parts: &'static [&'static str]) -> Endpoint {
    Endpoint::start(move |conn| {
        while conn.request().is_some() {
            for part in parts {
                conn.send(part);
            }
        }
    })
}

#[test]
fn a_fault_is_refused_and_the_reason_names_the_word_that_lets_it_through() {
    for (fault, parts, _) in CASES {
        let (endpoint, log) = (sending(parts), Log::new());
        let proxy = Proxy::with(&[endpoint.addr], "", "", &log.config());
        assert_eq!(proxy.client().get("/").status(), 502, "{fault}");
        let lines = log.lines(proxy);
        let reason = lines[0]["reason"].as_str().expect("a 502 has a reason");
        assert!(reason.ends_with(&format!("; tolerate = [\"{fault}\"] allows it")), "{reason}");
    }
}

#[test]
fn a_fault_that_is_tolerated_is_forwarded_as_it_was_meant() {
    for (fault, parts, want) in CASES {
        let endpoint = sending(parts);
        let proxy = Proxy::with(&[endpoint.addr], "", &format!("tolerate = ['{fault}']"), "");
        let mut client = proxy.client();
        for _ in 0..2 {
            client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
            assert_eq!(text(&client.bytes(want.len())), want.replace("\r\n", "\n"), "{fault}");
        }
        client.is_quiet();
        assert_eq!(endpoint.accepted(), 1, "{fault}: the connection is good for more");
    }
}
