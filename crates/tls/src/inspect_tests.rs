//! Findings about certificates with each kind of fault.

use super::*;
use crate::endpoints;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, date_time_ymd};
use std::fs;
use std::path::PathBuf;

/// A temporary folder, removed on drop.
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
fn a_good_pair_has_no_findings() {
    let folder = Folder::new("good");
    let (cert, key) = made(|_| {});
    let certified = inspect(&folder.file("c.pem", &cert), &folder.file("k.pem", &key), now());
    assert!(certified.self_signed);
    assert_eq!(whats(&certified), "");
    assert_eq!(certified.names, Some(vec!["a.example".to_string(), "*.b.example".to_string()]));
}

#[test]
fn faults_name_the_right_file() {
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
        (c("1.pem", &cert), c("1.key", &other_key), true, true, "does not match the certificate"),
        (c("2.pem", &old), c("2.key", &old_key), false, true, "expired on Jan  1"),
        (c("3.pem", &near), c("3.key", &near_key), false, false, "expires on"),
        (missing.clone(), c("4.key", &key), false, true, "no such file"),
        (c("5.pem", &cert), missing, true, true, "no such file"),
        (c("6.pem", &cert), c("6.key", encrypted), true, true, "is encrypted"),
        (c("7.pem", &cert), c("7.key", &cert), true, true, "has no private key"),
        (c("8.pem", &key), c("8.key", &key), false, true, "has no certificate"),
        (
            c("9.pem", "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n"),
            c("9.key", &key),
            false,
            true,
            "is not usable PEM",
        ),
        (c("10.pem", &format!("{cert}{old}")), c("10.key", &key), false, true, "out of order"),
    ] {
        let certified = inspect(&cert, &key, now());
        let fault = certified.faults.iter().find(|fault| fault.what.contains(what));
        let seen = fault.map(|fault| (fault.of_key, fault.is_error));
        assert_eq!(seen, Some((of_key, is_error)), "{what}: {}", whats(&certified));
    }
}

#[test]
fn a_chain_in_order_is_good_and_an_open_key_is_reported() {
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
    assert!(whats(&inspect(&chain, &path, now())).starts_with("W the key in "));
}

/// Makes a certificate that an authority has issued, in a file without the authority's own.
fn issued(change: impl FnOnce(&mut CertificateParams)) -> (String, String) {
    let ca_key = KeyPair::generate().expect("a key");
    let mut ca = CertificateParams::new(Vec::new()).expect("no names");
    ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    ca.distinguished_name.push(DnType::CommonName, "an authority");
    let key = KeyPair::generate().expect("a key");
    let mut params = CertificateParams::new(vec!["a.example".to_string()]).expect("a name");
    params.distinguished_name.push(DnType::CommonName, "a server");
    change(&mut params);
    let cert = params.signed_by(&key, &Issuer::new(ca, ca_key)).expect("a certificate");
    (cert.pem(), key.serialize_pem())
}

#[test]
fn a_certificate_of_a_public_authority_needs_what_is_between_them() {
    let folder = Folder::new("between");
    // authorityInfoAccess with caIssuers http://a/, as public authorities write it.
    let access = [&[0x30, 0x17, 0x30, 0x15, 6, 8, 0x2b, 6, 1, 5, 5, 7, 0x30, 2, 0x86, 9][..], b"http://a/"].concat();
    let extension = || rcgen::CustomExtension::from_oid_content(&[1, 3, 6, 1, 5, 5, 7, 1, 1], access.clone());
    let (cert, key) = issued(|params| params.custom_extensions = vec![extension()]);
    let certified = inspect(&folder.file("c.pem", &cert), &folder.file("k.pem", &key), now());
    assert!(whats(&certified).starts_with("W the last certificate in "), "{}", whats(&certified));
    assert!(!certified.self_signed);
    // A private authority without that extension: its clients have its certificate.
    let (cert, key) = issued(|_| {});
    assert_eq!(whats(&inspect(&folder.file("c.pem", &cert), &folder.file("k.pem", &key), now())), "");
}

#[test]
fn a_certificate_that_is_not_valid_yet_and_one_without_a_name_are_reported() {
    let folder = Folder::new("yet");
    let (cert, key) = issued(|params| params.not_before = date_time_ymd(2900, 1, 1));
    let said = whats(&inspect(&folder.file("c.pem", &cert), &folder.file("k.pem", &key), now()));
    assert!(said.starts_with("E the certificate in ") && said.contains("is not valid before Jan  1"), "{said}");
    let (cert, key) = issued(|params| params.subject_alt_names.clear());
    let said = whats(&inspect(&folder.file("c.pem", &cert), &folder.file("k.pem", &key), now()));
    assert!(said.starts_with("W the certificate in ") && said.contains("has no name"), "{said}");
}

#[test]
fn a_short_key_cannot_be_used() {
    let folder = Folder::new("short");
    let (cert, key) = (folder.0.join("c.pem"), folder.0.join("k.pem"));
    let made = std::process::Command::new("openssl")
        .args(["req", "-x509", "-newkey", "rsa:1024", "-nodes", "-days", "90", "-subj", "/CN=a.example"])
        .args(["-addext", "subjectAltName=DNS:a.example", "-keyout"])
        .arg(&key)
        .arg("-out")
        .arg(&cert)
        .output();
    if made.is_ok_and(|made| made.status.success()) {
        let said = whats(&inspect(&cert, &key, now()));
        assert!(said.contains("E the key in ") && said.contains("its RSA key has 1024 bits"), "{said}");
    }
}

#[test]
fn other_files_are_looked_at_too() {
    let folder = Folder::new("other");
    let key = KeyPair::generate().expect("a key");
    let mut params = CertificateParams::new(Vec::new()).expect("no names");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let issuer = Issuer::new(params, key);
    let list = |year: i32| {
        let list = rcgen::CertificateRevocationListParams {
            this_update: date_time_ymd(2020, 1, 1),
            next_update: date_time_ymd(year, 1, 1),
            crl_number: rcgen::SerialNumber::from(1),
            issuing_distribution_point: None,
            revoked_certs: Vec::new(),
            key_identifier_method: rcgen::KeyIdMethod::Sha256,
        };
        list.signed_by(&issuer).expect("a list").pem().expect("PEM")
    };
    let file = |name: &str, text: &str| folder.file(name, text);
    for (n, (kind, text, what)) in [
        (TlsFile::Revoked, list(2900), ""),
        (TlsFile::Revoked, list(2021), "W the revocation list in "),
        (TlsFile::Revoked, "rubbish".to_string(), "E "),
        (TlsFile::Authorities, made(|_| {}).0, ""),
        (TlsFile::Authorities, made(|params| params.subject_alt_names.clear()).0, "W certificate 1 in "),
        (TlsFile::ClientAuthorities, made(|params| params.subject_alt_names.clear()).0, ""),
        (
            TlsFile::ClientAuthorities,
            made(|params| params.not_after = date_time_ymd(2020, 1, 1)).0,
            "W certificate 1 in ",
        ),
        (TlsFile::Authorities, format!("{}{}", made(|_| {}).0, list(2900)), "W "),
        (TlsFile::Authorities, list(2900), "E "),
        (TlsFile::Ocsp, "0\x03\n\x01\x03".to_string(), ""),
        (TlsFile::Ocsp, "0 good since Monday".to_string(), "E "),
        (TlsFile::Ocsp, list(2900), "E "),
        (TlsFile::TicketKey, "k".repeat(80), ""),
        (TlsFile::TicketKey, "k".repeat(48), "E "),
    ]
    .into_iter()
    .enumerate()
    {
        let faults = inspect_file(kind, &file(&n.to_string(), &text), now());
        let said = whats(&Certified { faults, ..Certified::default() });
        assert!(said.starts_with(what) && said.is_empty() == what.is_empty(), "{n} {kind:?}: {said}");
    }
    let key = file("open", &"k".repeat(80));
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).expect("own files");
    let said = inspect_file(TlsFile::TicketKey, &key, now());
    assert!(said[0].what.contains("readable by every user"), "{said:?}");
}

/// A certificate of an authority, which another authority issued, if any.
fn authority(name: &str, key: &KeyPair, by: Option<&Issuer<'_, &KeyPair>>) -> (String, CertificateParams) {
    let mut params = CertificateParams::new(Vec::new()).expect("no names");
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let made = match by {
        Some(issuer) => params.signed_by(key, issuer),
        None => params.self_signed(key),
    };
    (made.expect("a certificate").pem(), params)
}

#[test]
fn a_chain_in_another_order_is_taken_with_a_note_and_one_with_a_gap_is_an_error() {
    let folder = Folder::new("order");
    let [root_key, other_key, middle_key, key] = [(); 4].map(|()| KeyPair::generate().expect("a key"));
    let (root, root_params) = authority("Root", &root_key, None);
    let (_, other_params) = authority("Other", &other_key, None);
    let by_root = Issuer::from_params(&root_params, &root_key);
    let (middle, middle_params) = authority("Middle", &middle_key, Some(&by_root));
    let (crossed, _) = authority("Middle", &middle_key, Some(&Issuer::from_params(&other_params, &other_key)));
    let params = CertificateParams::new(vec!["a.example".to_owned()]).expect("a name");
    let leaf = params.signed_by(&key, &Issuer::from_params(&middle_params, &middle_key)).expect("a certificate").pem();
    let (stranger, _) = made(|params| params.distinguished_name.push(DnType::CommonName, "stranger"));
    let key = folder.file("key", &key.serialize_pem());
    for (n, (chain, found)) in [
        (vec![&leaf, &middle], ""),
        (vec![&leaf, &middle, &root], ""),
        (vec![&leaf, &middle, &middle], "W certificate 3 in FILE is a duplicate\n"),
        (
            vec![&leaf, &root, &middle],
            "W the certificates in FILE are out of order: number 2 is \"CN=Root\", but the one before it was issued by \"CN=Middle\"\n",
        ),
        (vec![&leaf, &middle, &crossed], "W certificate 3 in FILE is a second certificate of \"CN=Middle\"\n"),
        (vec![&leaf, &middle, &crossed, &root], "W certificate 3 in FILE is a second certificate of \"CN=Middle\"\n"),
        (
            vec![&leaf, &root],
            "E the certificates in FILE are out of order: number 2 is \"CN=Root\", but the one before it was issued by \"CN=Middle\"\n",
        ),
        (
            vec![&leaf, &middle, &stranger],
            "E the certificates in FILE are out of order: number 3 is \"CN=stranger\", but the one before it was issued by \"CN=Root\"\n",
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let text: String = chain.into_iter().map(String::as_str).collect();
        let file = folder.file(&format!("{n}.pem"), &text);
        let shown = whats(&inspect(&file, &key, now())).replace(&file.display().to_string(), "FILE");
        assert_eq!(shown, found, "{n}");
        assert!(pair::certified(&file, &key).is_ok(), "{n}: a start takes it");
        let chain = pair::certificates(&file).expect("certificates").found;
        assert_eq!(misplaced((&file).into(), &chain).len(), usize::from(!found.is_empty()), "{n}: the log has it, too");
    }
}

/// A start accepts exactly the files that `check` accepts, and trusts every certificate of a file.
#[test]
fn a_start_and_check_read_the_same() {
    let folder = Folder::new("same");
    let [one, two] = [(); 2].map(|()| made(|_| {}));
    let labelled = |label: &str| one.0.replace("CERTIFICATE", label);
    let broken = "-----BEGIN CERTIFICATE-----\nMAMCAQE=\n-----END CERTIFICATE-----\n";
    for (n, (text, believed)) in [
        (one.0.clone(), Some(1)),
        (format!("\u{feff}{}", one.0), Some(1)),
        (format!("{}\u{feff}{}", one.0, two.0), Some(2)),
        (labelled("X509 CERTIFICATE"), Some(1)),
        (labelled("TRUSTED CERTIFICATE"), Some(1)),
        (format!("{}{}", labelled("TRUSTED CERTIFICATE"), two.0), Some(2)),
        (format!("{}{}", one.0.trim_end(), two.0), Some(2)),
        (one.0.replace('\n', "\r\n"), Some(1)),
        (format!("{}{broken}", one.0), None),
        (format!("{}-----BEGIN CERTIFICATE-----\nMAMC\n", one.0), None),
        (labelled("PKCS7"), None),
        (String::new(), None),
    ]
    .into_iter()
    .enumerate()
    {
        let file = folder.file(&format!("{n}.pem"), &text);
        let authorities = authorities::read(&file);
        assert_eq!(authorities.as_ref().ok().map(|all| all.certificates.len()), believed, "{n}: {authorities:?}");
        assert_eq!(authorities.ok().map(|all| all.roots.len()), believed, "{n}");
        assert_eq!(endpoints::trusting(Some(&file)).is_ok(), believed.is_some(), "{n}");
        for kind in [TlsFile::Authorities, TlsFile::ClientAuthorities] {
            let faults = inspect_file(kind, &file, now());
            assert_eq!(faults.iter().any(|fault| fault.is_error), believed.is_none(), "{n} {kind:?}: {faults:?}");
        }
        // As a server's chain: the first certificate was not issued by the second, which only `check` reports.
        let key = folder.file(&format!("{n}.key"), &format!("\u{feff}{}", one.1));
        let (starts, checked) = (pair::certified(&file, &key), inspect(&file, &key, now()));
        let is_wrong = checked.faults.iter().any(|fault| fault.is_error && !fault.what.contains("out of order"));
        assert_eq!(starts.is_ok(), !is_wrong, "{n}: {starts:?} {checked:?}");
    }
}

/// Certificates in OpenSSL's own format, with trust settings after the certificate.
#[test]
fn a_trusted_certificate_is_the_one_in_front_of_its_uses() {
    let folder = Folder::new("trusted");
    let (cert, _) = made(|_| {});
    let (plain, trusted) = (folder.file("plain.pem", &cert), folder.0.join("trusted.pem"));
    for (use_of_it, is_believed) in [("-addtrust", true), ("-addreject", false)] {
        let made = std::process::Command::new("openssl")
            .args(["x509", use_of_it, "serverAuth", "-setalias", "an alias", "-trustout", "-in"])
            .arg(&plain)
            .arg("-out")
            .arg(&trusted)
            .output();
        if !made.is_ok_and(|made| made.status.success()) {
            continue;
        }
        let text = fs::read_to_string(&trusted).expect("it was made");
        assert!(text.contains("TRUSTED CERTIFICATE"), "{text}");
        let [plain, trusted] = [&plain, &trusted].map(|file| pair::certificates(file).map(|found| found.found));
        match is_believed {
            true => assert_eq!(trusted.expect("a certificate"), plain.expect("the same")),
            false => assert!(trusted.expect_err("rejected").what.contains("carries trust settings")),
        }
    }
}
