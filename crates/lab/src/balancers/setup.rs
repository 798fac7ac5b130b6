//! The description of a case, alike for every balancer: an experiment fills in a [`Setup`], and each program's file writes it down in
//! the words of that program.

use crate::certificates::Files;
use std::net::SocketAddr;
use std::time::Duration;

/// The task of a balancer. Whatever is left out is as the program has it.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Threads, or processes, that carry requests.
    pub workers: usize,
    /// Connections of clients at once, at most.
    pub connections: u32,
    /// Listeners, each with an address.
    pub listeners: Vec<Listener>,
    /// Routes of all listeners that have no pool of their own.
    pub routes: Vec<Route>,
    /// Pools with their endpoints.
    pub pools: Vec<Pool>,
    /// The certificate of listeners with TLS.
    pub certificate: Option<Files>,
    /// Times after which it gives up.
    pub timeouts: Timeouts,
    /// Idle connections to endpoints, of all pools.
    pub reuse: Reuse,
    /// The port of loopback for its statistics.
    pub admin: Option<u16>,
    /// A line in the access log for each request.
    pub logs: bool,
    /// Buffers and sockets as they cost least under the loads of `protocol_cost`.
    pub tuned: bool,
    /// Runs as its service does, so that its configuration can be replaced.
    pub reloads: bool,
    /// Lines that a publication has in HAProxy's `defaults` beside these.
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
    /// A setup in which the algorithm alone decides: connections are kept, and there are neither checks nor retries nor ejections.
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

/// An address at which clients connect.
#[derive(Clone, Debug)]
pub struct Listener {
    /// Its name, which a pool may have too.
    pub name: &'static str,
    pub bind: SocketAddr,
    /// The protocol of its clients.
    pub front: Front,
    /// The pool of all its requests. Without one its routes lead on.
    pub pool: Option<&'static str>,
    /// Reports the load of its endpoint to clients.
    pub reports_load: bool,
}

impl Listener {
    /// A listener whose requests go by the routes.
    pub fn new(name: &'static str, bind: SocketAddr, front: Front) -> Listener {
        Listener { name, bind, front, pool: None, reports_load: false }
    }

    /// A listener whose requests all go to a pool.
    pub fn to(pool: &'static str, name: &'static str, bind: SocketAddr, front: Front) -> Listener {
        Listener { pool: Some(pool), ..Listener::new(name, bind, front) }
    }
}

/// Protocol between clients and a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Front {
    /// HTTP/1.1 without TLS.
    Http1,
    /// HTTP/2 without TLS, from the first byte.
    H2c,
    /// HTTP/1.1 over TLS.
    Https,
    /// HTTP/2 over TLS, and HTTP/1.1 for those who do not offer it.
    H2,
    /// Sessions that are passed on without being parsed.
    Tcp,
    Udp,
    /// Queries of DNS, which are answered with addresses of endpoints.
    Dns(Zone),
}

/// A zone that has the endpoints at the name `www`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Zone {
    pub name: &'static str,
    /// Time for which an answer may be remembered.
    pub ttl: Option<&'static str>,
    /// Number of addresses in an answer.
    pub answers: u32,
}

impl Front {
    /// True for protocols over TLS.
    pub fn is_tls(self) -> bool {
        matches!(self, Front::Https | Front::H2)
    }
}

/// Requests that go to a pool.
#[derive(Clone, Debug)]
pub struct Route {
    /// Their host, without port.
    pub host: Option<&'static str>,
    pub path: &'static str,
    pub pool: &'static str,
    /// Length of such a request.
    pub lasts: Lasts,
}

impl Route {
    /// A route for paths that begin so.
    pub const fn new(path: &'static str, pool: &'static str) -> Route {
        Route { host: None, path, pool, lasts: Lasts::Usual }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lasts {
    /// Less than a try may take.
    Usual,
    /// A body may take longer than a try.
    Long,
    /// There is no end: messages go both ways, with pauses.
    Endless,
}

/// Endpoints that do the same.
#[derive(Clone, Debug, Default)]
pub struct Pool {
    pub name: &'static str,
    pub endpoints: Vec<SocketAddr>,
    /// The weight of each endpoint.
    pub weight: Option<u32>,
    /// The choice of one of them.
    pub algorithm: Algorithm,
    /// Protocol between the balancer and the endpoints.
    pub back: Back,
    /// Treatment of those that fail.
    pub care: Care,
    /// Endpoints tell their load, over UDP.
    pub shares_load: bool,
}

/// Algorithms, as publications call them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Algorithm {
    RoundRobin,
    /// The one with the fewest requests in flight.
    LeastConn,
    /// The better of two random ones, by requests in flight.
    Random,
    OneDraw,
    /// The better of two random ones, by Peak EWMA.
    PeakEwma,
    Prequal,
    #[default]
    Usual,
}

impl Algorithm {
    /// Algorithms of all balancers.
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

/// The protocol of endpoints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Back {
    /// HTTP/1.1.
    #[default]
    Http1,
    /// HTTP/2 without TLS.
    H2c,
    /// HTTP/2 without TLS, with calls of gRPC, whose status comes in the trailers.
    Grpc,
}

/// Treatment of endpoints that fail, and of their requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Care {
    #[default]
    Usual,
    /// Nothing: neither checks nor retries nor ejections, so that the algorithm alone decides.
    None,
    /// Checks by connecting, each 2 s; at most 10,000 requests at once to each.
    Checked,
    /// The best that the program can do: checks of `/health`, ejections, retries elsewhere, a slow start; see `settings` of its row.
    Full,
}

/// Idle connections to endpoints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reuse {
    Usual,
    /// They are kept, and any request may have them.
    #[default]
    Always,
    /// Enough are kept for 16 clients with 32 streams each, and clients may open so many streams.
    Many,
    /// A new one for each request.
    Never,
}

/// Times after which a balancer gives up.
#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    /// For a connection to an endpoint.
    pub connect: Option<Duration>,
    /// For an endpoint's answer.
    pub response: Option<Duration>,
    /// For a client's head, and for more of its body.
    pub client: Option<Duration>,
    /// For the next request on a connection, or the next bytes of a session.
    pub idle: Duration,
}

impl Default for Timeouts {
    fn default() -> Timeouts {
        Timeouts { connect: None, response: None, client: None, idle: Duration::from_secs(3600) }
    }
}
