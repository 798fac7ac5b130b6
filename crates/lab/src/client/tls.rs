//! TLS clients. They accept every certificate, as verification is not measured.

use crate::error::{Error, Result};
use crate::http;
use evenkeel_peers::Trusting;
use rustls::client::Resumption;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::ServerName;
use rustls::{CipherSuite, ClientConfig, ClientConnection, StreamOwned, SupportedProtocolVersion};
use std::net::TcpStream;
use std::sync::Arc;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// TLS 1.2.
    Tls12,
    /// TLS 1.3.
    Tls13,
}

impl Version {
    fn row(self) -> &'static SupportedProtocolVersion {
        match self {
            Version::Tls12 => &rustls::version::TLS12,
            Version::Tls13 => &rustls::version::TLS13,
        }
    }
}

/// Blocking TLS connection of a client.
pub type Tls = StreamOwned<ClientConnection, TcpStream>;

/// Configuration of TLS clients, with the key exchange that every rival supports and cipher suites in OpenSSL's order.
///
/// # Errors
/// If the library does not support the version.
pub fn config(version: Version, resumes: bool) -> Result<Arc<ClientConfig>> {
    let mut config = with(version, aws_lc_rs::default_provider())?;
    config.resumption = if resumes { Resumption::in_memory_sessions(8) } else { Resumption::disabled() };
    Ok(Arc::new(config))
}

/// Configuration of clients of HTTP/3. They offer the cipher suite of browsers first, and resume no session.
///
/// # Errors
/// If the library does not support TLS 1.3.
pub fn http3() -> Result<ClientConfig> {
    let mut provider = aws_lc_rs::default_provider();
    provider.cipher_suites.sort_by_key(|suite| suite.suite() != CipherSuite::TLS13_AES_128_GCM_SHA256);
    let mut config = with(Version::Tls13, provider)?;
    config.resumption = Resumption::disabled();
    config.alpn_protocols = vec![b"h3".to_vec()];
    Ok(config)
}

fn with(version: Version, mut provider: CryptoProvider) -> Result<ClientConfig> {
    // The first is used for key exchange; the second allows certificates on its curve in TLS 1.2.
    provider.kx_groups = vec![aws_lc_rs::kx_group::X25519, aws_lc_rs::kx_group::SECP256R1];
    let schemes = provider.signature_verification_algorithms.supported_schemes();
    let builder = ClientConfig::builder_with_provider(Arc::new(provider)).with_protocol_versions(&[version.row()]);
    let builder = builder.map_err(|error| Error::Wrong(format!("no clients of {version:?}: {error}")))?;
    let trusting = builder.dangerous().with_custom_certificate_verifier(Arc::new(Trusting::new(schemes)));
    Ok(trusting.with_no_client_auth())
}

/// Connects to a port of this machine. The handshake takes place with the first bytes.
///
/// # Errors
/// If nothing listens on the port.
pub fn connect(port: u16, config: &Arc<ClientConfig>) -> Result<Tls> {
    let name = ServerName::try_from("lab.test").expect("it is a name");
    let tls = ClientConnection::new(Arc::clone(config), name);
    let tls = tls.map_err(|error| Error::Wrong(format!("no client of TLS: {error}")))?;
    Ok(StreamOwned::new(tls, http::connect(port)?))
}
