//! A test authority, whose certificates and OCSP responses are made by OpenSSL.

use crate::pair;
use rustls::pki_types::CertificateDer;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

const EC: &str = "ec -pkeyopt ec_paramgen_curve:P-256";

/// A temporary folder with an authority, `ca`, and the certificates that it issues. Removed on drop.
pub(crate) struct Authority(PathBuf);

impl Drop for Authority {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl Authority {
    /// Creates an authority with an EC key. `None` if OpenSSL is not installed.
    pub fn new() -> Option<Authority> {
        Authority::with_key(EC)
    }

    /// Creates an authority with a key of this type, in options of `openssl req`. `None` if OpenSSL is not installed.
    pub fn with_key(key: &str) -> Option<Authority> {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        if !evenkeel_peers::installed(&["openssl"]) {
            return None;
        }
        let name = format!("evenkeel-ocsp-{}-{}", std::process::id(), NUMBER.fetch_add(1, Relaxed));
        let authority = Authority(std::env::temp_dir().join(name));
        std::fs::create_dir_all(&authority.0).expect("a folder");
        let settings = "[req]\ndistinguished_name = dn\n[dn]\n[ca]\nbasicConstraints = critical,CA:TRUE\n\
                        [leaf]\nsubjectAltName = DNS:a.test\n[responder]\nextendedKeyUsage = OCSPSigning\n";
        std::fs::write(authority.0.join("settings"), settings).expect("a file");
        authority.make("ca", "ca", key, "");
        Some(authority)
    }

    /// Path of a file in the folder: `NAME.pem`, `NAME.key` or another.
    pub fn path(&self, file: &str) -> PathBuf {
        self.0.join(file)
    }

    fn openssl(&self, words: &str) -> String {
        let mut command = Command::new("openssl");
        let ran = command.args(words.split_ascii_whitespace()).current_dir(&self.0).output().expect("it is installed");
        assert!(ran.status.success(), "openssl {words}: {}", String::from_utf8_lossy(&ran.stderr));
        String::from_utf8(ran.stdout).expect("text")
    }

    fn make(&self, name: &str, kind: &str, key: &str, more: &str) {
        self.openssl(&format!(
            "req -x509 -newkey {key} -nodes -days 30 -config settings -extensions {kind} \
             -subj /CN={name} -keyout {name}.key -out {name}.pem {more}"
        ));
    }

    /// Issues the certificate `name` of a kind, `leaf` or `responder`.
    pub fn issue(&self, name: &str, kind: &str, serial: u8) {
        self.make(name, kind, EC, &format!("-CA ca.pem -CAkey ca.key -set_serial {serial}"));
    }

    /// Returns the OCSP response for a certificate, signed with the key of `signer`. `status`: `V` = good, `R` =
    /// revoked, `None` = unknown. `more`: further options of `openssl ocsp`.
    pub fn response(&self, name: &str, signer: &str, status: Option<char>, more: &str) -> Vec<u8> {
        let serial = self.openssl(&format!("x509 -noout -serial -in {name}.pem")).trim().replace("serial=", "");
        let line = match status {
            Some('R') => format!("R\t300101000000Z\t200101000000Z\t{serial}\tunknown\t/CN={name}\n"),
            Some(_) => format!("V\t300101000000Z\t\t{serial}\tunknown\t/CN={name}\n"),
            None => String::new(),
        };
        std::fs::write(self.path("index"), line).expect("a file");
        self.openssl(&format!(
            "ocsp -index index -CA ca.pem -rsigner {signer}.pem -rkey {signer}.key -issuer ca.pem {more} -cert {name}.pem \
             -respout response.der -noverify"
        ));
        std::fs::read(self.path("response.der")).expect("it was made")
    }

    /// The certificates with these names, as a chain.
    pub fn chain(&self, names: &[&str]) -> Vec<CertificateDer<'static>> {
        names.iter().flat_map(|name| chain(&self.path(&format!("{name}.pem")))).collect()
    }
}

fn chain(path: &Path) -> Vec<CertificateDer<'static>> {
    pair::chain(path).expect("certificates")
}
