//! How does a connection to an endpoint become one over TLS? By a handshake, in which the endpoint shows that it is itself, and
//! may choose what is spoken then.

use evenkeel_net::stream::Stream;
use evenkeel_net::tls::towards::Towards;
use evenkeel_net::tls::{Cause, HandshakeError, TlsStream};
use evenkeel_net::transport::Transport;
use rustls::ClientConfig;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

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

/// Shakes hands with the endpoint of this name, at this address: whether it chose HTTP/2 of what it is offered. Its error
/// carries a [`HandshakeError`].
///
/// # Errors
/// Why it failed.
pub async fn secure(
    towards: &Towards,
    tls: &TlsStream,
    endpoint: &str,
    addr: Option<SocketAddr>,
    offers: Offers,
) -> io::Result<bool> {
    let name = towards.name_of(endpoint, addr.map(|addr| addr.ip())).map_err(io::Error::other)?;
    let mut config = towards.config();
    if !config.alpn_protocols.iter().map(Vec::as_slice).eq(offers.protocols().iter().copied()) {
        // For one handshake: connections that are shared are few.
        let mut changed = ClientConfig::clone(&config);
        changed.alpn_protocols = offers.protocols().iter().map(|name| name.to_vec()).collect();
        config = Arc::new(changed);
    }
    let info = tls.connect(config, name).await.map_err(io::Error::other)?;
    Ok(info.alpn.as_deref() == Some(H2))
}

/// Why TLS failed, if it did.
pub fn cause(error: &io::Error) -> Option<Cause> {
    Some(error.get_ref()?.downcast_ref::<HandshakeError>()?.cause)
}

/// Whether it failed over TLS.
pub fn is_of_tls(error: &io::Error) -> bool {
    cause(error).is_some()
}

/// A connection that has just begun; `over_tls`: plain until it has shaken hands.
pub fn carried(stream: Stream, over_tls: bool) -> Transport {
    if over_tls { Transport::Tls(Box::new(TlsStream::new(stream))) } else { Transport::Plain(stream) }
}
