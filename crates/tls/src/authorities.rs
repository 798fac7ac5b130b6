//! Trusted certificates: those of authorities, and others that are trusted as they are, such as self-signed ones.
//!
//! A certificate without an authority is accepted if the peer shows it byte for byte as it is in the file, within its
//! validity, for its use and, for a server, under its name. Path validation (RFC 5280) does not cover it: there a
//! server must not show a certificate that is marked as an authority, as `openssl req -x509` marks all that it makes.

use crate::pair::{self, FileError};
use crate::proof;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{ParsedCertificate, WebPkiClientVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, Error, RootCertStore, SignatureScheme};
use std::path::Path;
use std::sync::Arc;
use x509_parser::prelude::{CertificateRevocationList, FromDer, X509Certificate};

/// Side that shows a certificate (extended key usage).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// `serverAuth`: a server shows it.
    Server,
    /// `clientAuth`: a client shows it.
    Client,
}

/// The trusted certificates of a file.
#[derive(Debug)]
pub struct Authorities {
    /// Certificates as trust anchors, for path validation.
    pub roots: RootCertStore,
    /// Certificates as they are in the file, for comparison.
    pub certificates: Vec<CertificateDer<'static>>,
}

/// Reads the trusted certificates of a file.
///
/// # Errors
/// The file cannot be read, or has no certificate or one that cannot be a trust anchor.
pub fn read(path: &Path) -> Result<Authorities, FileError> {
    of(path, pair::chain(path)?)
}

/// Makes trust anchors of certificates that were read from `path`.
///
/// # Errors
/// A certificate cannot be a trust anchor.
pub fn of(path: &Path, certificates: Vec<CertificateDer<'static>>) -> Result<Authorities, FileError> {
    let mut roots = RootCertStore::empty();
    for (at, certificate) in certificates.iter().enumerate() {
        roots.add(certificate.clone()).map_err(|error| {
            let what = format!("certificate {} in {} cannot be a CA certificate: {error}", at + 1, path.display());
            FileError::new(
                false,
                what,
                "list CA certificates, or the certificates of the endpoints or clients themselves",
            )
        })?;
    }
    Ok(Authorities { roots, certificates })
}

/// Checks a certificate that is trusted as it is, apart from its names: validity at `now`, and extended key usage.
pub fn verify(der: &CertificateDer<'_>, used: Use, now: i64) -> Result<(), CertificateError> {
    let (_, certificate) = X509Certificate::from_der(der).map_err(|_| CertificateError::BadEncoding)?;
    let validity = certificate.validity();
    if now < validity.not_before.timestamp() {
        return Err(CertificateError::NotValidYet);
    }
    if now > validity.not_after.timestamp() {
        return Err(CertificateError::Expired);
    }
    let is_for = match certificate.extended_key_usage() {
        Ok(None) => true,
        Ok(Some(uses)) => match used {
            _ if uses.value.any => true,
            Use::Server => uses.value.server_auth,
            Use::Client => uses.value.client_auth,
        },
        Err(_) => return Err(CertificateError::BadEncoding),
    };
    if is_for { Ok(()) } else { Err(CertificateError::InvalidPurpose) }
}

/// The time in seconds since 1970.
fn seconds(time: UnixTime) -> i64 {
    i64::try_from(time.as_secs()).unwrap_or(i64::MAX)
}

/// Verifier for certificates of servers.
#[derive(Debug)]
pub struct Servers {
    by_authority: Arc<WebPkiServerVerifier>,
    named: Vec<CertificateDer<'static>>,
}

impl Servers {
    /// Returns a verifier that accepts these certificates, and those that they have issued.
    ///
    /// # Errors
    /// `authorities` is empty.
    pub fn of(authorities: Authorities) -> Result<Servers, rustls::client::VerifierBuilderError> {
        let roots = Arc::new(authorities.roots);
        let by_authority = WebPkiServerVerifier::builder_with_provider(roots, crate::provider::provider()).build()?;
        Ok(Servers { by_authority, named: authorities.certificates })
    }
}

impl ServerCertVerifier for Servers {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if !self.named.contains(end_entity) {
            return self.by_authority.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        }
        verify(end_entity, Use::Server, seconds(now))?;
        verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.by_authority.verify_tls12_signature(message, cert, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.by_authority.verify_tls13_signature(message, cert, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.by_authority.supported_verify_schemes()
    }
}

/// Verifier for clients. Also notes until when their certificates are valid, as a resumed session must not outlive
/// them.
#[derive(Debug)]
pub struct Clients {
    by_authority: Arc<dyn ClientCertVerifier>,
    named: Vec<CertificateDer<'static>>,
    lists: Vec<CertificateRevocationListDer<'static>>,
}

impl Clients {
    /// Returns a verifier that accepts these certificates, and those that they have issued, unless one of the lists
    /// revokes them.
    ///
    /// # Errors
    /// The authorities or lists cannot be used.
    pub fn of(
        authorities: Authorities,
        lists: Vec<CertificateRevocationListDer<'static>>,
        is_required: bool,
    ) -> Result<Clients, rustls::server::VerifierBuilderError> {
        let roots = Arc::new(authorities.roots);
        let mut builder = WebPkiClientVerifier::builder_with_provider(roots, crate::provider::provider());
        if !lists.is_empty() {
            builder = builder.with_crls(lists.iter().cloned());
        }
        if !is_required {
            builder = builder.allow_unauthenticated();
        }
        Ok(Clients { by_authority: builder.build()?, named: authorities.certificates, lists })
    }

    /// True if a list of the certificate's issuer contains its serial number, or if it cannot be parsed.
    fn is_revoked(&self, der: &CertificateDer<'_>) -> bool {
        let Ok((_, certificate)) = X509Certificate::from_der(der) else { return true };
        let has = |list: &CertificateRevocationListDer<'_>| {
            let Ok((_, list)) = CertificateRevocationList::from_der(list) else { return false };
            list.issuer().as_raw() == certificate.issuer().as_raw()
                && list.iter_revoked_certificates().any(|revoked| revoked.raw_serial() == certificate.raw_serial())
        };
        self.lists.iter().any(has)
    }
}

impl ClientCertVerifier for Clients {
    fn offer_client_auth(&self) -> bool {
        self.by_authority.offer_client_auth()
    }

    fn client_auth_mandatory(&self) -> bool {
        self.by_authority.client_auth_mandatory()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.by_authority.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        if self.named.contains(end_entity) {
            verify(end_entity, Use::Client, seconds(now))?;
            if self.is_revoked(end_entity) {
                return Err(CertificateError::Revoked.into());
            }
            proof::note(end_entity, &[]);
            return Ok(ClientCertVerified::assertion());
        }
        let verified = self.by_authority.verify_client_cert(end_entity, intermediates, now)?;
        proof::note(end_entity, intermediates);
        Ok(verified)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.by_authority.verify_tls12_signature(message, cert, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.by_authority.verify_tls13_signature(message, cert, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.by_authority.supported_verify_schemes()
    }

    fn requires_raw_public_keys(&self) -> bool {
        self.by_authority.requires_raw_public_keys()
    }
}
