//! How does a connection to an endpoint become one over TLS? As its pool says: by which configuration, and under which name
//! the endpoint has to show that it is itself.

use super::pool::Endpoint;
use evenkeel_net::tls::{Cause, HandshakeError, TlsStream};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use std::fmt;
use std::io;
use std::sync::Arc;

/// Gives the configuration for the next handshake.
pub type Current = dyn Fn() -> Arc<ClientConfig> + Send + Sync;

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

    /// The name that an endpoint has to prove.
    fn name_of(&self, endpoint: &Endpoint) -> Result<ServerName<'static>, HandshakeError> {
        if let Some(name) = &self.name {
            return Ok(name.clone());
        }
        let host = endpoint.name.rsplit_once(':').map_or(&*endpoint.name, |(host, _)| host);
        let host = host.trim_start_matches('[').trim_end_matches(']');
        match ServerName::try_from(host) {
            Ok(name) => Ok(name.to_owned()),
            Err(_) => {
                let addr = endpoint.addr.ok_or_else(|| HandshakeError::new(Cause::WrongName))?;
                Ok(ServerName::IpAddress(addr.ip().into()))
            }
        }
    }

    /// Shakes hands with an endpoint. Its error carries a [`HandshakeError`].
    ///
    /// # Errors
    /// Why it failed.
    pub async fn secure(&self, tls: &TlsStream, endpoint: &Endpoint) -> io::Result<()> {
        let name = self.name_of(endpoint).map_err(io::Error::other)?;
        tls.connect((self.current)(), name).await.map(|_| ()).map_err(io::Error::other)
    }
}

impl PartialEq for PoolTls {
    fn eq(&self, other: &PoolTls) -> bool {
        Arc::ptr_eq(&self.current, &other.current) && self.name == other.name
    }
}

/// Whether it failed over TLS.
pub fn is_of_tls(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|error| error.is::<HandshakeError>())
}

impl fmt::Debug for PoolTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PoolTls").field("name", &self.name).finish_non_exhaustive()
    }
}
