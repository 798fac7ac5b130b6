//! Times of a request, a session or a flow: when it began, and how long its parts took.

use evenkeel_balance::Instant;

/// Times of one request, session or flow. Durations in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timing {
    /// When it began: a request with the last byte of its head.
    pub began: Instant,
    /// Wait for a place at an endpoint.
    pub queue_ns: u64,
    /// Until the connection to the endpoint was open, if one had to be opened.
    pub connect_ns: Option<u64>,
    /// From the begin until the head of the response, or the first byte from the endpoint, was there.
    pub ttfb_ns: Option<u64>,
    /// From the begin to the end; 0 before that.
    pub total_ns: u64,
}

impl Timing {
    /// Times of what begins now.
    pub fn new(began: Instant) -> Timing {
        Timing { began, ..Timing::default() }
    }
}
