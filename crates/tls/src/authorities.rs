//! Trusted certificates: authorities, and certificates that are trusted as they are, such as self-signed certificates.
//!
//! A certificate without an authority is accepted if the peer shows it byte for byte as it is in the file, within its
//! validity, for its use and, for a server, under its name. Path validation (RFC 5280) does not cover it: there a
//! server must not show a certificate that is marked as an authority, as `openssl req -x509` marks all that it makes.

use crate::pair::{self, FileError, Source};
use crate::proof;
use crate::provider::provider;
use evenkeel_config::plan::ClientAuthMode;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{ParsedCertificate, WebPkiClientVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, Error, RootCertStore, SignatureScheme};
use std::sync::Arc;
use x509_parser::prelude::{CertificateRevocationList, FromDer, GeneralName, X509Certificate};

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

/// Reads the trusted certificates of a file or text.
///
/// # Errors
/// The file cannot be read, or has no certificate, or a certificate that cannot be a trust anchor.
pub fn read<'p>(source: impl Into<Source<'p>>) -> Result<Authorities, FileError> {
    let source = source.into();
    of(source, pair::chain(source)?)
}

/// Makes trust anchors of certificates that were read from `source`.
///
/// # Errors
/// A certificate cannot be a trust anchor.
pub fn of(source: Source<'_>, certificates: Vec<CertificateDer<'static>>) -> Result<Authorities, FileError> {
    let mut roots = RootCertStore::empty();
    for (at, certificate) in certificates.iter().enumerate() {
        roots.add(certificate.clone()).map_err(|error| {
            let what = format!("certificate {} in {source} cannot be a CA certificate: {error}", at + 1);
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
    roots: Arc<RootCertStore>,
    named: Vec<CertificateDer<'static>>,
    /// Names, of which a certificate must have any; empty = the requested name.
    subject_names: Vec<Arc<str>>,
}

/// Methods of a verifier that leave signatures to `by_authority`.
macro_rules! signatures_by_authority {
    () => {
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
    };
}

impl Servers {
    /// Returns a verifier that accepts these certificates, and those that they have issued.
    ///
    /// # Errors
    /// `authorities` is empty.
    pub fn of(authorities: Authorities) -> Result<Servers, rustls::client::VerifierBuilderError> {
        let roots = Arc::new(authorities.roots);
        let builder = WebPkiServerVerifier::builder_with_provider(roots.clone(), provider());
        Ok(Servers {
            by_authority: builder.build()?,
            roots,
            named: authorities.certificates,
            subject_names: Vec::new(),
        })
    }

    /// Returns the verifier with names, of which a certificate must have any, instead of the requested name.
    pub fn with_names(self, subject_names: &[Arc<str>]) -> Servers {
        Servers { subject_names: subject_names.to_vec(), ..self }
    }
}

/// Checks that a certificate has any of these names: DNS names as for a requested name, or as the same wildcard; URIs
/// byte for byte.
fn verify_subject_names(der: &CertificateDer<'_>, names: &[Arc<str>]) -> Result<(), Error> {
    let parsed = ParsedCertificate::try_from(der)?;
    let is_for =
        |name: &&Arc<str>| ServerName::try_from(&***name).is_ok_and(|name| verify_server_name(&parsed, &name).is_ok());
    let (_, certificate) = X509Certificate::from_der(der).map_err(|_| CertificateError::BadEncoding)?;
    let alternative = certificate.subject_alternative_name().map_err(|_| CertificateError::BadEncoding)?;
    let has = |name: &&Arc<str>| {
        alternative.iter().flat_map(|all| &all.value.general_names).any(|one| match one {
            GeneralName::URI(uri) => *uri == &***name,
            GeneralName::DNSName(dns) => name.starts_with('*') && dns.eq_ignore_ascii_case(name),
            _ => false,
        })
    };
    match names.iter().any(|name| is_for(&name) || has(&name)) {
        true => Ok(()),
        false => Err(CertificateError::NotValidForName.into()),
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
        if !self.subject_names.is_empty() {
            match self.named.contains(end_entity) {
                true => verify(end_entity, Use::Server, seconds(now))?,
                false => verify_server_cert_signed_by_trust_anchor(
                    &ParsedCertificate::try_from(end_entity)?,
                    &self.roots,
                    intermediates,
                    now,
                    provider().signature_verification_algorithms.all,
                )?,
            }
            verify_subject_names(end_entity, &self.subject_names)?;
            return Ok(ServerCertVerified::assertion());
        }
        if !self.named.contains(end_entity) {
            return self.by_authority.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        }
        verify(end_entity, Use::Server, seconds(now))?;
        verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
        Ok(ServerCertVerified::assertion())
    }

    signatures_by_authority!();
}

/// Verifier for clients. Also notes until when their certificates are valid, as a resumed session must not outlive
/// them.
#[derive(Debug)]
pub struct Clients {
    by_authority: Arc<dyn ClientCertVerifier>,
    named: Vec<CertificateDer<'static>>,
    lists: Vec<CertificateRevocationListDer<'static>>,
    /// True if clients with invalid certificates are accepted.
    accepts_invalid: bool,
}

impl Clients {
    /// Returns a verifier that accepts these certificates, and certificates that they have issued, unless a list
    /// revokes them; and others that `mode` allows.
    ///
    /// # Errors
    /// The authorities or lists cannot be used.
    pub fn of(
        authorities: Authorities,
        lists: Vec<CertificateRevocationListDer<'static>>,
        mode: ClientAuthMode,
    ) -> Result<Clients, rustls::server::VerifierBuilderError> {
        let roots = Arc::new(authorities.roots);
        let mut builder = WebPkiClientVerifier::builder_with_provider(roots, provider());
        if !lists.is_empty() {
            builder = builder.with_crls(lists.iter().cloned());
        }
        if mode != ClientAuthMode::Required {
            builder = builder.allow_unauthenticated();
        }
        let accepts_invalid = mode == ClientAuthMode::Unverified;
        Ok(Clients { by_authority: builder.build()?, named: authorities.certificates, lists, accepts_invalid })
    }

    fn verify(
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
        match self.verify(end_entity, intermediates, now) {
            Err(error) if self.accepts_invalid => {
                proof::note_invalid(invalidity(&error));
                Ok(ClientCertVerified::assertion())
            }
            verified => verified,
        }
    }

    signatures_by_authority!();

    fn requires_raw_public_keys(&self) -> bool {
        self.by_authority.requires_raw_public_keys()
    }
}

/// Reason why a certificate is invalid, in a few words without other characters than letters and spaces.
fn invalidity(error: &Error) -> &'static str {
    let Error::InvalidCertificate(error) = error else { return "invalid" };
    match error {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => "expired",
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => "not yet valid",
        CertificateError::Revoked => "revoked",
        CertificateError::UnknownRevocationStatus => "unknown revocation status",
        CertificateError::UnknownIssuer => "unknown issuer",
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => "wrong purpose",
        _ => "invalid",
    }
}
