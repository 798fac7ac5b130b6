//! What may a client of HTTP/2 use up? [`Http2`], `http2` of a listener.

use crate::table::{Absent, DAY, Key, Kind, MS, table};
use std::time::Duration;

/// The key of a listener that lets clients speak HTTP/2 without TLS.
pub(super) const H2C: Key = Key {
    name: "h2c",
    kind: Kind::Bool,
    absent: Absent::Default("false"),
    help: "Takes HTTP/2 without TLS too, from clients that begin with it (\"prior knowledge\"), as services of the inside and \
           gRPC without TLS do. HTTP/1 is served at the same port.",
    why: "Browsers speak HTTP/2 only over TLS. Where clients are not known, one protocol less is one attack less.",
};

table! {
    pub(crate) static HTTP2 = "http2 of [listener.NAME]",
        "HTTP/2 with clients, where it is spoken.";

    /// `http2` of a listener.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Http2 {
        /// Requests of one connection at a time.
        streams: u32 = Key {
            name: "streams",
            kind: Kind::Int { min: 1, max: 10_000 },
            absent: Absent::Default("100"),
            help: "Requests of one connection at a time. A client that begins more gets the rest refused, and may send them again.",
            why: "The least that RFC 9113 recommends, and what HAProxy and Envoy advise at the edge.",
        };
        /// Bytes of one request's body that may be under way.
        stream_window: usize = Key {
            name: "stream_window",
            kind: Kind::Size { min: 16 << 10, max: 16 << 20 },
            absent: Absent::Default("\"64KiB\""),
            help: "Bytes of the body of one request that may be under way, or wait here for the endpoint. An upload moves as \
                   much in a round trip.",
            why: "3 MB/s over a round trip of 20 ms. What Envoy advises at the edge: a slow endpoint holds no more.",
        };
        /// The same of all requests of a connection.
        connection_window: usize = Key {
            name: "connection_window",
            kind: Kind::Size { min: 64 << 10, max: 64 << 20 },
            absent: Absent::Default("\"1MiB\""),
            help: "The same of all requests of one connection together: the most that a connection makes evenkeel hold.",
            why: "As for `stream_window`: uploads of one client that stall do not stop its others.",
        };
        /// Bytes of the table of header fields that a client may refer to.
        header_table: usize = Key {
            name: "header_table",
            kind: Kind::Size { min: 0, max: 64 << 10 },
            absent: Absent::Default("\"4KiB\""),
            help: "Bytes of the table of header fields that a client may refer to (HPACK), for each connection.",
            why: "What RFC 9113 gives when nothing is said.",
        };
        /// After how much silence a client with requests under way is asked for a sign of life; `None` = never.
        ping_after: Option<Duration> = Key {
            name: "ping_after",
            kind: Kind::Duration { min: 50 * MS, max: DAY, off: true },
            absent: Absent::Default("\"30s\""),
            help: "A client with requests under way that has been silent for so long is asked for a sign of life (PING).",
            why: "Streams may have nothing to say for hours, and a client that is gone would hold them.",
        };
        /// How long it may take to give one.
        ping_timeout: Duration = Key {
            name: "ping_timeout",
            kind: Kind::Duration { min: 50 * MS, max: DAY, off: false },
            absent: Absent::Default("\"20s\""),
            help: "How long it may take to answer; then its connection ends.",
            why: "Longer than any line is jammed for; gRPC waits as long.",
        };
    }
}
