//! What is in the files? Certificates and keys in PEM.

use evenkeel_config::plan::Certificate;
use rustls::RootCertStore;
use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

/// A file that cannot be used.
#[derive(Debug)]
pub struct Unusable {
    /// Which.
    pub file: PathBuf,
    /// And why.
    pub why: String,
}

impl Unusable {
    pub(crate) fn new(file: &Path, why: impl fmt::Display) -> Unusable {
        Unusable { file: file.into(), why: why.to_string() }
    }
}

impl fmt::Display for Unusable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.file.display(), self.why)
    }
}

impl std::error::Error for Unusable {}

/// What does the mathematics.
pub fn provider() -> Arc<CryptoProvider> {
    static PROVIDER: LazyLock<Arc<CryptoProvider>> = LazyLock::new(|| Arc::new(default_provider()));
    PROVIDER.clone()
}

/// The bytes of a file.
pub fn read(file: &Path) -> Result<Vec<u8>, Unusable> {
    std::fs::read(file).map_err(|error| Unusable::new(file, error))
}

/// The certificates in `pem`, which came from `file`: at least one.
pub fn certificates(file: &Path, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, Unusable> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let all = all.map_err(|error| Unusable::new(file, error))?;
    if all.is_empty() { Err(Unusable::new(file, "it has no certificate in PEM")) } else { Ok(all) }
}

/// The key in `pem`, which came from `file`.
pub fn key(file: &Path, pem: &[u8]) -> Result<PrivateKeyDer<'static>, Unusable> {
    PrivateKeyDer::from_pem_slice(pem).map_err(|error| Unusable::new(file, format!("no private key in PEM: {error}")))
}

/// The authorities in `pem`, which came from `file`.
pub fn roots(file: &Path, pem: &[u8]) -> Result<Arc<RootCertStore>, Unusable> {
    let mut roots = RootCertStore::empty();
    let (taken, _) = roots.add_parsable_certificates(certificates(file, pem)?);
    if taken == 0 {
        Err(Unusable::new(file, "none of its certificates is one of an authority"))
    } else {
        Ok(Arc::new(roots))
    }
}

/// All bytes of what is configured by these files: the same bytes make the same.
pub fn fingerprint<'f>(files: impl Iterator<Item = &'f Path>) -> Result<Vec<u8>, Unusable> {
    let mut all = Vec::new();
    for file in files {
        let bytes = read(file)?;
        all.extend_from_slice(&bytes.len().to_be_bytes());
        all.extend_from_slice(&bytes);
    }
    Ok(all)
}

/// The files of a certificate.
pub fn of(certificate: &Certificate) -> [&Path; 2] {
    [&certificate.cert, &certificate.key]
}
