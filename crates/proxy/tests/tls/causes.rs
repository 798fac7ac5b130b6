//! Causes of failed handshakes, in the counters and in the access log.

use crate::support::log::Log;
use crate::support::pki::{Issued, Pki, config, refused};
use crate::support::tls::{TlsClient, V12, V13};
use crate::support::{Client, Endpoint, Proxy, SOON, wait_until};
use evenkeel_proxy::stats::Unsecured;
use rcgen::{CertificateParams, PKCS_ECDSA_P256_SHA256, date_time_ymd};
use rustls::crypto::aws_lc_rs::{default_provider, kx_group};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

/// Runs `act` against a proxy, and asserts that the only failed handshake has this cause. Returns its line of the log.
#[track_caller]
fn fails(pki: &Pki, tls: &str, cause: Unsecured, act: impl FnOnce(&Proxy)) -> Value {
    let (endpoint, log) = (Endpoint::saying("hello"), Log::new());
    let server = pki.issue("a.test");
    let tls = format!("tls = {{ certificates = [{}], {tls} }}", server.entry());
    let proxy = Proxy::start(&config(&tls, &endpoint, &log.config()));
    act(&proxy);
    let failed = |proxy: &Proxy| proxy.listener(|l| l.tls.failed.iter().map(|n| n.get()).sum());
    wait_until("a handshake has failed", || failed(&proxy) > 0);
    wait_until("none is under way", || proxy.listener(|l| l.tls.active.get()) == 0);
    let counts = proxy.listener(|l| l.tls.failed[cause as usize].get());
    assert_eq!((counts, failed(&proxy)), (1, 1), "{cause:?}");
    assert!(endpoint.seen().is_empty());
    let mut lines = log.lines(proxy);
    lines.retain(|line| line.get("reason").is_some());
    assert_eq!(lines.len(), 1, "{lines:?}");
    let line = lines.remove(0);
    if cause != Unsecured::PlainHttp {
        let reason = line["reason"].as_str().unwrap();
        assert!(reason.starts_with(&format!("TLS: {}", cause.text())), "{reason}");
        assert_eq!((&line["proto"], &line["status"], &line["listener"]), (&"TLS".into(), &0.into(), &"web".into()));
    }
    line
}

/// Asserts that a client with such a certificate is refused for this cause.
#[track_caller]
fn showing(cause: Unsecured, issued: impl FnOnce(&Pki) -> Option<Issued>) {
    let pki = Pki::new();
    let shown = issued(&pki);
    let line = fails(&pki, &format!("client_auth = {{ ca = {:?} }}", pki.ca()), cause, |proxy| {
        refused(proxy, pki.client(V13, shown.as_ref()), "a.test");
    });
    assert_eq!((&line["host"], &line["term"]), (&"a.test".into(), &"CR".into()), "{line}");
}

fn dated(pki: &Pki, change: impl FnOnce(&mut CertificateParams)) -> Option<Issued> {
    Some(pki.issue_with("shop.test", &PKCS_ECDSA_P256_SHA256, change))
}

#[test]
fn a_client_without_a_certificate() {
    showing(Unsecured::CertificateRequired, |_| None);
}

#[test]
fn a_client_whose_certificate_has_expired() {
    showing(Unsecured::Expired, |pki| dated(pki, |params| params.not_after = date_time_ymd(2020, 1, 1)));
}

#[test]
fn a_client_whose_certificate_is_not_valid_yet() {
    showing(Unsecured::NotYetValid, |pki| dated(pki, |params| params.not_before = date_time_ymd(2900, 1, 1)));
}

#[test]
fn a_client_of_an_unknown_authority() {
    showing(Unsecured::UnknownCa, |_| Some(Pki::named("another authority").issue("shop.test")));
}

#[test]
fn a_client_with_a_certificate_for_servers() {
    use rcgen::ExtendedKeyUsagePurpose::ServerAuth;
    showing(Unsecured::BadCertificate, |pki| dated(pki, |params| params.extended_key_usages = vec![ServerAuth]));
}

#[test]
fn a_client_of_an_old_version() {
    let pki = Pki::new();
    fails(&pki, "min_version = '1.3'", Unsecured::Version, |proxy| {
        assert!(refused(proxy, pki.client(V12, None), "a.test").contains("ProtocolVersion"));
    });
}

#[test]
fn a_client_with_no_key_exchange_in_common() {
    let pki = Pki::new();
    let mut provider = default_provider();
    provider.kx_groups = vec![kx_group::MLKEM768];
    let client = pki.client_by(provider, V13, None);
    fails(&pki, "", Unsecured::Cipher, |proxy| _ = refused(proxy, client, "a.test"));
}

#[test]
fn a_client_with_no_signature_in_common() {
    let pki = Pki::new();
    let mut provider = default_provider();
    // The server has an ECDSA key.
    provider.cipher_suites.retain(|suite| format!("{:?}", suite.suite()).contains("ECDHE_RSA"));
    let client = pki.client_by(provider, V12, None);
    fails(&pki, "", Unsecured::Cipher, |proxy| _ = refused(proxy, client, "a.test"));
}

#[test]
fn a_client_with_no_protocol_in_common() {
    let pki = Pki::new();
    let mut client = rustls::ClientConfig::clone(&pki.client(V13, None));
    client.alpn_protocols = vec![b"imap".to_vec()];
    fails(&pki, "", Unsecured::Protocol, |proxy| {
        assert!(refused(proxy, Arc::new(client), "a.test").contains("NoApplicationProtocol"));
    });
}

#[test]
fn a_client_that_asks_for_an_unknown_name() {
    let pki = Pki::new();
    let line = fails(&pki, "unknown_name = 'reject'", Unsecured::NoCertificate, |proxy| {
        refused(proxy, pki.client(V13, None), "b.test");
    });
    assert_eq!(line["host"], "b.test");
}

#[test]
fn a_client_that_does_not_trust_us() {
    for versions in [V12, V13] {
        let (pki, other) = (Pki::new(), Pki::named("another authority"));
        let line = fails(&pki, "", Unsecured::Distrusted, |proxy| {
            let refused = TlsClient::connect(proxy.addr(), other.client(versions, None), "a.test").err().unwrap();
            assert!(refused.to_string().contains("UnknownIssuer"), "{refused}");
        });
        assert!(line["reason"].as_str().unwrap().contains("UnknownCA"), "{line}");
        let line = fails(&pki, "", Unsecured::Distrusted, |proxy| {
            _ = TlsClient::connect(proxy.addr(), pki.client(versions, None), "b.test").err().unwrap();
        });
        assert_eq!(line["host"], "b.test");
    }
}

#[test]
fn a_client_that_speaks_plain_http_reads_why() {
    let line = fails(&Pki::new(), "", Unsecured::PlainHttp, |proxy| {
        let mut client = Client::connect(proxy.addr());
        let answer = client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n").response();
        assert_eq!(answer.status(), 400);
        assert!(answer.body_text().contains("use https://"), "{}", answer.body_text());
    });
    assert_eq!(line["status"], 400);
    assert!(line["reason"].as_str().unwrap().contains("plain HTTP"), "{line}");
}

#[test]
fn a_client_that_is_too_slow() {
    let line = fails(&Pki::new(), "handshake_timeout = '150ms'", Unsecured::Timeout, |proxy| {
        let mut stream = TcpStream::connect(proxy.addr()).unwrap();
        stream.write_all(b"\x16\x03\x01").unwrap();
        stream.set_read_timeout(Some(SOON)).unwrap();
        let _ = stream.read_to_end(&mut Vec::new());
    });
    assert_eq!(line["term"], "cR");
}

#[test]
fn a_client_too_many() {
    let pki = Pki::new();
    let line = fails(&pki, "handshakes = 1, handshake_timeout = '20s'", Unsecured::TooMany, |proxy| {
        let name = rustls::pki_types::ServerName::try_from("a.test").unwrap();
        let mut first = rustls::ClientConnection::new(pki.client(V13, None), name).unwrap();
        let (mut hello, mut stream) = (Vec::new(), TcpStream::connect(proxy.addr()).unwrap());
        first.write_tls(&mut hello).unwrap();
        stream.write_all(&hello).unwrap();
        wait_until("one is under way", || proxy.listener(|l| l.tls.active.get()) == 1);
        // Both have the same address, and the first has not stalled for long.
        let mut second = TcpStream::connect(proxy.addr()).unwrap();
        second.write_all(&hello).unwrap();
        wait_until("it is refused", || proxy.listener(|l| l.tls.failed[Unsecured::TooMany as usize].get()) == 1);
        // The first handshake continues.
        while first.is_handshaking() {
            first.complete_io(&mut stream).unwrap();
        }
        wait_until("it is done", || proxy.listener(|l| l.tls.shaken[0].get()) == 1);
    });
    assert_eq!(line["term"], "PR");
}

#[test]
fn bytes_that_are_not_tls() {
    fails(&Pki::new(), "", Unsecured::NotTls, |proxy| {
        TcpStream::connect(proxy.addr()).unwrap().write_all(b"\0\0\0\0").unwrap();
    });
}

/// Bytes after a failed handshake must not turn its alert into a reset.
#[test]
fn a_client_that_keeps_sending_reads_why_it_is_refused() {
    let pki = Pki::new();
    for mode in ["http", "tcp"] {
        let endpoint = Endpoint::saying("hello");
        let tls = format!(
            "tls = {{ certificates = [{}], client_auth = {{ ca = {:?} }} }}",
            pki.issue("a.test").entry(),
            pki.ca()
        );
        let pool = if mode == "tcp" { "mode = 'tcp'\npool = 'web'" } else { "" };
        let proxy =
            Proxy::start(&config(&format!("{pool}\n{tls}"), &endpoint, "").replace("errors = \"detailed\"", ""));
        for n in 1..=20 {
            let mut client = TlsClient::connect(proxy.addr(), pki.client(V13, None), "a.test").unwrap();
            let failed = Unsecured::CertificateRequired as usize;
            wait_until("it is refused", || proxy.listener(|l| l.tls.failed[failed].get()) == n);
            // The client has not read the alert, and sends more.
            for _ in 0..10 {
                client.stream().sock.write_all(&[0; 10_000]).unwrap();
            }
            let refused = client.stream().read(&mut [0]).unwrap_err();
            assert!(refused.to_string().contains("CertificateRequired"), "{mode}: {refused}");
        }
    }
}

/// Like the health checks of a load balancer in front: counted, but not logged one by one.
#[test]
fn a_look_at_the_port_is_counted_and_not_logged() {
    let (pki, endpoint, log) = (Pki::new(), Endpoint::saying("hello"), Log::new());
    let tls = format!("tls = {{ certificates = [{}] }}", pki.issue("a.test").entry());
    let proxy = Proxy::start(&config(&tls, &endpoint, &log.config()));
    drop(TcpStream::connect(proxy.addr()).unwrap());
    let mut begun = TcpStream::connect(proxy.addr()).unwrap();
    begun.write_all(b"\x16\x03\x01").unwrap();
    drop(begun);
    wait_until("both are counted", || proxy.listener(|l| l.tls.failed[Unsecured::Closed as usize].get()) == 2);
    let lines = log.lines(proxy);
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0]["reason"].as_str().unwrap().contains("closed the connection"));
}

#[test]
fn the_guide_lists_every_cause() {
    let guide = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guide/tls.md");
    let guide = std::fs::read_to_string(guide).expect("it is there");
    let rows: Vec<&str> = guide.lines().filter_map(|line| line.strip_prefix("| ")?.split(" | ").next()).collect();
    for label in Unsecured::LABELS {
        assert!(rows.iter().any(|row| row.contains(&format!("`{label}`"))), "{label}");
    }
}
