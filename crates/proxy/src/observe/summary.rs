//! Summary of a request, a session or a flow that is over: the part that counters, access log, taps, spans and explanations share.

use super::end::{Cause, Phase};
use super::timing::Timing;
use evenkeel_wire::grpc::Status;

/// Summary of a request, a session or a flow that is over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Endpoints that were tried.
    pub tries: u32,
    /// Status of the response; 0 if none was sent.
    pub status: u16,
    /// Status of a gRPC call, if it is one.
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
    /// The two letters of its end, as the access log writes them.
    pub fn term(&self) -> [u8; 2] {
        [self.cause.letter(), self.phase.letter()]
    }
}
