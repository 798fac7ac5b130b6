//! What do endpoints speak, and how are connections shared that speak HTTP/2? [`EndpointProtocol`] and [`EndpointHttp2`],
//! `protocol` and `http2` of a pool.

use crate::diagnostic::Findings;
use crate::table::{Absent, DAY, Key, Kind, MS, Section, table, words};
use std::time::Duration;

words! {
    /// What endpoints speak.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum EndpointProtocol {
        /// HTTP/1.1: a request has its connection to itself.
        #[default]
        Http1 = "http1",
        /// HTTP/2: requests share connections.
        H2 = "h2",
        /// HTTP/2 if the endpoint chooses it when TLS begins (ALPN), else HTTP/1.1.
        Auto = "auto",
    }
}

table! {
    pub(super) static ENDPOINT_HTTP2 = "http2 of [pool.NAME]",
        "HTTP/2 with endpoints, where `protocol` says that they speak it.";

    /// `http2` of a pool.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct EndpointHttp2 {
        /// Requests on one connection at a time.
        streams: u32 = Key {
            name: "streams",
            kind: Kind::Int { min: 1, max: 10_000 },
            absent: Absent::Default("100"),
            help: "Requests on one connection at a time, or as many as the endpoint allows if those are fewer. One more opens \
                   another connection.",
            why: "What most servers allow.",
        };
        /// Connections that a worker has open to one endpoint.
        connections: usize = Key {
            name: "connections",
            kind: Kind::Int { min: 1, max: 65_535 },
            absent: Absent::Default("64"),
            help: "Connections that one worker has open to one endpoint. When each has as many requests as it may, another \
                   one waits for a place, as long as `queue.timeout`; one that the endpoint refused, as long as \
                   `timeouts.response`.",
            why: "6400 requests of each worker: more than an endpoint serves at once.",
        };
        /// Bytes of one response's body that may be under way.
        stream_window: usize = Key {
            name: "stream_window",
            kind: Kind::Size { min: 16 << 10, max: 16 << 20 },
            absent: Absent::Default("\"256KiB\""),
            help: "Bytes of the body of one response that may be under way, or wait here for the client. A download moves as \
                   much in a round trip.",
            why: "128 MB/s over a round trip of 2 ms; a client that takes nothing holds no more.",
        };
        /// After how much silence an endpoint with requests is asked for a sign of life; `None` = never.
        ping_after: Option<Duration> = Key {
            name: "ping_after",
            kind: Kind::Duration { min: 50 * MS, max: DAY, off: true },
            absent: Absent::Default("\"5m\""),
            help: "An endpoint with requests under way that has been silent for so long is asked for a sign of life (PING), at \
                   most twice before it sends something of a response. Twice as long for each time that it asked for calm \
                   (ENHANCE_YOUR_CALM). The kernel looks after machines that are gone, within 30 s where it has bytes for them.",
            why: "gRPC servers end connections with pings that come sooner, and all of their calls.",
        };
        /// How long it may take to give one.
        ping_timeout: Duration = Key {
            name: "ping_timeout",
            kind: Kind::Duration { min: 50 * MS, max: DAY, off: false },
            absent: Absent::Default("\"10s\""),
            help: "How long it may take to answer; then the connection ends, and its requests fail.",
            why: "A process that cannot answer within that is as good as gone.",
        };
    }
}

/// Reports what does not go with what endpoints speak.
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
