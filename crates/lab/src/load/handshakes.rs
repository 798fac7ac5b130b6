//! How is a proxy loaded with handshakes of TLS? By clients of the lab's own, which make a connection, ask once and close,
//! and know whether their session was resumed: a load meant to be resumed that was not gives no figure, nor the reverse.
//!
//! They believe every certificate, which spares them the work that is not measured.

use super::{Answered, answered};
use crate::child;
use crate::client;
use crate::error::{Error, Result, While};
use crate::http;
use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, HandshakeKind, SignatureScheme, StreamOwned,
    SupportedProtocolVersion,
};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// Which handshakes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handshakes {
    /// Clients at once.
    pub clients: u32,
    /// Version of TLS.
    pub version: Version,
    /// Whether all but each client's first resume the session before, by a ticket.
    pub resumed: bool,
}

/// A version of TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// TLS 1.2.
    Tls12,
    /// TLS 1.3.
    Tls13,
}

impl Version {
    fn row(self) -> &'static SupportedProtocolVersion {
        match self {
            Version::Tls12 => &rustls::version::TLS12,
            Version::Tls13 => &rustls::version::TLS13,
        }
    }
}

/// A connection over TLS that blocks.
pub type Tls = StreamOwned<ClientConnection, TcpStream>;

/// What one client counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counted {
    answers: u64,
    resumed: u64,
}

impl Handshakes {
    /// Loads `path`, of a 200, on a port of this machine for some seconds.
    ///
    /// # Errors
    /// If a connection fails, or if sessions were resumed that should not have been, or the reverse.
    pub fn run(self, port: u16, path: &str, seconds: u64) -> Result<Answered> {
        let began = Instant::now();
        let until = began + Duration::from_secs(seconds);
        let request = client::get(path, true);
        let clients: Vec<Result<Counted>> = thread::scope(|scope| {
            let one = || scope.spawn(|| self.client(port, path, &request, until));
            let running: Vec<_> = (0..self.clients).map(|_| one()).collect();
            let ended = running.into_iter().map(|client| client.join());
            ended.map(|client| client.unwrap_or_else(|_| Err(Error::Wrong("a client panicked".into())))).collect()
        });
        let took = began.elapsed().as_secs_f64();
        let mut sum = Counted::default();
        for client in clients {
            let client = client?;
            sum.answers += client.answers;
            sum.resumed += client.resumed;
        }
        self.check(sum).map_err(Error::Refused)?;
        answered(Some(sum.answers), Some(took)).map_err(Error::Refused)
    }

    fn client(self, port: u16, path: &str, request: &[u8], until: Instant) -> Result<Counted> {
        let config = config(self.version, self.resumed)?;
        let mut counted = Counted::default();
        while Instant::now() < until {
            child::go_on()?;
            let mut stream = connect(port, &config)?;
            stream.write_all(request).or_say(|| format!("cannot ask for {path}"))?;
            http::body(&mut stream, path)?;
            // The server has announced that it closes. Were it the client, its ports would run out.
            let _ = stream.read_to_end(&mut Vec::new());
            counted.answers += 1;
            counted.resumed += u64::from(stream.conn.handshake_kind() == Some(HandshakeKind::Resumed));
        }
        Ok(counted)
    }

    /// Each client's first session has none to resume.
    fn check(self, sum: Counted) -> std::result::Result<(), String> {
        let Counted { answers, resumed } = sum;
        let wanted = if self.resumed { answers.saturating_sub(u64::from(self.clients)) * 99 / 100 } else { 0 };
        if resumed >= wanted && (self.resumed || resumed == 0) {
            return Ok(());
        }
        let means = if self.resumed { "all" } else { "none" };
        Err(format!("{resumed} of {answers} sessions were resumed; this case means {means}"))
    }
}

/// What clients of TLS offer: the key exchange that every rival has, and the suites in OpenSSL's order.
///
/// # Errors
/// If the library does not know the version.
pub fn config(version: Version, resumes: bool) -> Result<Arc<ClientConfig>> {
    let mut provider = aws_lc_rs::default_provider();
    // The first is what is used: the second only allows certificates of its curve in TLS 1.2.
    provider.kx_groups = vec![aws_lc_rs::kx_group::X25519, aws_lc_rs::kx_group::SECP256R1];
    let provider = Arc::new(provider);
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider)).with_protocol_versions(&[version.row()]);
    let builder = builder.map_err(|error| Error::Wrong(format!("no clients of {version:?}: {error}")))?;
    let trusting = builder.dangerous().with_custom_certificate_verifier(Arc::new(Trusting(provider)));
    let mut config = trusting.with_no_client_auth();
    config.resumption = if resumes { Resumption::in_memory_sessions(8) } else { Resumption::disabled() };
    Ok(Arc::new(config))
}

/// A connection to a port of this machine. The handshake comes with the first bytes.
///
/// # Errors
/// If no process listens.
pub fn connect(port: u16, config: &Arc<ClientConfig>) -> Result<Tls> {
    let name = ServerName::try_from("lab.test").expect("it is a name");
    let tls = ClientConnection::new(Arc::clone(config), name);
    let tls = tls.map_err(|error| Error::Wrong(format!("no client of TLS: {error}")))?;
    Ok(StreamOwned::new(tls, http::connect(port)?))
}

/// Believes every certificate and signature.
#[derive(Debug)]
struct Trusting(Arc<CryptoProvider>);

impl ServerCertVerifier for Trusting {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> std::result::Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_that_were_not_resumed_as_meant_give_no_figure() {
        let of = |resumed| Handshakes { clients: 10, version: Version::Tls13, resumed };
        let sum = |resumed| Counted { answers: 1010, resumed };
        assert!(of(true).check(sum(1000)).is_ok(), "all but the first of each client");
        assert!(of(true).check(sum(900)).is_err());
        assert!(of(false).check(sum(0)).is_ok());
        assert!(of(false).check(sum(1)).is_err());
    }
}
