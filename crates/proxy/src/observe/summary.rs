//! Summary of a finished request, session or flow: the part that counters, access log, taps, spans and explanations
//! share.

use super::end::{Cause, Phase};
use super::timing::Timing;
use evenkeel_wire::grpc::Status;

/// Summary of a finished request, session or flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Number of tries; 0 if no endpoint was picked.
    pub tries: u32,
    /// Status of the response; 0 if none was sent.
    pub status: u16,
    /// gRPC status, if the request is a gRPC call with a status.
    pub call_status: Option<Status>,
    pub bytes_in: u64,
    pub bytes_out: u64,
    pub timing: Timing,
    /// Side that ended the request.
    pub cause: Cause,
    /// Phase in which the request ended.
    pub phase: Phase,
}

impl Summary {
    /// The two letters of `term` in the access log: cause and phase.
    pub fn term(&self) -> [u8; 2] {
        [self.cause.letter(), self.phase.letter()]
    }
}
