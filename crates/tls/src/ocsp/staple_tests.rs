//! Responses that clients see in handshakes, while the file of the response changes and time passes.

use super::authority::Authority;
use crate::inspect::{now, with_tls};
use crate::store::Store;
use evenkeel_config::{Machine, Plan};
use evenkeel_peers::Trusting;
use rustls::{ClientConfig, ClientConnection, ServerConnection, SignatureScheme};
use std::fs;
use std::sync::Arc;

/// Performs a handshake with the first listener, and returns the stapled response; empty without a response.
fn stapled(store: &Store) -> Vec<u8> {
    let trusting = Arc::new(Trusting::new(vec![SignatureScheme::ECDSA_NISTP256_SHA256]));
    let builder = ClientConfig::builder_with_provider(crate::provider::provider());
    let builder = builder.with_safe_default_protocol_versions().expect("versions").dangerous();
    let config = builder.with_custom_certificate_verifier(trusting.clone()).with_no_client_auth();
    let mut client = ClientConnection::new(Arc::new(config), "a.test".try_into().expect("a name")).expect("a client");
    let current = store.listeners().next().expect("one").2.get();
    let mut server = ServerConnection::new(current).expect("a server");
    while client.is_handshaking() {
        let (mut there, mut back) = (Vec::new(), Vec::new());
        client.write_tls(&mut there).expect("it fits");
        server.read_tls(&mut &*there).expect("it is read whole");
        server.process_new_packets().expect("a good hello");
        server.write_tls(&mut back).expect("it fits");
        client.read_tls(&mut &*back).expect("it is read whole");
        client.process_new_packets().expect("a good certificate");
    }
    trusting.staple().expect("a handshake").to_vec()
}

fn plan(authority: &Authority) -> Plan {
    let [cert, key, ocsp] = ["a.pem", "a.key", "a.ocsp"].map(|file| authority.path(file));
    let text = format!(
        "[listener.web]\nbind = [\"127.0.0.1:1\"]\n\
         tls = {{ certificates = [{{ cert = {cert:?}, key = {key:?}, ocsp = {ocsp:?} }}] }}\n\
         [pool.web]\nendpoints = [\"127.0.0.1:2\"]\n"
    );
    evenkeel_config::parse_str("test", &text, &|_| None).plan.expect("a good file")
}

/// The metric of nextUpdate for `a.test`.
fn next_update(store: &Store) -> i64 {
    let all = store.shown().next_updates();
    all[&("web".into(), "a.test".to_string())]
}

fn refused(store: &Store) -> String {
    let mut registry = prometheus_client::registry::Registry::default();
    registry.register_collector(Box::new(crate::Metrics::new(store)));
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry).expect("text");
    let line = text.lines().find(|line| line.contains("\"refused\"")).expect("a line of it");
    line.rsplit(' ').next().expect("a number").to_string()
}

#[test]
fn a_response_is_stapled_while_it_is_good_and_until_its_next_update() {
    let Some(authority) = Authority::new() else { return };
    authority.issue("a", "leaf", 7);
    let write = |content: &[u8]| fs::write(authority.path("a.ocsp"), content).expect("a file");
    let try_later = [0x30, 3, 0x0a, 1, 3];
    write(&try_later);
    let store = Store::default().next(&plan(&authority)).expect("good certificates");
    assert_eq!((stapled(&store), next_update(&store)), (Vec::new(), 0), "tryLater at the start");
    let good = authority.response("a", "ca", Some('V'), "-ndays 7");
    write(&good);
    store.look();
    let until = next_update(&store);
    assert!(stapled(&store) == good && until > now());
    // An invalid response does not replace the valid response, not even in a reload.
    for (bad, refusals) in [(&try_later[..], "0"), (b"0 good since Monday", "1")] {
        write(bad);
        store.look();
        assert!(stapled(&store) == good && next_update(&store) == until, "{bad:?}");
        assert_eq!(refused(&store), refusals);
    }
    write(&try_later);
    store.look();
    let store = store.next(&plan(&authority)).expect("good certificates");
    assert!(stapled(&store) == good && next_update(&store) == until);
    // Time passes while the file is broken.
    write(b"rubbish");
    store.look();
    store.look_at(until - super::EARLY - 1);
    assert!(stapled(&store) == good && next_update(&store) == until);
    store.look_at(until - super::EARLY);
    assert_eq!((stapled(&store), next_update(&store)), (Vec::new(), 0), "nextUpdate");
    // A start with it fails: that is an error of the file.
    assert!(
        Store::default().next(&plan(&authority)).is_err_and(|problems| problems[0].to_string().contains("not an OCSP"))
    );
    let newer = authority.response("a", "ca", Some('V'), "-ndays 8");
    write(&newer);
    store.look();
    assert!(stapled(&store) == newer && next_update(&store) > until);
}

#[test]
fn a_renewed_certificate_loses_the_response_of_the_one_before() {
    let Some(authority) = Authority::new() else { return };
    authority.issue("a", "leaf", 7);
    let old = authority.response("a", "ca", Some('V'), "-ndays 7");
    fs::write(authority.path("a.ocsp"), &old).expect("a file");
    let store = Store::default().next(&plan(&authority)).expect("good certificates");
    assert!(stapled(&store) == old);
    authority.issue("a", "leaf", 8);
    store.look();
    assert_eq!((stapled(&store), next_update(&store)), (Vec::new(), 0));
    let new = authority.response("a", "ca", Some('V'), "-ndays 7");
    fs::write(authority.path("a.ocsp"), &new).expect("a file");
    store.look();
    assert!(stapled(&store) == new);
}

#[test]
fn a_revoked_certificate_loses_the_response_that_it_is_good() {
    let Some(authority) = Authority::new() else { return };
    authority.issue("a", "leaf", 7);
    let write = |status| {
        let response = authority.response("a", "ca", status, "-ndays 7");
        fs::write(authority.path("a.ocsp"), &response).expect("a file");
        response
    };
    let good = write(Some('V'));
    let store = Store::default().next(&plan(&authority)).expect("good certificates");
    assert!(stapled(&store) == good);
    write(Some('R'));
    store.look();
    assert_eq!((stapled(&store), next_update(&store)), (Vec::new(), 0));
}

#[test]
fn check_warns_of_a_response_that_is_not_stapled() {
    let Some(authority) = Authority::new() else { return };
    authority.issue("a", "leaf", 7);
    authority.issue("b", "leaf", 8);
    let machine = with_tls(Machine::this());
    let check = |response: &[u8]| {
        fs::write(authority.path("a.ocsp"), response).expect("a file");
        (machine.ocsp)(&authority.path("a.ocsp"), &authority.path("a.pem").as_path().into())
    };
    assert_eq!(check(&authority.response("a", "ca", Some('V'), "-ndays 7")), []);
    for (response, why) in [
        (authority.response("b", "ca", Some('V'), "-ndays 7"), "it is for a different certificate"),
        (vec![0x30, 3, 0x0a, 1, 3], "tryLater"),
    ] {
        let faults = check(&response);
        assert!(matches!(&faults[..], [fault] if !fault.is_error && fault.what.contains(why)), "{why}: {faults:?}");
    }
}
