//! Session resumption: at another instance, when keys change, and after a reload.

use crate::support::pki::{Pki, config, resumes};
use crate::support::tls::{V12, V13};
use crate::support::{Endpoint, Proxy};

#[test]
fn a_session_is_resumed_at_an_instance_with_the_same_keys_and_at_no_other() {
    let (pki, endpoint) = (Pki::new(), Endpoint::saying("hello"));
    let server = pki.issue("a.test");
    let (keys, others) = (pki.write("tickets.key", [7; 80]), pki.write("others.key", [8; 80]));
    let tls = |keys: &str| format!("tls = {{ certificates = [{}] {keys} }}", server.entry());
    let shared = tls(&format!(", ticket_keys = [{keys:?}]"));
    let other = tls(&format!(", ticket_keys = [{others:?}]"));
    for versions in [V12, V13] {
        let first = Proxy::start(&config(&shared, &endpoint, ""));
        for (second, goes_on) in [(&shared, true), (&other, false), (&tls(""), false)] {
            let client = pki.client(versions, None);
            assert!(!resumes(&first, &client, "a.test"));
            let second = Proxy::start(&config(second, &endpoint, ""));
            assert_eq!(resumes(&second, &client, "a.test"), goes_on);
        }
    }
}

#[test]
fn a_ticket_is_good_for_one_more_change_of_keys() {
    let (pki, endpoint) = (Pki::new(), Endpoint::saying("hello"));
    let server = pki.issue("a.test");
    for versions in [V12, V13] {
        let keys = |new: u8, old: u8| [pki.write("new.key", [new; 80]), pki.write("old.key", [old; 80])];
        let files = keys(2, 1);
        let tls = format!("tls = {{ certificates = [{}], ticket_keys = {files:?} }}", server.entry());
        let proxy = Proxy::start(&config(&tls, &endpoint, ""));
        let (early, late) = (pki.client(versions, None), pki.client(versions, None));
        assert!(!resumes(&proxy, &early, "a.test"));
        assert!(!resumes(&proxy, &late, "a.test"));
        keys(3, 2);
        proxy.server().certificates().look();
        assert!(resumes(&proxy, &early, "a.test"));
        keys(4, 3);
        proxy.server().certificates().look();
        // One client has got a newer ticket since, the other one has not.
        assert!(resumes(&proxy, &early, "a.test"));
        assert!(!resumes(&proxy, &late, "a.test"));
    }
}

#[test]
fn after_a_reload_tickets_are_good_still() {
    let (pki, endpoint) = (Pki::new(), Endpoint::saying("hello"));
    let server = pki.issue("a.test");
    let tls = |more: &str| format!("tls = {{ certificates = [{}] {more} }}", server.entry());
    for versions in [V12, V13] {
        let mut proxy = Proxy::start(&config(&tls(""), &endpoint, ""));
        let client = pki.client(versions, None);
        assert!(!resumes(&proxy, &client, "a.test"));
        // After changes to something else, to this listener's TLS, and to its files.
        let route = "[[route]]\nmatch = { prefix = \"/\" }\npool = \"web\"";
        proxy.reload(&config(&tls(""), &endpoint, route)).unwrap();
        assert!(resumes(&proxy, &client, "a.test"));
        proxy.reload(&config(&tls(", handshake_timeout = '7s'"), &endpoint, route)).unwrap();
        assert!(resumes(&proxy, &client, "a.test"));
        let renewed = pki.issue("a.test");
        std::fs::copy(&renewed.cert, &server.cert).unwrap();
        std::fs::copy(&renewed.key, &server.key).unwrap();
        proxy.server().certificates().look();
        assert!(resumes(&proxy, &client, "a.test"));
        proxy.reload(&config(&tls(""), &endpoint, "")).unwrap();
        assert!(resumes(&proxy, &client, "a.test"));
        // Keys from files replace the random ones, and the other way round.
        let keys = pki.write("tickets.key", [7; 80]);
        proxy.reload(&config(&tls(&format!(", ticket_keys = [{keys:?}]")), &endpoint, "")).unwrap();
        assert!(!resumes(&proxy, &client, "a.test"));
        proxy.reload(&config(&tls(""), &endpoint, "")).unwrap();
        assert!(!resumes(&proxy, &client, "a.test"));
    }
}
