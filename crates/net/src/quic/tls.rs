//! TLS of QUIC (RFC 9001) by rustls. A handshake keeps the same [`Info`] as over TCP, for logs and filters.

use super::v2::{self, V2};
use super::versions::{self, V1};
use crate::tls::{Info, Note};
use quinn_proto::crypto::rustls::QuicServerConfig;
use quinn_proto::crypto::{
    ExportKeyingMaterialError, HeaderKey, KeyPair, Keys, PacketKey, ServerConfig, Session, UnsupportedVersion,
};
use quinn_proto::transport_parameters::TransportParameters;
use quinn_proto::{ConnectionId, Side, TransportError, TransportErrorCode};
use rustls::CipherSuite;
use rustls::quic::{KeyChange, Secrets, ServerConnection, Suite, Version};
use std::any::Any;
use std::io::Cursor;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Application protocol of HTTP/3.
pub const H3: &[u8] = b"h3";

/// Version of the salt and the labels of keys.
pub(super) fn labels(version: u32) -> Version {
    if version == V2 { Version::V2 } else { Version::V1 }
}

/// State around the parts of a handshake that may look at the client's certificate.
pub trait Around: Send + Sync {
    fn run(&self, part: &mut dyn FnMut());
}

/// Makes the state around a handshake.
pub type MakeAround = fn() -> Box<dyn Around>;

/// Settings of handshakes, for all connections that begin with them.
pub struct Tls {
    config: Arc<rustls::ServerConfig>,
    /// For the packets before a handshake, which depend on the client's connection id alone.
    initial: Arc<QuicServerConfig>,
    suite: Suite,
    around: Option<MakeAround>,
    /// Texts that are built once for a connection, within its [`Around`].
    note: fn(&Info) -> Note,
    /// True once the client has proven its address with its first packet, for a client that may send early data.
    is_proven: Option<Arc<AtomicBool>>,
}

/// Parameters of a session, once they are known: with a session that resumes, before the handshake is complete.
pub struct Shaken {
    pub info: Info,
    /// True if requests in early data may be answered: an access list must not see an address that could be forged.
    pub is_proven: bool,
}

impl Tls {
    /// Settings for HTTP/3 with the certificates, clients and tickets of a configuration for TCP. `None` if it has not
    /// TLS 1.3 with the suite that QUIC needs.
    pub fn of(config: &rustls::ServerConfig, around: Option<MakeAround>, note: fn(&Info) -> Note) -> Option<Arc<Tls>> {
        let mut config = config.clone();
        config.alpn_protocols = vec![H3.to_vec()];
        let config = Arc::new(config);
        let mut suites = config.crypto_provider().cipher_suites.iter();
        let suite =
            suites.find(|suite| suite.suite() == CipherSuite::TLS13_AES_128_GCM_SHA256)?.tls13()?.quic_suite()?;
        let initial = Arc::new(QuicServerConfig::with_initial(config.clone(), suite).ok()?);
        Some(Arc::new(Tls { config, initial, suite, around, note, is_proven: None }))
    }

    pub fn config(&self) -> &rustls::ServerConfig {
        &self.config
    }

    /// Settings with another configuration, for a client that may send early data. `is_proven` is set during the
    /// handshake.
    pub fn with_early_data(&self, config: rustls::ServerConfig, is_proven: Arc<AtomicBool>) -> Arc<Tls> {
        let Tls { initial, suite, around, note, .. } = self;
        let (config, is_proven) = (Arc::new(config), Some(is_proven));
        Arc::new(Tls { config, initial: initial.clone(), suite: *suite, around: *around, note: *note, is_proven })
    }
}

impl ServerConfig for Tls {
    fn initial_keys(&self, version: u32, id: &ConnectionId) -> Result<Keys, UnsupportedVersion> {
        match version {
            V1 => self.initial.initial_keys(version, id),
            V2 => Ok(of_long_headers(V2, self.suite.keys(id, rustls::Side::Server, Version::V2))),
            _ => Err(UnsupportedVersion),
        }
    }

    fn retry_tag(&self, version: u32, id: &ConnectionId, packet: &[u8]) -> [u8; 16] {
        if version == V2 { v2::retry_tag(id, packet) } else { self.initial.retry_tag(version, id, packet) }
    }

    fn start_session(self: Arc<Self>, version: u32, parameters: &TransportParameters) -> Box<dyn Session> {
        let mut bytes = Vec::new();
        parameters.write(&mut bytes);
        versions::write(version, &mut bytes);
        let config = if version == V2 { Arc::new(versions::of_v2(&self.config)) } else { self.config.clone() };
        // It fails for a configuration without TLS 1.3 or with another limit of early data alone.
        let inner = ServerConnection::new(config, labels(version), bytes).expect("a configuration for QUIC");
        let around = self.around.map(|make| make());
        Box::new(Handshake { tls: self, version, inner, around, is_known: false, next: None })
    }
}

/// A handshake, and later the keys.
struct Handshake {
    tls: Arc<Tls>,
    version: u32,
    inner: ServerConnection,
    around: Option<Box<dyn Around>>,
    /// True once the state machine was told that the server name and the protocol are known.
    is_known: bool,
    next: Option<Secrets>,
}

impl Handshake {
    /// Runs a part of the handshake.
    fn within<T>(&mut self, part: impl FnOnce(&mut ServerConnection) -> T) -> T {
        let Some(around) = &self.around else { return part(&mut self.inner) };
        let (mut part, mut done, inner) = (Some(part), None, &mut self.inner);
        around.run(&mut || done = part.take().map(|part| part(inner)));
        done.expect("the part has run")
    }
}

impl Session for Handshake {
    fn initial_keys(&self, id: &ConnectionId, side: Side) -> Keys {
        of_long_headers(self.version, self.tls.suite.keys(id, side.into(), labels(self.version)))
    }

    /// The session, as [`Shaken`], once the handshake is complete or early data is accepted.
    fn handshake_data(&self) -> Option<Box<dyn Any>> {
        if self.inner.is_handshaking() && (self.tls.is_proven.is_none() || self.inner.zero_rtt_keys().is_none()) {
            return None;
        }
        let mut info = Info::new(&self.inner, self.inner.server_name());
        let note = self.tls.note;
        let mut noted = Note::default();
        match &self.around {
            Some(around) => around.run(&mut || noted = note(&info)),
            None => noted = note(&info),
        }
        info.note = noted;
        let is_proven = self.tls.is_proven.as_ref().is_some_and(|is_proven| is_proven.load(Relaxed));
        Some(Box::new(Shaken { info, is_proven }))
    }

    fn peer_identity(&self) -> Option<Box<dyn Any>> {
        None
    }

    fn early_crypto(&self) -> Option<(Box<dyn HeaderKey>, Box<dyn PacketKey>)> {
        let keys = self.inner.zero_rtt_keys()?;
        let packet: Box<dyn PacketKey> = Box::new(keys.packet);
        Some((Box::new(keys.header), if self.version == V2 { v2::of_long_headers(packet) } else { packet }))
    }

    fn early_data_accepted(&self) -> Option<bool> {
        None
    }

    fn is_handshaking(&self) -> bool {
        self.inner.is_handshaking()
    }

    fn read_handshake(&mut self, bytes: &[u8]) -> Result<bool, TransportError> {
        self.within(|inner| inner.read_hs(bytes)).map_err(|error| {
            let alert = self.inner.alert().map(|alert| TransportErrorCode::crypto(alert.into()));
            let code = alert.unwrap_or(TransportErrorCode::PROTOCOL_VIOLATION);
            TransportError { code, frame: None, reason: error.to_string() }
        })?;
        let knows = self.inner.alpn_protocol().is_some() || !self.inner.is_handshaking();
        Ok(knows && !std::mem::replace(&mut self.is_known, true))
    }

    fn transport_parameters(&self) -> Result<Option<TransportParameters>, TransportError> {
        let Some(bytes) = self.inner.quic_transport_parameters() else { return Ok(None) };
        versions::check(self.version, bytes)?;
        Ok(Some(TransportParameters::read(Side::Server, &mut Cursor::new(bytes))?))
    }

    fn write_handshake(&mut self, out: &mut Vec<u8>) -> Option<Keys> {
        // A ticket is made here, which is valid as long as the client's proof.
        match self.within(|inner| inner.write_hs(out))? {
            KeyChange::Handshake { keys } => Some(of_long_headers(self.version, keys)),
            KeyChange::OneRtt { keys, next } => {
                self.next = Some(next);
                Some(pairs(keys))
            }
        }
    }

    fn next_1rtt_keys(&mut self) -> Option<KeyPair<Box<dyn PacketKey>>> {
        let keys = self.next.as_mut()?.next_packet_keys();
        Some(KeyPair { local: Box::new(keys.local), remote: Box::new(keys.remote) })
    }

    /// Servers receive no Retry.
    fn is_valid_retry(&self, _: &ConnectionId, _: &[u8], _: &[u8]) -> bool {
        false
    }

    /// Nothing here exports keys.
    fn export_keying_material(&self, _: &mut [u8], _: &[u8], _: &[u8]) -> Result<(), ExportKeyingMaterialError> {
        Err(ExportKeyingMaterialError)
    }
}

/// Keys of packets with long headers.
pub(super) fn of_long_headers(version: u32, keys: rustls::quic::Keys) -> Keys {
    let keys = pairs(keys);
    if version == V2 { v2::all_of_long_headers(keys) } else { keys }
}

pub(super) fn pairs(keys: rustls::quic::Keys) -> Keys {
    Keys {
        header: KeyPair { local: Box::new(keys.local.header), remote: Box::new(keys.remote.header) },
        packet: KeyPair { local: Box::new(keys.local.packet), remote: Box::new(keys.remote.packet) },
    }
}
