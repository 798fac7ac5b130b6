//! State of the process with its listeners, pools and endpoints.

use crate::config::Running;
use crate::orders::Order;
use crate::served::Split;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// State of the process, with its listeners, pools and endpoints.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct Status {
    pub version: String,
    pub pid: u32,
    /// Start of the process, milliseconds since 1970.
    pub started_ms: u64,
    /// Now, milliseconds since 1970.
    pub now_ms: u64,
    /// True if new requests should be sent to it.
    pub ready: bool,
    /// Reasons for which it is not ready.
    pub reasons: Vec<String>,
    /// Number of workers, each with an event loop.
    pub workers: u32,
    /// The configuration that runs.
    pub config: Running,
    /// Listeners in the order of the configuration.
    pub listeners: Vec<Listener>,
    /// Pools in the order of the configuration.
    pub pools: Vec<Pool>,
    /// Splits whose weights operators have changed.
    #[serde(default)]
    pub splits: Vec<Split>,
    /// Systems that listeners, routes and pools come from, in addition to the file.
    #[serde(default)]
    pub providers: Vec<Provider>,
    /// State of the cache's disk, with its path; absent if it is open, or there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_disk: Option<String>,
    /// Memory of compressors of responses; absent if no route compresses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compression: Option<CompressionMemory>,
    /// Maps in the order of the configuration.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub maps: Vec<Map>,
}

/// Map of the configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Map {
    pub name: String,
    /// Number of rows that requests are compared with.
    pub rows: u64,
    /// Memory of the rows, in bytes.
    pub bytes: u64,
    /// Lookups for which no row matched.
    pub unmatched: u64,
    /// True if the file has changed and is not used, as a row is wrong or the file cannot be read.
    pub is_behind: bool,
}

/// Memory of the compressors of responses, and responses that found too little of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CompressionMemory {
    /// Memory in use, in bytes.
    pub bytes: u64,
    /// Most bytes that may be in use.
    pub limit: u64,
    /// Responses that got gzip with a small window in place of a better coding.
    pub small_window: u64,
    /// Responses that got no coding.
    pub identity: u64,
    /// Responses in a coding whose blocks are not compressed.
    pub stored: u64,
    /// Responses whose compressor was given up, as their clients took nothing for seconds.
    pub given_up: u64,
}

/// System that listeners, routes and pools come from.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct Provider {
    pub name: String,
    /// Number of listeners that it adds.
    pub listeners: u32,
    /// Number of routes that it adds.
    pub routes: u32,
    /// Number of pools that it adds.
    pub pools: u32,
    /// Latest change, milliseconds since 1970; absent if it has not said anything yet.
    pub changed_ms: Option<u64>,
    /// Reason for which it may not know the latest state of its system; the last known state stays in use.
    pub fault: Option<String>,
    /// Objects that are left out, each with the reason.
    pub refused: Vec<String>,
    /// Objects that are used without something that they ask for and that protects, such as the normalization of paths.
    #[serde(default)]
    pub warnings: Vec<String>,
}

/// Listener with its connections and bytes.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct Listener {
    pub name: String,
    /// Protocol: `http`, `tcp`, `udp` or `dns`.
    pub mode: String,
    /// Mechanism that forwards: `proxy`, or `nftables`, `ebpf` or `ipvs` of the kernel.
    #[serde(default)]
    pub plane: String,
    /// Addresses that it listens on.
    pub addresses: Vec<String>,
    /// Connections that are open, or flows of UDP; with a plane of the kernel, the connections of its pool.
    pub connections: u64,
    /// Connections that were accepted so far, or flows of UDP; with a plane of the kernel, the connections of its pool.
    pub accepted: u64,
    /// Bytes received from clients so far.
    pub bytes_in: u64,
    /// Bytes sent to clients so far.
    pub bytes_out: u64,
    /// Connections over HTTP/3; absent if the listener does not serve it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http3: Option<Http3>,
}

/// Connections of a listener over HTTP/3. They are also among the connections of the listener.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Http3 {
    /// Connections that are open, after their handshake.
    pub connections: u64,
    /// Handshakes that were completed so far.
    pub handshakes: u64,
    /// Requests over these connections so far.
    pub requests: u64,
    /// Number of times that the address of a client has changed so far, within its connection.
    pub migrations: u64,
    /// Packets sent to clients so far.
    pub packets_sent: u64,
    /// Packets among these that were lost.
    pub packets_lost: u64,
    /// Clients that had to prove their address before the handshake so far.
    pub retries: u64,
}

impl Listener {
    /// Mode, and plane unless that is the proxy: `http`, `tcp by nftables`.
    pub fn kind(&self) -> String {
        match &*self.plane {
            "" | "proxy" => self.mode.clone(),
            plane => format!("{} by {plane}", self.mode),
        }
    }
}

/// Pool with its algorithm and endpoints.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct Pool {
    pub name: String,
    /// Name of the algorithm that picks.
    pub algorithm: String,
    /// Modes of the listeners that lead to it: `http`, `tcp`, `udp`, `dns`; empty if no listener does.
    #[serde(default)]
    pub modes: Vec<String>,
    /// True if so few endpoints are healthy that health is ignored.
    pub in_panic: bool,
    /// Requests that wait for a place at an endpoint.
    pub waiting: u32,
    /// Endpoints in the order of the configuration.
    pub endpoints: Vec<Endpoint>,
}

/// Endpoint of a pool, with its state and counts.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct Endpoint {
    pub name: String,
    /// Address, once that is known.
    pub address: Option<String>,
    /// `up`, `ramping`, `probation`, `ejected`, `unchecked`, `down`, `unresolved`, `disabled` or `draining`.
    pub state: String,
    /// Reason for which it is not `up`.
    pub reason: Option<String>,
    /// Start of this state, milliseconds since 1970.
    pub since_ms: u64,
    pub weight: Weights,
    /// Tier: endpoints of the lowest number get requests first.
    pub priority: u8,
    pub zone: Option<String>,
    /// Requests in flight, open TCP sessions and UDP flows at this moment.
    pub in_flight: u32,
    /// Tries so far, TCP sessions and UDP flows, with those that got no connection; and answers of DNS that named it.
    pub requests: u64,
    /// Tries that failed by fault of the endpoint: answered with 500 and above, refused, reset, malformed, or too late;
    /// sessions and flows that it refused or reset.
    pub failed: u64,
    /// Bytes that TCP sessions and UDP flows have sent to it so far; bytes of requests are not counted by endpoint.
    #[serde(default)]
    pub bytes_in: u64,
    /// Bytes that TCP sessions and UDP flows have received from it so far.
    #[serde(default)]
    pub bytes_out: u64,
    /// Share of its pool's requests, sessions and flows over the last 30 to 60 seconds, without those that got no
    /// connection; 0 to 1.
    pub share: Option<f64>,
    /// Share by its weight, 0 to 1.
    pub fair_share: f64,
    /// Times over the last 30 to 60 seconds: of responses to the first byte, of TCP sessions to connect, of UDP flows
    /// to the first answer.
    pub latency: Option<LatencyOfLate>,
    /// Latest health check, if any.
    pub check: Option<Check>,
    /// Load that it reports, if it does.
    pub report: Option<LoadReport>,
    /// Order of operators, if any.
    pub order: Option<Order>,
}

/// Weight of an endpoint as configured, and as it counts.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct Weights {
    /// Weight of the configuration.
    pub configured: u32,
    /// Weight that counts now: 0 where it gets no requests, and a part during slow start.
    pub effective: f64,
}

/// Latencies of the last half minute to minute.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct LatencyOfLate {
    /// Number of responses, sessions or flows that were measured.
    pub responses: u64,
    /// Half of them took at most so many milliseconds, to a fifth.
    pub p50_ms: f64,
    /// 99 of 100 took at most so many.
    pub p99_ms: f64,
}

/// Load that an endpoint reported last, to whichever worker.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct LoadReport {
    /// Age of the report, milliseconds.
    pub age_ms: u64,
    /// Requests in flight there, from all balancers.
    pub in_flight: u64,
    /// Time that a request takes at its load, if it reports that, milliseconds.
    pub latency_ms: Option<f64>,
    /// Utilization, if it reports that: 1 is all that it has.
    pub utilization: Option<f64>,
}

/// Outcome of a health check.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct Check {
    /// End of the check, milliseconds since 1970.
    pub at_ms: u64,
    pub took_ms: f64,
    /// Reason of the failure, if it failed.
    pub failure: Option<String>,
}
