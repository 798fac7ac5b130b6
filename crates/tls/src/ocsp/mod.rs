//! Verification of OCSP responses (RFC 6960) before they are stapled. Clients refuse a connection with a response that
//! has expired or is for another certificate, but would have accepted a connection without a response.

mod staple;

pub use staple::Staple;

use crate::pair::{self, FileError};
use crate::provider::provider;
use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, SHA256, SHA384, SHA512, digest};
use rustls::pki_types::CertificateDer;
use std::path::Path;
use x509_parser::asn1_rs::{Any, Class, FromDer, Tag};
use x509_parser::prelude::X509Certificate;
use x509_parser::time::ASN1Time;

/// OID of id-pkix-ocsp-basic, the only response type in use.
const BASIC: &[u8] = &[0x2b, 6, 1, 5, 5, 7, 0x30, 1, 1];

/// OIDs of the hash algorithms in a CertID. The hashes only identify and protect nothing, so SHA-1 is accepted; the key
/// hash of a responder is always SHA-1.
const SHA_1: &[u8] = &[0x2b, 0x0e, 3, 2, 0x1a];
const SHA_2: [(&[u8], &aws_lc_rs::digest::Algorithm); 3] = [
    (&[0x60, 0x86, 0x48, 1, 0x65, 3, 4, 2, 1], &SHA256),
    (&[0x60, 0x86, 0x48, 1, 0x65, 3, 4, 2, 2], &SHA384),
    (&[0x60, 0x86, 0x48, 1, 0x65, 3, 4, 2, 3], &SHA512),
];

/// Tolerated lead of a responder's clock, in seconds: OpenSSL's default for `-validity_period`.
const SKEW: i64 = 300;

/// Seconds before nextUpdate at which stapling stops. Longer than the interval between looks at files, so that no
/// client sees an expired response.
const EARLY: i64 = 10;

/// Reason not to staple a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Text that continues "it is not stapled: ".
    pub why: String,
    /// True if the issuer itself denies that the certificate is good, so that no earlier response may be stapled
    /// either.
    pub is_denial: bool,
}

impl<T: Into<String>> From<T> for Refusal {
    fn from(why: T) -> Refusal {
        Refusal { why: why.into(), is_denial: false }
    }
}

/// A parsed response and its signature.
struct Response<'a> {
    signed: Signed<'a>,
    responder: Any<'a>,
    /// Certificates of delegated responders, and perhaps of the issuer.
    certificates: Vec<&'a [u8]>,
    singles: Vec<Single<'a>>,
}

/// Signed DER: the common frame of responses and certificates.
struct Signed<'a> {
    message: &'a [u8],
    algorithm: &'a [u8],
    signature: &'a [u8],
    rest: &'a [u8],
}

/// Status of a certificate (SingleResponse).
struct Single<'a> {
    hash: &'a [u8],
    issuer_name: &'a [u8],
    issuer_key: &'a [u8],
    serial: &'a [u8],
    /// 0 = good, 1 = revoked, 2 = unknown.
    status: u32,
    this_update: i64,
    next_update: Option<i64>,
}

/// Verifies a response for the first certificate of a chain, and returns its nextUpdate in seconds since 1970. The
/// issuer's certificate is taken from the chain or from the response: whichever has signed the first certificate.
///
/// # Errors
/// The reason not to staple it.
pub fn verify(der: &[u8], chain: &[CertificateDer<'_>], now: i64) -> Result<i64, Refusal> {
    match status(der).ok_or("it is not an OCSP response")? {
        0 => {}
        status => return Err(format!("the responder answered {}", status_name(status)).into()),
    }
    let response = response(der).ok_or("it is not a basic OCSP response")?;
    let leaf_der = chain.first().ok_or("the file has no certificate")?;
    let leaf = certificate(leaf_der).ok_or("the certificate cannot be parsed")?;
    let numbered: Vec<_> = response.singles.iter().filter(|single| single.serial == leaf.raw_serial()).collect();
    if numbered.is_empty() {
        return Err("it is for a different certificate".into());
    }
    let other_issuer = "it is for a certificate of a different issuer";
    let is_named = |single: &&&Single<'_>| hashes_to(single.hash, leaf.issuer().as_raw(), single.issuer_name);
    let single = numbered.iter().find(is_named).ok_or(other_issuer)?;
    let known = chain.iter().map(|der| &**der).chain(response.certificates.iter().copied());
    let issuer = known
        .filter_map(certificate)
        .find(|known| known.subject().as_raw() == leaf.issuer().as_raw() && has_signed(known, leaf_der))
        .ok_or("the issuer's certificate, which verifies it, is missing from the certificate's file")?;
    if !hashes_to(single.hash, &issuer.public_key().subject_public_key.data, single.issuer_key) {
        return Err(other_issuer.into());
    }
    if !is_signed(&response, &issuer, now) {
        return Err("it is not signed by the issuer or by a responder of the issuer".into());
    }
    if single.status != 0 {
        let why = if single.status == 1 {
            "the certificate is revoked"
        } else {
            "the responder does not know the certificate"
        };
        return Err(Refusal { why: why.to_string(), is_denial: true });
    }
    if single.this_update > now + SKEW {
        return Err("it is not valid yet (thisUpdate)".into());
    }
    match single.next_update {
        None => Err("it has no nextUpdate, so its age is unknown".into()),
        Some(at) if has_ended(at, now) => Err("it has expired (nextUpdate)".into()),
        Some(at) => Ok(at),
    }
}

/// True if a response with this nextUpdate must not be stapled any more.
pub fn has_ended(next_update: i64, now: i64) -> bool {
    next_update <= now.saturating_add(EARLY)
}

/// Reads an OCSP response of any status, in DER. [`verify`] decides whether it may be stapled.
///
/// # Errors
/// The file cannot be read, or has no OCSP response.
pub fn read(path: &Path) -> Result<Vec<u8>, FileError> {
    let der = pair::read(path, false)?;
    if !is_response(&der) {
        let what = format!("{} is not an OCSP response in DER", path.display());
        return Err(FileError::new(false, what, "fetch it with: openssl ocsp -respout FILE"));
    }
    Ok(der)
}

/// True for an OCSP response of any status.
fn is_response(der: &[u8]) -> bool {
    status(der).is_some()
}

fn status_name(status: u8) -> String {
    match status {
        1 => "malformedRequest".to_string(),
        2 => "internalError".to_string(),
        3 => "tryLater".to_string(),
        5 => "sigRequired".to_string(),
        6 => "unauthorized".to_string(),
        _ => format!("with the unknown status {status}"),
    }
}

/// Verifies the signature of the issuer, or of a responder to which the issuer has delegated OCSP signing.
fn is_signed(response: &Response<'_>, issuer: &X509Certificate<'_>, now: i64) -> bool {
    if is_responder(response, issuer) && verifies(issuer, &response.signed) {
        return true;
    }
    response.certificates.iter().any(|der| {
        let Some(delegate) = certificate(der) else { return false };
        let validity = delegate.validity();
        is_responder(response, &delegate)
            && matches!(delegate.extended_key_usage(), Ok(Some(usage)) if usage.value.ocsp_signing)
            && (validity.not_before.timestamp()..=validity.not_after.timestamp()).contains(&now)
            && delegate.issuer().as_raw() == issuer.subject().as_raw()
            && has_signed(issuer, der)
            && verifies(&delegate, &response.signed)
    })
}

/// True if the response names this certificate as its responder, by subject or key hash.
fn is_responder(response: &Response<'_>, certificate: &X509Certificate<'_>) -> bool {
    let mut id = response.responder.data;
    match response.responder.tag().0 {
        1 => id == certificate.subject().as_raw(),
        2 => tagged(&mut id, Tag::OctetString)
            .is_some_and(|key| hashes_to(SHA_1, &certificate.public_key().subject_public_key.data, key)),
        _ => false,
    }
}

/// True if this certificate was signed with the signer's key.
fn has_signed(signer: &X509Certificate<'_>, certificate: &[u8]) -> bool {
    signed(certificate).is_some_and(|signed| verifies(signer, &signed))
}

fn verifies(signer: &X509Certificate<'_>, signed: &Signed<'_>) -> bool {
    let mut spki = signer.public_key().raw;
    let Some(mut key) = tagged(&mut spki, Tag::Sequence) else { return false };
    let (Some(algorithm), Some(bits)) = (tagged(&mut key, Tag::Sequence), tagged(&mut key, Tag::BitString)) else {
        return false;
    };
    let Some((0, public)) = bits.split_first() else { return false };
    provider().signature_verification_algorithms.all.iter().any(|one| {
        one.signature_alg_id().as_ref() == signed.algorithm
            && one.public_key_alg_id().as_ref() == algorithm
            && one.verify_signature(public, signed.message, signed.signature).is_ok()
    })
}

/// True if the hash of `bytes`, by the algorithm with this OID, is `hashed`.
fn hashes_to(oid: &[u8], bytes: &[u8], hashed: &[u8]) -> bool {
    let algorithm = match oid {
        SHA_1 => Some(&SHA1_FOR_LEGACY_USE_ONLY),
        _ => SHA_2.iter().find(|(known, _)| *known == oid).map(|(_, algorithm)| *algorithm),
    };
    algorithm.is_some_and(|algorithm| digest(algorithm, bytes).as_ref() == hashed)
}

fn certificate(der: &[u8]) -> Option<X509Certificate<'_>> {
    X509Certificate::from_der(der).ok().map(|(_, certificate)| certificate)
}

/// Takes the next element, and returns it with all of its bytes.
fn next<'a>(input: &mut &'a [u8]) -> Option<(Any<'a>, &'a [u8])> {
    let (rest, any) = Any::from_der(input).ok()?;
    let raw = &input[..input.len() - rest.len()];
    *input = rest;
    Some((any, raw))
}

/// Takes the content of the next element, which must have this tag.
fn tagged<'a>(input: &mut &'a [u8], tag: Tag) -> Option<&'a [u8]> {
    let (any, _) = next(input)?;
    (any.class() == Class::Universal && any.tag() == tag).then_some(any.data)
}

/// Takes the content of the next element if it has this context-specific tag.
fn in_context<'a>(input: &mut &'a [u8], number: u32) -> Option<&'a [u8]> {
    let mut rest = *input;
    let (any, _) = next(&mut rest)?;
    (any.class() == Class::ContextSpecific && any.tag().0 == number).then(|| {
        *input = rest;
        any.data
    })
}

/// Reads the status of a response. `None` if bytes follow the response.
fn status(mut der: &[u8]) -> Option<u8> {
    let mut all = tagged(&mut der, Tag::Sequence)?;
    match tagged(&mut all, Tag::Enumerated)? {
        [status] if der.is_empty() => Some(*status),
        _ => None,
    }
}

fn signed(mut der: &[u8]) -> Option<Signed<'_>> {
    let mut all = tagged(&mut der, Tag::Sequence)?;
    let (_, message) = next(&mut all)?;
    let algorithm = tagged(&mut all, Tag::Sequence)?;
    let (0, signature) = tagged(&mut all, Tag::BitString)?.split_first()? else { return None };
    Some(Signed { message, algorithm, signature, rest: all })
}

fn response(mut der: &[u8]) -> Option<Response<'_>> {
    let mut all = tagged(&mut der, Tag::Sequence)?;
    tagged(&mut all, Tag::Enumerated)?;
    let mut explicit = in_context(&mut all, 0)?;
    let mut bytes = tagged(&mut explicit, Tag::Sequence)?;
    if tagged(&mut bytes, Tag::Oid)? != BASIC {
        return None;
    }
    let signed = signed(tagged(&mut bytes, Tag::OctetString)?)?;
    let mut rest = signed.rest;
    let mut certificates = Vec::new();
    if let Some(mut explicit) = in_context(&mut rest, 0) {
        let mut list = tagged(&mut explicit, Tag::Sequence)?;
        while !list.is_empty() {
            certificates.push(next(&mut list)?.1);
        }
    }
    let mut message = signed.message;
    let mut data = tagged(&mut message, Tag::Sequence)?;
    let _version = in_context(&mut data, 0);
    let (responder, _) = next(&mut data)?;
    let _produced_at = next(&mut data)?;
    let mut list = tagged(&mut data, Tag::Sequence)?;
    let mut singles = Vec::new();
    while !list.is_empty() {
        singles.push(single(tagged(&mut list, Tag::Sequence)?)?);
    }
    Some(Response { signed, responder, certificates, singles })
}

fn single(mut content: &[u8]) -> Option<Single<'_>> {
    let mut id = tagged(&mut content, Tag::Sequence)?;
    let hash = tagged(&mut tagged(&mut id, Tag::Sequence)?, Tag::Oid)?;
    let (issuer_name, issuer_key) = (tagged(&mut id, Tag::OctetString)?, tagged(&mut id, Tag::OctetString)?);
    let serial = tagged(&mut id, Tag::Integer)?;
    let (status, _) = next(&mut content)?;
    let this_update = time(next(&mut content)?.1)?;
    let next_update = match in_context(&mut content, 0) {
        Some(explicit) => Some(time(explicit)?),
        None => None,
    };
    let is_status = status.class() == Class::ContextSpecific;
    let status = is_status.then_some(status.tag().0)?;
    Some(Single { hash, issuer_name, issuer_key, serial, status, this_update, next_update })
}

/// Reads a time, in seconds since 1970.
fn time(der: &[u8]) -> Option<i64> {
    ASN1Time::from_der(der).ok().map(|(_, time)| time.timestamp())
}

#[cfg(test)]
pub(crate) mod authority;
#[cfg(test)]
mod staple_tests;
#[cfg(test)]
mod tests;
