//! TLS towards endpoints: the handshake, in which the endpoint proves its identity and may choose a protocol (ALPN).

use evenkeel_net::stream::Stream;
use evenkeel_net::tls::towards::{Named, Towards};
use evenkeel_net::tls::{Cause, HandshakeError, TlsStream};
use evenkeel_net::transport::Transport;
use rustls::ClientConfig;
use std::io;
use std::sync::Arc;

/// ALPN id of HTTP/2 (RFC 9113 section 3.2).
const H2: &[u8] = b"h2";

/// ALPN protocols that an endpoint may choose from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offers {
    /// No ALPN: the endpoint speaks HTTP/1.
    Nothing,
    /// HTTP/2 only.
    H2,
    /// HTTP/2 or HTTP/1.1, as the endpoint chooses.
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

/// Performs the handshake with an endpoint. Returns true if it chose HTTP/2.
///
/// # Errors
/// The endpoint's name is not valid for TLS, or the handshake failed; then the error wraps a [`HandshakeError`].
pub async fn secure(towards: &Towards, tls: &TlsStream, endpoint: Named<'_>, offers: Offers) -> io::Result<bool> {
    let name = towards.name_of(endpoint).map_err(io::Error::other)?;
    let mut config = towards.config();
    if !config.alpn_protocols.iter().map(Vec::as_slice).eq(offers.protocols().iter().copied()) {
        // Cloned for a single handshake, which is rare enough: shared connections are few.
        let mut changed = ClientConfig::clone(&config);
        changed.alpn_protocols = offers.protocols().iter().map(|name| name.to_vec()).collect();
        config = Arc::new(changed);
    }
    let info = tls.connect(config, name).await.map_err(io::Error::other)?;
    Ok(info.alpn.as_deref() == Some(H2))
}

/// Cause of a failed handshake; `None` for any other error.
pub fn cause(error: &io::Error) -> Option<Cause> {
    Some(error.get_ref()?.downcast_ref::<HandshakeError>()?.cause)
}

/// True if the error is a failed handshake.
pub fn is_of_tls(error: &io::Error) -> bool {
    cause(error).is_some()
}

/// Wraps a new connection. With `over_tls` the handshake is still due.
pub fn carried(stream: Stream, over_tls: bool) -> Transport {
    if over_tls { Transport::Tls(Box::new(TlsStream::new(stream))) } else { Transport::Plain(stream) }
}
