//! Setup of a balancer, independent of the program: an experiment fills in a [`Setup`], and each kind writes it as a
//! configuration of its program.

use crate::certificates::Files;
use std::net::SocketAddr;
use std::time::Duration;

/// Task of a balancer. Settings that are left out have the program's defaults.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Number of threads or processes that carry requests.
    pub workers: usize,
    /// Maximum concurrent client connections.
    pub connections: u32,
    /// Listeners, each with one address.
    pub listeners: Vec<Listener>,
    /// Routes of all listeners that have no pool.
    pub routes: Vec<Route>,
    /// Pools with their endpoints.
    pub pools: Vec<Pool>,
    /// Certificate of listeners with TLS.
    pub certificate: Option<Files>,
    /// Timeouts; `None` for the program's defaults.
    pub timeouts: Timeouts,
    /// Reuse of connections to endpoints, in all pools.
    pub reuse: Reuse,
    /// Loopback port of its statistics; `None` for no statistics.
    pub admin: Option<u16>,
    /// True to log every request.
    pub logs: bool,
    /// True for the buffer and socket settings that cost least under the loads of `protocol_cost`.
    pub tuned: bool,
    /// True to run it so that its configuration can be reloaded.
    pub reloads: bool,
    /// Further lines of HAProxy's `defaults`, from a publication that is reproduced.
    pub published: &'static str,
}

impl Default for Setup {
    fn default() -> Setup {
        Setup {
            workers: 1,
            connections: 12_000,
            listeners: Vec::new(),
            routes: Vec::new(),
            pools: Vec::new(),
            certificate: None,
            timeouts: Timeouts::default(),
            reuse: Reuse::default(),
            admin: None,
            logs: false,
            tuned: false,
            reloads: false,
            published: "",
        }
    }
}

impl Setup {
    /// Creates a setup in which the algorithm alone decides: connections are reused, and there are no checks, retries
    /// or ejections.
    pub fn of_algorithm(algorithm: Algorithm, endpoints: &[SocketAddr], bind: SocketAddr) -> Setup {
        let pool = Pool { name: "app", endpoints: endpoints.to_vec(), algorithm, care: Care::None, ..Pool::default() };
        Setup {
            connections: 4000,
            listeners: vec![Listener::to("app", "web", bind, Front::Http1)],
            pools: vec![pool],
            timeouts: Timeouts { response: Some(Duration::from_secs(60)), ..Timeouts::default() },
            ..Setup::default()
        }
    }
}

/// Listening address, with protocol and pool.
#[derive(Clone, Debug)]
pub struct Listener {
    /// Name. A pool may have the same name.
    pub name: &'static str,
    pub bind: SocketAddr,
    /// Protocol between clients and the listener.
    pub front: Front,
    /// Pool of all its requests; `None` if routes decide.
    pub pool: Option<&'static str>,
    /// True to report the load of its endpoint to clients.
    pub reports_load: bool,
}

impl Listener {
    /// Creates a listener whose requests follow the routes.
    pub fn new(name: &'static str, bind: SocketAddr, front: Front) -> Listener {
        Listener { name, bind, front, pool: None, reports_load: false }
    }

    /// Creates a listener whose requests all go to one pool.
    pub fn to(pool: &'static str, name: &'static str, bind: SocketAddr, front: Front) -> Listener {
        Listener { pool: Some(pool), ..Listener::new(name, bind, front) }
    }
}

/// Protocol between clients and a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Front {
    /// HTTP/1.1 without TLS.
    Http1,
    /// HTTP/2 without TLS, with prior knowledge.
    H2c,
    /// HTTP/1.1 over TLS.
    Https,
    /// HTTP/2 over TLS, or HTTP/1.1 for clients that do not offer it.
    H2,
    /// HTTP/3, or HTTP/1.1 over TLS for clients that use TCP.
    H3,
    /// TCP sessions, relayed without parsing.
    Tcp,
    Udp,
    /// DNS queries, answered with addresses of endpoints.
    Dns(Zone),
    /// TCP connections that the kernel forwards to endpoints.
    Kernel(Kernel),
}

/// Plane in the kernel, see evenkeel's `plane` and `[kernel]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// Name of the plane, such as `nftables`.
    pub plane: &'static str,
    /// Part of `ebpf` that is in use; `None` for other planes.
    pub attach: Option<&'static str>,
}

/// DNS zone with the endpoints at the name `www`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Zone {
    pub name: &'static str,
    /// TTL of answers, such as `5s`.
    pub ttl: Option<&'static str>,
    /// Number of addresses in an answer.
    pub answers: u32,
}

impl Front {
    /// True for protocols over TLS.
    pub fn is_tls(self) -> bool {
        matches!(self, Front::Https | Front::H2 | Front::H3)
    }
}

/// Requests that go to one pool.
#[derive(Clone, Debug)]
pub struct Route {
    /// Host of the requests, without port; `None` for all.
    pub host: Option<&'static str>,
    pub path: &'static str,
    pub pool: &'static str,
    /// Duration of such a request.
    pub lasts: Lasts,
    /// True for ten rules, which every balancer writes in its own way: clients of 127.0.0.0/8 only, at most 1,000,000
    /// requests a second by client, bodies of at most 1 MB, the prefix stripped, a fixed Host, a request field with the
    /// client's address, one removed, a response field set, one removed, and attributes for cookies. Its path ends
    /// without a slash.
    pub ruled: bool,
    /// True to store every 200 for an hour, in memory or in the page cache, and to answer from there.
    pub cached: bool,
    /// Ten maps of the query, whose values the endpoint gets in fields `X-M0` to `X-M9`; `None` for no maps.
    pub maps: Option<Keys>,
}

/// Comparison of a text with the rows of a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keys {
    Exact,
    /// The longest row that the text begins with, or the first.
    Prefix,
    /// The first row that the whole text matches.
    Expression,
}

impl Route {
    /// Creates a route for paths with this prefix.
    pub const fn new(path: &'static str, pool: &'static str) -> Route {
        Route { host: None, path, pool, lasts: Lasts::Usual, ruled: false, cached: false, maps: None }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lasts {
    /// Shorter than the timeout of an attempt.
    Usual,
    /// A body may take longer than the timeout of an attempt.
    Long,
    /// Endless: messages go both ways, with pauses.
    Endless,
}

/// Interchangeable endpoints.
#[derive(Clone, Debug, Default)]
pub struct Pool {
    pub name: &'static str,
    pub endpoints: Vec<SocketAddr>,
    /// Weight of each endpoint; `None` for the default.
    pub weight: Option<u32>,
    /// Algorithm that picks one of them.
    pub algorithm: Algorithm,
    /// Protocol between the balancer and the endpoints.
    pub back: Back,
    /// Treatment of endpoints that fail.
    pub care: Care,
    /// True if endpoints report their load over UDP.
    pub shares_load: bool,
}

/// Algorithms that several balancers have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Algorithm {
    RoundRobin,
    /// Picks the endpoint with the fewest requests in flight.
    LeastConn,
    /// Picks the better of two random ones, by requests in flight.
    Random,
    OneDraw,
    /// Picks the better of two random ones, by Peak EWMA.
    PeakEwma,
    Prequal,
    #[default]
    Usual,
}

impl Algorithm {
    /// Algorithms that all balancers have.
    pub const ALL: [Algorithm; 3] = [Algorithm::RoundRobin, Algorithm::LeastConn, Algorithm::Random];

    /// Name of the algorithm in tables.
    pub fn name(self) -> &'static str {
        match self {
            Algorithm::RoundRobin => "round robin",
            Algorithm::LeastConn => "leastconn",
            Algorithm::Random => "random",
            Algorithm::OneDraw => "random(1)",
            Algorithm::PeakEwma => "Peak EWMA",
            Algorithm::Prequal => "Prequal",
            Algorithm::Usual => "the default",
        }
    }
}

/// Protocol between the balancer and its endpoints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Back {
    /// HTTP/1.1.
    #[default]
    Http1,
    /// HTTP/2 without TLS.
    H2c,
    /// HTTP/2 without TLS, with gRPC calls, whose status is in the trailers.
    Grpc,
}

/// Treatment of endpoints that fail, and of their requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Care {
    #[default]
    Usual,
    /// No checks, retries or ejections, so that the algorithm alone decides.
    None,
    /// TCP checks every 2 s; at most 10,000 requests in flight per endpoint.
    Checked,
    /// Best that the program can do: checks of `/health`, ejections, retries elsewhere, slow start; see `settings` of
    /// its kind.
    Full,
}

/// Reuse of connections to endpoints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reuse {
    Usual,
    /// Connections are kept, and any request may use them.
    #[default]
    Always,
    /// Enough connections are kept for 16 clients with 32 streams each, and clients may open that many streams.
    Many,
    /// A new connection for each request.
    Never,
}

/// Timeouts of a balancer; `None` for its default.
#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    /// Maximum time to connect to an endpoint.
    pub connect: Option<Duration>,
    /// Maximum time for an endpoint's response.
    pub response: Option<Duration>,
    /// Maximum time for a client's head, and between parts of its body.
    pub client: Option<Duration>,
    /// Maximum time until the next request on a connection, or the next bytes of a session.
    pub idle: Duration,
}

impl Default for Timeouts {
    fn default() -> Timeouts {
        Timeouts { connect: None, response: None, client: None, idle: Duration::from_secs(3600) }
    }
}
