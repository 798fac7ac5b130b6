//! Limits on repeating a request on other streams within an attempt: for requests that the endpoint has not processed,
//! and for requests that it may have processed.

use crate::body::fault::Fault;
use crate::upstream::stream::EndpointStream;

/// Streams of a request that an endpoint may refuse or leave unprocessed. Others were served meanwhile each time, so at
/// this number the endpoint does not want this request.
const UNPROCESSED_MAX: u32 = 100;

/// Limit on such streams in a row while the endpoint served no other request. With the pauses in between, reaching it
/// takes more than a second.
const IN_VAIN_MAX: u32 = 8;

/// Connections that may be lost with an idempotent request.
const LOST_MAX: u32 = 3;

/// First pause in nanoseconds while the endpoint serves no other request. Each further pause is twice as long.
const PAUSE_NS: u64 = 5_000_000;

/// Moves of an attempt so far, by reason.
#[derive(Debug, Default)]
pub struct Moves {
    unprocessed: u32,
    in_vain: u32,
    lost: u32,
}

impl Moves {
    /// Returns the pause in nanoseconds after which the request is sent to the endpoint again; `None` if it is not.
    /// `may_repeat`: a request that the endpoint may have processed can be repeated. `is_running`: the endpoint works
    /// on other requests. `has_other`: another endpoint can take the request.
    pub fn after(
        &mut self,
        fault: Fault,
        stream: &EndpointStream,
        may_repeat: bool,
        is_running: bool,
        has_other: impl Fn() -> bool,
    ) -> Option<u64> {
        let pause_ns = match fault {
            Fault::NoResponse if may_repeat => {
                self.lost += 1;
                return (self.lost <= LOST_MAX).then_some(0);
            }
            Fault::Declined { .. } if !has_other() => stream.pause_left_ns(),
            Fault::Unseen if !stream.took_none() => 0,
            Fault::Unseen if !has_other() => PAUSE_NS << self.in_vain.min(IN_VAIN_MAX),
            _ => return None,
        };
        // The endpoint has not processed it (RFC 9113 section 8.7).
        self.unprocessed += 1;
        self.in_vain = if pause_ns > 0 && !is_running { self.in_vain + 1 } else { 0 };
        (self.unprocessed <= UNPROCESSED_MAX && self.in_vain <= IN_VAIN_MAX).then_some(pause_ns)
    }

    /// True if the endpoint has had the request before.
    pub fn are_some(&self) -> bool {
        self.unprocessed > 0
    }
}
