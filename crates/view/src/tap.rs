//! Types for requests that end while the API is asked, and for the choice among them.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// Choice of requests: those for which every condition holds.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct Filter {
    /// Part of the requests, chosen at random.
    #[param(minimum = 0, maximum = 1)]
    pub sample: Option<f64>,
    /// Listener that they came in at.
    pub listener: Option<String>,
    pub route: Option<String>,
    pub pool: Option<String>,
    /// Endpoint that a try went to.
    pub endpoint: Option<String>,
    pub method: Option<String>,
    /// Host of the request, with its port if clients send it.
    pub host: Option<String>,
    /// Prefix of the path, as `/api/`.
    pub path: Option<String>,
    /// Status of the answer, or a class: `503` or `5xx`; `0` for those that got none.
    #[param(pattern = "^([1-5]xx|[1-5][0-9][0-9]|0)$")]
    pub status: Option<String>,
    /// Least duration, milliseconds.
    #[param(minimum = 0)]
    pub min_ms: Option<f64>,
    /// Largest number of requests; 100 unless they are followed.
    #[param(minimum = 1, maximum = 10000)]
    pub limit: Option<u32>,
    /// Longest wait unless they are followed, milliseconds; 1000 by default.
    #[param(maximum = 10000)]
    pub wait_ms: Option<u32>,
}

/// Largest number of requests in a response.
const LIMIT_MAX: u32 = 10_000;

/// The longest wait for them, milliseconds.
const WAIT_MAX_MS: u32 = 10_000;

impl Filter {
    /// Checks that the filter can be used.
    ///
    /// # Errors
    /// A condition that is not possible.
    pub fn check(&self) -> Result<(), String> {
        if self.sample.is_some_and(|part| !(0.0..=1.0).contains(&part)) {
            return Err("sample is a part, from 0 to 1".into());
        }
        if self.min_ms.is_some_and(|ms| !ms.is_finite() || ms < 0.0) {
            return Err("min_ms is 0 or more".into());
        }
        if self.limit.is_some_and(|limit| !(1..=LIMIT_MAX).contains(&limit)) {
            return Err(format!("limit is from 1 to {LIMIT_MAX}"));
        }
        if self.wait_ms.is_some_and(|ms| ms > WAIT_MAX_MS) {
            return Err(format!("wait_ms is at most {WAIT_MAX_MS}"));
        }
        Ok(())
    }
}

/// A request that has ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Tapped {
    /// Request id as the access log writes it.
    pub request_id: String,
    /// The trace that it belongs to, in digits, where traces are on.
    pub trace_id: Option<String>,
    /// Time when its head was there, milliseconds since 1970.
    pub at_ms: u64,
    /// The worker that served it.
    pub worker: u64,
    /// The listener it came in at.
    pub listener: String,
    /// The route that took it; empty if none did.
    pub route: String,
    pub pool: String,
    /// Address of the client, without its port.
    pub client: String,
    pub protocol: String,
    pub method: String,
    /// Host as the client wrote it.
    pub host: String,
    pub path: String,
    /// Status that the client got; 0 for none.
    pub status: u16,
    /// Status of a gRPC call, if it is a call.
    pub grpc_status: Option<String>,
    /// Bytes of the request body.
    pub bytes_in: u64,
    /// Bytes of the response's body.
    pub bytes_out: u64,
    /// Waiting for a place at an endpoint, milliseconds.
    pub queue_ms: f64,
    /// Time until the connection was open, if it had to be opened, milliseconds.
    pub connect_ms: Option<f64>,
    /// Time until the response's head was there, milliseconds.
    pub ttfb_ms: Option<f64>,
    /// Time from its head to its end, milliseconds.
    pub total_ms: f64,
    /// Side that ended it; `normal` if it ended as it should.
    pub end: String,
    pub phase: String,
    /// Reason for which no response of an endpoint went to the client.
    pub reason: Option<String>,
    /// Tries in order of their ends; the endpoint of the last try answered, or failed last.
    pub tries: Vec<TappedTry>,
}

/// Try of a request at an endpoint.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TappedTry {
    pub endpoint: String,
    /// Start, from the request's head on, milliseconds.
    pub at_ms: f64,
    pub took_ms: f64,
    /// `answered`, or how it failed.
    pub end: String,
}
