//! OCSP responses in handshakes: valid ones, and no others.

use super::names::shown;
use crate::support::pki::{Issued, Pki, config};
use crate::support::tls::{V12, V13};
use crate::support::{Endpoint, Proxy};
use rustls::crypto::aws_lc_rs::default_provider;
use std::path::Path;

/// A `tryLater` response in DER (RFC 6960 section 4.2.1).
const TRY_LATER: &[u8] = &[0x30, 3, 0x0a, 1, 3];

/// A proxy that shows the first certificate with a response from a file, and the second without.
fn proxy(with: &Issued, ocsp: &Path, without: &Issued, endpoint: &Endpoint) -> Proxy {
    let (cert, key, other) = (&with.cert, &with.key, without.entry());
    let certificates = format!("[{{ cert = {cert:?}, key = {key:?}, ocsp = {ocsp:?} }}, {other}]");
    Proxy::start(&config(&format!("tls = {{ certificates = {certificates} }}"), endpoint, ""))
}

#[track_caller]
fn stapled(proxy: &Proxy, name: &str) -> Vec<u8> {
    let [old, new] = [V12, V13].map(|versions| shown(proxy, default_provider(), versions, name).1);
    assert_eq!(old, new, "TLS 1.2 and 1.3");
    new
}

#[test]
fn a_good_response_is_stapled_and_a_newer_one_replaces_it() {
    if !evenkeel_peers::installed(&["openssl"]) {
        return;
    }
    let (pki, endpoint) = (Pki::new(), Endpoint::saying("hello"));
    let [with, without] = ["a.test", "b.test"].map(|name| pki.issue(name));
    let [first, second] = ["-ndays 7", "-ndays 8"].map(|days| pki.ocsp(&with, days));
    let file = pki.write("a.ocsp", &first);
    let proxy = proxy(&with, &file, &without, &endpoint);
    assert!(stapled(&proxy, "a.test") == first && stapled(&proxy, "b.test").is_empty());
    pki.write("a.ocsp", &second);
    proxy.server().certificates().look();
    assert!(stapled(&proxy, "a.test") == second && stapled(&proxy, "b.test").is_empty());
}

#[test]
fn other_responses_are_not_stapled_and_clients_connect_without() {
    if !evenkeel_peers::installed(&["openssl"]) {
        return;
    }
    let (pki, endpoint) = (Pki::new(), Endpoint::saying("hello"));
    let [with, without] = ["a.test", "b.test"].map(|name| pki.numbered(name, name.as_bytes()[0]));
    let others = [Pki::named("another authority"), Pki::new()].map(|other| {
        let of_same_number = other.numbered("a.test", b'a');
        other.ocsp(&of_same_number, "-ndays 7")
    });
    let mut forged = pki.ocsp(&with, "-ndays 7 -resp_no_certs");
    *forged.last_mut().expect("it is signed") ^= 1;
    let bad = [
        (pki.expired(&pki.ocsp(&with, "-ndays 7 -resp_no_certs")), "expired"),
        (pki.ocsp(&without, "-ndays 7"), "another certificate"),
        (others[0].clone(), "another issuer"),
        (others[1].clone(), "another issuer of the same name"),
        (forged, "another signature"),
        (TRY_LATER.to_vec(), "tryLater"),
        (vec![0x30, 3, 0x0a, 1, 0], "empty"),
    ];
    let is_stapled = |(bad, _): &(Vec<u8>, &str)| {
        let proxy = proxy(&with, &pki.write("a.ocsp", bad), &without, &endpoint);
        !stapled(&proxy, "a.test").is_empty()
    };
    let wrong: Vec<&str> = bad.into_iter().filter(is_stapled).map(|(_, what)| what).collect();
    assert_eq!(wrong, [""; 0]);
}
