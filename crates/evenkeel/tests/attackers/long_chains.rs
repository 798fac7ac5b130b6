//! Clients whose certificates are long: each ticket holds them, and does not fit into a buffer.

use crate::scene::{Attack, Scene, stay_unharmed};
use crate::support::Folder;
use crate::tls_client::{Shown, TlsConnection, client, innocents};
use evenkeel_peers::installed;
use std::process::Command;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// A certificate with so many bytes of something else in it, which vouches for itself.
fn shown(folder: &Folder, name: &str, bytes: usize) -> (String, Shown) {
    let [cert, key] = ["pem", "key"].map(|kind| folder.0.join(format!("{name}.{kind}")).display().to_string());
    let settings = folder.file(
        &format!("{name}.cnf"),
        &format!(
            "[req]\ndistinguished_name = of\nprompt = no\nx509_extensions = more\n[of]\nCN = {name}\n\
             [more]\nbasicConstraints = critical,CA:FALSE\n1.3.6.1.4.1.99999.1 = ASN1:FORMAT:ASCII,OCT:{}\n",
            "x".repeat(bytes)
        ),
    );
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "9"])
        .args(["-config", &settings, "-keyout", &key, "-out", &cert])
        .output()
        .expect("it was looked for");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let chain = vec![CertificateDer::from_pem_file(&cert).expect("a certificate")];
    (cert, (chain, PrivateKeyDer::from_pem_file(key).expect("a key")))
}

#[test]
fn clients_with_long_chains_are_answered_and_harm_no_other_client() {
    if !installed(&["openssl"]) {
        return;
    }
    let folder = Folder::new("attackers-chains");
    let [(short_file, short), (long_file, (chain, key))] =
        [("short", 10), ("long", 20_000)].map(|(name, bytes)| shown(&folder, name, bytes));
    let both = [short_file, long_file].map(|file| std::fs::read_to_string(file).expect("it was made")).concat();
    let tls = format!("tls = {{ self_signed = true, client_auth = {{ ca = '{}' }} }}", folder.file("ca.pem", &both));
    let scene = Scene::start("long-chains", 1, &tls, "");
    let attack = |attack: &Attack| {
        while !attack.is_over() {
            let config = client(Some((chain.clone(), key.clone_key())));
            // The second resumes the session of the first, if that had a ticket.
            for _ in 0..2 {
                let mut connection = TlsConnection::open(&scene.listen, &config).expect("it accepts");
                connection.get("/", "innocent").expect("an answer");
                connection.get("/", "innocent").expect("another");
                attack.hit();
            }
        }
    };
    stay_unharmed("long chains", innocents(&scene.listen, Some(short), "innocent"), 1, attack);
}
