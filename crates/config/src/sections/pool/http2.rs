//! `protocol` and `http2` of a pool: the protocol of endpoints, and the connections shared by requests over
//! HTTP/2. See [`EndpointProtocol`] and [`EndpointHttp2`].

use crate::diagnostic::Findings;
use crate::table::{Absent, DAY, Key, Kind, MS, Section, table, words};
use std::time::Duration;

words! {
    /// Protocol of a pool's endpoints.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum EndpointProtocol {
        /// HTTP/1.1: each request has a connection to itself.
        #[default]
        Http1 = "http1",
        /// HTTP/2: requests share connections.
        H2 = "h2",
        /// HTTP/2 if the endpoint selects it in the TLS handshake (ALPN), otherwise HTTP/1.1.
        Auto = "auto",
    }
}

table! {
    pub(super) static ENDPOINT_HTTP2 = "http2 of [pool.NAME]",
        "HTTP/2 with endpoints, if `protocol` allows it.";

    /// `http2` of a pool.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct EndpointHttp2 {
        /// Most concurrent requests on a connection.
        streams: u32 = Key {
            name: "streams",
            kind: Kind::Int { min: 1, max: 10_000 },
            absent: Absent::Default("100"),
            help: "Maximum concurrent requests on one connection; fewer if the endpoint allows fewer. At the limit, \
                the next request opens another connection.",
            why: "Most servers allow this many.",
        };
        /// Most connections of a worker to an endpoint.
        connections: usize = Key {
            name: "connections",
            kind: Kind::Int { min: 1, max: 65_535 },
            absent: Absent::Default("64"),
            help: "Maximum connections of one worker to one endpoint. When all connections are full, a request waits \
                for a free stream up to `queue.timeout`. A request that the endpoint refused waits up to \
                `timeouts.response`.",
            why: "Allows 6,400 requests per worker, more than an endpoint serves at once.",
        };
        /// Flow-control window of a response body, bytes.
        stream_window: usize = Key {
            name: "stream_window",
            kind: Kind::Size { min: 16 << 10, max: 16 << 20, off: false },
            absent: Absent::Default("\"256KiB\""),
            help: "Flow-control window of one response: bytes of its body in transit or buffered here for the client. \
                A download gets at most this much per round trip.",
            why: "Allows 128 MB/s over a round trip of 2 ms, and limits the memory that evenkeel buffers for a client \
                that does not read.",
        };
        /// Silence of an endpoint with requests in flight after which it is sent a PING; `None` = never.
        ping_after: Option<Duration> = Key {
            name: "ping_after",
            kind: Kind::Duration { min: 50 * MS, max: DAY, off: true },
            absent: Absent::Default("\"5m\""),
            help: "Sends a PING to an endpoint that has requests in flight and has been silent for this long, at most \
                twice before it sends part of a response. The time doubles with each ENHANCE_YOUR_CALM from the \
                endpoint. The kernel detects dead machines, within 30 s if there are unacknowledged bytes.",
            why: "If pings come more often, gRPC servers close the connection and fail all its calls.",
        };
        /// Longest wait for the reply to a PING.
        ping_timeout: Duration = Key {
            name: "ping_timeout",
            kind: Kind::Duration { min: 50 * MS, max: DAY, off: false },
            absent: Absent::Default("\"10s\""),
            help: "Closes the connection and fails its requests if the PING is not answered within this time.",
            why: "A process that does not answer within this time is as good as dead.",
        };
    }
}

/// Reports settings that contradict the protocol.
pub(super) fn check(pool: &Section, protocol: EndpointProtocol, findings: &mut Findings) {
    let speaks_http2 = protocol != EndpointProtocol::Http1;
    if speaks_http2 && pool.set("proxy_protocol").is_some() && pool.word("proxy_protocol") != "off" {
        let message = "\"proxy_protocol\" names one client, and connections of HTTP/2 are those of many";
        pool.contradiction(pool.span_of("proxy_protocol"), message, "protocol", findings)
            .help("leave it out, as endpoints learn the client from X-Forwarded-For; or set protocol = \"http1\"");
    }
    if let Some(set) = pool.set("http2").filter(|_| !speaks_http2 && !pool.is_broken()) {
        pool.contradiction(set.span, "\"http2\" is for endpoints that speak it", "protocol", findings)
            .help("set protocol = \"h2\" or \"auto\", or leave \"http2\" out");
    }
}
