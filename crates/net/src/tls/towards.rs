//! TLS towards the endpoints of a pool: the client configuration, and the name that each endpoint must prove.

use super::error::{Cause, HandshakeError};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

/// Returns the configuration for the next handshake.
pub type Current = dyn Fn() -> Arc<ClientConfig> + Send + Sync;

/// TLS towards the endpoints of a pool. Equal if the next handshake would be the same.
#[derive(Clone)]
pub struct Towards {
    current: Arc<Current>,
    /// Name common to all endpoints; `None` = each has its own name or address.
    name: Option<ServerName<'static>>,
}

/// Names of an endpoint, of which it has to prove any.
#[derive(Clone, Copy, Debug)]
pub struct Named<'e> {
    /// Name for TLS that only this endpoint has.
    pub own: Option<&'e str>,
    /// Name of the endpoint, which may be its address.
    pub name: &'e str,
    pub ip: Option<IpAddr>,
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

    /// Name that an endpoint must prove: its own name for TLS, else the name of all endpoints, else the host of its
    /// name, or else its address.
    ///
    /// # Errors
    /// If there is none.
    pub fn name_of(&self, Named { own, name: endpoint, ip }: Named<'_>) -> Result<ServerName<'static>, HandshakeError> {
        if let Some(own) = own {
            let name = ServerName::try_from(own).map_err(|_| HandshakeError::new(Cause::WrongName))?;
            return Ok(name.to_owned());
        }
        if let Some(name) = &self.name {
            return Ok(name.clone());
        }
        // The path of a socket is no name.
        if endpoint.starts_with("unix:") {
            return Err(HandshakeError::new(Cause::WrongName));
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

    fn named<'e>(own: Option<&'e str>, name: &'e str, ip: Option<IpAddr>) -> Named<'e> {
        Named { own, name, ip }
    }

    #[test]
    fn an_endpoint_proves_its_own_name_or_address_unless_the_pool_has_one() {
        let config = configs("a.test", &[&rustls::version::TLS13]).client;
        let ip: IpAddr = "192.0.2.1".parse().unwrap();
        let towards = |name: Option<&str>| {
            let config = config.clone();
            let name = name.map(|name| ServerName::try_from(name.to_string()).unwrap());
            Towards::new(Arc::new(move || config.clone()), name)
        };
        let asked = |towards: &Towards, endpoint: &str| {
            towards.name_of(named(None, endpoint, Some(ip))).unwrap().to_str().into_owned()
        };
        for (endpoint, wanted) in [
            ("db.example:443", "db.example"),
            ("10.0.0.1:443", "10.0.0.1"),
            ("[2001:db8::1]:443", "2001:db8::1"),
            ("shard 7", "192.0.2.1"),
        ] {
            assert_eq!(asked(&towards(None), endpoint), wanted);
            assert_eq!(asked(&towards(Some("all.example")), endpoint), "all.example");
        }
        assert!(towards(None).name_of(named(None, "shard 7", None)).is_err());
        assert!(towards(None).name_of(named(None, "unix:/run/app.sock", None)).is_err());
        for all in [None, Some("all.example")] {
            let own = towards(all).name_of(named(Some("own.example"), "unix:/run/app.sock", None)).unwrap();
            assert_eq!(own.to_str(), "own.example");
        }
    }
}
