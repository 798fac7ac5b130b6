//! Messages to a worker when the plan changes. They hold everything that can be built on another thread and sent; the
//! worker builds the rest, which only its own thread may touch ([`install`](crate::plan::install)).

use crate::listener::compiled::Compiled;
use crate::listener::rules::Shared;
use crate::observe::access_log::AccessLog;
use crate::observe::explanations::Wanted;
use crate::observe::finished::FinishedRequest;
use crate::observe::stats::{EndpointStats, WorkerStats};
use crate::observe::traces::Rules;
use crate::plan::installed::Worker;
use crate::upstream::rules::PoolRules;
use evenkeel_balance::{Balancer, Slot};
use evenkeel_config::Plan;
use evenkeel_config::plan::{Mode, Own};
use evenkeel_net::dial::Remote;
use evenkeel_net::listen::{ListenFd, Protocol};
use evenkeel_net::quic::keys::Keys;
use evenkeel_runtime::Control;
use evenkeel_runtime::splits::Splits;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

/// Transport protocol of a listener's sockets.
pub fn protocol_of(mode: Mode) -> Protocol {
    if mode == Mode::Udp { Protocol::Udp } else { Protocol::Tcp }
}

/// A message to a worker; applied in the order of sending.
pub enum Update {
    /// A new plan; replaces everything that the old plan made.
    Plan(Box<Parts>),
    /// New endpoints for some pools; everything else stays.
    Endpoints {
        /// Pools by index in the latest plan that was sent.
        pools: Vec<(usize, Slots)>,
        /// Time in which sessions with endpoints that left have to end.
        drain_timeout: Duration,
    },
    /// A closure to run on the worker's thread. The plan and the endpoints stay as they are.
    Look(Look),
}

/// A closure that reads a worker's state, or changes its observers (explanations, taps).
pub type Look = Box<dyn FnOnce(&Worker) + Send>;

/// All parts of a plan that a worker needs.
pub struct Parts {
    /// Number of the plan's generation.
    pub number: u64,
    /// The plan as parsed and checked.
    pub plan: Arc<Plan>,
    /// Number of workers, to divide process-wide limits by.
    pub workers: usize,
    /// Number that distinguishes this instance from others, kept by a process that takes over; part of its `CDN-Loop`
    /// marks.
    pub instance: u64,
    /// Statistics of this worker.
    pub stats: Arc<WorkerStats>,
    /// Notified when requests eject an endpoint or readmit it.
    pub control: Control,
    /// Compiled rules and shared state by listener, in the order of the plan.
    pub listeners: Arc<[(Arc<Compiled>, Shared)]>,
    /// Pools in the order of the plan.
    pub pools: Vec<PoolParts>,
    /// Indices of the pools of each route, in the order of `Route::pools`.
    pub pools_of_route: Arc<[Box<[usize]>]>,
    /// Weights of the splits of routes.
    pub splits: Arc<Splits>,
    /// Addresses to listen on, each with the index of its listener and the sockets that the worker does not have yet.
    pub sockets: Vec<((Protocol, SocketAddr), usize, Vec<ListenFd>)>,
    /// Addresses to answer UDP probes on, each with the index of its listener and its socket if the worker has none
    /// there yet.
    pub probed: Vec<(SocketAddr, usize, Option<UdpSocket>)>,
    /// Access log from now on: `None` = unchanged, `Some(None)` = off.
    pub log: Option<Option<AccessLog>>,
    /// Picks that are explained.
    pub explain: Wanted,
    /// Requests that record spans, and the channel to their exporter; `None` without tracing.
    pub traces: Option<(Rules, mpsc::Sender<Arc<FinishedRequest>>)>,
    /// Keys of QUIC, if a listener has HTTP/3.
    pub quic_keys: Option<Keys>,
    /// Held by everything that still uses this generation.
    pub generation: Arc<()>,
}

/// A pool of a plan, for a worker.
pub struct PoolParts {
    pub rules: PoolRules,
    /// A new balancer; `None` = unchanged.
    pub balancer: Option<Balancer>,
    pub endpoints: Slots,
}

/// Endpoints, each with its slot.
pub type Slots = Vec<(Slot, EndpointParts)>;

/// An endpoint, for a worker.
pub struct EndpointParts {
    pub name: Arc<str>,
    /// Address; `None` while the name does not resolve.
    pub addr: Option<Remote>,
    /// Host, path prefix and name in TLS that only this endpoint has.
    pub own: Own,
    pub stats: Arc<EndpointStats>,
}
