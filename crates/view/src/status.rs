//! State of the process with its listeners, pools and endpoints.

use crate::config::Running;
use crate::orders::Order;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The process, in short.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct Status {
    /// Of evenkeel.
    pub version: String,
    /// Of the process.
    pub pid: u32,
    /// When it started, milliseconds since 1970.
    pub started_ms: u64,
    /// Now, milliseconds since 1970.
    pub now_ms: u64,
    /// Whether new requests should be sent to it.
    pub ready: bool,
    /// Why not.
    pub reasons: Vec<String>,
    /// Event loops.
    pub workers: u32,
    /// The configuration that runs.
    pub config: Running,
    /// In the order of the configuration.
    pub listeners: Vec<Listener>,
    /// In the order of the configuration.
    pub pools: Vec<Pool>,
}

/// A listener.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct Listener {
    /// Its name.
    pub name: String,
    /// What it speaks: `http`, `tcp`, `udp` or `dns`.
    pub mode: String,
    /// Where it listens.
    pub addresses: Vec<String>,
    /// Connections that are open.
    pub connections: u64,
    /// Connections so far.
    pub accepted: u64,
    /// Bytes from clients so far.
    pub bytes_in: u64,
    /// Bytes to clients so far.
    pub bytes_out: u64,
}

/// A pool.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct Pool {
    /// Its name.
    pub name: String,
    /// Its algorithm.
    pub algorithm: String,
    /// Whether so few endpoints are healthy that health is ignored.
    pub in_panic: bool,
    /// Requests that wait for a place at an endpoint.
    pub waiting: u32,
    /// In the order of the configuration.
    pub endpoints: Vec<Endpoint>,
}

/// An endpoint of a pool.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct Endpoint {
    /// Its name.
    pub name: String,
    /// Where it is, once that is known.
    pub address: Option<String>,
    /// `up`, `ramping`, `probation`, `ejected`, `unchecked`, `down`, `unresolved`, `disabled` or `draining`.
    pub state: String,
    /// Why it is not `up`.
    pub reason: Option<String>,
    /// Since when it is in this state, milliseconds since 1970.
    pub since_ms: u64,
    /// Its weights.
    pub weight: Weights,
    /// Its tier.
    pub priority: u8,
    /// Its zone.
    pub zone: Option<String>,
    /// Requests in flight.
    pub in_flight: u32,
    /// Tries so far, with those that got no connection.
    pub requests: u64,
    /// Tries that failed by fault of the endpoint: answered with 500 and above, refused, reset, malformed, or too late.
    pub failed: u64,
    /// The part of its pool's requests that it got of late, 0 to 1.
    pub share: Option<f64>,
    /// The part that its weight asks for, 0 to 1.
    pub fair_share: f64,
    /// To the first byte of responses, of late.
    pub latency: Option<LatencyOfLate>,
    /// Its latest health check.
    pub check: Option<Check>,
    /// What it says of its own load, if it does.
    pub report: Option<LoadReport>,
    /// What operators want of it.
    pub order: Option<Order>,
}

/// Weights of an endpoint.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct Weights {
    /// As the configuration says.
    pub configured: u32,
    /// As it counts now: 0 where it gets no requests, and a part during slow start.
    pub effective: f64,
}

/// Latencies of the last half minute to minute.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct LatencyOfLate {
    /// Responses.
    pub responses: u64,
    /// Half of them took at most so many milliseconds, to a fifth.
    pub p50_ms: f64,
    /// 99 of 100 took at most so many.
    pub p99_ms: f64,
}

/// What an endpoint said last of its own load, to whichever worker.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct LoadReport {
    /// How long ago, milliseconds.
    pub age_ms: u64,
    /// Requests in flight there, from all balancers.
    pub in_flight: u64,
    /// What a request takes at its load, if it says that, milliseconds.
    pub latency_ms: Option<f64>,
    /// How busy it is, if it says that: 1 is all that it has.
    pub utilization: Option<f64>,
}

/// A health check.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct Check {
    /// When it ended, milliseconds since 1970.
    pub at_ms: u64,
    /// How long it took, milliseconds.
    pub took_ms: f64,
    /// Why it failed, if it did.
    pub failure: Option<String>,
}
