//! How often one try goes on to another stream: of requests that the endpoint has not processed, and of those that it may have.

use crate::http::fault::Fault;
use crate::upstream::stream::EndpointStream;

/// Streams that an endpoint may refuse, or end the connection of without having looked at them, while it serves others. Each time
/// others were served, so a request that meets so many has met an endpoint that does not want it.
const UNPROCESSED_MAX: u32 = 100;

/// The same where the endpoint served no other meanwhile: with the pauses in between that takes more than a second.
const IN_VAIN_MAX: u32 = 8;

/// Connections that may be lost with a request that can be sent twice.
const LOST_MAX: u32 = 3;

/// The first pause where the endpoint serves no other. Each further one is twice that.
const PAUSE_NS: u64 = 5_000_000;

/// How often one try was sent so far, but for the first time.
#[derive(Debug, Default)]
pub struct Moves {
    unprocessed: u32,
    in_vain: u32,
    lost: u32,
}

impl Moves {
    /// The pause after which the endpoint gets the request once more, in nanoseconds; `None` if it does not get it.
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

    /// Whether the endpoint has had it before.
    pub fn are_some(&self) -> bool {
        self.unprocessed > 0
    }
}
