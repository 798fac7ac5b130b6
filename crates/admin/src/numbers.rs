//! Metrics of the admin listener itself: connections, streams, and refusals.

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// Reasons for which clients got no answer, or lost their connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// A newer connection needed the place, at `connections` or `connections_per_address`.
    Replaced,
    /// Every connection had an answer that was being computed.
    Connections,
    /// There were as many streams as there may be.
    Streams,
    /// The client took nothing of its answer for too long.
    Stalled,
    /// The body of a request did not arrive in time.
    Body,
    /// The request had no, or several, or another `Host`.
    Host,
}

const REASONS: [(Reason, &str); 6] = [
    (Reason::Replaced, "replaced"),
    (Reason::Connections, "connections"),
    (Reason::Streams, "streams"),
    (Reason::Stalled, "stalled"),
    (Reason::Body, "body"),
    (Reason::Host, "host"),
];

/// Counts of a socket. Only read together by people, so no order is needed.
#[derive(Debug, Default)]
pub struct SocketNumbers {
    connections: AtomicU64,
    streams: AtomicU64,
    rejected: [AtomicU64; REASONS.len()],
}

impl SocketNumbers {
    /// Open connections and streams.
    pub fn open(&self, connections: usize, streams: usize) {
        self.connections.store(connections as u64, Relaxed);
        self.streams.store(streams as u64, Relaxed);
    }

    /// Counts a client that got no answer, or lost its connection.
    pub fn count(&self, reason: Reason) {
        self.rejected[reason as usize].fetch_add(1, Relaxed);
    }

    /// Clients that were counted.
    pub fn counted(&self, reason: Reason) -> u64 {
        self.rejected[reason as usize].load(Relaxed)
    }
}

/// Counts of both sockets, and their collector, to be registered without a prefix.
#[derive(Clone, Debug, Default)]
pub struct Numbers {
    /// Counts of `admin.http`.
    pub http: Arc<SocketNumbers>,
    /// Counts of the Unix socket.
    pub unix: Arc<SocketNumbers>,
}

impl Collector for Numbers {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let sockets = [("http", &self.http), ("unix", &self.unix)];
        let help = "Open connections of the admin listener, not counting connections with a stream";
        let mut family = encoder.encode_descriptor("evenkeel_admin_connections", help, None, MetricType::Gauge)?;
        for (socket, numbers) in sockets {
            let open = ConstGauge::new(numbers.connections.load(Relaxed));
            open.encode(family.encode_family(&[("socket", socket)])?)?;
        }
        let help = "Streams of the admin listener, and requests that wait for an event";
        let mut family = encoder.encode_descriptor("evenkeel_admin_streams", help, None, MetricType::Gauge)?;
        for (socket, numbers) in sockets {
            let open = ConstGauge::new(numbers.streams.load(Relaxed));
            open.encode(family.encode_family(&[("socket", socket)])?)?;
        }
        let help = "Clients of the admin listener that got no response or lost their connection; \"replaced\": a newer \
                    client took the place; \"connections\", \"streams\": at the limit; \"stalled\": the client did not \
                    read; \"body\": a body did not arrive; \"host\": for another host";
        let mut family = encoder.encode_descriptor("evenkeel_admin_rejected", help, None, MetricType::Counter)?;
        for (socket, numbers) in sockets {
            for (reason, label) in REASONS {
                let count = ConstCounter::new(numbers.counted(reason));
                count.encode(family.encode_family(&[("socket", socket), ("reason", label)])?)?;
            }
        }
        Ok(())
    }
}
