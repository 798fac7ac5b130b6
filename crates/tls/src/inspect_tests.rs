//! Is what is wrong with certificates found?

use super::*;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, date_time_ymd};
use std::fs;
use std::path::PathBuf;

/// Files of a test, removed at its end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("evenkeel-inspect-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).expect("a folder");
        Folder(path)
    }

    fn file(&self, name: &str, content: &str) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, content).expect("a file");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("own files");
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn made(change: impl FnOnce(&mut CertificateParams)) -> (String, String) {
    let key = KeyPair::generate().expect("a key");
    let mut params = CertificateParams::new(vec!["a.example".to_string(), "*.b.example".to_string()]).expect("names");
    change(&mut params);
    (params.self_signed(&key).expect("a certificate").pem(), key.serialize_pem())
}

fn whats(certified: &Certified) -> String {
    certified
        .faults
        .iter()
        .map(|fault| format!("{}{}\n", if fault.is_error { "E " } else { "W " }, fault.what))
        .collect()
}

#[test]
fn a_good_pair_has_nothing_to_be_said_of() {
    let folder = Folder::new("good");
    let (cert, key) = made(|_| {});
    let certified = inspect(&folder.file("c.pem", &cert), &folder.file("k.pem", &key), now());
    assert_eq!(whats(&certified), "");
    assert_eq!(certified.names, Some(vec!["a.example".to_string(), "*.b.example".to_string()]));
}

#[test]
fn what_is_wrong_is_said_of_the_right_file() {
    let folder = Folder::new("wrong");
    let (cert, key) = made(|_| {});
    let (_, other_key) = made(|_| {});
    let (old, old_key) = made(|params| {
        params.distinguished_name.push(DnType::CommonName, "another");
        params.not_before = date_time_ymd(2000, 1, 1);
        params.not_after = date_time_ymd(2001, 1, 1);
    });
    let soon = |days: i64| {
        let at = x509_parser::time::ASN1Time::from_timestamp(now() + days * 86_400).expect("a time").to_datetime();
        made(move |params| params.not_after = at)
    };
    let (near, near_key) = soon(3);
    let c = |name: &str, text: &str| folder.file(name, text);
    let missing = folder.0.join("missing.pem");
    let encrypted = "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMIIB\n-----END ENCRYPTED PRIVATE KEY-----\n";
    for (cert, key, of_key, is_error, what) in [
        (c("1.pem", &cert), c("1.key", &other_key), true, true, "is not that of the certificate"),
        (c("2.pem", &old), c("2.key", &old_key), false, true, "expired on Jan  1"),
        (c("3.pem", &near), c("3.key", &near_key), false, false, "expires on"),
        (missing.clone(), c("4.key", &key), false, true, "there is no such file"),
        (c("5.pem", &cert), missing, true, true, "there is no such file"),
        (c("6.pem", &cert), c("6.key", encrypted), true, true, "is encrypted"),
        (c("7.pem", &cert), c("7.key", &cert), true, true, "has no private key"),
        (c("8.pem", &key), c("8.key", &key), false, true, "has no certificate"),
        (
            c("9.pem", "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n"),
            c("9.key", &key),
            false,
            true,
            "is not PEM",
        ),
        (c("10.pem", &format!("{cert}{old}")), c("10.key", &key), false, true, "not in order"),
    ] {
        let certified = inspect(&cert, &key, now());
        let fault = certified.faults.iter().find(|fault| fault.what.contains(what));
        let seen = fault.map(|fault| (fault.of_key, fault.is_error));
        assert_eq!(seen, Some((of_key, is_error)), "{what}: {}", whats(&certified));
    }
}

#[test]
fn a_chain_in_order_is_good_and_an_open_key_is_told_of() {
    let folder = Folder::new("chain");
    let ca_key = KeyPair::generate().expect("a key");
    let mut ca = CertificateParams::new(Vec::new()).expect("no names");
    ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    ca.distinguished_name.push(DnType::CommonName, "an authority");
    let ca_cert = ca.self_signed(&ca_key).expect("a certificate");
    let key = KeyPair::generate().expect("a key");
    let mut params = CertificateParams::new(vec!["a.example".to_string()]).expect("a name");
    params.distinguished_name.push(DnType::CommonName, "a server");
    let cert = params.signed_by(&key, &Issuer::new(ca, ca_key)).expect("a certificate");
    let chain = folder.file("chain.pem", &format!("{}{}", cert.pem(), ca_cert.pem()));
    let path = folder.file("key.pem", &key.serialize_pem());
    assert_eq!(whats(&inspect(&chain, &path, now())), "");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).expect("own files");
    assert!(whats(&inspect(&chain, &path, now())).starts_with("W every user"));
}
