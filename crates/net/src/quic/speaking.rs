//! A client of either version for tests: quinn, which knows version 1, with the handshake and the sockets of both.

use super::v2::{self, V2};
use super::versions;
use quinn::udp::{RecvMeta, Transmit};
use quinn::{AsyncTimer, AsyncUdpSocket, Runtime, TokioRuntime, UdpPoller};
use quinn_proto::crypto::{self, ExportKeyingMaterialError, HeaderKey, KeyPair, Keys, PacketKey, Session};
use quinn_proto::transport_parameters::TransportParameters;
use quinn_proto::{ConnectError, ConnectionId, Side, TransportError, TransportErrorCode};
use rustls::CipherSuite;
use rustls::quic::{ClientConnection, KeyChange, Secrets, Suite};
use std::any::Any;
use std::future::Future;
use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

/// Settings of connections in a version, as the state machine is told it.
pub(super) struct Speaking {
    pub config: Arc<rustls::ClientConfig>,
    /// Transport parameters that follow the others.
    pub more: Vec<u8>,
}

impl Speaking {
    /// Settings that send `version_information` as it must be.
    pub(super) fn new(config: rustls::ClientConfig, version: u32) -> Speaking {
        let mut more = Vec::new();
        versions::write(version, &mut more);
        Speaking { config: Arc::new(config), more }
    }
}

/// Endpoint of a client of either version.
pub(super) fn endpoint() -> quinn::Endpoint {
    let mut config = quinn::EndpointConfig::default();
    config.supported_versions(versions::ALL.to_vec());
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").expect("a port");
    quinn::Endpoint::new(config, None, socket, Arc::new(Translating)).expect("a socket")
}

impl crypto::ClientConfig for Speaking {
    fn start_session(
        self: Arc<Self>,
        version: u32,
        name: &str,
        parameters: &TransportParameters,
    ) -> Result<Box<dyn Session>, ConnectError> {
        let mut bytes = Vec::new();
        parameters.write(&mut bytes);
        bytes.extend_from_slice(&self.more);
        let name = name.to_owned().try_into().expect("a name");
        let inner = ClientConnection::new(self.config.clone(), super::tls::labels(version), name, bytes);
        let mut suites = self.config.crypto_provider().cipher_suites.iter();
        let suite = suites.find(|suite| suite.suite() == CipherSuite::TLS13_AES_128_GCM_SHA256);
        let suite = suite.and_then(|suite| suite.tls13()?.quic_suite()).expect("TLS 1.3");
        Ok(Box::new(Handshake { version, suite, inner: inner.expect("settings"), next: None, is_known: false }))
    }
}

struct Handshake {
    version: u32,
    suite: Suite,
    inner: ClientConnection,
    next: Option<Secrets>,
    is_known: bool,
}

impl Session for Handshake {
    fn initial_keys(&self, id: &ConnectionId, side: Side) -> Keys {
        super::tls::of_long_headers(self.version, self.suite.keys(id, side.into(), super::tls::labels(self.version)))
    }

    /// The kind of the handshake.
    fn handshake_data(&self) -> Option<Box<dyn Any>> {
        Some(Box::new(self.inner.handshake_kind()?))
    }

    fn peer_identity(&self) -> Option<Box<dyn Any>> {
        None
    }

    fn early_crypto(&self) -> Option<(Box<dyn HeaderKey>, Box<dyn PacketKey>)> {
        None
    }

    fn early_data_accepted(&self) -> Option<bool> {
        Some(false)
    }

    fn is_handshaking(&self) -> bool {
        self.inner.is_handshaking()
    }

    fn read_handshake(&mut self, bytes: &[u8]) -> Result<bool, TransportError> {
        self.inner.read_hs(bytes).map_err(|error| TransportError {
            code: TransportErrorCode::PROTOCOL_VIOLATION,
            frame: None,
            reason: error.to_string(),
        })?;
        Ok(!self.inner.is_handshaking() && !std::mem::replace(&mut self.is_known, true))
    }

    fn transport_parameters(&self) -> Result<Option<TransportParameters>, TransportError> {
        let Some(bytes) = self.inner.quic_transport_parameters() else { return Ok(None) };
        // The server's must be right, too.
        versions::check(self.version, bytes)?;
        Ok(Some(TransportParameters::read(Side::Client, &mut &bytes[..])?))
    }

    fn write_handshake(&mut self, out: &mut Vec<u8>) -> Option<Keys> {
        match self.inner.write_hs(out)? {
            KeyChange::Handshake { keys } => Some(super::tls::of_long_headers(self.version, keys)),
            KeyChange::OneRtt { keys, next } => {
                self.next = Some(next);
                Some(super::tls::pairs(keys))
            }
        }
    }

    fn next_1rtt_keys(&mut self) -> Option<KeyPair<Box<dyn PacketKey>>> {
        let keys = self.next.as_mut()?.next_packet_keys();
        Some(KeyPair { local: Box::new(keys.local), remote: Box::new(keys.remote) })
    }

    fn is_valid_retry(&self, id: &ConnectionId, header: &[u8], payload: &[u8]) -> bool {
        let (token, tag) = payload.split_at(payload.len() - 16);
        self.version == V2 && v2::retry_tag(id, &[header, token].concat()) == *tag
    }

    fn export_keying_material(&self, _: &mut [u8], _: &[u8], _: &[u8]) -> Result<(), ExportKeyingMaterialError> {
        Err(ExportKeyingMaterialError)
    }
}

/// The event loop of tokio with sockets that translate packets of version 2.
#[derive(Debug)]
struct Translating;

impl Runtime for Translating {
    fn new_timer(&self, at: Instant) -> Pin<Box<dyn AsyncTimer>> {
        TokioRuntime.new_timer(at)
    }

    fn spawn(&self, future: Pin<Box<dyn Future<Output = ()> + Send>>) {
        TokioRuntime.spawn(future);
    }

    fn wrap_udp_socket(&self, socket: std::net::UdpSocket) -> io::Result<Arc<dyn AsyncUdpSocket>> {
        Ok(Arc::new(Socket(TokioRuntime.wrap_udp_socket(socket)?)))
    }
}

#[derive(Debug)]
struct Socket(Arc<dyn AsyncUdpSocket>);

impl AsyncUdpSocket for Socket {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        self.0.clone().create_io_poller()
    }

    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        self.0.try_send(transmit)
    }

    fn poll_recv(
        &self,
        cx: &mut Context<'_>,
        bufs: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        let received = self.0.poll_recv(cx, bufs, meta);
        if let Poll::Ready(Ok(count)) = &received {
            for (bytes, meta) in bufs.iter_mut().zip(meta).take(*count) {
                for datagram in bytes[..meta.len].chunks_mut(meta.stride.max(1)) {
                    v2::translate(datagram);
                }
            }
        }
        received
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }

    fn max_receive_segments(&self) -> usize {
        self.0.max_receive_segments()
    }
}
