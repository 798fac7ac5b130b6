//! Counters that a single worker writes and any thread may read. An increment is a plain load and store: no other
//! worker writes to that memory.

pub use super::dropped_report::Dropped;
use super::flow_end::{FlowEnd, LostDatagram};
use super::latency::Latency;
pub use super::route_stats::{Redirected, RouteStats, RouteTable};
use super::timing::Timing;
use crate::observe::end::Cause;
use evenkeel_balance::Instant;
use evenkeel_config::Plan;
use evenkeel_config::plan::GrpcStatus;
pub use evenkeel_net::counter::Counter;
pub use evenkeel_net::tls::Cause as Unsecured;
use evenkeel_tokens::Refused;
use evenkeel_view::durations::Durations;
use evenkeel_wire::h2::{ErrorCode, Flood};
use evenkeel_wire::h3;
use evenkeel_wire::orca::Report;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};

/// Durations by upper bound.
#[derive(Debug)]
pub struct Histogram {
    bounds_ns: Arc<[u64]>,
    /// Counts per bucket. The last bucket has no upper bound, so there are more buckets than bounds.
    pub buckets: Box<[Counter]>,
    /// Sum of all durations, in nanoseconds.
    pub sum_ns: Counter,
}

impl Histogram {
    pub(super) fn new(bounds_ns: &Arc<[u64]>) -> Histogram {
        let buckets = (0..=bounds_ns.len()).map(|_| Counter::default()).collect();
        Histogram { bounds_ns: bounds_ns.clone(), buckets, sum_ns: Counter::default() }
    }

    /// Counts a duration in its bucket.
    pub fn record(&self, ns: u64) {
        let bucket = self.bounds_ns.iter().position(|&b| ns <= b).unwrap_or(self.bounds_ns.len());
        self.buckets[bucket].add(1);
        self.sum_ns.add(ns);
    }

    /// Adds the counts so far to `sum`.
    pub fn add_to(&self, sum: &mut Durations) {
        sum.add(&self.bounds_ns, self.buckets.iter().map(Counter::get), self.sum_ns.get());
    }
}

/// Methods with their own label. All others share `OTHER`, so that clients cannot create series.
pub const METHODS: [&str; 9] = ["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "OTHER"];

/// The index of a method in [`METHODS`].
pub fn method_index(method: &str) -> usize {
    METHODS.iter().position(|m| *m == method).unwrap_or(METHODS.len() - 1)
}

/// Status classes `1xx` to `5xx`, then none: no response.
pub const CLASSES: usize = 6;

/// The class of statuses that count as errors.
pub const FAILED: usize = 4;

/// The class of a status: 0 for 1xx to 4 for 5xx, 5 for no response or a status outside 100 to 599.
pub fn class(status: u16) -> usize {
    match status {
        100..=599 => usize::from(status / 100 - 1),
        _ => CLASSES - 1,
    }
}

/// Kind of an endpoint's error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    Connect,
    Reset,
    Timeout,
    Protocol,
    Tls,
    Refused,
}

/// Labels of [`ErrorKind`], in its order.
pub const ERROR_KINDS: [&str; 6] = ["connect", "reset", "timeout", "protocol", "tls", "refused"];

/// Reason to close a connection immediately.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rejected {
    /// The listener is at its limit of connections.
    Connections,
    /// The client's address is at its limit of connections.
    PerAddress,
    /// The required PROXY protocol header is missing.
    ProxyProtocol,
    /// No route matches the server name and protocols of the ClientHello, or the client sent none.
    NoRoute,
    /// The ClientHello is too long to be read.
    HelloTooLong,
}

/// Labels of [`Rejected`], in its order.
pub const REJECTED: [&str; 5] =
    ["connections", "connections_per_address", "proxy_protocol", "no_route", "hello_too_long"];

/// Statuses with separate counters. A further counter is for the rest: 0, where no response was sent, and statuses out
/// of range.
const STATUS: std::ops::Range<u16> = 100..600;

/// Responses by status. Allocated when the first response is counted.
#[derive(Debug, Default)]
pub struct ByStatus(OnceLock<Box<[Counter]>>);

impl ByStatus {
    pub(super) fn count(&self, status: u16) {
        let counters = self.0.get_or_init(|| (0..=STATUS.len()).map(|_| Counter::default()).collect());
        let index = if STATUS.contains(&status) { usize::from(status - STATUS.start) } else { STATUS.len() };
        counters[index].add(1);
    }

    /// Counts by status, without zeros. Status 0 counts missing responses and statuses outside 100 to 599.
    pub fn iter(&self) -> impl Iterator<Item = (u16, u64)> + '_ {
        let counters = self.0.get().into_iter().flatten();
        STATUS.chain([0]).zip(counters).map(|(status, c)| (status, c.get())).filter(|(_, n)| *n > 0)
    }
}

/// Statistics of a worker. All vectors are in the order of the plan. Entries whose name is also in the next plan keep
/// their counts.
#[derive(Debug)]
pub struct WorkerStats {
    pub listeners: Vec<Arc<ListenerStats>>,
    /// Statistics of routes, by listener.
    pub routes: Vec<Arc<RouteTable>>,
    pub pools: Vec<Arc<PoolStats>>,
    pub probing: Arc<ProbingStats>,
    /// Access-log lines dropped because the disk was full or too slow.
    pub log_lines_dropped: Arc<AtomicU64>,
}

/// Statistics of a listener on a worker.
#[derive(Debug, Default)]
pub struct ListenerStats {
    /// Number of accepted connections.
    pub accepted: Counter,
    /// Number of open connections.
    pub active: Counter,
    /// Connections closed at once, by [`Rejected`].
    pub rejected: [Counter; REJECTED.len()],
    /// Connections that got their last response and are drained until their clients close.
    pub lingering: Counter,
    /// Lingering connections closed by this side: their clients did not close in time, or sent too much.
    pub linger_cut: Counter,
    /// Requests refused as malformed.
    pub malformed: Counter,
    /// Requests refused because regular expressions of routes would take too long for them.
    pub regex_refused: Counter,
    /// Requests refused because readings of their paths choose different routes.
    pub paths_refused: Counter,
    /// Requests rejected because their address exceeded its rate.
    pub rate_limited: Counter,
    /// Requests refused by the access list of their route.
    pub access_refused: Counter,
    /// Requests answered 401, as they had no right password.
    pub passwords_refused: Counter,
    /// Passwords that were verified, and not remembered.
    pub passwords_verified: Counter,
    /// Requests answered 503, as too many passwords waited to be verified.
    pub passwords_waiting: Counter,
    /// Part of `passwords_waiting`: requests that gave their places in the queue up for other networks.
    pub passwords_gave_way: Counter,
    /// Requests whose bodies were over the limit of their route.
    pub body_refused: Counter,
    /// Requests about which `forward_auth` of their route asked a service, by [`AuthEnd`].
    pub forward_auth: [Counter; AuthEnd::NAMES.len()],
    /// Requests refused for their token, by reason ([`Refused::LABELS`]).
    pub jwt_refused: [Counter; Refused::LABELS.len()],
    /// Requests whose token was verified.
    pub jwt_verified: Counter,
    /// Requests whose token had been verified before.
    pub jwt_known: Counter,
    /// Requests rejected as forwarding loops: they had passed this process before.
    pub loops: Counter,
    /// Values of `X-Forwarded-*` and `Forwarded` from trusted proxies that were malformed.
    pub forwarded_malformed: Counter,
    /// Requests or sessions by the side that ended them ([`Cause`]).
    pub ends: [Counter; Cause::LABELS.len()],
    /// Sessions that ended in a reset, by the side that sent it ([`RESET_BY`]).
    pub resets: [Counter; RESET_BY.len()],
    pub bytes_in: Counter,
    pub bytes_out: Counter,
    /// Counters of TLS handshakes.
    pub tls: TlsStats,
    /// Reports of the listener's own load, by transport ([`GIVEN`]).
    pub reports_given: [Counter; GIVEN.len()],
    /// Datagrams to the listener that are not load probes.
    pub no_probes: Counter,
    /// Counters of HTTP/2 clients.
    pub http2: Http2Stats,
    /// Counters of HTTP/3 clients.
    pub http3: Http3Stats,
    /// Counters of UDP flows, used with `mode = "udp"`.
    pub udp: UdpStats,
}

/// Result of a question to the service of `forward_auth`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuthEnd {
    Passed,
    Refused,
    /// No whole answer arrived in time.
    Unanswered,
    /// A refusal was over `answer_max`.
    TooLarge,
}

impl AuthEnd {
    /// Labels of the metrics, in the order of the variants.
    pub const NAMES: [&str; 4] = ["passed", "refused", "unanswered", "too_large"];
}

/// Statistics of a listener's HTTP/2 connections.
#[derive(Debug, Default)]
pub struct Http2Stats {
    /// Connections accepted so far.
    pub connections: Counter,
    /// Number of requests received over HTTP/2.
    pub streams: Counter,
    /// Streams reset by clients, by error code.
    pub resets_received: ByCode,
    /// Streams reset by this side, by error code.
    pub resets_sent: ByCode,
    /// Connections closed because the client violated HTTP/2, by the error code sent.
    pub errors: ByCode,
    /// Connections closed because of a flood, by [`Flood`].
    pub floods: [Counter; Flood::NAMES.len()],
}

/// Statistics of a listener's HTTP/3 connections.
#[derive(Debug, Default)]
pub struct Http3Stats {
    /// Connections whose handshake was completed, and those in version 2 of QUIC.
    pub connections: Counter,
    pub version2: Counter,
    /// Number of requests received over HTTP/3.
    pub streams: Counter,
    /// Streams reset by clients, by error code.
    pub resets_received: ByH3Code,
    /// Streams reset by this side, by error code.
    pub resets_sent: ByH3Code,
    /// Connections closed because the client violated HTTP/3, by the error code sent.
    pub errors: ByH3Code,
    /// Connections closed because of a flood, by [`Flood`].
    pub floods: [Counter; Flood::NAMES.len()],
    /// Clients that were asked to prove their address first.
    pub retries: Counter,
    /// Connections whose handshake is complete, that are open.
    pub active: Counter,
    /// Number of times that the address of a client has changed.
    pub migrations: Counter,
    /// Packets sent to clients. Counted at times, and at the end of a connection.
    pub packets_sent: Counter,
    /// Packets among these that were lost.
    pub packets_lost: Counter,
    /// Connections whose early data was accepted.
    pub early_data: Counter,
    /// Requests in early data, by whether they were answered before the handshake was complete ([`EARLY`]).
    pub early_requests: [Counter; EARLY.len()],
}

/// Requests in early data: answered at once, or after the handshake.
pub const EARLY: [&str; 2] = ["answered", "waited"];

/// Counters by HTTP/3 error code; the last is for codes without a name.
pub type ByH3Code = [Counter; H3_CODES.len()];

/// Labels of [`ByH3Code`], in its order.
pub const H3_CODES: [&str; h3::ErrorCode::NAMES.len() + 1] = {
    let mut codes = ["other"; h3::ErrorCode::NAMES.len() + 1];
    let mut at = 0;
    while at < h3::ErrorCode::NAMES.len() {
        codes[at] = h3::ErrorCode::NAMES[at];
        at += 1;
    }
    codes
};

/// The index of a code in [`H3_CODES`]; the last for codes without a name.
pub fn h3_code_index(code: u64) -> usize {
    h3::ErrorCode::index(code).unwrap_or(H3_CODES.len() - 1)
}

/// Counters by HTTP/2 error code; the last is for codes without a name.
pub type ByCode = [Counter; CODES.len()];

/// Labels of [`ByCode`], in its order.
pub const CODES: [&str; ErrorCode::NAMES.len() + 1] = {
    let mut codes = ["other"; ErrorCode::NAMES.len() + 1];
    let mut at = 0;
    while at < ErrorCode::NAMES.len() {
        codes[at] = ErrorCode::NAMES[at];
        at += 1;
    }
    codes
};

/// The index of a code in [`CODES`]; the last for codes without a name.
pub fn code_index(code: u32) -> usize {
    usize::try_from(code).map_or(CODES.len() - 1, |code| code.min(CODES.len() - 1))
}

/// Statistics of a listener's TLS handshakes.
#[derive(Debug, Default)]
pub struct TlsStats {
    /// Completed handshakes, by kind ([`SHAKEN`]).
    pub shaken: [Counter; SHAKEN.len()],
    /// Failed handshakes, by cause ([`Unsecured`]).
    pub failed: [Counter; Unsecured::LABELS.len()],
    /// Clients whose ClientHello is incomplete.
    pub waiting: Counter,
    /// Handshakes in progress, counted from a complete ClientHello.
    pub active: Counter,
}

/// Kinds of handshakes, in the order of the counters: with certificates, or resuming an earlier session.
pub const SHAKEN: [&str; 2] = ["full", "resumed"];

/// Statistics of a listener with `mode = "udp"`.
#[derive(Debug, Default)]
pub struct UdpStats {
    pub flows: Counter,
    pub active: Counter,
    /// Flows that ended, by [`FlowEnd`].
    pub ended: [Counter; FlowEnd::LABELS.len()],
    /// Flows that lost their endpoint and moved to another with their next datagram.
    pub moved: Counter,
    /// Number of datagrams from clients.
    pub datagrams_in: Counter,
    /// Number of datagrams to clients.
    pub datagrams_out: Counter,
    pub bytes_in: Counter,
    pub bytes_out: Counter,
    /// Dropped datagrams of either side, by [`LostDatagram`].
    pub lost: [Counter; LostDatagram::LABELS.len()],
}

/// Sides that reset a session, in the order of the counters.
pub const RESET_BY: [&str; 2] = ["client", "endpoint"];

/// Transports of our load reports, in the order of the counters.
pub const GIVEN: [&str; 3] = ["header", "udp", "http"];

/// Statistics of a pool on a worker.
#[derive(Debug)]
pub struct PoolStats {
    /// Times from the start of a request or session to its end.
    pub duration: Histogram,
    /// Times from the start of a request or session to the first byte from the endpoint.
    pub ttfb: Histogram,
    /// Times to establish a connection, where a new connection was needed.
    pub connect: Histogram,
    /// Picks that found no endpoint: pool empty, all tried, all full, none checked yet.
    pub no_pick: [Counter; 4],
    /// Times in the queue, of requests that waited.
    pub queue_wait: Histogram,
    /// Requests that left the queue without an endpoint, by [`QUEUE_REJECTED`].
    pub queue_rejected: [Counter; QUEUE_REJECTED.len()],
    pub retries: Counter,
    /// Failures that were not retried, by [`evenkeel_balance::retry::Stop`].
    pub retries_refused: [Counter; 6],
    /// Requests of which a copy was sent to a second endpoint.
    pub hedges: Counter,
    /// Hedged requests whose second copy was answered first.
    pub hedges_won: Counter,
    /// Valid load reports, by transport ([`CAME`]).
    pub reports: [Counter; CAME.len()],
    /// Load reports that were ignored, by reason ([`Dropped`]).
    pub reports_dropped: [Counter; Dropped::COUNT],
    /// gRPC calls by status, in the order of the codes.
    pub grpc: [Counter; GrpcStatus::NAMES.len()],
    /// Load probes requested by the algorithm, by result: [`PROBES`].
    pub probes: [Counter; PROBES.len()],
    /// Counters of copies that `mirror` of routes makes for the pool.
    pub mirrors: MirrorStats,
    /// Sessions that were ended because their endpoint went down.
    pub ended_down: Counter,
    /// Requests whose first endpoint was drawn uniformly.
    pub explored: Counter,
}

/// Copies of requests for a pool.
#[derive(Debug, Default)]
pub struct MirrorStats {
    pub sent: Counter,
    /// Copies that were sent but got no whole answer in time.
    pub failed: Counter,
    /// Requests that were not copied, by [`MirrorDrop`].
    pub dropped: [Counter; MirrorDrop::NAMES.len()],
}

/// Reason why a request was not copied for the pool of a mirror.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MirrorDrop {
    /// Its body is over `body_max`.
    TooLarge,
    InFlightMax,
    /// Its body ended before all of it had arrived.
    Incomplete,
    /// No endpoint of the pool could be picked.
    NoEndpoint,
    /// The request is a copy itself.
    CameBack,
    /// Its body stalled for too long while other requests needed its place.
    Stalled,
    /// A gRPC call with more than a single message, which may never end.
    Stream,
}

impl MirrorDrop {
    /// Labels of the metrics, in the order of the variants.
    pub const NAMES: [&str; 7] =
        ["too_large", "in_flight_max", "incomplete", "no_endpoint", "came_back", "stalled", "grpc_stream"];

    /// Value of the label `reason` in metrics.
    pub fn name(self) -> &'static str {
        MirrorDrop::NAMES[self as usize]
    }
}

/// Transports of endpoints' load reports, in the order of the counters.
pub const CAME: [&str; 5] = ["bin", "text", "json", "udp", "http"];

/// Results of probes, in the order of the counters. Probes in progress are not counted yet.
pub const PROBES: [&str; 6] = ["answered", "timeout", "unsent", "rate", "busy", "no_report"];

/// Reasons to drop answers to UDP probes, in the order of the counters.
pub const ANSWERS_DROPPED: [&str; 5] = ["malformed", "unknown", "late", "repeated", "sender"];

/// Cost of load probes on a worker, over all pools.
#[derive(Debug, Default)]
pub struct ProbingStats {
    /// Nanoseconds spent sending probes and reading answers.
    pub spent_ns: Counter,
    /// Answers dropped, by [`ANSWERS_DROPPED`].
    pub answers_dropped: [Counter; ANSWERS_DROPPED.len()],
}

/// Reasons to leave the queue without an endpoint, in the order of the counters.
pub const QUEUE_REJECTED: [&str; 2] = ["full", "timeout"];

impl PoolStats {
    fn new(bounds_ns: &Arc<[u64]>) -> PoolStats {
        let histogram = || Histogram::new(bounds_ns);
        PoolStats {
            duration: histogram(),
            ttfb: histogram(),
            connect: histogram(),
            no_pick: Default::default(),
            queue_wait: histogram(),
            queue_rejected: Default::default(),
            retries: Counter::default(),
            retries_refused: Default::default(),
            hedges: Counter::default(),
            hedges_won: Counter::default(),
            reports: Default::default(),
            reports_dropped: Default::default(),
            grpc: Default::default(),
            probes: Default::default(),
            mirrors: MirrorStats::default(),
            ended_down: Counter::default(),
            explored: Counter::default(),
        }
    }

    /// Records the times of a finished request or session.
    #[inline]
    pub fn record(&self, timing: &Timing) {
        self.duration.record(timing.total_ns);
        if let Some(ns) = timing.ttfb_ns {
            self.ttfb.record(ns);
        }
        if let Some(ns) = timing.connect_ns {
            self.connect.record(ns);
        }
    }
}

/// Statistics of an endpoint on a worker.
#[derive(Debug, Default)]
pub struct EndpointStats {
    /// Tries that have ended, by status class of the response; the last class is for tries without a response.
    pub requests: [Counter; CLASSES],
    /// Times to the first byte of the response; of TCP sessions, to connect; of UDP flows, to the first answer.
    pub latency: Latency,
    /// Errors by [`ErrorKind`].
    pub errors: [Counter; ERROR_KINDS.len()],
    /// Tries that got no connection through the endpoint's fault. Not counted in `requests`.
    pub unreached: Counter,
    /// TCP sessions that were connected to it, and UDP flows that were directed to it.
    pub sessions: Counter,
    /// Bytes that sessions and flows have sent to it.
    pub sent: Counter,
    /// Bytes that sessions and flows have received from it.
    pub received: Counter,
    /// Number of requests in flight.
    pub active: Counter,
    /// Number of connections opened.
    pub connects: Counter,
    /// Number of idle connections kept.
    pub idle: Counter,
    /// Idle connections closed because their worker was at its limit.
    pub idle_closed: Counter,
    /// Counters of HTTP/2 to the endpoint.
    pub http2: EndpointHttp2Stats,
    /// Latest report of its load.
    pub reported: Reported,
}

/// Statistics of an endpoint's HTTP/2 connections.
#[derive(Debug, Default)]
pub struct EndpointHttp2Stats {
    /// Number of open connections.
    pub connections: Counter,
    /// Number of requests in flight over HTTP/2.
    pub streams: Counter,
    /// Streams reset by the endpoint, by error code ([`CODES`]).
    pub resets: [Counter; CODES.len()],
    /// Connections on which the endpoint sent GOAWAY.
    pub go_aways: Counter,
    /// Connections closed because the endpoint did not answer PING.
    pub silent: Counter,
    /// Interim responses dropped because the client had not read the earlier responses.
    pub interim_dropped: Counter,
}

/// Latest load report of an endpoint to a worker.
#[derive(Debug, Default)]
pub struct Reported {
    /// Time of the report, in nanoseconds on the workers' clock; 0 for never.
    pub at_ns: Counter,
    /// Reported requests in flight.
    pub in_flight: Counter,
    /// Reported latency, in nanoseconds.
    pub latency_ns: Counter,
    /// Reported utilization, in millionths.
    pub utilization_ppm: Counter,
}

impl Reported {
    /// Stores the values of a report. Values that it does not have stay.
    pub fn show(&self, report: &Report, now: Instant) {
        let set = |shown: &Counter, said: Option<f64>, scale: f64| {
            if let Some(said) = said {
                shown.set((said * scale) as u64);
            }
        };
        set(&self.in_flight, report.in_flight, 1.0);
        set(&self.latency_ns, report.latency_ns, 1.0);
        set(&self.utilization_ppm, report.utilization(), 1e6);
        self.at_ns.set(now.0.max(1));
    }
}

impl WorkerStats {
    /// Creates the statistics for a plan. Listeners and pools that are also in the plan `before` keep their counts, all
    /// others start at zero. Both plans must have the same buckets.
    pub fn new(plan: &Plan, before: Option<(&Plan, &WorkerStats)>) -> WorkerStats {
        let bounds: Arc<[u64]> = plan.telemetry.metrics.buckets.iter().map(|s| (s * 1e9) as u64).collect();
        let mut stats = WorkerStats {
            listeners: Vec::new(),
            routes: Vec::new(),
            pools: Vec::new(),
            probing: before.map(|(_, old)| old.probing.clone()).unwrap_or_default(),
            log_lines_dropped: before.map(|(_, old)| old.log_lines_dropped.clone()).unwrap_or_default(),
        };
        let old_listeners = by_name(before.map_or(&[], |(plan, _)| &plan.listeners[..]), |l| &l.name);
        let old_routes: HashSet<&str> = before.iter().flat_map(|(plan, _)| &*plan.routes).map(|r| &*r.name).collect();
        for listener in &plan.listeners {
            let old = before.and_then(|(_, old)| Some((*old_listeners.get(&*listener.name)?, old)));
            stats.listeners.push(old.map(|(at, old)| old.listeners[at].clone()).unwrap_or_default());
            let routes = old.map_or_else(|| RouteTable::new(&bounds).into(), |(at, old)| old.routes[at].clone());
            // Routes that the previous plan did not have start at zero if they return. Routes that leave now are kept:
            // they may still have requests.
            routes.retain(&old_routes);
            stats.routes.push(routes);
        }
        let old_pools = by_name(before.map_or(&[], |(plan, _)| &plan.pools[..]), |p| &p.name);
        for pool in &plan.pools {
            let numbers = before.and_then(|(_, old)| Some(old.pools[*old_pools.get(&*pool.name)?].clone()));
            stats.pools.push(numbers.unwrap_or_else(|| PoolStats::new(&bounds).into()));
        }
        stats
    }
}

fn by_name<T>(all: &[T], name: impl Fn(&T) -> &Arc<str>) -> HashMap<&str, usize> {
    all.iter().enumerate().map(|(index, one)| (&**name(one), index)).collect()
}
