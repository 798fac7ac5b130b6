//! TLS towards the endpoints of a pool: reads its files into a configuration for handshakes.

use crate::authorities::{self, Authorities, Servers};
use crate::pair::{self, FileError, Source};
use crate::provider::{provider, versions};
use evenkeel_config::plan::{Pem, PoolTls};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// All files that the section names.
pub fn files(tls: &PoolTls) -> Vec<PathBuf> {
    [&tls.ca, &tls.cert, &tls.key].into_iter().flatten().filter_map(Pem::file).map(Path::to_path_buf).collect()
}

/// Reads the files of a pool. Sessions of an earlier configuration are not resumed, as it may have required another
/// proof.
///
/// # Errors
/// The first file that cannot be used.
pub fn make(tls: &PoolTls) -> Result<Arc<ClientConfig>, FileError> {
    let cannot = |error: Error| FileError::new(false, error.to_string(), "this is a bug in evenkeel");
    let builder = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(versions(tls.min_version))
        .map_err(cannot)?;
    let builder = builder.dangerous();
    let builder = match tls.verify {
        true => builder.with_custom_certificate_verifier(Arc::new(
            servers(tls.ca.as_ref().map(Source::from))?.with_names(&tls.names),
        )),
        false => builder.with_custom_certificate_verifier(Arc::new(Believer)),
    };
    let mut config = match (&tls.cert, &tls.key) {
        (Some(cert), Some(key)) => {
            // Read once more as a pair, for an error that names the file at fault.
            pair::certified(cert, key)?;
            builder.with_client_auth_cert(pair::chain(cert)?, pair::key(key)?).map_err(cannot)?
        }
        _ => builder.with_no_client_auth(),
    };
    config.enable_secret_extraction = true;
    Ok(Arc::new(config))
}

/// Configuration for connections of the process itself, to servers that the authorities in `ca` have certified, or by
/// default the authorities of the system.
///
/// # Errors
/// The file cannot be used, or the system has no authorities.
pub fn trusting(ca: Option<&Path>) -> Result<Arc<ClientConfig>, FileError> {
    let builder = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(|error| FileError::new(false, error.to_string(), "this is a bug in evenkeel"))?;
    Ok(Arc::new(
        builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(servers(ca.map(Source::from))?))
            .with_no_client_auth(),
    ))
}

/// Configuration like [`trusting`] that presents a certificate, from files with its chain and its key.
///
/// # Errors
/// The first file that cannot be used.
pub fn speaking(ca: Option<&Path>, identity: Option<(&Path, &Path)>) -> Result<Arc<ClientConfig>, FileError> {
    let cannot = |error: Error| FileError::new(false, error.to_string(), "this is a bug in evenkeel");
    let Some((cert, key)) = identity else { return trusting(ca) };
    let builder =
        ClientConfig::builder_with_provider(provider()).with_safe_default_protocol_versions().map_err(cannot)?;
    let builder = builder.dangerous().with_custom_certificate_verifier(Arc::new(servers(ca.map(Source::from))?));
    // Read once more as a pair, for an error that names the file at fault.
    pair::certified(cert, key)?;
    Ok(Arc::new(builder.with_client_auth_cert(pair::chain(cert)?, pair::key(key)?).map_err(cannot)?))
}

/// Verifier with the authorities of a file or text, or of the system.
fn servers(ca: Option<Source<'_>>) -> Result<Servers, FileError> {
    let authorities = match ca {
        Some(source) => authorities::read(source)?,
        None => Authorities { roots: of_the_system()?, certificates: Vec::new() },
    };
    let servers = Servers::of(authorities);
    servers.map_err(|error| FileError::new(false, error.to_string(), "this is a bug in evenkeel"))
}

fn of_the_system() -> Result<RootCertStore, FileError> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        let help = "install ca-certificates, or set the CA certificates: ca = \"FILE.pem\"";
        return Err(FileError::new(false, "the system has no trusted CA certificates", help));
    }
    Ok(roots)
}

/// Verifier for `verify = false`: accepts every certificate, if the peer proves that it has the key.
#[derive(Debug)]
struct Believer;

impl ServerCertVerifier for Believer {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, cert, signed, &provider().signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, cert, signed, &provider().signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        provider().signature_verification_algorithms.supported_schemes()
    }
}
