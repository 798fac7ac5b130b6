//! Where do requests come in, and which pool gets them? [`Listener`] and [`Route`].

use super::{Cidr, ReportLoad, Retry, UdpFlows, Zone};
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// `[listener.NAME]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Listener {
    /// Unique among listeners.
    pub name: Arc<str>,
    /// What is spoken here.
    pub mode: Mode,
    /// At least one; no address is bound twice in a plan for the same transport. No port is 0.
    pub bind: Vec<SocketAddr>,
    /// Where everything goes that no route takes, for modes other than HTTP: there is a route of the listener's name to it.
    pub pool: Option<Arc<str>>,
    /// What is answered to resolvers; there if, and only if, DNS is spoken.
    pub zone: Option<Zone>,
    /// Peers that must start each connection with a PROXY protocol header; all others must not. Empty = none.
    pub accept_proxy_protocol: Vec<Cidr>,
    /// Peers whose `X-Forwarded-For` and its like are believed. Empty = none.
    pub trusted_proxies: Vec<Cidr>,
    /// What a client may use up.
    pub limits: ListenerLimits,
    /// How long a client may take.
    pub timeouts: ListenerTimeouts,
    /// How balancers in front are told of its load; `None` = not at all.
    pub report_load: Option<ReportLoad>,
    /// When flows end, with [`Mode::Udp`].
    pub udp: UdpFlows,
}

/// What is spoken on a listener.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// HTTP.
    #[default]
    Http,
    /// Anything over TCP: connections are balanced.
    Tcp,
    /// Anything over UDP: flows are balanced.
    Udp,
    /// DNS: queries are answered, over UDP and TCP.
    Dns,
}

impl Mode {
    /// As the configuration calls it.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Http => "http",
            Mode::Tcp => "tcp",
            Mode::Udp => "udp",
            Mode::Dns => "dns",
        }
    }

    /// Whether TCP connections come in.
    pub fn is_on_tcp(self) -> bool {
        self != Mode::Udp
    }

    /// Whether UDP datagrams come in.
    pub fn is_on_udp(self) -> bool {
        matches!(self, Mode::Udp | Mode::Dns)
    }
}

/// `limits` of a listener.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ListenerLimits {
    /// Open client connections, all workers together.
    pub connections: usize,
    /// Open connections of one client address, all workers together; 0 = no limit.
    pub connections_per_address: usize,
    /// Requests a second of one client address, all workers together; 0 = no limit.
    pub requests_per_address: f64,
    /// Requests of one address that may come at once: the size of its bucket. At least 1 if there is a rate.
    pub burst_per_address: u32,
    /// Bytes of a request's head (request line and header fields): 1 KiB to 32 KiB.
    pub headers: usize,
    /// Header fields of a request.
    pub header_count: usize,
    /// Requests on one client connection before it is closed; 0 = no limit.
    pub requests_per_connection: u64,
}

/// `timeouts` of a listener: the client's side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListenerTimeouts {
    /// From the first byte of a request (or the accept) to the end of its head.
    pub client_header: Duration,
    /// Without a byte between two requests on a kept-alive connection.
    pub client_idle: Duration,
    /// Without a byte while the request's body is due, or below the pace that the proxy wants.
    pub client_body: Duration,
}

/// `[[route]]`. A request matches if its listener, host and path do. A session of a listener for TCP matches if its
/// listener does, and what its client asks for by TLS: the server's name as the host, and `alpn`.
///
/// Of several routes that match, the most specific wins: exact host before the longest wildcard before any host;
/// then the path (fixed text before a parameter before a rest, segment by segment from the left; any path last);
/// then a route that names the listener. No two routes of a plan are equally specific for a request.
#[derive(Clone, Debug, PartialEq)]
pub struct Route {
    /// Unique among routes. Made of host and path if the file gives none.
    pub name: Arc<str>,
    /// Names of listeners, each of which exists; empty = all that speak HTTP.
    pub listeners: Vec<Arc<str>>,
    /// Empty = any host.
    pub hosts: Vec<HostPattern>,
    /// Which paths.
    pub path: PathPattern,
    /// Protocols of which a TLS client must offer one, for sessions whose TLS is passed through; empty = any.
    pub alpn: Vec<Arc<str>>,
    /// Name of the pool, which exists.
    pub pool: Arc<str>,
    /// What the route sets, over its pool's, over the defaults.
    pub timeouts: RouteTimeouts,
    /// What the route sets, over its pool's, over the defaults.
    pub retry: Retry,
}

/// Which hosts a route takes. Lower case, without port and without a final dot.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum HostPattern {
    /// Exactly this host: a name or an IP address (IPv6 in brackets).
    Exact(String),
    /// `*.example.com`: one or more labels before this suffix, which starts with a dot (`.example.com`).
    Wildcard(String),
}

impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HostPattern::Exact(host) => f.write_str(host),
            HostPattern::Wildcard(suffix) => write!(f, "*{suffix}"),
        }
    }
}

/// Which paths a route takes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PathPattern {
    /// Every path.
    Any,
    /// A pattern in `matchit` syntax that was inserted without conflict: `/x`, `/users/{id}/posts`, `/v1/{*rest}`.
    /// For evenkeel `{*rest}` also takes nothing: `/v1/{*rest}` has `/v1/`, which `matchit` leaves out.
    Pattern(String),
}

impl PathPattern {
    /// The path that a rest at the end also takes, and that `matchit` would leave out: `/v1/` for `/v1/{*rest}`.
    /// Insert it after every pattern as it is written, and ignore a conflict: a route to just that path wins.
    pub fn empty_rest(&self) -> Option<String> {
        match self {
            PathPattern::Any => Some("/".to_string()),
            PathPattern::Pattern(pattern) => pattern.rfind("/{*").map(|at| pattern[..=at].to_string()),
        }
    }
}

/// The pattern to insert into a `matchit::Router`.
impl fmt::Display for PathPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PathPattern::Any => f.write_str("/{*rest}"),
            PathPattern::Pattern(p) => f.write_str(p),
        }
    }
}

/// `timeouts` of a route: the upstream's side, for its requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouteTimeouts {
    /// To open an upstream connection.
    pub connect: Duration,
    /// From the end of the request to the end of the response's head; `None` = no limit.
    pub response: Option<Duration>,
    /// The whole request, all tries and both bodies included; `None` = no limit.
    pub request: Option<Duration>,
    /// Without a byte in either direction once the response's head was sent (bodies, upgraded connections).
    pub idle: Duration,
}
