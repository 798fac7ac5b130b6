//! Case of a cost experiment: a load under which proxies are measured, and claims about the result.

use crate::balancers::{Back, Front, Keys};
use crate::certificates::Certificate;
use crate::load::h2load::Streams;
use crate::load::handshakes::Handshakes;
use crate::load::http3::Http3;
use crate::study::grid::{self, Bound};

/// Load, and the measurement under it.
pub struct Case {
    /// Name for `--only`.
    pub name: &'static str,
    /// Description in a sentence.
    pub about: &'static str,
    /// Protocol between clients and proxy.
    pub front: Front,
    /// Certificate of the proxy, if clients use TLS.
    pub certificate: Certificate,
    /// Protocol between proxy and endpoints.
    pub back: Back,
    /// True for a new connection to an endpoint per request, instead of reused connections.
    pub closes: bool,
    /// True to log every request.
    pub logs: bool,
    pub work: Work,
    pub count: Count,
    pub path: &'static str,
    /// True to send the requests through the rules of a [ruled route](crate::balancers::Route::ruled).
    pub ruled: bool,
    /// True to store responses in a cache, and to answer from there.
    pub cached: bool,
    /// Keys of ten maps that each request is looked up in; `None` for no maps.
    pub maps: Option<Keys>,
    /// Claims about evenkeel's figure relative to others.
    pub bounds: &'static [Bound],
}

/// Prefix of ruled requests, which the proxies strip.
pub const RULED: &str = "/app";

impl Case {
    /// Returns the prefix of its requests.
    pub fn prefix(&self) -> &'static str {
        if self.ruled { RULED } else { "" }
    }

    /// True if only the first requests may reach the endpoints.
    pub fn is_hit(&self) -> bool {
        self.cached && !matches!(self.work, Work::Distinct(_))
    }

    /// Returns the case in the form of reports.
    pub fn told(&self) -> grid::Case {
        let unit = match (self.work, self.count) {
            (Work::Idle(_), _) => "KiB/connection",
            (_, Count::Cpu) => "CPU us/request",
            (_, Count::Syscalls) => "syscalls/request",
        };
        grid::Case { name: self.name, about: self.about, unit, bounds: self.bounds }
    }
}

/// Cost to measure under a load; for idle connections it is always memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// User plus system time of the proxy.
    Cpu,
    Syscalls,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Concurrent streams on each connection (h2load).
    Streams(Streams),
    /// Concurrent streams of HTTP/3, or a connection for each request (the lab's own clients).
    Http3(Http3),
    /// Consecutive requests on each of this many connections (wrk).
    Kept(u32),
    /// Consecutive requests on each of this many connections, each with a separate query (wrk).
    Distinct(u32),
    /// Consecutive requests on each of this many connections, with the queries of the rows of maps (wrk).
    Keyed(u32),
    /// A connection for each request, with this many concurrent clients (ab).
    Closed(u32),
    /// A connection for each request over TLS (the lab's own clients).
    Handshakes(Handshakes),
    /// Idle connections of this number, each after a request.
    Idle(u32),
}

impl Work {
    /// Number of concurrent requests.
    pub fn at_once(self) -> u32 {
        match self {
            Work::Streams(of) => of.clients * of.streams,
            Work::Http3(of) => of.clients * of.streams,
            Work::Kept(clients) | Work::Distinct(clients) | Work::Keyed(clients) | Work::Closed(clients) => clients,
            Work::Handshakes(of) => of.clients,
            Work::Idle(_) => 1,
        }
    }
}

/// Values that most cases share.
pub const USUAL: Case = Case {
    name: "",
    about: "",
    front: Front::Http1,
    certificate: Certificate::P256,
    back: Back::Http1,
    closes: false,
    logs: false,
    work: Work::Kept(64),
    count: Count::Cpu,
    path: "/1k",
    ruled: false,
    cached: false,
    maps: None,
    bounds: &[],
};

/// Claim that evenkeel's figure is at most this fraction of the best of the others.
pub const fn best(at_most: f64, text: &'static str) -> Bound {
    Bound::new(text, THE_BEST, at_most)
}

/// Claim that it is at most this fraction of HAProxy's.
pub const fn haproxy(at_most: f64, text: &'static str) -> Bound {
    Bound::new(text, &["haproxy"], at_most)
}

/// Claim that it is at most this fraction of the lower of HAProxy's and NGINX's.
pub const fn both(at_most: f64, text: &'static str) -> Bound {
    Bound::new(text, HAPROXY_AND_NGINX, at_most)
}

/// Claim that it is at most this fraction of the lower of NGINX's and Varnish's.
pub const fn caches(at_most: f64, text: &'static str) -> Bound {
    Bound::new(text, NGINX_AND_VARNISH, at_most)
}

const NGINX_AND_VARNISH: &[&str] = &["nginx", "varnish"];
const HAPROXY_AND_NGINX: &[&str] = &["haproxy", "nginx"];
/// Names of all proxies that a case can be measured with.
const THE_BEST: &[&str] = &["haproxy", "haproxy-splice", "nginx", "nginx-gso", "envoy"];
