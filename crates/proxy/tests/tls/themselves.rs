//! Certificates that are trusted as they are, without an authority: of an endpoint, and of a client.

use crate::support::endpoint::ok;
use crate::support::pki::{Issued, Pki, config, refused, resumes};
use crate::support::tls::{TlsClient, V12, V13, answering};
use crate::support::{Endpoint, Proxy, wait_until};
use rcgen::{CertificateParams, ExtendedKeyUsagePurpose, PKCS_ECDSA_P256_SHA256, date_time_ymd};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Status and body of a response from an endpoint that shows `shown`, with `ca` as the trusted certificate.
fn answer(pki: &Pki, shown: &Issued, ca: &Issued) -> (u16, String) {
    let endpoint = answering(pki.serving(shown), |_| ok("secured"));
    let tls = format!("tls = {{ ca = {:?}, server_name = 'b.test' }}", ca.cert);
    let answer = Proxy::with(&[endpoint.addr], "", &tls, "").client().get("/");
    (answer.status(), answer.body_text().to_string())
}

#[test]
fn an_endpoint_is_believed_by_its_own_certificate() {
    let pki = Pki::new();
    let own = pki.own("b.test", |_| ());
    assert_eq!(answer(&pki, &own, &own), (200, "secured".to_string()));
    // A certificate that an authority has issued, without that authority.
    let issued = pki.issue("b.test");
    assert_eq!(answer(&pki, &issued, &issued).0, 200);
    // Another certificate for the same name, which the first has not issued.
    let (status, why) = answer(&pki, &pki.own("b.test", |_| ()), &own);
    assert!(status == 502 && why.contains("TLS: "), "{status} {why}");
    let past = |params: &mut CertificateParams| params.not_after = date_time_ymd(2020, 1, 1);
    let future = |params: &mut CertificateParams| params.not_before = date_time_ymd(2900, 1, 1);
    let for_clients =
        |params: &mut CertificateParams| params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    for (own, wanted) in [
        (pki.own("b.test", past), "the certificate has expired"),
        (pki.own("b.test", future), "the certificate is not valid yet"),
        (pki.own("c.test", |_| ()), "the certificate is for another name"),
        (pki.own("b.test", for_clients), "the certificate is invalid"),
    ] {
        let (status, why) = answer(&pki, &own, &own);
        assert!(status == 502 && why.contains(wanted), "{wanted}: {status} {why}");
    }
}

fn asking(pki: &Pki, server: &Issued, believed: &Issued, more: &str) -> String {
    format!("tls = {{ certificates = [{}], client_auth = {{ ca = {:?}{more} }} }}", server.entry(), believed.cert)
        .replace("$FOLDER", &pki.ca().parent().expect("a folder").display().to_string())
}

#[test]
fn a_client_is_believed_by_its_own_certificate() {
    let (pki, endpoint) = (Pki::new(), Endpoint::saying("hello"));
    let (server, own) = (pki.issue("a.test"), pki.own("shop.test", |_| ()));
    let proxy = Proxy::start(&config(&asking(&pki, &server, &own, ""), &endpoint, ""));
    for versions in [V12, V13] {
        let client = pki.client(versions, Some(&own));
        let mut client = TlsClient::connect(proxy.addr(), client, "a.test").expect("a handshake");
        assert_eq!(client.get("/").body_text(), "hello");
        let another = pki.own("shop.test", |_| ());
        refused(&proxy, pki.client(versions, Some(&another)), "a.test");
    }
    let past = pki.own("shop.test", |params| params.not_after = date_time_ymd(2020, 1, 1));
    let proxy = Proxy::start(&config(&asking(&pki, &server, &past, ""), &endpoint, ""));
    let why = refused(&proxy, pki.client(V13, Some(&past)), "a.test");
    assert!(why.contains("CertificateExpired"), "{why}");
}

#[test]
fn a_client_that_is_named_itself_may_be_revoked() {
    let (pki, endpoint) = (Pki::new(), Endpoint::saying("hello"));
    let (server, [one, two]) = (pki.issue("a.test"), [1, 2].map(|serial| pki.numbered("shop.test", serial)));
    let crl = format!(", crl = {:?}", pki.crl(&[2]));
    for (shown, is_let_in) in [(&one, true), (&two, false)] {
        let proxy = Proxy::start(&config(&asking(&pki, &server, shown, &crl), &endpoint, ""));
        let client = pki.client(V13, Some(shown));
        if is_let_in {
            let mut client = TlsClient::connect(proxy.addr(), client, "a.test").expect("a handshake");
            assert_eq!(client.get("/").body_text(), "hello");
        } else {
            let why = refused(&proxy, client, "a.test");
            assert!(why.contains("CertificateRevoked"), "{why}");
        }
    }
}

/// A ticket would let the client in for half a day.
#[test]
fn a_session_does_not_outlive_the_certificate_of_its_client() {
    let (pki, endpoint) = (Pki::new(), Endpoint::saying("hello"));
    let server = pki.issue("a.test");
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).expect("it is later");
    let until = now() + Duration::from_secs(5);
    let shown = pki.issue_with("shop.test", &PKCS_ECDSA_P256_SHA256, |params| {
        params.not_after = date_time_ymd(1970, 1, 1) + Duration::from_secs(until.as_secs());
    });
    let tls = format!("tls = {{ certificates = [{}], client_auth = {{ ca = {:?} }} }}", server.entry(), pki.ca());
    let proxy = Proxy::start(&config(&tls, &endpoint, ""));
    let clients = [V12, V13].map(|versions| pki.client(versions, Some(&shown)));
    for client in &clients {
        assert!(!resumes(&proxy, client, "a.test"));
        assert!(resumes(&proxy, client, "a.test"));
    }
    wait_until("its time is over", || now().as_secs() > until.as_secs());
    for client in clients {
        let why = refused(&proxy, client, "a.test");
        assert!(why.contains("CertificateExpired"), "{why}");
    }
}
