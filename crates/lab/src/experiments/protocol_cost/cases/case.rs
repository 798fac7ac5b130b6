//! A load under which proxies are measured, and claims about it.

use crate::balancers::{Back, Front};
use crate::certificates::Certificate;
use crate::load::h2load::Streams;
use crate::load::handshakes::Handshakes;
use crate::study::grid::{self, Bound};

/// A load, and the measurements under it.
pub struct Case {
    /// Its name in `--only`.
    pub name: &'static str,
    /// Description in a sentence.
    pub about: &'static str,
    /// Protocol between clients and proxy.
    pub front: Front,
    /// The proxy's certificate over TLS.
    pub certificate: Certificate,
    /// Protocol of the endpoints.
    pub back: Back,
    /// A new connection to an endpoint for each request, instead of those that are kept.
    pub closes: bool,
    /// A line in the access log for each request.
    pub logs: bool,
    pub work: Work,
    pub count: Count,
    pub path: &'static str,
    /// Claims about evenkeel's figure, beside others'.
    pub bounds: &'static [Bound],
}

impl Case {
    /// Returns the case as reports have it.
    pub fn told(&self) -> grid::Case {
        let unit = match (self.work, self.count) {
            (Work::Idle(_), _) => "KiB/connection",
            (_, Count::Cpu) => "CPU us/request",
            (_, Count::Syscalls) => "syscalls/request",
        };
        grid::Case { name: self.name, about: self.about, unit, bounds: self.bounds }
    }
}

/// Cost that is counted under a load; of idle connections it is memory.
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
    /// Requests one after the other on each of so many connections (wrk).
    Kept(u32),
    /// A connection for each request, so many at once (ab).
    Closed(u32),
    /// A connection for each request over TLS (the lab's own clients).
    Handshakes(Handshakes),
    /// Nothing, on so many connections that asked once.
    Idle(u32),
}

impl Work {
    /// Number of concurrent requests.
    pub fn at_once(self) -> u32 {
        match self {
            Work::Streams(of) => of.clients * of.streams,
            Work::Kept(clients) | Work::Closed(clients) => clients,
            Work::Handshakes(of) => of.clients,
            Work::Idle(_) => 1,
        }
    }
}

/// The values of most cases.
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
    bounds: &[],
};

/// A claim that evenkeel's figure is at most this part of the best of the others'.
pub const fn best(at_most: f64, text: &'static str) -> Bound {
    Bound::new(text, THE_BEST, at_most)
}

/// A claim that it is at most this part of HAProxy's.
pub const fn haproxy(at_most: f64, text: &'static str) -> Bound {
    Bound::new(text, &["haproxy"], at_most)
}

/// A claim that it is at most this part of the less of HAProxy's and NGINX's.
pub const fn both(at_most: f64, text: &'static str) -> Bound {
    Bound::new(text, HAPROXY_AND_NGINX, at_most)
}

const HAPROXY_AND_NGINX: &[&str] = &["haproxy", "nginx"];
/// All that a case can be measured with.
const THE_BEST: &[&str] = &["haproxy", "haproxy-splice", "nginx", "envoy"];
