//! Client certificates: their identity in fields for endpoints and in the log, and refusal of invalid ones.

use crate::support::h2_server::H2Server;
use crate::support::log::Log;
use crate::support::pki::{Issued, Pki, config, refused, resumes};
use crate::support::tls::{TlsClient, V12, V13};
use crate::support::{Endpoint, Proxy, tool, wait_until};
use evenkeel_peers::installed;
use evenkeel_proxy::stats::Unsecured;
use rcgen::PKCS_ECDSA_P256_SHA256;
use rustls::HandshakeKind;
use sha2::{Digest, Sha256};

/// Fields with which a client might fake an identity: in upper and lower case, and with underscores, which CGI does not
/// distinguish from hyphens.
const CLAIMS: [&str; 9] = [
    "X-Client-Cert-Verified: SUCCESS",
    "x-client-cert-subject: CN=admin",
    "X-CLIENT-CERT-ISSUER: CN=admin",
    "X-Client-Cert-Serial: 1",
    "X-Client-Cert-Fingerprint: 00",
    "X_Client_Cert_Verified: SUCCESS",
    "X_Client-Cert_Subject: CN=admin",
    "Client-Cert: :eA==:",
    "Client_Cert_Chain: :eA==:",
];

fn asking(pki: &Pki, server: &Issued, auth: &str) -> String {
    format!("tls = {{ certificates = [{}], client_auth = {{ ca = {:?}, {auth} }} }}", server.entry(), pki.ca())
}

fn fingerprint(issued: &Issued) -> String {
    Sha256::digest(&issued.der).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Fields of a head about certificates, with names in lower case.
fn told(head: &str) -> Vec<String> {
    let lines = head.lines().filter_map(|line| line.split_once(": "));
    let mut told: Vec<String> = lines
        .map(|(name, value)| (name.to_ascii_lowercase(), value))
        .filter(|(name, _)| name.replace('_', "-").contains("client-cert"))
        .map(|(name, value)| format!("{name}: {value}"))
        .collect();
    told.sort();
    told
}

fn of(issued: &Issued) -> Vec<String> {
    vec![
        format!("x-client-cert-fingerprint: {}", fingerprint(issued)),
        "x-client-cert-issuer: CN=an authority".to_string(),
        "x-client-cert-serial: A7".to_string(),
        "x-client-cert-subject: CN=shop.test,O=Example\\, Inc.".to_string(),
        "x-client-cert-verified: SUCCESS".to_string(),
    ]
}

#[test]
fn endpoints_and_the_log_get_the_identity_also_when_a_session_is_resumed() {
    for versions in [V12, V13] {
        let (pki, endpoint, log) = (Pki::new(), Endpoint::saying("hello"), Log::new());
        let (server, shop) = (pki.issue("a.test"), pki.numbered("shop.test", 0xa7));
        let tls = asking(&pki, &server, "mode = 'required'");
        let proxy = Proxy::start(&config(&tls, &endpoint, &log.config()));
        let client = pki.client(versions, Some(&shop));
        for kind in [HandshakeKind::Full, HandshakeKind::Resumed] {
            let mut client = TlsClient::connect(proxy.addr(), client.clone(), "a.test").unwrap();
            client.send(format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n\r\n", CLAIMS.join("\r\n")));
            assert_eq!(client.response().status(), 200);
            assert_eq!(client.stream().conn.handshake_kind(), Some(kind));
        }
        assert!(endpoint.seen().iter().all(|seen| told(&seen.head) == of(&shop)), "{}", endpoint.seen()[0].head);
        let lines = log.lines(proxy);
        assert_eq!(lines.len(), 2);
        for line in lines {
            for (member, wanted) in [
                ("client_cert", "SUCCESS"),
                ("client_cert_subject", "CN=shop.test,O=Example\\, Inc."),
                ("client_cert_issuer", "CN=an authority"),
                ("client_cert_serial", "A7"),
                ("client_cert_fingerprint", &fingerprint(&shop)),
            ] {
                assert_eq!(line[member], wanted, "{line}");
            }
        }
    }
}

#[test]
fn where_certificates_are_optional_a_client_without_one_is_marked_as_such() {
    let (pki, endpoint, log) = (Pki::new(), Endpoint::saying("hello"), Log::new());
    let (server, shop) = (pki.issue("a.test"), pki.numbered("shop.test", 0xa7));
    let tls = asking(&pki, &server, "mode = 'optional'");
    let proxy = Proxy::start(&config(&tls, &endpoint, &log.config()));
    for (shows, wanted) in [(None, vec!["x-client-cert-verified: NONE".to_string()]), (Some(&shop), of(&shop))] {
        let mut client = TlsClient::connect(proxy.addr(), pki.client(V13, shows), "a.test").unwrap();
        client.send(format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n\r\n", CLAIMS.join("\r\n")));
        assert_eq!(client.response().status(), 200);
        assert_eq!(told(&endpoint.seen().last().unwrap().head), wanted);
    }
    // A certificate that is shown has to be valid, though none is required.
    let other = Pki::named("another authority");
    let wrong = other.issue("shop.test");
    assert!(refused(&proxy, pki.client(V13, Some(&wrong)), "a.test").contains("UnknownCA"));
    let lines = log.lines(proxy);
    assert_eq!((&lines[0]["client_cert"], lines[0].get("client_cert_subject")), (&"NONE".into(), None));
    assert_eq!(lines[1]["client_cert"], "SUCCESS");
}

#[test]
fn where_certificates_are_unverified_endpoints_see_which_are_invalid_and_nothing_of_them() {
    for versions in [V12, V13] {
        let (pki, endpoint, log) = (Pki::new(), Endpoint::saying("hello"), Log::new());
        let (server, shop) = (pki.issue("a.test"), pki.numbered("shop.test", 0xa7));
        let (stranger, other) = (Pki::named("another authority"), pki.numbered("shop.test", 0xa8));
        let unknown = stranger.issue("shop.test");
        let expired = pki.issue_with("shop.test", &PKCS_ECDSA_P256_SHA256, |params| {
            params.not_after = rcgen::date_time_ymd(2020, 1, 1);
        });
        let tls = asking(&pki, &server, &format!("mode = 'unverified', crl = {:?}", pki.crl(&[0xa8])));
        let proxy = Proxy::start(&config(&tls, &endpoint, &log.config()));
        let failed = |why: &str| vec![format!("x-client-cert-verified: FAILED:{why}")];
        for (shows, wanted, is_resumed) in [
            (None, vec!["x-client-cert-verified: NONE".to_string()], true),
            (Some(&shop), of(&shop), true),
            (Some(&unknown), failed("unknown issuer"), false),
            (Some(&expired), failed("expired"), false),
            (Some(&other), failed("revoked"), false),
        ] {
            let config = pki.client(versions, shows);
            for is_first in [true, false] {
                let mut client = TlsClient::connect(proxy.addr(), config.clone(), "a.test").unwrap();
                client.send(format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n\r\n", CLAIMS.join("\r\n")));
                assert_eq!(client.response().status(), 200);
                assert_eq!(told(&endpoint.seen().last().unwrap().head), wanted, "{is_first}");
                // A resumption verifies nothing, so there is none with an invalid certificate.
                let resumed = client.stream().conn.handshake_kind() == Some(HandshakeKind::Resumed);
                assert_eq!(resumed, !is_first && is_resumed, "{wanted:?}");
            }
        }
        let lines = log.lines(proxy);
        assert_eq!(
            (&lines[4]["client_cert"], lines[4].get("client_cert_subject")),
            (&"FAILED:unknown issuer".into(), None)
        );
    }
}

#[test]
fn claims_of_clients_that_were_not_asked_go_nowhere() {
    let (pki, endpoint) = (Pki::new(), Endpoint::saying("hello"));
    let server = pki.issue("a.test");
    let claims = format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n\r\n", CLAIMS.join("\r\n"));
    let plain = Proxy::with(&[endpoint.addr], "", "", "");
    assert_eq!(plain.client().send(&claims).response().status(), 200);
    let tls = format!("tls = {{ certificates = [{}] }}", server.entry());
    let secured = Proxy::start(&config(&tls, &endpoint, ""));
    let mut client = TlsClient::connect(secured.addr(), pki.client(V13, None), "a.test").unwrap();
    assert_eq!(client.send(&claims).response().status(), 200);
    assert_eq!(endpoint.seen().len(), 2);
    assert!(endpoint.seen().iter().all(|seen| told(&seen.head).is_empty()));
}

#[test]
fn over_http2_the_identity_is_the_same() {
    if !installed(&["curl"]) {
        return;
    }
    let (pki, endpoint) = (Pki::new(), Endpoint::saying("hello"));
    let (server, shop) = (pki.issue("a.test"), pki.numbered("shop.test", 0xa7));
    for mode in ["required", "optional"] {
        let proxy = Proxy::start(&config(&asking(&pki, &server, &format!("mode = '{mode}'")), &endpoint, ""));
        let port = proxy.addr().port();
        for shows in [true, false] {
            let mut curl = tool("curl");
            curl.args(["-sS", "--noproxy", "*", "--max-time", "20", "--http2", "-w", " %{http_version}"]);
            curl.args(["--resolve", &format!("a.test:{port}:{}", proxy.addr().ip())]).arg("--cacert").arg(pki.ca());
            CLAIMS.iter().for_each(|claim| _ = curl.args(["-H", claim]));
            if shows {
                curl.arg("--cert").arg(&shop.cert).arg("--key").arg(&shop.key);
            }
            let out = curl.arg(format!("https://a.test:{port}/")).output().unwrap();
            let is_let_in = shows || mode == "optional";
            assert_eq!(out.status.success(), is_let_in, "{}", String::from_utf8_lossy(&out.stderr));
            if is_let_in {
                assert_eq!(String::from_utf8_lossy(&out.stdout), "hello 2");
                let none = vec!["x-client-cert-verified: NONE".to_string()];
                assert_eq!(told(&endpoint.seen().last().unwrap().head), if shows { of(&shop) } else { none });
            }
        }
    }
}

#[test]
fn endpoints_that_speak_http2_get_the_same_identity() {
    let (pki, endpoint) = (Pki::new(), H2Server::saying("hello"));
    let (server, shop) = (pki.issue("a.test"), pki.numbered("shop.test", 0xa7));
    let proxy = Proxy::start(&format!(
        "[runtime]\nworkers = 1\n[listener.web]\nbind = [\"$BIND\"]\n{}\n\
         [pool.web]\nendpoints = [\"{}\"]\nprotocol = \"h2\"\n",
        asking(&pki, &server, "mode = 'required'"),
        endpoint.addr
    ));
    let mut client = TlsClient::connect(proxy.addr(), pki.client(V13, Some(&shop)), "a.test").unwrap();
    client.send(format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n\r\n", CLAIMS.join("\r\n")));
    assert_eq!(client.response().status(), 200);
    let head: String = endpoint.seen()[0]
        .headers
        .iter()
        .map(|(name, value)| format!("{name}: {}\n", value.to_str().unwrap()))
        .collect();
    assert_eq!(told(&head), of(&shop));
}

#[test]
fn a_client_whose_certificate_was_revoked_is_refused_and_its_session_does_not_go_on() {
    for (versions, said) in [(V12, "CertificateRevoked"), (V13, "CertificateRevoked")] {
        let (pki, endpoint, log) = (Pki::new(), Endpoint::saying("hello"), Log::new());
        let (server, [one, two]) = (pki.issue("a.test"), [1, 2].map(|serial| pki.numbered("shop.test", serial)));
        let crl = pki.crl(&[2]);
        let tls = asking(&pki, &server, &format!("crl = {crl:?}"));
        let proxy = Proxy::start(&config(&tls, &endpoint, &log.config()));
        let client = pki.client(versions, Some(&one));
        assert!(!resumes(&proxy, &client, "a.test"));
        assert!(resumes(&proxy, &client, "a.test"));
        let why = refused(&proxy, pki.client(versions, Some(&two)), "a.test");
        assert!(why.contains(said), "{why}");
        // Now the other one is revoked, too, whose client has a ticket.
        pki.crl(&[1, 2]);
        proxy.server().certificates().look();
        let why = refused(&proxy, client, "a.test");
        assert!(why.contains(said), "{why}");
        let failed = |cause: Unsecured| proxy.listener(|l| l.tls.failed[cause as usize].get());
        wait_until("both are counted", || failed(Unsecured::Revoked) == 2);
        let reasons: Vec<_> = log.lines(proxy).into_iter().filter(|line| line["proto"] == "TLS").collect();
        assert_eq!(reasons.len(), 2);
        assert!(reasons.iter().all(|line| line["reason"].as_str().unwrap().contains("was revoked")), "{reasons:?}");
    }
}

/// A ticket proves that a client was let in once, when it did not have to prove anything.
#[test]
fn a_session_without_a_certificate_does_not_go_on_where_one_is_required() {
    let (pki, endpoint) = (Pki::new(), Endpoint::saying("hello"));
    let server = pki.issue("a.test");
    let keys = pki.write("tickets.key", [7; 80]);
    for keys in [String::new(), format!(", ticket_keys = [{keys:?}]")] {
        let open = format!("tls = {{ certificates = [{}] {keys} }}", server.entry());
        let closed =
            format!("tls = {{ certificates = [{}], client_auth = {{ ca = {:?} }} {keys} }}", server.entry(), pki.ca());
        for versions in [V12, V13] {
            let mut proxy = Proxy::start(&config(&open, &endpoint, ""));
            let client = pki.client(versions, None);
            assert!(!resumes(&proxy, &client, "a.test"));
            assert!(resumes(&proxy, &client, "a.test"));
            proxy.reload(&config(&closed, &endpoint, "")).unwrap();
            let why = refused(&proxy, client, "a.test");
            assert!(why.contains("CertificateRequired") || why.contains("HandshakeFailure"), "{why}");
        }
    }
}
