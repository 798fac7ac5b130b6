//! TLS towards the endpoints of a pool: the client configuration, and the name that each endpoint must prove.

use super::error::{Cause, HandshakeError};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

/// Returns the configuration for the next handshake.
pub type Current = dyn Fn() -> Arc<ClientConfig> + Send + Sync;

/// TLS towards the endpoints of one pool. Equal if the next handshake would be the same.
#[derive(Clone)]
pub struct Towards {
    current: Arc<Current>,
    /// Name common to all endpoints; `None` = each has its own name or address.
    name: Option<ServerName<'static>>,
}

impl Towards {
    /// Uses the configuration that `current` returns when a connection starts.
    pub fn new(current: Arc<Current>, name: Option<ServerName<'static>>) -> Towards {
        Towards { current, name }
    }

    /// Configuration for the next handshake.
    pub fn config(&self) -> Arc<ClientConfig> {
        (self.current)()
    }

    /// Name that an endpoint must prove: the host of `endpoint`, or else its address.
    ///
    /// # Errors
    /// If there is neither.
    pub fn name_of(&self, endpoint: &str, ip: Option<IpAddr>) -> Result<ServerName<'static>, HandshakeError> {
        if let Some(name) = &self.name {
            return Ok(name.clone());
        }
        let host = endpoint.rsplit_once(':').map_or(endpoint, |(host, _)| host);
        let host = host.trim_start_matches('[').trim_end_matches(']');
        match (ServerName::try_from(host), ip) {
            (Ok(name), _) => Ok(name.to_owned()),
            (Err(_), Some(ip)) => Ok(ServerName::IpAddress(ip.into())),
            (Err(_), None) => Err(HandshakeError::new(Cause::WrongName)),
        }
    }
}

impl PartialEq for Towards {
    fn eq(&self, other: &Towards) -> bool {
        Arc::ptr_eq(&self.current, &other.current) && self.name == other.name
    }
}

impl fmt::Debug for Towards {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Towards").field("name", &self.name).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tls::tests::configs;

    #[test]
    fn an_endpoint_proves_its_own_name_or_address_unless_the_pool_has_one() {
        let config = configs("a.test", &[&rustls::version::TLS13]).client;
        let ip: IpAddr = "192.0.2.1".parse().unwrap();
        let towards = |name: Option<&str>| {
            let config = config.clone();
            let name = name.map(|name| ServerName::try_from(name.to_string()).unwrap());
            Towards::new(Arc::new(move || config.clone()), name)
        };
        let asked =
            |towards: &Towards, endpoint: &str| towards.name_of(endpoint, Some(ip)).unwrap().to_str().into_owned();
        for (endpoint, wanted) in [
            ("db.example:443", "db.example"),
            ("10.0.0.1:443", "10.0.0.1"),
            ("[2001:db8::1]:443", "2001:db8::1"),
            ("shard 7", "192.0.2.1"),
        ] {
            assert_eq!(asked(&towards(None), endpoint), wanted);
            assert_eq!(asked(&towards(Some("all.example")), endpoint), "all.example");
        }
        assert!(towards(None).name_of("shard 7", None).is_err());
    }
}
