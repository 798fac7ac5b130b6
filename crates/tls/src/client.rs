//! How are handshakes with clients configured?

use crate::by_name::ByName;
use crate::files::{self, Unusable, certificates, key, provider, read, roots};
use evenkeel_config::plan::{Listener, ListenerTls, Mode, TlsVersion};
use rustls::crypto::aws_lc_rs::Ticketer;
use rustls::server::WebPkiClientVerifier;
use rustls::sign::CertifiedKey;
use rustls::{ServerConfig, SupportedProtocolVersion, version};
use std::sync::Arc;

const V13: &[&SupportedProtocolVersion] = &[&version::TLS13];
const BOTH: &[&SupportedProtocolVersion] = &[&version::TLS13, &version::TLS12];

/// What distinguishes one configuration from another: the files' contents, for a listener that speaks TLS.
///
/// # Errors
/// A file cannot be read.
pub fn fingerprint(tls: &ListenerTls) -> Result<Vec<u8>, Unusable> {
    files::fingerprint(tls.certificates.iter().flat_map(files::of).chain(tls.client_ca.as_deref()))
}

/// How the listener shakes hands. Sessions go on at every worker, by tickets.
///
/// # Errors
/// A file cannot be used.
pub fn config(listener: &Listener, tls: &ListenerTls) -> Result<Arc<ServerConfig>, Unusable> {
    let mut certified = Vec::new();
    for certificate in &tls.certificates {
        let chain = certificates(&certificate.cert, &read(&certificate.cert)?)?;
        let key = key(&certificate.key, &read(&certificate.key)?)?;
        let one = CertifiedKey::from_der(chain, key, &provider());
        certified.push(Arc::new(one.map_err(|error| Unusable::new(&certificate.cert, error))?));
    }
    let versions = if tls.min_version == TlsVersion::V13 { V13 } else { BOTH };
    let builder = ServerConfig::builder_with_provider(provider()).with_protocol_versions(versions);
    let builder = builder.map_err(|error| Unusable::new("tls".as_ref(), error))?;
    let builder = match &tls.client_ca {
        None => builder.with_no_client_auth(),
        Some(file) => {
            let roots = roots(file, &read(file)?)?;
            let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider()).build();
            builder.with_client_cert_verifier(verifier.map_err(|error| Unusable::new(file, error))?)
        }
    };
    let by_name = ByName::new(certified).ok_or_else(|| Unusable::new("tls".as_ref(), "no certificate"))?;
    let mut config = builder.with_cert_resolver(Arc::new(by_name));
    config.ticketer = Ticketer::new().map_err(|error| Unusable::new("tls".as_ref(), error))?;
    // The records behind the handshake are sealed elsewhere.
    config.enable_secret_extraction = true;
    if listener.mode == Mode::Http {
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    }
    Ok(Arc::new(config))
}
