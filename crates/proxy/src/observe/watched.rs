//! What is told of a request that is over to those who watch? Its way, its times, and every try, with names.

use std::net::SocketAddr;
use std::sync::Arc;

/// One request.
#[derive(Clone, Debug, Default)]
pub struct Watched {
    /// As the access log writes it.
    pub request_id: String,
    /// The trace that it belongs to, in digits, if that is known.
    pub trace_id: Option<String>,
    /// Its spans, if it is recorded.
    pub spans: Option<Spans>,
    /// When its head was there, nanoseconds since 1970.
    pub at_ns: u64,
    /// The worker that served it.
    pub worker: usize,
    /// The listener it came in at.
    pub listener: Arc<str>,
    /// The route that took it; empty if none did.
    pub route: Arc<str>,
    /// The route's pool.
    pub pool: Arc<str>,
    /// The client's address.
    pub client: String,
    /// What the client speaks.
    pub protocol: &'static str,
    /// As sent.
    pub method: String,
    /// As the client wrote it.
    pub host: String,
    /// With the query.
    pub path: String,
    /// What its client got; 0 for nothing.
    pub status: u16,
    /// How it ended, if it is a gRPC call.
    pub grpc_status: Option<&'static str>,
    /// From the client.
    pub bytes_in: u64,
    /// To the client.
    pub bytes_out: u64,
    /// Waiting for a place at an endpoint, nanoseconds.
    pub queue_ns: u64,
    /// Until the connection was open, if one had to be opened, nanoseconds.
    pub connect_ns: Option<u64>,
    /// Until the response's head was there, nanoseconds.
    pub ttfb_ns: Option<u64>,
    /// From its head to its end, nanoseconds.
    pub total_ns: u64,
    /// Who ended it.
    pub end: &'static str,
    /// Where it was then.
    pub phase: &'static str,
    /// Why no response of an endpoint went to the client.
    pub reason: Option<String>,
    /// In order of their ends; the last one's endpoint answered, or failed last.
    pub tries: Vec<Try>,
}

/// What only the spans of a request say.
#[derive(Clone, Debug, Default)]
pub struct Spans {
    /// The trace.
    pub trace: u128,
    /// The span of the client, if it said one.
    pub parent: Option<u64>,
    /// That of the request itself; those of its tries are below it.
    pub server: u64,
    /// How the client came: `http` or `https`.
    pub scheme: &'static str,
    /// The algorithm of its pool; empty without one.
    pub policy: &'static str,
}

/// One try.
#[derive(Clone, Debug, Default)]
pub struct Try {
    /// Where it went.
    pub endpoint: Arc<str>,
    /// The address of that, if it has one.
    pub addr: Option<SocketAddr>,
    /// Of its request, from 1 on.
    pub number: u32,
    /// How its endpoint was found: `picked`, `waited`, `session` or `hedge`.
    pub how: &'static str,
    /// Its span, if the request belongs to a trace.
    pub span: u64,
    /// From the request's head on, nanoseconds.
    pub at_ns: u64,
    /// How long it took, nanoseconds.
    pub took_ns: u64,
    /// `answered`, or how it failed.
    pub end: String,
}
