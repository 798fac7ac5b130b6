//! Times of a request, a session or a flow: its start, and the durations of its phases.

use evenkeel_balance::Instant;

/// Times of a request, session or flow. Durations in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timing {
    /// Start; for a request, the moment when its head was complete.
    pub began: Instant,
    /// Time in the queue for an endpoint.
    pub queue_ns: u64,
    /// Time to open the connection to the endpoint, if a new connection was needed.
    pub connect_ns: Option<u64>,
    /// Time from the start to the response head, or to the endpoint's first byte.
    pub ttfb_ns: Option<u64>,
    /// Time from the start to the end; 0 before that.
    pub total_ns: u64,
}

impl Timing {
    /// Times of a request, session or flow that starts at `began`.
    pub fn new(began: Instant) -> Timing {
        Timing { began, ..Timing::default() }
    }
}
