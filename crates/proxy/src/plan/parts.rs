//! What is a worker given when the plan changes? Everything that can be made elsewhere and sent to it; the worker makes
//! of it what only its own thread may touch ([`install`](crate::plan::install)).

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
use evenkeel_config::plan::Mode;
use evenkeel_net::listen::{ListenFd, Protocol};
use evenkeel_runtime::Control;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

/// By which protocol a listener's sockets are reached.
pub fn protocol_of(mode: Mode) -> Protocol {
    if mode == Mode::Udp { Protocol::Udp } else { Protocol::Tcp }
}

/// What changes for a worker.
pub enum Update {
    /// Another plan.
    Plan(Box<Parts>),
    /// Other endpoints of some pools; all else stays as it is.
    Endpoints {
        /// By index in the plan that was sent last.
        pools: Vec<(usize, Slots)>,
        /// How long the sessions of those that left may go on.
        drain_timeout: Duration,
    },
    /// Nothing changes: something is read, on the worker's own thread.
    Look(Look),
}

/// Reads something of a worker.
pub type Look = Box<dyn FnOnce(&Worker) + Send>;

/// Everything of a plan for one worker.
pub struct Parts {
    /// The number of its generation.
    pub number: u64,
    /// The plan itself.
    pub plan: Arc<Plan>,
    /// How many there are.
    pub workers: usize,
    /// Which evenkeel this is.
    pub instance: u64,
    /// The numbers of this worker.
    pub stats: Arc<WorkerStats>,
    /// Is told when requests eject an endpoint or bring it back.
    pub control: Control,
    /// By listener, in the order of the plan.
    pub listeners: Arc<[(Arc<Compiled>, Shared)]>,
    /// By pool, in the order of the plan.
    pub pools: Vec<PoolParts>,
    /// By route: the index of its pool.
    pub pool_of_route: Arc<[usize]>,
    /// Each address that the worker listens on, whose listener's it is, and the sockets that it has not yet.
    pub sockets: Vec<((Protocol, SocketAddr), usize, Vec<ListenFd>)>,
    /// Each address at which the worker answers probes, whose listener's it is, and its socket if it has none there yet.
    pub probed: Vec<(SocketAddr, usize, Option<UdpSocket>)>,
    /// Where lines of the access log go from now on; `None` if that stays as it is.
    pub log: Option<Option<AccessLog>>,
    /// Which picks are explained.
    pub explain: Wanted,
    /// Which requests leave spans, and where these go.
    pub traces: Option<(Rules, mpsc::Sender<Arc<FinishedRequest>>)>,
    /// Held by whatever still uses this generation.
    pub generation: Arc<()>,
}

/// A pool.
pub struct PoolParts {
    pub rules: PoolRules,
    /// One to use from now on; `None` if that stays as it is.
    pub balancer: Option<Balancer>,
    pub endpoints: Slots,
}

/// Endpoints, each with its slot.
pub type Slots = Vec<(Slot, EndpointParts)>;

/// An endpoint.
pub struct EndpointParts {
    pub name: Arc<str>,
    /// `None` while its name does not resolve.
    pub addr: Option<SocketAddr>,
    pub stats: Arc<EndpointStats>,
}
