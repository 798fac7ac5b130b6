//! Sections of a file in PEM (RFC 7468). A start, a reload and `check` read them here alike: each section is used,
//! refused, or reported as ignored.

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use x509_parser::asn1_rs::{Any, Class, FromDer};

/// Labels of certificates; OpenSSL reads and writes all three.
const CERTIFICATE: &str = "CERTIFICATE";
const X509_CERTIFICATE: &str = "X509 CERTIFICATE";
const TRUSTED_CERTIFICATE: &str = "TRUSTED CERTIFICATE";

/// Label of a certificate revocation list.
pub const REVOKED: &str = "X509 CRL";

/// A section of a PEM file, decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    /// Label, such as `CERTIFICATE` or `PRIVATE KEY`.
    pub label: String,
    /// Number of the line that begins the section, from 1.
    pub line: usize,
    /// Content, decoded from base64.
    pub der: Vec<u8>,
    /// True if a password is needed to read it.
    pub is_encrypted: bool,
}

/// Splits a text into its sections. Tolerates byte order marks, spaces around lines, text between sections, and files
/// that were concatenated without a line break.
///
/// # Errors
/// A section has no END line, or is not base64.
pub fn sections(text: &[u8]) -> Result<Vec<Section>, String> {
    let text = String::from_utf8_lossy(text).replace("----------BEGIN ", "-----\n-----BEGIN ").replace("\r\n", "\n");
    let mut sections = Vec::new();
    let mut open: Option<(Section, Vec<&str>)> = None;
    let ends_line = |c: char| c == '\n' || c == '\r';
    for (at, line) in text.split(ends_line).enumerate() {
        let line = line.trim_matches(|c: char| c.is_whitespace() || c == '\u{feff}');
        let marker = |kind: &str| line.strip_prefix(kind)?.strip_suffix("-----");
        if let Some(label) = marker("-----BEGIN ") {
            if let Some((before, _)) = open {
                return Err(format!("\"{}\" of line {} has no END line", before.label, before.line));
            }
            let section = Section { label: label.to_string(), line: at + 1, der: Vec::new(), is_encrypted: false };
            open = Some((section, Vec::new()));
        } else if let Some(label) = marker("-----END ") {
            let Some((mut section, lines)) = open.take() else { continue };
            if section.label != label {
                return Err(format!("\"{}\" of line {} has the END line of \"{label}\"", section.label, section.line));
            }
            section.der =
                decoded(&lines).ok_or_else(|| format!("\"{label}\" of line {} is not base64", section.line))?;
            section.is_encrypted |= label.contains("ENCRYPTED");
            sections.push(section);
        } else if let Some((section, lines)) = &mut open {
            // A header before an encrypted key, as OpenSSL wrote it before PKCS #8.
            match line.contains(':') {
                true => section.is_encrypted |= line.contains("ENCRYPTED"),
                false => lines.push(line),
            }
        }
    }
    match open {
        Some((section, _)) => Err(format!("\"{}\" of line {} has no END line", section.label, section.line)),
        None => Ok(sections),
    }
}

fn decoded(lines: &[&str]) -> Option<Vec<u8>> {
    let text = format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", lines.join("\n"));
    CertificateDer::from_pem_slice(text.as_bytes()).ok().map(|der| der.to_vec())
}

impl Section {
    /// The certificate in the section; `None` if it is of another type.
    ///
    /// # Errors
    /// The section is malformed, or restricts the trust in its certificate, which could not be honoured.
    pub fn certificate(&self) -> Option<Result<CertificateDer<'static>, String>> {
        match &*self.label {
            CERTIFICATE | X509_CERTIFICATE => Some(Ok(self.der.clone().into())),
            TRUSTED_CERTIFICATE => Some(self.trusted()),
            _ => None,
        }
    }

    /// The certificate of a `TRUSTED CERTIFICATE`, which OpenSSL writes with settings after it: trusted and rejected
    /// uses, an alias, an identifier (X509_CERT_AUX).
    fn trusted(&self) -> Result<CertificateDer<'static>, String> {
        let wrong = || format!("\"{}\" of line {} is not valid DER", self.label, self.line);
        let (behind, _) = Any::from_der(&self.der).map_err(|_| wrong())?;
        let certificate = &self.der[..self.der.len() - behind.len()];
        if !behind.is_empty() {
            let (_, settings) = Any::from_der(behind).map_err(|_| wrong())?;
            let mut left = settings.data;
            while !left.is_empty() {
                let (rest, setting) = Any::from_der(left).map_err(|_| wrong())?;
                if setting.class() == Class::ContextSpecific && setting.tag().0 == 0 && !setting.data.is_empty() {
                    let (label, line) = (&self.label, self.line);
                    return Err(format!(
                        "\"{label}\" of line {line} carries trust settings, which evenkeel does not support"
                    ));
                }
                left = rest;
            }
        }
        Ok(certificate.to_vec().into())
    }

    /// Label and line, for a report that the section is ignored. `None` for keys and parameters, which are usual beside
    /// certificates.
    pub fn left_out(&self) -> Option<String> {
        let is_usual = ["PRIVATE KEY", "PARAMETERS"].iter().any(|end| self.label.ends_with(end));
        (!is_usual).then(|| format!("\"{}\" of line {}", self.label, self.line))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "-----BEGIN CERTIFICATE-----\nMAMCAQE=\n-----END CERTIFICATE-----\n";

    fn labels(text: &str) -> Vec<(String, usize)> {
        let sections = sections(text.as_bytes()).expect("good ones");
        sections.into_iter().map(|section| (section.label, section.line)).collect()
    }

    #[test]
    fn certificates_are_found_however_a_file_was_put_together() {
        let one = ("CERTIFICATE".to_string(), 1);
        for text in [A.to_string(), format!("\u{feff}{A}"), A.replace('\n', "\r\n"), A.replace('\n', "\r")] {
            assert_eq!(labels(&text), std::slice::from_ref(&one), "{text:?}");
        }
        let joined = format!("{}{A}\u{feff}{A}text\n  {}", A.trim_end(), A.trim_end().replace('\n', "  \n\n "));
        assert_eq!(labels(&joined).len(), 4, "{joined}");
        assert!(sections(joined.as_bytes()).expect("good").iter().all(|section| section.der == [0x30, 3, 2, 1, 1]));
        assert!(labels("nothing").is_empty());
    }

    #[test]
    fn what_is_broken_is_named_with_its_line() {
        for (text, why) in [
            (format!("{A}-----BEGIN X-----\nMAMC\n"), "\"X\" of line 4 has no END line"),
            (format!("-----BEGIN X-----\nMAMC\n{A}"), "\"X\" of line 1 has no END line"),
            (A.replace("END CERTIFICATE", "END X"), "\"CERTIFICATE\" of line 1 has the END line of \"X\""),
            (A.replace('=', "!"), "\"CERTIFICATE\" of line 1 is not base64"),
        ] {
            assert_eq!(sections(text.as_bytes()).expect_err("it is broken"), why);
        }
    }

    #[test]
    fn a_key_that_needs_a_password_is_known_by_its_label_or_its_field() {
        let key =
            |label: &str, field: &str| format!("-----BEGIN {label}-----\n{field}MAMCAQE=\n-----END {label}-----\n");
        for (text, is_encrypted) in [
            (key("PRIVATE KEY", ""), false),
            (key("ENCRYPTED PRIVATE KEY", ""), true),
            (key("RSA PRIVATE KEY", "Proc-Type: 4,ENCRYPTED\nDEK-Info: AES-256-CBC,00\n\n"), true),
            (format!("ENCRYPTED was what this is not\n{}", key("RSA PRIVATE KEY", "")), false),
        ] {
            let sections = sections(text.as_bytes()).expect("good");
            assert_eq!((sections.len(), sections[0].is_encrypted), (1, is_encrypted), "{text}");
        }
    }
}
