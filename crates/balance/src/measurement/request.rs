//! Requests as the balancer sees them: the inputs of a pick, and the outcome at the end. Shells pass in both.

use crate::endpoints::set::Slot;
use crate::structures::time::Instant;

/// The inputs of a pick, apart from the loads.
#[derive(Clone, Copy, Debug, Default)]
pub struct Request<'a> {
    /// Hash of the part of the request that serves as key, for algorithms that need it.
    pub key: Option<u64>,
    /// Endpoints that this request has already tried.
    pub tried: &'a [Slot],
    /// True if the request has to go beyond the endpoints that requests go to first, as those failed it: to another
    /// zone, or to a lower tier. If none is left there, it goes to any that it has not tried.
    pub beyond: bool,
}

/// The result of a request, or of a try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The endpoint answered without a failure.
    Success,
    /// The endpoint refused, reset, timed out, or answered with a server error or a 429. Not all of these count
    /// [against it](Self::is_failure).
    Failure {
        /// Kind of the failure, by which streaks are counted.
        kind: FailureKind,
        /// Delay that the response's Retry-After asked for, nanoseconds; `None` without that field.
        retry_after_ns: Option<u64>,
    },
    /// The client cancelled the request or closed its connection.
    Cancelled,
}

impl Outcome {
    /// Returns a failure without a Retry-After.
    pub fn failed(kind: FailureKind) -> Outcome {
        Outcome::Failure { kind, retry_after_ns: None }
    }

    /// True if the outcome counts against the endpoint: no connection, no response, or a gateway error. A 500 may be
    /// the fault of the request and a 429 the fault of its client; if they counted, a client would decide where the
    /// requests of others go. Algorithms, trials and load reports all follow this. In a pool where a 500 counts as the
    /// endpoint's fault, it is turned into a gateway error first ([`Balancer::end`](crate::Balancer::end)).
    #[inline]
    pub fn is_failure(self) -> bool {
        matches!(self, Outcome::Failure { kind: FailureKind::Connect | FailureKind::Gateway, .. })
    }
}

/// Kinds of failure, which passive health counts separately.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// No connection could be opened: refused, unreachable, or not in time.
    Connect,
    /// A connection, but no usable response: reset, timeout, malformed; or 502, 503, 504.
    Gateway,
    /// A response of 500 or above that is not a gateway error.
    Server,
    /// A 429: the endpoint is healthy and asks for fewer requests. Counts towards no streak.
    Busy,
}

impl FailureKind {
    /// All kinds, in the order of the variants.
    pub const ALL: [FailureKind; 4] =
        [FailureKind::Connect, FailureKind::Gateway, FailureKind::Server, FailureKind::Busy];

    /// Name of the kind in logs, a single word.
    pub fn name(self) -> &'static str {
        match self {
            FailureKind::Connect => "connect",
            FailureKind::Gateway => "gateway",
            FailureKind::Server => "server",
            FailureKind::Busy => "busy",
        }
    }

    /// Returns the kind of failure of a response's status; `None` if the status is not a failure.
    pub fn of_status(status: u16) -> Option<FailureKind> {
        match status {
            429 => Some(FailureKind::Busy),
            502..=504 => Some(FailureKind::Gateway),
            500.. => Some(FailureKind::Server),
            _ => None,
        }
    }
}

/// The end of a request, as pickers see it.
#[derive(Clone, Copy, Debug)]
pub struct End {
    /// Outcome, as [judged](crate::Balancer::end) by the settings of the pool.
    pub outcome: Outcome,
    /// Nanoseconds from the start to the first byte of the response, or to the end if there was none.
    pub latency_ns: u64,
    /// Time at which the request ended.
    pub now: Instant,
}
