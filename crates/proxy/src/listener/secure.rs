//! How does a client connection become one over TLS? By a handshake, in time, with not too many under way at once, and counted.

use super::client::Client;
use evenkeel_net::buffer::Buf;
use evenkeel_net::deadline::{Elapsed, Timer};
use evenkeel_net::tls::{Cause, HandshakeError, Info, TlsStream};
use sha2::{Digest, Sha256};
use std::pin::pin;

/// Shakes hands with a client, of which `early` came already.
///
/// # Errors
/// Why it failed, which was counted. The connection is plain still.
pub async fn secure<'t>(
    client: &Client<'_>,
    tls: &'t TlsStream,
    timer: &Timer,
    early: Option<Buf>,
) -> Result<&'t Info, HandshakeError> {
    let stats = &client.listener.stats.tls;
    let fail = |error: HandshakeError| {
        stats.failed[error.cause as usize].add(1);
        error
    };
    let settings = client.listener.peek().tls.clone();
    // The next plan may have none for those that came before it.
    let Some(settings) = settings else { return Err(fail(HandshakeError::new(Cause::Internal))) };
    if client.listener.handshakes.get() >= settings.handshakes_max {
        return Err(fail(HandshakeError::new(Cause::TooMany)));
    }
    let _under_way = UnderWay::begin(client);
    timer.set(timer.tick_after(settings.timeout));
    let shaken = timer.limit(pin!(tls.accept(settings.config(), early, said_of_certificate))).await;
    let info = match shaken {
        Ok(Ok(info)) => info,
        Ok(Err(error)) => return Err(fail(error)),
        Err(Elapsed) => return Err(fail(HandshakeError::new(Cause::Timeout))),
    };
    stats.shaken[usize::from(info.resumed)].add(1);
    Ok(info)
}

/// What endpoints are told of the client's certificate, which was verified: fields with the ends of their lines.
fn said_of_certificate(info: &Info) -> Box<[u8]> {
    let Some(certificate) = info.peer_certificates.first() else { return Box::default() };
    let mut fields = b"X-Client-Cert-Verified: SUCCESS\r\nX-Client-Cert-Fingerprint: ".to_vec();
    for byte in Sha256::digest(certificate) {
        fields.extend_from_slice(format!("{byte:02x}").as_bytes());
    }
    fields.extend_from_slice(b"\r\n");
    fields.into()
}

/// Counts a handshake while it is under way.
struct UnderWay<'c>(&'c Client<'c>);

impl<'c> UnderWay<'c> {
    fn begin(client: &'c Client<'c>) -> UnderWay<'c> {
        let under_way = &client.listener.handshakes;
        under_way.set(under_way.get() + 1);
        client.listener.stats.tls.active.add(1);
        UnderWay(client)
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        let under_way = &self.0.listener.handshakes;
        under_way.set(under_way.get() - 1);
        self.0.listener.stats.tls.active.sub(1);
    }
}
