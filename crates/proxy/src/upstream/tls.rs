//! How does a connection to an endpoint become one over TLS? As its pool says: by which configuration, and under which name
//! the endpoint has to show that it is itself.

use evenkeel_net::tls::{Cause, HandshakeError, TlsStream};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

/// Gives the configuration for the next handshake.
pub type Current = dyn Fn() -> Arc<ClientConfig> + Send + Sync;

/// HTTP/2, as ALPN calls it (RFC 9113 section 3.2).
const H2: &[u8] = b"h2";

/// The protocols that an endpoint may choose from (ALPN).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offers {
    /// None is named: whatever it speaks, that is HTTP/1.
    Nothing,
    /// HTTP/2 alone.
    H2,
    /// HTTP/2, or HTTP/1.1.
    Both,
}

impl Offers {
    fn protocols(self) -> &'static [&'static [u8]] {
        match self {
            Offers::Nothing => &[],
            Offers::H2 => &[H2],
            Offers::Both => &[H2, b"http/1.1"],
        }
    }
}

/// TLS towards the endpoints of one pool. Equal where the next handshake is the same.
#[derive(Clone)]
pub struct PoolTls {
    current: Arc<Current>,
    /// What all of them are called; `None` = each by its own name or address.
    name: Option<ServerName<'static>>,
}

impl PoolTls {
    /// With whatever `current` gives when a connection begins.
    pub fn new(current: Arc<Current>, name: Option<ServerName<'static>>) -> PoolTls {
        PoolTls { current, name }
    }

    /// The name that an endpoint has to prove, of this name and at this address.
    fn name_of(&self, endpoint: &str, addr: Option<SocketAddr>) -> Result<ServerName<'static>, HandshakeError> {
        if let Some(name) = &self.name {
            return Ok(name.clone());
        }
        let host = endpoint.rsplit_once(':').map_or(endpoint, |(host, _)| host);
        let host = host.trim_start_matches('[').trim_end_matches(']');
        match ServerName::try_from(host) {
            Ok(name) => Ok(name.to_owned()),
            Err(_) => {
                let addr = addr.ok_or_else(|| HandshakeError::new(Cause::WrongName))?;
                Ok(ServerName::IpAddress(addr.ip().into()))
            }
        }
    }

    /// Shakes hands with the endpoint of this name, at this address: whether it chose HTTP/2 of the protocols that are offered
    /// to it. Its error carries a [`HandshakeError`].
    ///
    /// # Errors
    /// Why it failed.
    pub async fn secure(
        &self,
        tls: &TlsStream,
        endpoint: &str,
        addr: Option<SocketAddr>,
        offers: Offers,
    ) -> io::Result<bool> {
        let name = self.name_of(endpoint, addr).map_err(io::Error::other)?;
        let mut config = (self.current)();
        if !config.alpn_protocols.iter().map(Vec::as_slice).eq(offers.protocols().iter().copied()) {
            // Made for one handshake: connections that are shared are few.
            let mut changed = ClientConfig::clone(&config);
            changed.alpn_protocols = offers.protocols().iter().map(|name| name.to_vec()).collect();
            config = Arc::new(changed);
        }
        let info = tls.connect(config, name).await.map_err(io::Error::other)?;
        Ok(info.alpn.as_deref() == Some(H2))
    }
}

impl PartialEq for PoolTls {
    fn eq(&self, other: &PoolTls) -> bool {
        Arc::ptr_eq(&self.current, &other.current) && self.name == other.name
    }
}

/// Why TLS failed, if it did.
pub fn cause(error: &io::Error) -> Option<Cause> {
    Some(error.get_ref()?.downcast_ref::<HandshakeError>()?.cause)
}

/// Whether it failed over TLS.
pub fn is_of_tls(error: &io::Error) -> bool {
    cause(error).is_some()
}

impl fmt::Debug for PoolTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PoolTls").field("name", &self.name).finish_non_exhaustive()
    }
}
