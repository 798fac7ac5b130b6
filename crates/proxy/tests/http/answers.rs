//! Responses that the proxy makes itself: their text for clients, and the reasons in the access log.

use crate::support::endpoint::ok;
use crate::support::log::Log;
use crate::support::{Endpoint, Proxy, own_addr};
use serde_json::Value;
use std::net::SocketAddr;

/// A proxy with hosts whose requests end in different ways; `listener` adds keys to its listener.
fn ends_early(listener: &str, silent: SocketAddr, gone: SocketAddr, behind: &str) -> Proxy {
    Proxy::start(&format!(
        "[runtime]\nworkers = 1\n[listener.web]\nbind = [\"$BIND\"]\n{listener}\n\
         [pool.silent]\nendpoints = [\"{silent}\"]\ntimeouts = {{ response = \"50ms\" }}\n\
         [pool.gone]\nendpoints = [\"{gone}\"]\n\
         [pool.drained]\nendpoints = [{{ addr = \"127.0.0.1:2\", drain = true }}]\n\
         [[route]]\npool = \"silent\"\nmatch = {{ host = [\"silent\"] }}\n\
         [[route]]\npool = \"gone\"\nmatch = {{ host = [\"gone\"] }}\n\
         [[route]]\npool = \"drained\"\nmatch = {{ host = [\"drained\"] }}\n{behind}"
    ))
}

/// Requests with the status line of the response, and a part of its reason.
const CASES: [(&str, &str, &str); 5] = [
    ("GET / HTTP/1.1\r\nHost: lost\r\n\r\n", "404 Not Found", "no route for host \"lost\""),
    ("GET / HTTP/1.1\r\nHost: gone\r\n\r\n", "502 Bad Gateway", "pool \"gone\": cannot connect to endpoint 127."),
    ("GET / HTTP/1.1\r\nHost: drained\r\n\r\n", "503 Service Unavailable", "pool \"drained\": "),
    ("GET / HTTP/1.1\r\nHost: silent\r\n\r\n", "504 Gateway Timeout", "pool \"silent\": endpoint 127."),
    ("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", "400 Bad Request", "Host is repeated"),
];

fn line_with_status<'l>(lines: &'l [Value], answer: &str) -> &'l Value {
    let status: u64 = answer[..3].parse().expect("a status");
    lines.iter().find(|line| line["status"] == status).unwrap_or_else(|| panic!("{answer}: {lines:?}"))
}

#[test]
fn an_answer_has_a_status_and_an_id_and_the_log_has_the_reason() {
    let (silent, log) = (Endpoint::silent(), Log::new());
    let proxy = ends_early("", silent.addr, own_addr(), &log.config());
    let told = CASES.map(|(request, ..)| proxy.client().send(request).response().body_text());
    let lines = log.lines(proxy);
    for ((_, answer, why), told) in CASES.iter().zip(told) {
        let line = line_with_status(&lines, answer);
        assert_eq!(told, format!("{answer} (request {})\n", line["req_id"].as_str().expect("an id")));
        let reason = line["reason"].as_str().unwrap_or_else(|| panic!("no reason: {line}"));
        assert!(reason.contains(why), "{reason}");
    }
}

#[test]
fn a_pool_without_any_endpoint_has_a_status_of_its_own_and_one_with_unusable_ones_has_not() {
    let mut proxy = Proxy::start(
        "[runtime]\nworkers = 1\n[listener.web]\nbind = [\"$BIND\"]\nh2c = true\n\
         [pool.web]\nempty_status = 500\n\
         [pool.drained]\nempty_status = 500\nendpoints = [{ addr = \"127.0.0.1:2\", drain = true }]\n\
         [[route]]\npool = \"web\"\n[[route]]\npool = \"drained\"\nmatch = { path = \"/drained\" }\n",
    );
    let answer = |proxy: &Proxy, path: &str| {
        proxy.client().send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n")).response().status()
    };
    assert_eq!((answer(&proxy, "/"), answer(&proxy, "/drained")), (500, 503));
    let endpoint = Endpoint::answering(|_| ok("here"));
    proxy.find(&[endpoint.addr]);
    assert_eq!(answer(&proxy, "/"), 200);
    proxy.find(&[]);
    assert_eq!(answer(&proxy, "/"), 500);
}

#[test]
fn an_answer_names_no_request_that_no_log_knows() {
    let silent = Endpoint::silent();
    let proxy = ends_early("", silent.addr, own_addr(), "");
    for (request, answer, _) in CASES {
        let response = proxy.client().send(request).response();
        assert_eq!(response.body_text(), format!("{answer}\n"));
        assert_eq!(response.field("content-type"), Some("text/plain; charset=utf-8"));
    }
}

#[test]
fn detailed_answers_have_the_reason_of_the_log() {
    let (silent, log) = (Endpoint::silent(), Log::new());
    let proxy = ends_early("errors = \"detailed\"", silent.addr, own_addr(), &log.config());
    let told = CASES.map(|(request, ..)| proxy.client().send(request).response().body_text());
    let lines = log.lines(proxy);
    for ((_, answer, why), told) in CASES.iter().zip(told) {
        let reason = line_with_status(&lines, answer)["reason"].as_str().expect("a reason");
        assert_eq!(told, format!("{answer}: {reason}\n"));
        assert!(told.contains(why), "{told}");
    }
}

#[test]
fn a_response_of_an_endpoint_has_no_reason() {
    let log = Log::new();
    let endpoint = Endpoint::answering(|_| b"HTTP/1.1 503 Busy\r\nContent-Length: 3\r\n\r\nown".to_vec());
    let proxy = Proxy::with(&[endpoint.addr], "", "", &log.config());
    assert_eq!(proxy.client().get("/").body_text(), "own");
    let lines = log.lines(proxy);
    assert!(lines[0].get("reason").is_none(), "{lines:?}");
}
