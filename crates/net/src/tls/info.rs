//! What was agreed in a handshake? For logs, for fields that endpoints get, and for the choice of the protocol above.

use rustls::pki_types::CertificateDer;
use rustls::{CipherSuite, CommonState, HandshakeKind, ProtocolVersion};

/// What a handshake has agreed.
#[derive(Clone, Debug)]
pub struct Info {
    /// `TLSv1.3` or `TLSv1.2`.
    pub version: &'static str,
    /// The cipher suite, by its registered name.
    pub cipher: &'static str,
    /// The name that the client asked for.
    pub server_name: Option<Box<str>>,
    /// The protocol above, if both sides named one.
    pub alpn: Option<Box<[u8]>>,
    /// Whether an earlier session went on, without certificates.
    pub resumed: bool,
    /// The certificates that the peer has shown, its own first. Those of the earlier session, if one went on.
    pub peer_certificates: Vec<CertificateDer<'static>>,
    pub(super) note: Note,
}

/// What is said of a connection again and again, made once: [`Info::note`].
#[derive(Clone, Debug, Default)]
pub struct Note {
    /// Fields of heads, with the ends of their lines.
    pub fields: Box<[u8]>,
    /// Members of a line of the access log.
    pub log: Box<[u8]>,
}

impl Info {
    pub(super) fn new(state: &CommonState, server_name: Option<&str>) -> Info {
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

    /// What was made of it once for all that is said on the connection.
    pub fn note(&self) -> &Note {
        &self.note
    }

    /// Whether the protocol above is HTTP/2.
    pub fn is_h2(&self) -> bool {
        self.alpn.as_deref() == Some(b"h2")
    }
}

/// The name by which a suite is registered. Those that rustls knows.
fn name(suite: CipherSuite) -> &'static str {
    match suite {
        CipherSuite::TLS13_AES_128_GCM_SHA256 => "TLS_AES_128_GCM_SHA256",
        CipherSuite::TLS13_AES_256_GCM_SHA384 => "TLS_AES_256_GCM_SHA384",
        CipherSuite::TLS13_CHACHA20_POLY1305_SHA256 => "TLS_CHACHA20_POLY1305_SHA256",
        other => other.as_str().unwrap_or("unknown"),
    }
}
