//! A request that is over, as other threads get it: taps and the exporter of spans. It begins with the head, and is filled in at the end.

use super::summary::Summary;
use super::tries::Try;
use evenkeel_wire::head::Request;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// Most bytes of method, host and path that are kept.
const TEXT_MAX: usize = 1024;

#[derive(Clone, Debug, Default)]
pub struct FinishedRequest {
    /// Request id as the access log writes it.
    pub request_id: String,
    /// The trace that it belongs to, in digits, if that is known.
    pub trace_id: Option<String>,
    /// Its spans, if it is recorded.
    pub spans: Option<Spans>,
    /// Time when its head was there, nanoseconds since 1970.
    pub at_ns: u64,
    /// The worker that served it.
    pub worker: usize,
    /// The listener it came in at.
    pub listener: Arc<str>,
    /// The route that took it; empty if none did.
    pub route: Arc<str>,
    pub pool: Arc<str>,
    pub client: String,
    pub protocol: &'static str,
    pub method: String,
    /// Host as the client wrote it.
    pub host: String,
    pub path: String,
    /// Times, bytes, status and end.
    pub summary: Summary,
    /// Reason for which no response of an endpoint went to the client.
    pub reason: Option<String>,
    /// Tries in order of their ends; the last one's endpoint answered, or failed last.
    pub tries: Vec<Try>,
}

impl FinishedRequest {
    /// A request whose head comes now.
    #[cold]
    pub fn begin(request: &Request<'_, '_>) -> FinishedRequest {
        FinishedRequest {
            at_ns: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos() as u64),
            method: kept(request.method.as_bytes()),
            host: kept(request.host),
            path: kept(request.target.as_bytes()),
            ..FinishedRequest::default()
        }
    }
}

fn kept(bytes: &[u8]) -> String {
    String::from_utf8_lossy(&bytes[..bytes.len().min(TEXT_MAX)]).into_owned()
}

/// Spans of a request that is recorded.
#[derive(Clone, Debug, Default)]
pub struct Spans {
    pub trace: u128,
    /// The span of the client, if it sent one.
    pub parent: Option<u64>,
    /// The span of the request itself; those of its tries are below it.
    pub server: u64,
    /// Scheme of the client: `http` or `https`.
    pub scheme: &'static str,
    /// The algorithm of its pool; empty without one.
    pub policy: &'static str,
}
