//! What is a worker given when the plan changes? Everything that can be made elsewhere and sent to it; the worker makes
//! of it what only its own thread may touch ([`install`](crate::plan::install)).

use crate::listener::error_pages::ErrorPages;
use crate::listener::route::Router;
use crate::listener::tls::ListenerTls;
use crate::listener::tls_route::TlsRoutes;
use crate::load::load_report::SharedLoad;
use crate::observe::access_log::AccessLog;
use crate::observe::explaining::Wanted;
use crate::observe::stats::{EndpointStats, ListenerStats, PoolStats, RouteTable};
use crate::observe::traces::Rules;
use crate::observe::watched::Watched;
use crate::peer::admission::Admission;
use crate::plan::installed::Worker;
use crate::upstream::sticky::Sticky;
use evenkeel_balance::{Balancer, Slot};
use evenkeel_config::Plan;
use evenkeel_config::plan::{
    EndpointHttp2, EndpointProtocol, Errors, HashKey, Http2, ListenerTimeouts, LoadReports, Mode, PoolLimits,
    ProxyVersion, ReportLoad, RequestIdField, SpeakAs, Tolerated, UdpFlows,
};
use evenkeel_net::listen::{ListenFd, Protocol};
use evenkeel_net::tls::towards::Towards;
use evenkeel_net::total::Total;
use evenkeel_runtime::Control;
use evenkeel_tls::Challenges;
use evenkeel_wire::http1::Limits;
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
    /// By listener, in the order of the plan.
    pub listeners: Vec<ListenerParts>,
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
    pub traces: Option<(Rules, mpsc::Sender<Arc<Watched>>)>,
    /// Held by whatever still uses this generation.
    pub generation: Arc<()>,
}

/// A listener.
pub struct ListenerParts {
    pub name: Arc<str>,
    pub router: Arc<Router>,
    /// For sessions.
    pub tcp: Option<Arc<TlsRoutes>>,
    /// How TLS is spoken, where it is.
    pub tls: Option<ListenerTls>,
    /// Whether requests without TLS are sent to where it is spoken.
    pub redirect_https: bool,
    /// What authorities ask for, if they may ask by requests.
    pub challenges: Option<Arc<Challenges>>,
    /// A field for responses over TLS, with its line's end.
    pub hsts: Option<Arc<str>>,
    pub limits: Limits,
    pub timeouts: ListenerTimeouts,
    /// Whether clients may speak HTTP/2 without TLS.
    pub h2c: bool,
    /// What clients of HTTP/2 may use up.
    pub http2: Http2,
    /// When flows end.
    pub flows: UdpFlows,
    /// Which client addresses are trusted, and the limits per address.
    pub admission: Admission,
    /// By which field others learn what a request is called, if they do.
    pub request_id: Option<RequestIdField>,
    /// Whether requests that come back are known.
    pub detect_loops: bool,
    /// What clients read in answers of our own.
    pub errors: Errors,
    /// What they see instead, for all listeners.
    pub error_pages: Arc<ErrorPages>,
    /// Requests on one connection; `u64::MAX` for no limit.
    pub requests_max: u64,
    /// Open connections over all workers.
    pub connections_max: usize,
    /// How many there are.
    pub open: Arc<Total>,
    /// How its load is reported, and what workers share of it.
    pub report_load: Option<(ReportLoad, Arc<SharedLoad>)>,
    pub stats: Arc<ListenerStats>,
    /// Those of its routes.
    pub routes: Arc<RouteTable>,
}

/// A pool.
pub struct PoolParts {
    pub name: Arc<str>,
    /// One to use from now on; `None` if that stays as it is.
    pub balancer: Option<Balancer>,
    pub endpoints: Slots,
    pub key: Option<HashKey>,
    pub limits: PoolLimits,
    /// How long an idle connection is kept.
    pub idle_time: Duration,
    /// What endpoints speak.
    pub protocol: EndpointProtocol,
    /// Where that is HTTP/2.
    pub http2: EndpointHttp2,
    /// The header that endpoints get first on each connection.
    pub announce: Option<ProxyVersion>,
    /// Faults in responses that are repaired.
    pub tolerated: Tolerated,
    /// How its endpoints speak TLS, if they do.
    pub tls: Option<Towards>,
    /// Whether endpoints see the client's address as that of the peer.
    pub source: SpeakAs,
    /// After how much silence of a session's peer the kernel asks for a sign of life.
    pub keepalive: Option<Duration>,
    /// How long a request may wait for a place.
    pub queue_time: Duration,
    pub sticky: Option<Arc<Sticky>>,
    /// What is done about what endpoints say of their load.
    pub reports: Option<LoadReports>,
    pub stats: Arc<PoolStats>,
    /// Is told when requests eject an endpoint or bring it back.
    pub control: Control,
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
