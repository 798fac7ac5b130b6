//! How are handshakes with endpoints configured?

use crate::files::{self, Unusable, certificates, key, provider, read, roots};
use evenkeel_config::plan::PoolTls;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use std::path::Path;
use std::sync::Arc;

/// Where systems keep the authorities that they trust: Debian, Fedora, OpenSUSE, Alpine.
const SYSTEM: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

fn authorities(tls: &PoolTls) -> &Path {
    let system = || SYSTEM.into_iter().map(Path::new).find(|path| path.exists()).unwrap_or(Path::new(SYSTEM[0]));
    tls.ca.as_deref().unwrap_or_else(system)
}

/// What distinguishes one configuration from another: the files' contents, for a pool that speaks TLS.
///
/// # Errors
/// A file cannot be read.
pub fn fingerprint(tls: &PoolTls) -> Result<Vec<u8>, Unusable> {
    files::fingerprint([authorities(tls)].into_iter().chain(tls.certificate.iter().flat_map(files::of)))
}

/// How hands are shaken with the endpoints of a pool, and under which name, if it is the same for all.
///
/// # Errors
/// A file cannot be used, or the name is none.
pub fn config(tls: &PoolTls) -> Result<(Arc<ClientConfig>, Option<ServerName<'static>>), Unusable> {
    let name = tls.server_name.as_ref().map(|name| {
        ServerName::try_from(name.clone()).map_err(|_| Unusable::new(name.as_ref(), "server_name is no name of a host"))
    });
    let file = authorities(tls);
    let builder = ClientConfig::builder_with_provider(provider()).with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| Unusable::new("tls".as_ref(), error))?;
    let builder = builder.with_root_certificates(roots(file, &read(file)?)?);
    let mut config = match &tls.certificate {
        None => builder.with_no_client_auth(),
        Some(certificate) => {
            let chain = certificates(&certificate.cert, &read(&certificate.cert)?)?;
            let key = key(&certificate.key, &read(&certificate.key)?)?;
            builder.with_client_auth_cert(chain, key).map_err(|error| Unusable::new(&certificate.cert, error))?
        }
    };
    // The records behind the handshake are sealed elsewhere.
    config.enable_secret_extraction = true;
    Ok((Arc::new(config), name.transpose()?))
}
