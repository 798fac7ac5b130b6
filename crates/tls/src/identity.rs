//! Identity of a client from its certificate, in visible ASCII that is safe in header fields and logs, whatever the
//! certificate contains.

use rustls::pki_types::CertificateDer;
use sha2::{Digest, Sha256};
use std::fmt::Write;
use x509_parser::prelude::{FromDer, X509Certificate, X509Name};

/// Length limit of a name in bytes. A longer name is replaced by an empty string, as a prefix could be the name of
/// another.
const NAME_MAX: usize = 1024;

/// Identity of a certificate's owner, in the formats of NGINX.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Subject by RFC 4514: `CN=client,O=Example`. Empty if there is none, or if it is longer than 1024 bytes.
    pub subject: String,
    /// Issuer, in the same form.
    pub issuer: String,
    /// Serial number in upper-case hexadecimal.
    pub serial: String,
    /// SHA-256 of the certificate in lower-case hexadecimal.
    pub fingerprint: String,
}

impl Identity {
    /// Reads the identity from a certificate in DER; `None` if that cannot be parsed.
    pub fn of(der: &CertificateDer<'_>) -> Option<Identity> {
        let (_, certificate) = X509Certificate::from_der(der).ok()?;
        // DER puts a zero in front of a number whose first bit is set.
        let serial = certificate.raw_serial();
        let serial = if let [0, rest @ ..] = serial
            && !rest.is_empty()
        {
            rest
        } else {
            serial
        };
        Some(Identity {
            subject: name(certificate.subject()),
            issuer: name(certificate.issuer()),
            serial: serial.iter().map(|byte| format!("{byte:02X}")).collect(),
            fingerprint: Sha256::digest(der).iter().map(|byte| format!("{byte:02x}")).collect(),
        })
    }
}

/// Formats a name by RFC 4514: its parts from last to first.
fn name(name: &X509Name<'_>) -> String {
    let mut out = String::new();
    let mut parts: Vec<_> = name.iter_rdn().collect();
    parts.reverse();
    for (n, part) in parts.into_iter().enumerate() {
        for (m, attribute) in part.iter().enumerate() {
            match (n, m) {
                (0, 0) => {}
                (_, 0) => out.push(','),
                _ => out.push('+'),
            }
            let oid = attribute.attr_type().to_id_string();
            let word = WORDS.iter().find(|(id, _)| *id == oid).map(|(_, word)| *word);
            out.push_str(word.unwrap_or(&oid));
            out.push('=');
            escape(attribute.as_slice(), &mut out);
        }
    }
    if out.len() > NAME_MAX { String::new() } else { out }
}

/// Short names of attribute types (RFC 4514 section 3; `emailAddress` is customary).
const WORDS: [(&str, &str); 10] = [
    ("2.5.4.3", "CN"),
    ("2.5.4.7", "L"),
    ("2.5.4.8", "ST"),
    ("2.5.4.10", "O"),
    ("2.5.4.11", "OU"),
    ("2.5.4.6", "C"),
    ("2.5.4.9", "STREET"),
    ("0.9.2342.19200300.100.1.25", "DC"),
    ("0.9.2342.19200300.100.1.1", "UID"),
    ("1.2.840.113549.1.9.1", "emailAddress"),
];

/// Escapes a value by RFC 4514 section 2.4. Bytes other than visible ASCII are written in hexadecimal, so no value ends
/// a line.
fn escape(value: &[u8], out: &mut String) {
    for (at, &byte) in value.iter().enumerate() {
        let is_end = at == 0 || at + 1 == value.len();
        match byte {
            b'"' | b'+' | b',' | b';' | b'<' | b'>' | b'\\' => out.extend(['\\', char::from(byte)]),
            b' ' if is_end => out.push_str("\\ "),
            b'#' if at == 0 => out.push_str("\\#"),
            b' '..=b'~' => out.push(char::from(byte)),
            // Writing to a String cannot fail.
            _ => _ = write!(out, "\\{byte:02X}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, DnType, KeyPair, SerialNumber};

    fn made(change: impl FnOnce(&mut CertificateParams)) -> Identity {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.distinguished_name = rcgen::DistinguishedName::new();
        change(&mut params);
        Identity::of(params.self_signed(&key).expect("a certificate").der()).expect("a certificate")
    }

    #[test]
    fn names_are_written_from_their_last_part_to_their_first() {
        let identity = made(|params| {
            params.distinguished_name.push(DnType::CountryName, "DE");
            params.distinguished_name.push(DnType::OrganizationName, "Example, Inc.");
            params.distinguished_name.push(DnType::CommonName, "client");
            params.serial_number = Some(SerialNumber::from_slice(&[0xab, 1]));
        });
        assert_eq!(identity.subject, "CN=client,O=Example\\, Inc.,C=DE");
        assert_eq!((&identity.issuer, &*identity.serial), (&identity.subject, "AB01"));
        assert_eq!(identity.fingerprint.len(), 64);
    }

    #[test]
    fn no_name_ends_a_line_or_is_cut() {
        for (name, wanted) in [
            ("a\r\nX-Admin: yes", "CN=a\\0D\\0AX-Admin: yes"),
            ("J\u{fc}rgen\0", "CN=J\\C3\\BCrgen\\00"),
            (" # ", "CN=\\ #\\ "),
            ("#\"+;<>\\", "CN=\\#\\\"\\+\\;\\<\\>\\\\"),
            ("", "CN="),
        ] {
            let identity = made(|params| params.distinguished_name.push(DnType::CommonName, name));
            assert_eq!(identity.subject, wanted);
        }
        let long = "x".repeat(NAME_MAX);
        assert_eq!(made(|params| params.distinguished_name.push(DnType::CommonName, &*long)).subject, "");
        assert_eq!(made(|_| ()).subject, "");
    }

    proptest::proptest! {
        #[test]
        fn whatever_a_name_is_it_fits_into_a_line(bytes: Vec<u8>) {
            let mut out = String::new();
            escape(&bytes, &mut out);
            proptest::prop_assert!(out.bytes().all(|byte| (b' '..=b'~').contains(&byte)));
        }
    }
}
