//! Times of a request, a session or a flow: when it began, and how long its parts took.

use evenkeel_balance::Instant;

/// Times of one request, session or flow. Durations in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timing {
    /// Start; of a request, the moment when its whole head was there.
    pub began: Instant,
    /// Wait for a place at an endpoint.
    pub queue_ns: u64,
    /// Time until the connection to the endpoint was open, if one had to be opened.
    pub connect_ns: Option<u64>,
    /// Time from the start until the head of the response, or the first byte from the endpoint, was there.
    pub ttfb_ns: Option<u64>,
    /// Time from the start to the end; 0 before that.
    pub total_ns: u64,
}

impl Timing {
    /// Times of what begins now.
    pub fn new(began: Instant) -> Timing {
        Timing { began, ..Timing::default() }
    }
}
