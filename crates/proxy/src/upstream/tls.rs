//! How does a connection to an endpoint become one over TLS? By a handshake, in which the endpoint shows that it is itself.

use super::pool::Endpoint;
use evenkeel_net::tls::towards::Towards;
use evenkeel_net::tls::{HandshakeError, TlsStream};
use std::io;

/// Shakes hands with an endpoint. Its error carries a [`HandshakeError`].
///
/// # Errors
/// Why it failed.
pub async fn secure(towards: &Towards, tls: &TlsStream, endpoint: &Endpoint) -> io::Result<()> {
    let ip = endpoint.addr.map(|addr| addr.ip());
    let name = towards.name_of(&endpoint.name, ip).map_err(io::Error::other)?;
    tls.connect(towards.config(), name).await.map(|_| ()).map_err(io::Error::other)
}

/// Whether it failed over TLS.
pub fn is_of_tls(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|error| error.is::<HandshakeError>())
}
