//! Requests of clients over TLS.

use crate::support::endpoint::ok;
use crate::support::log::Log;
use crate::support::tls::{Authority, BOTH, TlsClient, V12, V13, at_listener, curl, proxy};
use crate::support::{Client, Endpoint, SOON, noise, tool, wait_until};
use evenkeel_peers::installed;
use std::io::Write;
use std::net::TcpStream;

/// An endpoint that answers with the body of the request.
fn echo() -> Endpoint {
    Endpoint::answering(|request| {
        let mut answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", request.body.len()).into_bytes();
        answer.extend_from_slice(&request.body);
        answer
    })
}

#[test]
fn large_bodies_pass_both_ways_byte_for_byte() {
    let (ca, endpoint) = (Authority::new("ca"), echo());
    let proxy = proxy(endpoint.addr, at_listener(ca.server("a.test", &[], |_| ()), SOON), "", "");
    let body = noise(3_000_000);
    for versions in [V12, V13] {
        let mut client = TlsClient::connect(proxy.addr(), ca.client(versions), "a.test").unwrap();
        for _ in 0..2 {
            client.send(format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", body.len()));
            client.send(&body);
            assert!(client.response().body == body);
        }
    }
    assert_eq!(proxy.listener(|l| l.tls.shaken[0].get()), 2);
}

#[test]
fn endpoints_learn_that_the_client_used_tls() {
    let (ca, endpoint) = (Authority::new("ca"), Endpoint::saying("hello"));
    let proxy = proxy(endpoint.addr, at_listener(ca.server("a.test", &[], |_| ()), SOON), "", "");
    let mut client = TlsClient::connect(proxy.addr(), ca.client(BOTH), "a.test").unwrap();
    assert_eq!(client.get("/").body_text(), "hello");
    assert_eq!(endpoint.seen()[0].field("x-forwarded-proto"), Some("https"));
}

#[test]
fn a_plain_request_gets_a_400_that_asks_for_tls() {
    let (ca, endpoint) = (Authority::new("ca"), Endpoint::saying("hello"));
    let proxy = proxy(endpoint.addr, at_listener(ca.server("a.test", &[], |_| ()), SOON), "", "");
    let mut client = Client::connect(proxy.addr());
    let answer = client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n").response();
    assert_eq!((answer.status(), answer.field("connection")), (400, Some("close")));
    assert!(answer.body_text().contains("use https://"), "{}", answer.body_text());
    client.ends();
    assert!(endpoint.seen().is_empty());
}

#[test]
fn a_session_is_resumed_at_another_worker() {
    let (ca, endpoint) = (Authority::new("ca"), Endpoint::saying("hello"));
    let secured = at_listener(ca.server("a.test", &[], |_| ()), SOON);
    let config = format!(
        "[runtime]\nworkers = 4\n[listener.web]\nbind = [\"$BIND\"]\n[pool.web]\nendpoints = [\"{}\"]\n",
        endpoint.addr
    );
    for versions in [V12, V13] {
        let proxy = crate::support::Proxy::start_secured(&config, &secured);
        let config = ca.client(versions);
        for n in 0..32 {
            let mut client = TlsClient::connect(proxy.addr(), config.clone(), "a.test").unwrap();
            client.get("/");
            let resumed = client.stream().conn.handshake_kind() == Some(rustls::HandshakeKind::Resumed);
            assert_eq!(resumed, n > 0, "connection {n}");
        }
        // On any worker: the kernel distributes connections by their ports.
        let by_worker: Vec<u64> = proxy.server().stats().iter().map(|w| w.listeners[0].tls.shaken[1].get()).collect();
        assert_eq!(by_worker.iter().sum::<u64>(), 31);
        assert!(by_worker.iter().filter(|n| **n > 0).count() > 1, "{by_worker:?}");
    }
}

#[test]
fn the_log_has_what_was_agreed() {
    let (ca, endpoint, log) = (Authority::new("ca"), Endpoint::saying("hello"), Log::new());
    let secured = at_listener(ca.server("a.test", &["http/1.1"], |_| ()), SOON);
    let proxy = proxy(endpoint.addr, secured, "", &log.config());
    let mut client = TlsClient::connect(proxy.addr(), ca.client(V13), "a.test").unwrap();
    client.get("/");
    drop(client);
    let lines = log.lines(proxy);
    assert_eq!((&lines[0]["tls_version"], &lines[0]["sni"]), (&"TLSv1.3".into(), &"a.test".into()));
    assert!(lines[0]["tls_cipher"].as_str().is_some_and(|cipher| cipher.starts_with("TLS_")), "{}", lines[0]);
}

#[test]
fn curl_and_openssl_get_pages() {
    if !installed(&["curl", "openssl"]) {
        return;
    }
    let (ca, body) = (Authority::new("ca"), noise(2_000_000));
    let page = body.clone();
    let endpoint = Endpoint::answering(move |_| {
        let mut answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", page.len()).into_bytes();
        answer.extend_from_slice(&page);
        answer
    });
    let proxy = proxy(endpoint.addr, at_listener(ca.server("a.test", &["http/1.1"], |_| ()), SOON), "", "");
    let (port, pem) = (proxy.addr().port(), ca.pem());
    for version in [["--tlsv1.2", "--tls-max", "1.2"], ["--tlsv1.3", "--tls-max", "1.3"]] {
        let mut curl = curl(&proxy, "a.test");
        let out = curl.args(version).arg("--cacert").arg(&pem).arg(format!("https://a.test:{port}/")).output().unwrap();
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        assert!(out.stdout == body);
    }
    // The second connection resumes with the ticket of the first, which is read together with the response.
    let request = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    let file = pem.with_extension("session");
    for (option, said) in [("-sess_out", "New, TLSv1.3"), ("-sess_in", "Reused, TLSv1.3")] {
        let mut openssl = tool("openssl");
        openssl.args(["s_client", "-connect", &proxy.addr().to_string(), "-servername", "a.test", "-ign_eof"]);
        openssl.arg(option).arg(&file).arg("-CAfile").arg(&pem).arg("-verify_return_error");
        let pipe = std::process::Stdio::piped;
        let mut process = openssl.stdin(pipe()).stdout(pipe()).stderr(pipe()).spawn().unwrap();
        process.stdin.take().unwrap().write_all(request.as_bytes()).unwrap();
        let out = process.wait_with_output().unwrap();
        let text = String::from_utf8_lossy(&out.stdout);
        assert!(text.contains(said), "{option}: {}", String::from_utf8_lossy(&out.stderr));
        // OpenSSL complains about an end without close_notify.
        assert!(!String::from_utf8_lossy(&out.stderr).contains("unexpected eof"));
    }
    let _ = std::fs::remove_file(&file);
    let _ = std::fs::remove_file(&pem);
}

#[test]
fn a_client_chooses_its_protocol() {
    if !installed(&["curl"]) {
        return;
    }
    let (ca, endpoint) = (Authority::new("ca"), Endpoint::saying("hello"));
    let secured = at_listener(ca.server("a.test", &["h2", "http/1.1"], |_| ()), SOON);
    let proxy = proxy(endpoint.addr, secured, "", "");
    let (port, pem) = (proxy.addr().port(), ca.pem());
    for (option, spoken) in [("--http2", "hello2 200"), ("--http1.1", "hello1.1 200")] {
        let mut curl = curl(&proxy, "a.test");
        curl.args([option, "-w", "%{http_version} %{http_code}"]).arg("--cacert").arg(&pem);
        let out = curl.arg(format!("https://a.test:{port}/")).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&out.stdout), spoken, "{}", String::from_utf8_lossy(&out.stderr));
    }
    // A client without ALPN speaks HTTP/1.
    let mut client = TlsClient::connect(proxy.addr(), ca.client(BOTH), "a.test").unwrap();
    assert_eq!(client.get("/").body_text(), "hello");
    assert!(endpoint.seen().iter().all(|request| request.field("x-forwarded-proto") == Some("https")));
    let _ = std::fs::remove_file(&pem);
}

#[test]
fn a_tls_listener_behind_a_proxy_protocol_header_knows_the_client() {
    let (ca, endpoint) = (Authority::new("ca"), Endpoint::saying("hello"));
    let listener = "accept_proxy_protocol = [\"127.0.0.0/8\"]";
    let proxy = proxy(endpoint.addr, at_listener(ca.server("a.test", &[], |_| ()), SOON), listener, "");
    let mut stream = TcpStream::connect(proxy.addr()).unwrap();
    stream.set_read_timeout(Some(SOON)).unwrap();
    stream.write_all(b"PROXY TCP4 192.0.2.7 192.0.2.1 1234 443\r\n").unwrap();
    let mut client = TlsClient::over(stream, ca.client(BOTH), "a.test").unwrap();
    client.get("/");
    assert_eq!(endpoint.seen()[0].field("x-forwarded-for"), Some("192.0.2.7"));
}

#[test]
fn pipelined_requests_and_a_close_are_answered() {
    let (ca, endpoint) = (Authority::new("ca"), Endpoint::answering(|request| ok(request.line())));
    let proxy = proxy(endpoint.addr, at_listener(ca.server("a.test", &[], |_| ()), SOON), "", "");
    let mut client = TlsClient::connect(proxy.addr(), ca.client(BOTH), "a.test").unwrap();
    client.send("GET /1 HTTP/1.1\r\nHost: a\r\n\r\nGET /2 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    assert!(client.response().body_text().contains("/1"));
    assert!(client.response().body_text().contains("/2"));
    // rustls returns an error for an end without close_notify.
    let mut rest = Vec::new();
    std::io::Read::read_to_end(&mut client.reader, &mut rest).unwrap();
    assert!(rest.is_empty());
    wait_until("the connection is closed", || proxy.listener(|l| l.active.get()) == 0);
}
