//! A finished request, as taps and the exporter of spans receive it. Created with the request head, completed at the
//! end.

use super::summary::Summary;
use super::tries::Try;
use evenkeel_wire::head::Request;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// Bytes kept of each of method, host and path.
const TEXT_MAX: usize = 1024;

#[derive(Clone, Debug, Default)]
pub struct FinishedRequest {
    /// Request id as the access log writes it.
    pub request_id: String,
    /// Id of its trace in hexadecimal digits, if known.
    pub trace_id: Option<String>,
    /// Its spans, if its trace is recorded.
    pub spans: Option<Spans>,
    /// Time when its head was complete, in nanoseconds since 1970.
    pub at_ns: u64,
    /// The worker that served it.
    pub worker: usize,
    /// The listener that received it.
    pub listener: Arc<str>,
    /// The route that it matched; empty if none.
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
    /// Reason why the client did not get an endpoint's response.
    pub reason: Option<String>,
    /// Tries in the order in which they ended. The last try answered, or failed last.
    pub tries: Vec<Try>,
}

impl FinishedRequest {
    /// Creates the record of a request whose head has just been read.
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
    /// The span of the client, if it sent a span.
    pub parent: Option<u64>,
    /// The span of the request itself, above the spans of its tries.
    pub server: u64,
    /// Scheme of the client: `http` or `https`.
    pub scheme: &'static str,
    /// The algorithm of its pool; empty without a pool.
    pub policy: &'static str,
}
