//! The access log: a line of valid JSON for each request, however it ended.

use crate::support::endpoint::ok;
use crate::support::log::Log;
use crate::support::{Endpoint, Proxy, wait_until};

const FIELDS: [&str; 22] = [
    "ts",
    "req_id",
    "client",
    "peer",
    "listener",
    "route",
    "pool",
    "endpoint",
    "tries",
    "proto",
    "method",
    "host",
    "path",
    "trace_id",
    "status",
    "bytes_in",
    "bytes_out",
    "t_queue",
    "t_connect",
    "t_ttfb",
    "t_total",
    "term",
];

#[test]
fn a_line_has_every_field() {
    let endpoint = Endpoint::saying("hello");
    let log = Log::new();
    let proxy = Proxy::with(&[endpoint.addr], "", "", &log.config());
    let mut client = proxy.client();
    let trace = "Traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\n";
    let request = format!("POST /a?b=c HTTP/1.1\r\nHost: A:80\r\n{trace}Content-Length: 3\r\n\r\nabc");
    let response = client.send(&request).response();
    let sent = response.head.len() + 5;
    client.get("/");
    let lines = log.lines(proxy);
    assert_eq!(lines.len(), 2);
    let line = lines[0].as_object().expect("an object");
    assert!(FIELDS.iter().all(|name| line.contains_key(*name)) && line.len() == FIELDS.len(), "{line:?}");
    let text = |name: &str| line[name].as_str().unwrap_or_else(|| panic!("{name}: {}", line[name])).to_string();
    assert_eq!(text("client"), "127.0.0.1");
    assert!(line["peer"].is_null(), "the client itself connected: {line:?}");
    assert_eq!((text("listener"), text("pool")), ("web".into(), "web".into()));
    assert_eq!(text("endpoint"), endpoint.addr.to_string());
    assert!(line["route"].is_string());
    assert_eq!((text("method"), text("host"), text("path")), ("POST".into(), "A:80".into(), "/a?b=c".into()));
    assert_eq!((text("proto"), text("term")), ("HTTP/1.1".into(), "--".into()));
    assert_eq!(text("trace_id"), "0af7651916cd43dd8448eb211c80319c");
    assert_eq!((line["status"].as_u64(), line["tries"].as_u64()), (Some(200), Some(1)));
    assert_eq!(line["bytes_in"].as_u64(), Some(request.len() as u64));
    assert_eq!(line["bytes_out"].as_u64(), Some(sent as u64));
    assert!(line["t_connect"].is_number() && line["t_ttfb"].is_number(), "{line:?}");
    assert!(line["t_ttfb"].as_f64() <= line["t_total"].as_f64(), "{line:?}");
    let ts = text("ts");
    assert!(ts.len() == 24 && ts.starts_with("20") && ts.ends_with('Z') && &ts[10..11] == "T", "{ts}");
    assert_eq!(text("req_id").len(), 32);
    assert_ne!(lines[0]["req_id"], lines[1]["req_id"]);
    assert!(lines[1]["t_connect"].is_null(), "the connection was kept: {}", lines[1]);
    assert!(lines[1]["trace_id"].is_null());
}

#[test]
fn whatever_clients_send_and_names_contain_is_escaped() {
    let endpoint = Endpoint::saying("hello");
    let log = Log::new();
    let proxy = Proxy::start(&format!(
        "[runtime]\nworkers = 1\n[listener.web]\nbind = [\"$BIND\"]\n[[route]]\nname = 'größe \"1\" \\ 船'\npool = 'web'\n\
         [pool.web]\nendpoints = [{{ addr = \"{}\", name = 'é\"' }}]\n{}",
        endpoint.addr,
        log.config()
    ));
    let mut client = proxy.client();
    client.get("/\"a\\b\\\"<>{}|^`'");
    client.send("GE\"T / HTTP/1.1\r\nHost: a\r\n\r\n").response();
    let lines = log.lines(proxy);
    assert_eq!(lines[0]["path"], "/\"a\\b\\\"<>{}|^`'");
    assert_eq!(lines[0]["route"], "größe \"1\" \\ 船");
    assert_eq!(lines[0]["endpoint"], "é\"");
}

/// `term` has two letters: who ended the request, and in which phase.
#[test]
fn every_end_has_its_line() {
    let endpoint = Endpoint::start(|conn| {
        while let Some(head) = conn.next_head() {
            match head.lines().next().expect("a first line") {
                "GET /ok HTTP/1.1" => conn.send(ok("hello")),
                "GET /none HTTP/1.1" => return,
                "GET /cut HTTP/1.1" => return conn.send("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nbegun"),
                "GET /malformed HTTP/1.1" => return conn.send("HTTP/1.1 20 OK\r\n\r\n"),
                _ => drop(conn.rest()),
            }
        }
    });
    let log = Log::new();
    let proxy = Proxy::start(&format!(
        "[runtime]\nworkers = 1\n[listener.web]\nbind = [\"$BIND\"]\ntimeouts = {{ client_body = \"100ms\", client_header = \"300ms\" }}\n\
         [pool.web]\nendpoints = [\"{}\"]\ntimeouts = {{ response = \"100ms\" }}\n[pool.gone]\n\
         endpoints = [\"127.0.0.1:1\"]\n[pool.drained]\nendpoints = [{{ addr = \"127.0.0.1:2\", drain = true }}]\n\
         [[route]]\npool = \"web\"\nmatch = {{ host = [\"a\"] }}\n[[route]]\npool = \"gone\"\nmatch = {{ host = [\"b\"] }}\n\
         [[route]]\npool = \"drained\"\nmatch = {{ host = [\"c\"] }}\n{}",
        endpoint.addr,
        log.config()
    ));
    let mut want = Vec::new();
    for (line, host, more, status, term) in [
        ("GET /ok", "a", "", 200, "--"),
        ("GET /none", "a", "", 502, "SH"),
        ("GET /cut", "a", "", 200, "SD"),
        ("GET /malformed", "a", "", 502, "SH"),
        ("GET /silent", "a", "", 504, "sH"),
        ("GET /refused", "b", "", 502, "SC"),
        ("GET /drained", "c", "", 503, "PR"),
        ("GET /lost", "d", "", 404, "PR"),
        ("CONNECT /", "a", "", 501, "PR"),
        ("POST /slow", "a", "Content-Length: 5\r\n", 408, "cR"),
        ("GET /repeated", "a", "Host: a\r\n", 400, "PR"),
        ("GET /bare-lf", "a", "A: b\n\r\n", 400, "PR"),
    ] {
        let mut client = proxy.client();
        client.send(format!("{line} HTTP/1.1\r\nHost: {host}\r\n{more}\r\n"));
        let head = client.head();
        assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{line}: {head}");
        if line == "GET /cut" {
            client.rest();
        }
        want.push((status, term.to_string()));
    }
    // One request never completes its head, and one stops within its body.
    assert!(proxy.client().send("GET /late HTTP/1.1\r\n").head().starts_with("HTTP/1.1 408 "));
    want.push((408, "cR".into()));
    let mut client = proxy.client();
    client.send("POST /left HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n").finish_sending();
    client.ends();
    want.push((0, "CR".into()));
    let lines = log.lines(proxy);
    let mut got: Vec<(u64, String)> = Vec::new();
    for line in &lines {
        assert!(FIELDS.iter().all(|name| line.get(name).is_some()), "{line}");
        got.push((line["status"].as_u64().expect("a number"), line["term"].as_str().expect("text").into()));
    }
    // Lines are in the order of the closes.
    want.sort();
    got.sort();
    assert_eq!(got, want, "{lines:#?}");
}

#[test]
fn a_request_that_is_stopped_has_its_line_too() {
    let endpoint = Endpoint::start(|conn| {
        conn.request();
        assert_eq!(conn.rest(), b"");
    });
    let log = Log::new();
    let mut proxy = Proxy::with(&[endpoint.addr], "", "", &log.config());
    let mut client = proxy.client();
    client.send("GET /running HTTP/1.1\r\nHost: a\r\n\r\n");
    wait_until("it runs", || endpoint.seen().len() == 1);
    proxy.stop();
    client.ends();
    let text = std::fs::read_to_string(&log.0).expect("the proxy made it");
    assert!(text.contains("\"path\":\"/running\""), "{text:?}");
}

#[test]
fn a_busy_proxy_loses_no_line() {
    let endpoint = Endpoint::saying("hello");
    let log = Log::new();
    let proxy = Proxy::with(&[endpoint.addr], "", "", &log.config());
    let mut client = proxy.client();
    for _ in 0..20 {
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n".repeat(100));
        for _ in 0..100 {
            assert_eq!(client.response().status(), 200);
        }
    }
    let lines = log.lines(proxy);
    assert_eq!(lines.len(), 2000);
    let ids: std::collections::HashSet<_> = lines.iter().map(|line| line["req_id"].as_str()).collect();
    assert_eq!(ids.len(), 2000);
}
