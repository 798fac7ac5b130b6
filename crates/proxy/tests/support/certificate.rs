//! Certificates for servers of tests, made by openssl.

use super::tool;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// A certificate that vouches for itself, and its key, in files until dropped.
pub struct Certificate {
    folder: PathBuf,
}

impl Certificate {
    /// Makes one for a name.
    pub fn of(name: &str) -> Certificate {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Relaxed);
        let folder = std::env::temp_dir().join(format!("evenkeel-tls-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder of its own");
        let certificate = Certificate { folder };
        let made = tool("openssl")
            .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"])
            .args(["-subj", &format!("/CN={name}"), "-addext", &format!("subjectAltName=DNS:{name}")])
            // Without it OpenSSL makes an authority of it, which strict clients take from no server.
            .args(["-addext", "basicConstraints=critical,CA:FALSE"])
            .args(["-keyout".as_ref(), certificate.key().as_os_str(), "-out".as_ref(), certificate.cert().as_os_str()])
            .stderr(Stdio::null())
            .status();
        assert!(made.is_ok_and(|status| status.success()), "openssl makes a certificate");
        certificate
    }

    /// The file of the certificate.
    pub fn cert(&self) -> PathBuf {
        self.folder.join("cert.pem")
    }

    /// The file of its key.
    pub fn key(&self) -> PathBuf {
        self.folder.join("key.pem")
    }
}

impl Drop for Certificate {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
