//! Limits on moves of one try to another stream: of requests that the endpoint has not processed, and of those that it may have.

use crate::body::fault::Fault;
use crate::upstream::stream::EndpointStream;

/// Streams of a request that an endpoint may refuse, or leave unprocessed at the end of a connection, while it serves others.
/// Others were served each time, so a request that reaches this has met an endpoint that does not want it.
const UNPROCESSED_MAX: u32 = 100;

/// The limit where the endpoint served no other meanwhile: with the pauses in between, reaching it takes more than a second.
const IN_VAIN_MAX: u32 = 8;

/// Connections that may be lost with a request that can be sent twice.
const LOST_MAX: u32 = 3;

/// The first pause where the endpoint serves no other. Each further one is twice that.
const PAUSE_NS: u64 = 5_000_000;

/// Moves of one try so far: how often it was sent after the first time.
#[derive(Debug, Default)]
pub struct Moves {
    unprocessed: u32,
    in_vain: u32,
    lost: u32,
}

impl Moves {
    /// Returns the pause in nanoseconds after which the endpoint gets the request once more; `None` if it does not get it.
    /// `may_repeat`: also if it may have processed it. `is_running`: it works on others. `has_other`: another endpoint can take it.
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
