//! A client of TLS to which the identity of its peer does not matter.

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, Error, SignatureScheme};
use std::sync::OnceLock;

/// Trusts every certificate and every signature, and keeps the OCSP response that was stapled first.
#[derive(Debug)]
pub struct Trusting {
    schemes: Vec<SignatureScheme>,
    staple: OnceLock<Vec<u8>>,
}

impl Trusting {
    /// Asks for signatures of these schemes.
    pub fn new(schemes: Vec<SignatureScheme>) -> Trusting {
        Trusting { schemes, staple: OnceLock::new() }
    }

    /// Returns the stapled response, which is empty if the server had none; `None` before a handshake.
    pub fn staple(&self) -> Option<&[u8]> {
        self.staple.get().map(Vec::as_slice)
    }
}

impl ServerCertVerifier for Trusting {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        ocsp: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.staple.get_or_init(|| ocsp.to_vec());
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.schemes.clone()
    }
}
