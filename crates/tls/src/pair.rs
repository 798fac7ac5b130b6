//! What is in the files of a certificate? The certificate with those behind it, and its key; or what is wrong with them, in words.

use crate::provider::provider;
use rustls::SignatureScheme;
use rustls::pki_types::pem::{Error as PemError, PemObject};
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use std::fmt;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

/// What is wrong with a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileError {
    /// Whether it is the key's.
    pub of_key: bool,
    /// What is wrong, with its path.
    pub what: String,
    /// How it can be mended.
    pub help: String,
}

impl FileError {
    pub(crate) fn new(of_key: bool, what: impl Into<String>, help: impl Into<String>) -> FileError {
        FileError { of_key, what: what.into(), help: help.into() }
    }
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\nhelp: {}", self.what, self.help)
    }
}

fn read(path: &Path, of_key: bool) -> Result<Vec<u8>, FileError> {
    fs::read(path).map_err(|error| {
        let (why, help) = match error.kind() {
            ErrorKind::NotFound => ("there is no such file".to_string(), "name it with its whole path"),
            ErrorKind::PermissionDenied => {
                ("permission denied".to_string(), "the user that runs evenkeel has to be allowed to read it")
            }
            _ => (error.to_string(), "name a file in PEM"),
        };
        FileError::new(of_key, format!("cannot read {}: {why}", path.display()), help)
    })
}

/// The certificates of a file, at least one.
///
/// # Errors
/// It cannot be read, or has none.
pub fn chain(path: &Path) -> Result<Vec<CertificateDer<'static>>, FileError> {
    let pem = read(path, false)?;
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    let chain = chain.map_err(|error| not_pem(path, false, &error))?;
    if chain.is_empty() {
        let what = format!("{} has no certificate", path.display());
        return Err(FileError::new(false, what, "it has to have one in PEM: \"-----BEGIN CERTIFICATE-----\""));
    }
    Ok(chain)
}

fn not_pem(path: &Path, of_key: bool, error: &PemError) -> FileError {
    let what = format!("{} is not PEM: {error:?}", path.display());
    FileError::new(of_key, what, "convert it: openssl x509 -in FILE -out FILE.pem, or openssl pkey")
}

/// The private key of a file.
///
/// # Errors
/// It cannot be read, or has none that can be used.
pub fn key(path: &Path) -> Result<PrivateKeyDer<'static>, FileError> {
    let pem = read(path, true)?;
    let text = String::from_utf8_lossy(&pem);
    if text.contains("ENCRYPTED") {
        let what = format!("the key in {} is encrypted", path.display());
        let help = format!("evenkeel asks for no password: openssl pkey -in {} -out FILE.key", path.display());
        return Err(FileError::new(true, what, help));
    }
    PrivateKeyDer::from_pem_slice(&pem).map_err(|error| match error {
        PemError::NoItemsFound => {
            let what = format!("{} has no private key", path.display());
            FileError::new(true, what, "it has to have one in PEM: \"-----BEGIN PRIVATE KEY-----\"")
        }
        other => not_pem(path, true, &other),
    })
}

/// The lists of revoked certificates of a file.
///
/// # Errors
/// It cannot be read, or has none.
pub fn revoked(path: &Path) -> Result<Vec<CertificateRevocationListDer<'static>>, FileError> {
    let pem = read(path, false)?;
    let lists: Result<Vec<_>, _> = CertificateRevocationListDer::pem_slice_iter(&pem).collect();
    match lists {
        Ok(lists) if !lists.is_empty() => Ok(lists),
        Ok(_) => {
            let what = format!("{} has no list of revoked certificates", path.display());
            Err(FileError::new(false, what, "it has to have one in PEM: \"-----BEGIN X509 CRL-----\""))
        }
        Err(error) => Err(not_pem(path, false, &error)),
    }
}

/// What an issuer says of a certificate's validity. It is passed on as it is.
///
/// # Errors
/// It cannot be read, or is something else.
pub fn ocsp(path: &Path) -> Result<Vec<u8>, FileError> {
    /// What a sequence of ASN.1 begins with, as all of these are.
    const SEQUENCE: u8 = 0x30;
    let der = read(path, false)?;
    if der.first() != Some(&SEQUENCE) {
        let what = format!("{} is no answer of an issuer (OCSP, DER)", path.display());
        return Err(FileError::new(false, what, "fetch it with: openssl ocsp -respout FILE"));
    }
    Ok(der)
}

/// A certificate and its key, which fit, as handshakes need them.
///
/// # Errors
/// Either cannot be used, or they do not fit.
pub fn certified(cert: &Path, key_path: &Path, ocsp: Option<&Path>) -> Result<CertifiedKey, FileError> {
    let chain = chain(cert)?;
    let key = provider().key_provider.load_private_key(key(key_path)?).map_err(|error| {
        let what = format!("the key in {} cannot be used: {error}", key_path.display());
        FileError::new(true, what, "keys are EC (P-256, P-384, P-521), RSA of 2048 bits or more, or Ed25519")
    })?;
    let mut certified = CertifiedKey::new(chain, key);
    certified.keys_match().map_err(|_| {
        let what = format!("the key in {} is not that of the certificate in {}", key_path.display(), cert.display());
        FileError::new(
            true,
            what,
            "name the key that the certificate was made for; the certificate comes first in its file",
        )
    })?;
    if let Some(path) = ocsp {
        certified.ocsp = Some(self::ocsp(path)?);
    }
    Ok(certified)
}

/// The certificates and the key of a text in PEM, if they fit.
pub fn certified_pem(pem: &[u8]) -> Option<CertifiedKey> {
    let chain: Vec<_> = CertificateDer::pem_slice_iter(pem).collect::<Result<_, _>>().ok()?;
    let key = provider().key_provider.load_private_key(PrivateKeyDer::from_pem_slice(pem).ok()?).ok()?;
    let certified = CertifiedKey::new(chain, key);
    certified.keys_match().is_ok().then_some(certified)
}

/// Whether a key can sign so that a client which takes these schemes believes it.
pub(crate) fn signs(key: &CertifiedKey, schemes: &[SignatureScheme]) -> bool {
    key.key.choose_scheme(schemes).is_some()
}
