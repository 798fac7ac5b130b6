//! Renewal of certificates while clients connect: none of them fails.

use crate::support::pki::{Pki, config};
use crate::support::tls::{TlsClient, V12, V13};
use crate::support::{Endpoint, Proxy};
use evenkeel_tls::Metrics;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};

fn metrics(proxy: &Proxy) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Metrics::new(&proxy.server().certificates())));
    let mut text = String::new();
    encode(&mut text, &registry).unwrap();
    text
}

#[test]
fn no_handshake_fails_while_certificates_change_and_wrong_files_change_nothing() {
    const ROUNDS: usize = 20;
    let (pki, endpoint) = (Pki::new(), Endpoint::saying("hello"));
    let used = pki.issue("a.test");
    let tls = format!("tls = {{ certificates = [{}] }}", used.entry());
    let proxy = Proxy::start(&config(&tls, &endpoint, ""));
    let (over, connected) = (AtomicBool::new(false), AtomicUsize::new(0));
    let mut last = used.der.clone();
    std::thread::scope(|scope| {
        for versions in [V12, V13] {
            let (proxy, pki, over, connected) = (&proxy, &pki, &over, &connected);
            scope.spawn(move || {
                while !over.load(SeqCst) {
                    // A client without a session performs the full handshake, with the certificate.
                    let mut client =
                        TlsClient::connect(proxy.addr(), pki.client(versions, None), "a.test").expect("a handshake");
                    assert_eq!(client.get("/").status(), 200);
                    connected.fetch_add(1, SeqCst);
                }
            });
        }
        for _ in 0..ROUNDS {
            let next = pki.issue("a.test");
            // Between the two copies they do not match, and the old pair stays in use.
            std::fs::copy(&next.cert, &used.cert).unwrap();
            proxy.server().certificates().look();
            std::fs::copy(&next.key, &used.key).unwrap();
            proxy.server().certificates().look();
            last = next.der;
            let before = connected.load(SeqCst);
            crate::support::wait_until("clients go on", || connected.load(SeqCst) > before + 2);
        }
        over.store(true, SeqCst);
    });
    let shown = |proxy: &Proxy| {
        let mut client = TlsClient::connect(proxy.addr(), pki.client(V13, None), "a.test").unwrap();
        client.stream().conn.peer_certificates().unwrap()[0].clone().into_owned()
    };
    assert_eq!(shown(&proxy), last);
    assert_eq!(proxy.listener(|l| l.tls.failed.iter().map(|n| n.get()).sum()), 0);
    let reloads = |result: &str, n: usize| format!("evenkeel_certificate_reloads_total{{result=\"{result}\"}} {n}");
    let text = metrics(&proxy);
    assert!(text.contains(&reloads("applied", ROUNDS)) && text.contains(&reloads("refused", ROUNDS)), "{text}");
    // A truncated file, and a missing one.
    for wrong in [Some("-----BEGIN CERTIFICATE-----\nMIIB"), None] {
        match wrong {
            Some(text) => std::fs::write(&used.cert, text).unwrap(),
            None => std::fs::remove_file(&used.cert).unwrap(),
        }
        proxy.server().certificates().look();
        assert_eq!(shown(&proxy), last);
    }
    assert!(metrics(&proxy).contains(&reloads("refused", ROUNDS + 2)));
    // The same certificate, after its file has come back.
    pki.write(used.cert.file_name().unwrap().to_str().unwrap(), pem(&last));
    proxy.server().certificates().look();
    assert_eq!(shown(&proxy), last);
}

fn pem(der: &[u8]) -> String {
    format!("-----BEGIN CERTIFICATE-----\n{}-----END CERTIFICATE-----\n", crate::support::tls::base64(der))
}

#[test]
fn metrics_say_when_certificates_expire_of_several_for_a_name_the_first() {
    let (pki, endpoint) = (Pki::new(), Endpoint::saying("hello"));
    let until =
        |year: i32| move |params: &mut rcgen::CertificateParams| params.not_after = rcgen::date_time_ymd(year, 1, 1);
    let ec = pki.issue_with("a.test", &rcgen::PKCS_ECDSA_P256_SHA256, until(2041));
    let rsa = pki.issue_with("a.test", &rcgen::PKCS_RSA_SHA256, until(2040));
    let other = pki.issue_with("b.test", &rcgen::PKCS_ED25519, until(2042));
    let entries = [ec.entry(), rsa.entry(), other.entry()].join(", ");
    let proxy = Proxy::start(&config(&format!("tls = {{ certificates = [{entries}] }}"), &endpoint, ""));
    let text = metrics(&proxy);
    let expires: Vec<&str> = text.lines().filter(|line| line.starts_with("evenkeel_certificate_not_after")).collect();
    let line = |name: &str, at: i64| {
        format!("evenkeel_certificate_not_after_timestamp_seconds{{listener=\"web\",name=\"{name}\"}} {at}")
    };
    assert_eq!(expires, [line("a.test", 2_208_988_800), line("b.test", 2_272_147_200)]);
}
