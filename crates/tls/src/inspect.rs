//! Findings about certificates: names, dates and weaknesses, for `evenkeel check`, the log and metrics.

pub use crate::clock::now;

use crate::authorities::{self, Use};
use crate::ocsp::{self, Refusal};
use crate::pair::{self, FileError, Source};
use crate::tickets;
use evenkeel_config::plan::Pem;
use evenkeel_config::{CertificateFault, Certified, Machine, TlsFile};
use rustls::CertificateError;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;
use x509_parser::extensions::ParsedExtension;
use x509_parser::prelude::{CertificateRevocationList, FromDer, GeneralName, X509Certificate};
use x509_parser::public_key::PublicKey;

/// Time before its expiry from which a certificate is warned of: automatic renewal of 90 days comes long before.
pub const SOON: Duration = Duration::from_secs(14 * 86_400);

/// Facts of a certificate, for findings and metrics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Subject alternative names in lower case; IP addresses as text.
    pub names: Vec<String>,
    /// Start and end of validity, in seconds since 1970.
    pub valid: (i64, i64),
    /// Distinguished name of the subject.
    pub subject: String,
    /// Distinguished name of the issuer.
    pub issuer: String,
    /// True if it states where its issuer's certificate can be fetched, as certificates of public authorities do.
    pub points_to_issuer: bool,
    /// Description of a weakness: a short RSA key, or a signature with SHA-1 or MD5.
    pub weak: Option<String>,
    /// True if it is the certificate of an authority.
    pub is_authority: bool,
}

impl Facts {
    /// True if subject and issuer are equal.
    pub fn is_self_signed(&self) -> bool {
        self.subject == self.issuer
    }
}

/// DNS names and addresses of the first certificate of a text in PEM, in lower case.
pub fn names_pem(pem: &[u8]) -> Vec<String> {
    let first = CertificateDer::pem_slice_iter(pem).next().and_then(Result::ok);
    first.and_then(|der| facts(&der)).map(|facts| facts.names).unwrap_or_default()
}

/// Reads the facts of a certificate in DER; `None` if it cannot be parsed.
pub fn facts(der: &CertificateDer<'_>) -> Option<Facts> {
    let (_, certificate) = X509Certificate::from_der(der).ok()?;
    let mut names = Vec::new();
    if let Ok(Some(alternative)) = certificate.subject_alternative_name() {
        for name in &alternative.value.general_names {
            match name {
                GeneralName::DNSName(name) => names.push(name.to_ascii_lowercase()),
                GeneralName::IPAddress(bytes) => {
                    let v4 = <[u8; 4]>::try_from(*bytes).map(IpAddr::from);
                    let ip = v4.or_else(|_| <[u8; 16]>::try_from(*bytes).map(IpAddr::from));
                    names.extend(ip.ok().map(|ip| ip.to_string()));
                }
                _ => {}
            }
        }
    }
    let validity = certificate.validity();
    let algorithm = certificate.signature_algorithm.algorithm.to_id_string();
    // OIDs of sha1WithRSAEncryption, ecdsa-with-SHA1 and md5WithRSAEncryption.
    let is_weak = ["1.2.840.113549.1.1.5", "1.2.840.10045.4.1", "1.2.840.113549.1.1.4"].contains(&&*algorithm);
    let bits = match certificate.public_key().parsed() {
        Ok(PublicKey::RSA(key)) => Some(key.key_size()),
        _ => None,
    };
    let weak = match bits {
        Some(bits @ ..2048) => Some(format!("its RSA key has {bits} bits; at least 2048 are required")),
        _ if is_weak => Some("it is signed with SHA-1 or MD5, which clients reject".to_string()),
        _ => None,
    };
    Some(Facts {
        names,
        valid: (validity.not_before.timestamp(), validity.not_after.timestamp()),
        subject: certificate.subject().to_string(),
        issuer: certificate.issuer().to_string(),
        points_to_issuer: certificate
            .extensions()
            .iter()
            .any(|extension| matches!(extension.parsed_extension(), ParsedExtension::AuthorityInfoAccess(_))),
        weak,
        is_authority: certificate.is_ca(),
    })
}

/// Formats a time, in seconds since 1970, for messages.
pub fn day(seconds: i64) -> String {
    let time = x509_parser::time::ASN1Time::from_timestamp(seconds);
    time.map_or_else(|_| seconds.to_string(), |time| time.to_string())
}

/// All findings about a certificate and its key.
pub fn inspect<'c, 'k>(cert: impl Into<Source<'c>>, key: impl Into<Source<'k>>, now: i64) -> Certified {
    let (cert, key) = (cert.into(), key.into());
    let mut faults = Vec::new();
    let found = pair::certificates(cert).map_err(|error| faults.push(fault(error))).ok();
    faults.extend(found.as_ref().and_then(|found| lost(cert, found)));
    let chain = found.map(|found| found.found);
    let chain = chain.filter(|chain| pair::readable(cert, chain).map_err(|error| faults.push(fault(error))).is_ok());
    if pair::key(key).map_err(|error| faults.push(fault(error))).is_ok() {
        if chain.is_some()
            && let Err(error) = pair::certified(cert, key)
        {
            faults.push(fault(error));
        }
        faults.extend(open_key(key));
    }
    let self_signed =
        chain.as_ref().and_then(|chain| facts(chain.first()?)).is_some_and(|facts| facts.is_self_signed());
    let names = chain.map(|chain| of_chain(cert, &chain, now, &mut faults));
    Certified { faults, names, self_signed }
}

/// Warning about a key that every user of the machine can read.
fn open_key(key: Source<'_>) -> Option<CertificateFault> {
    let Source::File(key) = key else { return None };
    let is_open = std::fs::metadata(key).is_ok_and(|found| found.permissions().mode() & 0o004 != 0);
    is_open.then(|| {
        let what = format!("the key in {} is readable by every user of this machine", key.display());
        warning(true, what, format!("chmod o-r {}", key.display()))
    })
}

/// All findings about a file that is not a certificate with a key.
fn inspect_file<'p>(kind: TlsFile, file: impl Into<Source<'p>>, now: i64) -> Vec<CertificateFault> {
    let file = file.into();
    // Those that are not PEM are files.
    let path = if let Source::File(path) = file { path } else { Path::new("") };
    let read = match kind {
        TlsFile::Authorities => of_authorities(file, Use::Server, now),
        TlsFile::ClientAuthorities => of_authorities(file, Use::Client, now),
        TlsFile::Revoked => pair::lists(file).map(|lists| {
            let outdated = lists.found.iter().find_map(|list| outdated(file, list, now));
            outdated.into_iter().chain(lost(file, &lists)).collect()
        }),
        TlsFile::Ocsp => ocsp::read(path).map(|_| Vec::new()),
        TlsFile::TicketKey => tickets::read(path).map(|_| open_key(file).into_iter().collect()),
    };
    read.unwrap_or_else(|error| vec![fault(error)])
}

/// Warning about sections of a file that are not used.
fn lost<T>(file: Source<'_>, found: &pair::Found<T>) -> Option<CertificateFault> {
    found.lost(file).map(|FileError { what, help, .. }| warning(false, what, help))
}

/// Findings about trusted certificates. Requirements on a certificate that a server or client shows are checked only
/// for those that are not authorities.
fn of_authorities(file: Source<'_>, used: Use, now: i64) -> Result<Vec<CertificateFault>, FileError> {
    let found = pair::certificates(file)?;
    let mut faults: Vec<_> = lost(file, &found).into_iter().collect();
    let authorities = authorities::of(file, found.found)?;
    let (shower, key_usage) = match used {
        Use::Server => ("an endpoint", "serverAuth"),
        Use::Client => ("a client", "clientAuth"),
    };
    for (at, der) in authorities.certificates.iter().enumerate() {
        let Some(facts) = facts(der) else { continue };
        let this = format!("certificate {} in {file}", at + 1);
        let lacks = match authorities::verify(der, used, now) {
            Err(CertificateError::Expired) => Some(format!("it expired on {}", day(facts.valid.1))),
            Err(CertificateError::NotValidYet) => Some(format!("it is not valid before {}", day(facts.valid.0))),
            Err(CertificateError::InvalidPurpose) if !facts.is_authority => {
                Some(format!("its extended key usage lacks {key_usage}"))
            }
            _ if used == Use::Server && !facts.is_authority && facts.names.is_empty() => {
                Some("it has no name (subjectAltName)".to_string())
            }
            _ => None,
        };
        if let Some(lacks) = lacks {
            let what = match facts.is_authority {
                true => format!("{this}: {lacks}"),
                false => format!("{this} is not a CA certificate, and {shower} that presents it is refused: {lacks}"),
            };
            faults.push(warning(false, what, "create or obtain a new one".to_string()));
        }
    }
    Ok(faults)
}

/// Warning about a revocation list that is past its nextUpdate.
fn outdated(file: Source<'_>, list: &[u8], now: i64) -> Option<CertificateFault> {
    let (_, list) = CertificateRevocationList::from_der(list).ok()?;
    let until = list.next_update()?.timestamp();
    (until < now).then(|| {
        let what = format!("the revocation list in {file} was due for renewal on {}", day(until));
        let help = "fetch a new one from its issuer: certificates revoked since are missing";
        warning(false, what, help.to_string())
    })
}

/// True if this machine trusts an authority with this subject.
fn is_trusted(issuer: &str) -> bool {
    let known = rustls_native_certs::load_native_certs().certs;
    known.iter().filter_map(facts).any(|facts| facts.subject == issuer)
}

/// Adds the findings about a chain to `faults`, and returns the names of its first certificate.
fn of_chain(
    file: Source<'_>,
    chain: &[CertificateDer<'_>],
    now: i64,
    faults: &mut Vec<CertificateFault>,
) -> Vec<String> {
    let known = known(chain);
    let all: Vec<&Facts> = known.iter().map(|(_, facts)| facts).collect();
    let Some(first) = all.first() else { return Vec::new() };
    let (from, until) = first.valid;
    if until < now {
        let what = format!("the certificate in {file} expired on {}", day(until));
        faults.push(error(what, "renew it: clients refuse to connect"));
    } else if from > now {
        let what = format!("the certificate in {file} is not valid before {}", day(from));
        faults.push(error(what, "wait, or check this machine's clock"));
    } else if until - now < SOON.as_secs() as i64 {
        let what = format!("the certificate in {file} expires on {}", day(until));
        faults.push(warning(false, what, "renew it: clients refuse to connect then".to_string()));
    }
    order(file, &known, faults);
    if let Some(last) = all.last().filter(|last| last.points_to_issuer && !last.is_self_signed())
        && !is_trusted(&last.issuer)
    {
        let what = format!(
            "the last certificate in {file} was issued by \"{}\", which this machine does not trust",
            last.issuer
        );
        let help = "append that issuer's certificate, as in a fullchain.pem: clients do not fetch it";
        faults.push(warning(false, what, help.to_string()));
    }
    for weak in all.iter().filter_map(|facts| facts.weak.as_ref()) {
        faults.push(warning(false, format!("a certificate in {file} is weak: {weak}"), "have it reissued".to_string()));
    }
    if first.names.is_empty() {
        let what = format!("the certificate in {file} has no name");
        faults.push(warning(false, what, "clients check subjectAltName, not the common name".to_string()));
    }
    first.names.clone()
}

fn known<'c, 'd>(chain: &'c [CertificateDer<'d>]) -> Vec<(&'c CertificateDer<'d>, Facts)> {
    chain.iter().filter_map(|der| Some((der, facts(der)?))).collect()
}

/// Notes about the order of a chain, for the log.
pub fn misplaced(file: Source<'_>, chain: &[CertificateDer<'_>]) -> Vec<String> {
    let mut faults = Vec::new();
    order(file, &known(chain), &mut faults);
    faults.into_iter().map(|fault| fault.what).collect()
}

/// Adds findings about the order of a chain. Clients find their way through any order if each certificate but the first
/// is the issuer of another certificate.
fn order(file: Source<'_>, chain: &[(&CertificateDer<'_>, Facts)], faults: &mut Vec<CertificateFault>) {
    let mut leads = vec![false; chain.len()];
    leads.iter_mut().take(1).for_each(|first| *first = true);
    // A certificate may lead to an earlier certificate: each round gets one further from the first.
    while let Some(next) = (1..chain.len()).find(|at| {
        let mut issued = chain.iter().zip(&leads).filter(|(_, leads)| **leads);
        !leads[*at] && issued.any(|((_, other), _)| other.issuer == chain[*at].1.subject)
    }) {
        leads[next] = true;
    }
    for (at, (der, this)) in chain.iter().enumerate().skip(1) {
        let (before, number) = (&chain[..at], at + 1);
        if before.iter().any(|(other, _)| other == der) {
            let what = format!("certificate {number} in {file} is a duplicate");
            let help = "remove it: it only makes each handshake larger";
            faults.push(warning(false, what, help.to_owned()));
        } else if before.iter().any(|(_, other)| other.issuer == this.subject) {
            if before.iter().skip(1).any(|(_, other)| other.subject == this.subject) {
                let what = format!("certificate {number} in {file} is a second certificate of \"{}\"", this.subject);
                let help = "remove one of the two, unless clients need both (cross-signing)";
                faults.push(warning(false, what, help.to_owned()));
            }
        } else {
            let what = format!(
                "the certificates in {file} are out of order: number {number} is \"{}\", but the one before it was issued by \"{}\"",
                this.subject,
                chain[at - 1].1.issuer
            );
            faults.push(match leads[at] {
                true => {
                    let help = "put each certificate before its issuer: old TLS 1.2 clients require this order";
                    warning(false, what, help.to_owned())
                }
                false => error(what, "put each certificate before its issuer"),
            });
        }
    }
}

fn fault(error: FileError) -> CertificateFault {
    CertificateFault { of_key: error.of_key, is_error: true, what: error.what, help: error.help }
}

fn error(what: String, help: &str) -> CertificateFault {
    CertificateFault { of_key: false, is_error: true, what, help: help.to_string() }
}

fn warning(of_key: bool, what: String, help: String) -> CertificateFault {
    CertificateFault { of_key, is_error: false, what, help }
}

/// Adds inspections of TLS files to a machine.
pub fn with_tls(machine: Machine) -> Machine {
    Machine {
        certificate: Box::new(|cert, key| inspect(cert, key, now())),
        ocsp: Box::new(inspect_ocsp),
        tls_file: Box::new(|kind, file| inspect_file(kind, file, now())),
        ..machine
    }
}

/// All findings about an OCSP response for a certificate.
fn inspect_ocsp(file: &Path, cert: &Pem) -> Vec<CertificateFault> {
    let (Ok(der), Ok(found)) = (ocsp::read(file), pair::certificates(cert)) else { return Vec::new() };
    let refused = ocsp::verify(&der, &found.found, now()).err().map(|Refusal { why, .. }| {
        let what = format!("the OCSP response in {} is not stapled: {why}", file.display());
        let help = "fetch a new one for this certificate: openssl ocsp -respout FILE; put the certificate of the issuer behind \
                    this one, in the file of \"cert\"";
        warning(false, what, help.to_string())
    });
    refused.into_iter().collect()
}

#[cfg(test)]
#[path = "inspect_tests.rs"]
mod tests;
