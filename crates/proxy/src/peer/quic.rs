//! A peer over QUIC: its TLS session, its addresses, and figures for the access log.

use evenkeel_net::tls::Info;
use evenkeel_wire::proxy_protocol::Addresses;

/// A connection of QUIC, as its requests see it.
pub trait QuicLine {
    /// Parameters of the TLS session; `None` before the handshake is complete.
    fn info(&self) -> Option<&Info>;
    /// Addresses of both ends when the connection began.
    fn addresses(&self) -> Addresses;
    /// Figures of the connection so far.
    fn figures(&self) -> Quic;
}

/// Figures of a connection so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quic {
    /// Time from the first packet to the end of the handshake.
    pub handshake_ns: u64,
    /// Number of times that the address of the client has changed.
    pub migrations: u32,
    /// Packets to the client that were lost.
    pub packets_lost: u64,
}
