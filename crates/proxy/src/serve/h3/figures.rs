//! Figures of a connection, for its counters and for the log lines of its requests.

use super::session::Session;
use crate::peer::quic::{Quic, QuicLine};
use evenkeel_net::quic::connection::Packets;
use evenkeel_net::tls::Info;
use evenkeel_wire::proxy_protocol::Addresses;

impl Session {
    /// Counts the packets since the last call.
    pub(super) fn count_packets(&self) -> Packets {
        let (now, stats) = (self.connection.packets(), &self.open.listener.stats.http3);
        let before = self.counted.replace(now);
        stats.packets_sent.add(now.sent.saturating_sub(before.sent));
        stats.packets_lost.add(now.lost.saturating_sub(before.lost));
        now
    }
}

impl QuicLine for Session {
    fn info(&self) -> Option<&Info> {
        self.info.get()
    }

    fn addresses(&self) -> Addresses {
        self.addresses
    }

    fn figures(&self) -> Quic {
        let handshake_ns = u64::try_from(self.handshake.get().as_nanos()).unwrap_or(u64::MAX);
        let packets_lost = self.count_packets().lost;
        Quic { handshake_ns, migrations: self.connection.migrations(), packets_lost }
    }
}
