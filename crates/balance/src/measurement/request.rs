//! What does a balancer know of a request? What its pick may depend on, and at the end its outcome; shells pass both
//! in.

use crate::endpoints::set::Slot;
use crate::structures::time::Instant;

/// What a pick may depend on besides the loads.
#[derive(Clone, Copy, Debug, Default)]
pub struct Request<'a> {
    /// The hash of what the request is keyed by, for algorithms that need one.
    pub key: Option<u64>,
    /// Endpoints that this request has tried already.
    pub tried: &'a [Slot],
    /// True if it has to go beyond the endpoints that requests go to first, as those failed it: to another zone, or to a
    /// lower tier. If none is left there, it goes to any that it has not tried.
    pub beyond: bool,
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The endpoint answered.
    Success,
    /// The endpoint refused, reset, timed out, or answered with a server error or a 429. Not all of that
    /// [speaks against it](Self::is_failure).
    Failure {
        /// In which way.
        kind: FailureKind,
        /// The delay that its Retry-After asked for, nanoseconds.
        retry_after_ns: Option<u64>,
    },
    /// The client went away.
    Cancelled,
}

impl Outcome {
    /// A failure without a Retry-After.
    pub fn failed(kind: FailureKind) -> Outcome {
        Outcome::Failure { kind, retry_after_ns: None }
    }

    /// True if the outcome speaks against the endpoint: no connection, no response, or a gateway error. A 500 may be the
    /// fault of the request and a 429 that of its client, so by these one client would decide where the requests of others
    /// go. Algorithms, trials and load reports all follow this; a pool that takes a 500 for the endpoint's fault turns it
    /// into a gateway error before ([`Balancer::end`](crate::Balancer::end)).
    #[inline]
    pub fn is_failure(self) -> bool {
        matches!(self, Outcome::Failure { kind: FailureKind::Connect | FailureKind::Gateway, .. })
    }
}

/// In which way an endpoint failed: passive health counts these apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// No connection could be opened: refused, unreachable, or not in time.
    Connect,
    /// A connection, but no response to pass on: reset, timeout, malformed; or 502, 503, 504.
    Gateway,
    /// A response of 500 or above that is not one of the gateway kind.
    Server,
    /// 429: the endpoint is healthy and wants fewer requests. Part of no streak.
    Busy,
}

impl FailureKind {
    /// All of them.
    pub const ALL: [FailureKind; 4] =
        [FailureKind::Connect, FailureKind::Gateway, FailureKind::Server, FailureKind::Busy];

    /// One word for logs.
    pub fn name(self) -> &'static str {
        match self {
            FailureKind::Connect => "connect",
            FailureKind::Gateway => "gateway",
            FailureKind::Server => "server",
            FailureKind::Busy => "busy",
        }
    }

    /// The kind of a response's status; `None` if that is no failure.
    pub fn of_status(status: u16) -> Option<FailureKind> {
        match status {
            429 => Some(FailureKind::Busy),
            502..=504 => Some(FailureKind::Gateway),
            500.. => Some(FailureKind::Server),
            _ => None,
        }
    }
}

/// What a picker gets to know of an end.
#[derive(Clone, Copy, Debug)]
pub struct End {
    /// How it ended.
    pub outcome: Outcome,
    /// From the start to the first byte of the response, or to the end where there was none; nanoseconds.
    pub latency_ns: u64,
    /// When it ended.
    pub now: Instant,
}
