//! Who is a client, as its certificate says? In words that fit into a field of a head and into a log: visible ASCII, whatever
//! the certificate has.

use rustls::pki_types::CertificateDer;
use sha2::{Digest, Sha256};
use std::fmt::Write;
use x509_parser::prelude::{FromDer, X509Certificate, X509Name};

/// The longest name that is passed on: of a longer one there is nothing, as a part of it could be another's.
const NAME_MAX: usize = 1024;

/// What a certificate says of its owner. The formats are those of NGINX.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Its name by RFC 4514: `CN=client,O=Example`. Empty if it has none, or one that is too long.
    pub subject: String,
    /// The name of the issuer, in the same form.
    pub issuer: String,
    /// The serial number, in capital hexadecimal digits.
    pub serial: String,
    /// SHA-256 of the certificate, in small hexadecimal digits.
    pub fingerprint: String,
}

impl Identity {
    /// Reads a certificate; `None` if it is none.
    pub fn of(der: &CertificateDer<'_>) -> Option<Identity> {
        let (_, certificate) = X509Certificate::from_der(der).ok()?;
        // A number that begins with a bit that is set has a zero in front of it.
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

/// A name by RFC 4514: its parts from the last to the first.
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

/// Kinds of attributes that have a word (RFC 4514 section 3; the last by custom).
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

/// RFC 4514 section 2.4; everything that is not visible ASCII by its bytes, so that no name ends a line.
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
