//! A certificate: the chain and its key from files or texts, or errors that name the file and the fix.

use crate::pem::{self, Section};
use crate::provider::provider;
use evenkeel_config::plan::Pem;
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};
use rustls::SignatureScheme;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use std::fmt;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use x509_parser::prelude::{FromDer, X509Certificate};

/// Fault of a certificate or key file, with its fix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileError {
    /// True if the fault is in the key's file and not in the certificate's.
    pub of_key: bool,
    /// Description of the fault, with the path.
    pub what: String,
    /// Hint to the fix, often a command.
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

/// Source of PEM: a file, or a text of the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source<'p> {
    File(&'p Path),
    Text(&'p str),
}

impl<'p> From<&'p Pem> for Source<'p> {
    fn from(pem: &'p Pem) -> Source<'p> {
        match pem {
            Pem::File(path) => Source::File(path),
            Pem::Text(text) => Source::Text(text),
        }
    }
}

impl<'p> From<&'p Path> for Source<'p> {
    fn from(path: &'p Path) -> Source<'p> {
        Source::File(path)
    }
}

impl<'p> From<&'p PathBuf> for Source<'p> {
    fn from(path: &'p PathBuf) -> Source<'p> {
        Source::File(path)
    }
}

/// Formats the place: the path of the file, or "the configuration".
impl fmt::Display for Source<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::File(path) => path.display().fmt(f),
            Source::Text(_) => f.write_str("the configuration"),
        }
    }
}

impl Source<'_> {
    /// Path of the file, or the name of a text: "the certificate in the configuration".
    fn named(self, of_key: bool) -> String {
        match self {
            Source::File(path) => path.display().to_string(),
            Source::Text(_) if of_key => "the key in the configuration".to_string(),
            Source::Text(_) => "the certificate in the configuration".to_string(),
        }
    }

    /// Path of the file for a command.
    fn in_command(self) -> String {
        if let Source::File(path) = self { path.display().to_string() } else { "FILE".to_string() }
    }

    fn sections(self, of_key: bool) -> Result<Vec<Section>, FileError> {
        let sections = match self {
            Source::File(path) => pem::sections(&read(path, of_key)?),
            Source::Text(text) => pem::sections(text.as_bytes()),
        };
        sections.map_err(|why| not_pem(self, of_key, &why))
    }
}

pub(crate) fn read(path: &Path, of_key: bool) -> Result<Vec<u8>, FileError> {
    fs::read(path).map_err(|error| {
        let (why, help) = match error.kind() {
            ErrorKind::NotFound => ("no such file".to_string(), "use an absolute path"),
            ErrorKind::PermissionDenied => {
                ("permission denied".to_string(), "make it readable for the user that runs evenkeel")
            }
            _ => (error.to_string(), "set a file in PEM format"),
        };
        FileError::new(of_key, format!("cannot read {}: {why}", path.display()), help)
    })
}

/// Sections of a file: wanted and ignored sections.
#[derive(Debug)]
pub struct Found<T> {
    /// Sections of the wanted type, at least one.
    pub found: Vec<T>,
    /// Descriptions of sections that are ignored: `"PKCS7" of line 7`.
    pub left_out: Vec<String>,
}

impl<T> Found<T> {
    /// A message about ignored sections, if there are any.
    pub fn lost(&self, source: Source<'_>) -> Option<FileError> {
        (!self.left_out.is_empty()).then(|| {
            let what = format!("{} has unused content: {} is ignored", source.named(false), self.left_out.join(", "));
            FileError::new(
                false,
                what,
                "remove it, or convert it to a supported PEM type: certificate, key or revocation list",
            )
        })
    }

    /// The wanted sections. Ignored sections are logged.
    fn all(self, source: Source<'_>) -> Vec<T> {
        if let Some(FileError { what, .. }) = self.lost(source) {
            tracing::warn!("tls: {what}");
        }
        self.found
    }
}

/// Reads the certificates of a file or text, at least one.
///
/// # Errors
/// The file cannot be read, or has no certificate.
pub fn chain<'p>(source: impl Into<Source<'p>>) -> Result<Vec<CertificateDer<'static>>, FileError> {
    let source = source.into();
    certificates(source).map(|found| found.all(source))
}

/// Like [`chain`], with the sections that are ignored.
///
/// # Errors
/// The file cannot be read, or has no certificate.
pub fn certificates<'p>(source: impl Into<Source<'p>>) -> Result<Found<CertificateDer<'static>>, FileError> {
    let source = source.into();
    let mut all = Found { found: Vec::new(), left_out: Vec::new() };
    for section in source.sections(false)? {
        match section.certificate() {
            Some(certificate) => all.found.push(certificate.map_err(|why| not_pem(source, false, &why))?),
            None => all.left_out.extend(section.left_out()),
        }
    }
    if all.found.is_empty() {
        let what = format!("{} has no certificate", source.named(false));
        let help = "it has to have one in PEM: \"-----BEGIN CERTIFICATE-----\"; openssl pkcs7 -print_certs and openssl x509 convert \
                    others";
        return Err(FileError::new(false, what, help));
    }
    Ok(all)
}

/// Checks that every certificate of a chain can be parsed. This side needs the first for its names; clients need the
/// others.
///
/// # Errors
/// A certificate is not X.509.
pub fn readable(source: Source<'_>, chain: &[CertificateDer<'_>]) -> Result<(), FileError> {
    let Some(at) = chain.iter().position(|der| X509Certificate::from_der(der).is_err()) else { return Ok(()) };
    let what = format!("certificate {} in {source} is not valid X.509", at + 1);
    Err(FileError::new(false, what, "have it reissued"))
}

fn not_pem(source: Source<'_>, of_key: bool, why: &str) -> FileError {
    let what = format!("{} is not usable PEM: {why}", source.named(of_key));
    FileError::new(of_key, what, "convert it: openssl x509 -in FILE -out FILE.pem, or openssl pkey")
}

/// Reads the private key of a file or text, the first if it has several.
///
/// # Errors
/// The file cannot be read, has no private key, or a key that is encrypted or of an unknown type.
pub fn key<'p>(source: impl Into<Source<'p>>) -> Result<PrivateKeyDer<'static>, FileError> {
    let source = source.into();
    let sections = source.sections(true)?;
    let Some(section) = sections.into_iter().find(|section| section.label.ends_with("PRIVATE KEY")) else {
        let what = format!("{} has no private key", source.named(true));
        return Err(FileError::new(true, what, "it must hold one in PEM: \"-----BEGIN PRIVATE KEY-----\""));
    };
    if section.is_encrypted {
        let what = format!("the key in {source} is encrypted");
        let help = format!(
            "evenkeel does not prompt for passwords; decrypt it: openssl pkey -in {} -out FILE.key",
            source.in_command()
        );
        return Err(FileError::new(true, what, help));
    }
    let Section { label, der, .. } = section;
    match &*label {
        "PRIVATE KEY" => Ok(PrivateKeyDer::Pkcs8(der.into())),
        "RSA PRIVATE KEY" => Ok(PrivateKeyDer::Pkcs1(der.into())),
        "EC PRIVATE KEY" => Ok(PrivateKeyDer::Sec1(der.into())),
        _ => {
            let what = format!("the key in {source} is a \"{label}\"");
            let help = format!("convert it: openssl pkey -in {} -out FILE.key", source.in_command());
            Err(FileError::new(true, what, help))
        }
    }
}

/// Reads the certificate revocation lists of a file or text.
///
/// # Errors
/// The file cannot be read, or has none.
pub fn revoked<'p>(source: impl Into<Source<'p>>) -> Result<Vec<CertificateRevocationListDer<'static>>, FileError> {
    let source = source.into();
    lists(source).map(|found| found.all(source))
}

/// Like [`revoked`], with the sections that are ignored.
///
/// # Errors
/// The file cannot be read, or has no list.
pub fn lists<'p>(source: impl Into<Source<'p>>) -> Result<Found<CertificateRevocationListDer<'static>>, FileError> {
    let source = source.into();
    let (lists, others): (Vec<_>, Vec<_>) =
        source.sections(false)?.into_iter().partition(|section| section.label == pem::REVOKED);
    if lists.is_empty() {
        let what = format!("{} has no revocation list", source.named(false));
        return Err(FileError::new(false, what, "it must hold one in PEM: \"-----BEGIN X509 CRL-----\""));
    }
    Ok(Found {
        found: lists.into_iter().map(|section| section.der.into()).collect(),
        left_out: others.iter().filter_map(Section::left_out).collect(),
    })
}

/// Reads a certificate with its key for handshakes.
///
/// # Errors
/// Either cannot be used, or they do not match.
pub fn certified<'c, 'k>(
    cert: impl Into<Source<'c>>,
    key_source: impl Into<Source<'k>>,
) -> Result<CertifiedKey, FileError> {
    let (cert, key_source) = (cert.into(), key_source.into());
    let chain = chain(cert)?;
    readable(cert, &chain)?;
    let key = provider().key_provider.load_private_key(key(key_source)?).map_err(|error| {
        let what = format!("the key in {key_source} is unusable: {error}");
        FileError::new(true, what, "supported keys: EC (P-256, P-384, P-521), RSA of 2048 bits or more, Ed25519")
    })?;
    let certified = CertifiedKey::new(chain, key);
    certified.keys_match().map_err(|_| {
        let what = format!("the key in {key_source} does not match the certificate in {cert}");
        FileError::new(true, what, "set the key of this certificate; the certificate must come first in its file")
    })?;
    Ok(certified)
}

/// Parses a certificate and its key from PEM; `None` if either is missing or they do not match.
pub fn certified_pem(pem: &[u8]) -> Option<CertifiedKey> {
    let chain: Vec<_> = CertificateDer::pem_slice_iter(pem).collect::<Result<_, _>>().ok()?;
    let key = provider().key_provider.load_private_key(PrivateKeyDer::from_pem_slice(pem).ok()?).ok()?;
    let certified = CertifiedKey::new(chain, key);
    certified.keys_match().is_ok().then_some(certified)
}

/// Makes a certificate that nothing trusts, and its key, as PEM; `None` if there is no randomness.
pub fn self_signed_pem(name: &str) -> Option<(String, String)> {
    let key = KeyPair::generate().ok()?;
    let mut params = CertificateParams::new(vec![name.to_owned()]).ok()?;
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, "evenkeel, signed by itself");
    let certificate = params.self_signed(&key).ok()?;
    Some((certificate.pem(), key.serialize_pem()))
}

/// True if a text in PEM has certificates, all of which can be trusted as authorities.
pub fn trusts_pem(pem: &[u8]) -> bool {
    let certificates = CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>().unwrap_or_default();
    let mut roots = rustls::RootCertStore::empty();
    !certificates.is_empty() && certificates.into_iter().all(|one| roots.add(one).is_ok())
}

/// True if the key can sign with any of these schemes of a client.
pub(crate) fn signs(key: &CertifiedKey, schemes: &[SignatureScheme]) -> bool {
    key.key.choose_scheme(schemes).is_some()
}
