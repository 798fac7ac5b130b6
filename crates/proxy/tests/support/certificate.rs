//! Self-signed certificates for test servers, made by openssl.

use super::tool;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// A self-signed certificate and its key, in files that are removed on drop.
pub struct Certificate {
    folder: PathBuf,
}

impl Certificate {
    /// Makes a certificate for this DNS name.
    pub fn of(name: &str) -> Certificate {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Relaxed);
        let folder = std::env::temp_dir().join(format!("evenkeel-tls-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder of its own");
        let certificate = Certificate { folder };
        let made = tool("openssl")
            .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"])
            .args(["-subj", &format!("/CN={name}"), "-addext", &format!("subjectAltName=DNS:{name}")])
            // By default OpenSSL marks it as an authority, which strict clients do not accept from a server.
            .args(["-addext", "basicConstraints=critical,CA:FALSE"])
            .args(["-keyout".as_ref(), certificate.key().as_os_str(), "-out".as_ref(), certificate.cert().as_os_str()])
            .stderr(Stdio::null())
            .status();
        assert!(made.is_ok_and(|status| status.success()), "openssl makes a certificate");
        certificate
    }

    pub fn cert(&self) -> PathBuf {
        self.folder.join("cert.pem")
    }

    pub fn key(&self) -> PathBuf {
        self.folder.join("key.pem")
    }
}

impl Drop for Certificate {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
