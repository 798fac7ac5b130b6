//! Certificates, keys and revocation lists in PEM: the path of a file, or the text itself.

use super::Form;
use super::misfit::Misfit;
use crate::code::Code;
use crate::secret::masked::holds_key;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Beginning of the line in front of each section (RFC 7468).
const BEGIN: &str = "-----BEGIN ";
/// Beginning of the line behind each section.
const END: &str = "-----END ";

/// Largest text, in bytes. The authorities of a system have about a quarter of it.
const TEXT_MAX: usize = 1 << 20;

/// A masked text that holds a private key. Not valid PEM, so a file with it is rejected.
pub(crate) const MASKED_KEY: &str = "-----BEGIN PRIVATE KEY-----***";

/// Certificates, a key or revocation lists in PEM.
#[derive(Clone, PartialEq, Eq)]
pub enum Pem {
    /// File that is read, and reread when it changes.
    File(PathBuf),
    /// The text itself; changes only with the plan.
    Text(Arc<str>),
}

impl Pem {
    /// The text if it is PEM, which has a line that begins a section; else the path of a file.
    pub fn of(text: &str) -> Pem {
        if text.contains(BEGIN) { Pem::Text(text.into()) } else { Pem::File(text.into()) }
    }

    /// Path of the file; `None` for a text.
    pub fn file(&self) -> Option<&Path> {
        if let Pem::File(path) = self { Some(path) } else { None }
    }
}

impl From<&Path> for Pem {
    fn from(path: &Path) -> Pem {
        Pem::File(path.to_path_buf())
    }
}

/// Formats the place of the PEM: the path of the file, or "the configuration".
impl fmt::Display for Pem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Pem::File(path) => path.display().fmt(f),
            Pem::Text(_) => f.write_str("the configuration"),
        }
    }
}

impl fmt::Debug for Pem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Pem::File(path) => f.debug_tuple("File").field(path).finish(),
            Pem::Text(text) if holds_key(text) => f.debug_tuple("Text").field(&MASKED_KEY).finish(),
            Pem::Text(text) => f.debug_tuple("Text").field(text).finish(),
        }
    }
}

/// A short text that stands for PEM: the type of its first section, and a hash of all of it, by which two can be told
/// apart; `None` for other texts.
pub(crate) fn pem_digest(text: &str) -> Option<String> {
    let (_, behind) = text.split_once(BEGIN)?;
    let label = behind.split("-----").next().unwrap_or_default();
    // FNV-1a, which is the same in each process.
    let hash = text
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    Some(format!("({label} in PEM, {hash:016x})"))
}

pub(super) fn read(text: &str) -> Result<String, Misfit> {
    let wrong = |message: &str| {
        Err(Misfit::new(Code::BadName, message.to_string(), format!("allowed: {}", Form::Pem.describe())))
    };
    match Pem::of(text) {
        Pem::File(_) => Form::File.read(text).map(|_| text.to_string()),
        Pem::Text(_) if text.len() > TEXT_MAX => wrong("the PEM text is longer than 1 MiB"),
        Pem::Text(_) if !text.contains(END) => wrong("the PEM text has no end: no line begins with \"-----END \""),
        Pem::Text(_) => Ok(text.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_with_a_section_is_pem_and_any_other_is_a_path() {
        let text = "-----BEGIN CERTIFICATE-----\nMAMC\n-----END CERTIFICATE-----\n";
        assert_eq!(Pem::of(text), Pem::Text(text.into()));
        assert_eq!(Pem::of(&format!("\nBag Attributes\n{text}")).file(), None);
        assert_eq!(Pem::of("/etc/a.pem").file(), Some(Path::new("/etc/a.pem")));
        assert!(read(text).is_ok() && read("/etc/a.pem").is_ok());
        assert!(read("").is_err() && read("-----BEGIN CERTIFICATE-----\nMAMC").is_err());
        assert!(read(MASKED_KEY).is_err(), "a masked plan is not taken for a whole one");
    }

    #[test]
    fn a_key_is_never_formatted() {
        let key = Pem::of("-----BEGIN EC PRIVATE KEY-----\nhorse\n-----END EC PRIVATE KEY-----");
        assert!(!format!("{key:?} {key}").contains("horse"));
    }

    #[test]
    fn a_digest_tells_texts_apart() {
        let digest = |body: &str| pem_digest(&format!("-----BEGIN X509 CRL-----\n{body}\n-----END X509 CRL-----"));
        assert!(digest("a").is_some_and(|text| text.starts_with("(X509 CRL in PEM, ")));
        assert_ne!(digest("a"), digest("b"));
        assert_eq!(pem_digest("/etc/a.pem"), None);
    }
}
