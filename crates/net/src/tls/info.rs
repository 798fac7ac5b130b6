//! Result of a handshake, for logs, for header fields sent to endpoints, and for the choice of the
//! application protocol.

use rustls::pki_types::CertificateDer;
use rustls::{CipherSuite, CommonState, HandshakeKind, ProtocolVersion};

/// Parameters that a handshake has negotiated.
#[derive(Clone, Debug)]
pub struct Info {
    /// Protocol version: `TLSv1.3` or `TLSv1.2`.
    pub version: &'static str,
    /// Cipher suite, by its registered name.
    pub cipher: &'static str,
    /// Server name that the client requested (SNI).
    pub server_name: Option<Box<str>>,
    /// Application protocol (ALPN), if negotiated.
    pub alpn: Option<Box<[u8]>>,
    /// True if an earlier session was resumed, without certificates.
    pub resumed: bool,
    /// Certificates of the peer, its own first. If a session was resumed, its certificates.
    pub peer_certificates: Vec<CertificateDer<'static>>,
    pub(crate) note: Note,
}

/// Texts that are needed repeatedly on a connection, built once: [`Info::note`].
#[derive(Clone, Debug, Default)]
pub struct Note {
    /// Header fields with their line endings.
    pub fields: Box<[u8]>,
    /// Members of an access log line.
    pub log: Box<[u8]>,
}

impl Info {
    pub(crate) fn new(state: &CommonState, server_name: Option<&str>) -> Info {
        Info {
            version: match state.protocol_version() {
                Some(ProtocolVersion::TLSv1_2) => "TLSv1.2",
                _ => "TLSv1.3",
            },
            cipher: state.negotiated_cipher_suite().map_or("", |suite| name(suite.suite())),
            server_name: server_name.map(Into::into),
            alpn: state.alpn_protocol().map(Into::into),
            resumed: state.handshake_kind() == Some(HandshakeKind::Resumed),
            peer_certificates: state.peer_certificates().unwrap_or_default().to_vec(),
            note: Note::default(),
        }
    }

    /// Texts built once for the connection.
    pub fn note(&self) -> &Note {
        &self.note
    }

    /// True if HTTP/2 was negotiated.
    pub fn is_h2(&self) -> bool {
        self.alpn.as_deref() == Some(b"h2")
    }
}

/// Registered name of a suite that rustls supports.
fn name(suite: CipherSuite) -> &'static str {
    match suite {
        CipherSuite::TLS13_AES_128_GCM_SHA256 => "TLS_AES_128_GCM_SHA256",
        CipherSuite::TLS13_AES_256_GCM_SHA384 => "TLS_AES_256_GCM_SHA384",
        CipherSuite::TLS13_CHACHA20_POLY1305_SHA256 => "TLS_CHACHA20_POLY1305_SHA256",
        other => other.as_str().unwrap_or("unknown"),
    }
}
