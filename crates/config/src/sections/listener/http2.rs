//! `http2` and `h2c` of a listener: HTTP/2 with clients, and the resources that a connection may use. See
//! [`Http2`].

use crate::table::{Absent, DAY, Key, Kind, MS, table};
use std::time::Duration;

/// The key `h2c` of a listener: HTTP/2 without TLS.
pub(super) const H2C: Key = Key {
    name: "h2c",
    kind: Kind::Bool,
    absent: Absent::Default("false"),
    help: "Also accepts HTTP/2 without TLS from clients that start with it (prior knowledge), such as internal \
        services and plaintext gRPC. HTTP/1 is served on the same port.",
    why: "Browsers use HTTP/2 only over TLS. If clients are unknown, each protocol that is off is one less to attack.",
};

table! {
    pub(crate) static HTTP2 = "http2 of [listener.NAME]",
        "HTTP/2 with clients, over TLS or with `h2c`.";

    /// `http2` of a listener.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Http2 {
        /// Concurrent requests of a connection (`SETTINGS_MAX_CONCURRENT_STREAMS`).
        streams: u32 = Key {
            name: "streams",
            kind: Kind::Int { min: 1, max: 10_000 },
            absent: Absent::Default("100"),
            help: "Maximum concurrent requests of one connection. Requests over the limit are refused, and the client \
                may send them again.",
            why: "The minimum that RFC 9113 recommends, and the value that HAProxy and Envoy advise at the edge.",
        };
        /// Flow-control window of a request body, bytes.
        stream_window: usize = Key {
            name: "stream_window",
            kind: Kind::Size { min: 16 << 10, max: 16 << 20, off: false },
            absent: Absent::Default("\"64KiB\""),
            help: "Flow-control window of one request: bytes of its body in transit or buffered here for the \
                endpoint. An upload gets at most this much per round trip.",
            why: "Allows 3 MB/s over a round trip of 20 ms. Envoy advises this value at the edge, since a slow \
                endpoint cannot make evenkeel buffer more.",
        };
        /// Flow-control window of all request bodies of a connection, bytes.
        connection_window: usize = Key {
            name: "connection_window",
            kind: Kind::Size { min: 64 << 10, max: 64 << 20, off: false },
            absent: Absent::Default("\"1MiB\""),
            help: "Flow-control window of all requests of one connection together: the maximum that one connection \
                makes evenkeel buffer.",
            why: "16 times `stream_window`: stalled uploads of a client do not block its other requests.",
        };
        /// Size of the HPACK dynamic table that clients may use, bytes.
        header_table: usize = Key {
            name: "header_table",
            kind: Kind::Size { min: 0, max: 64 << 10, off: false },
            absent: Absent::Default("\"4KiB\""),
            help: "Size of the header compression table (HPACK) that a client may use, per connection.",
            why: "The initial value of RFC 9113.",
        };
        /// Silence of a client with requests in flight after which it is sent a PING; `None` = never.
        ping_after: Option<Duration> = Key {
            name: "ping_after",
            kind: Kind::Duration { min: 50 * MS, max: DAY, off: true },
            absent: Absent::Default("\"30s\""),
            help: "Sends a PING to a client that has requests in flight and has been silent for this long.",
            why: "Streams can be idle for hours, and a client that has vanished would hold them.",
        };
        /// Longest wait for the reply to a PING.
        ping_timeout: Duration = Key {
            name: "ping_timeout",
            kind: Kind::Duration { min: 50 * MS, max: DAY, off: false },
            absent: Absent::Default("\"20s\""),
            help: "Closes the connection if the PING is not answered within this time.",
            why: "Longer than usual network stalls. gRPC uses the same value.",
        };
    }
}
