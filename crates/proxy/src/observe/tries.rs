//! Tries of a request: their start and their end.

use super::end::Cause;
use evenkeel_balance::Instant;
use evenkeel_balance::retry::Failure;
use evenkeel_net::dial::Remote;
use evenkeel_wire::grpc::{self, Status};
use std::borrow::Cow;
use std::sync::Arc;

#[derive(Clone, Copy, Debug)]
pub struct TryStart {
    /// Start on the worker's clock.
    pub at: Instant,
    /// Number among the request's attempts, from 1.
    pub number: u32,
    /// Way in which its endpoint was found.
    pub how: How,
}

/// Way in which the endpoint of a try was found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum How {
    #[default]
    Picked,
    /// Picked by the algorithm after the request had waited in the queue.
    Waited,
    /// The client's session names it.
    Session,
    /// The algorithm picked it for a second copy.
    Hedge,
}

impl How {
    pub fn name(self) -> &'static str {
        match self {
            How::Picked => "picked",
            How::Waited => "waited",
            How::Session => "session",
            How::Hedge => "hedge",
        }
    }
}

#[derive(Clone, Debug, Default)]
pub struct Try {
    pub endpoint: Arc<str>,
    /// Address of the endpoint, if known.
    pub addr: Option<Remote>,
    /// Number among the tries of the request, from 1.
    pub number: u32,
    /// Way in which its endpoint was found.
    pub how: How,
    /// Span id of the try, if the request belongs to a trace.
    pub span: u64,
    /// Time from the start of the request to the start of the try, in nanoseconds.
    pub at_ns: u64,
    /// Duration of the try, in nanoseconds.
    pub took_ns: u64,
    /// `answered`, or the failure in a word or two.
    pub end: Cow<'static, str>,
}

/// Returns a short text for the failure of a try that `by` ended; without a failure, the label of `by`.
pub fn failure_text(failure: Option<Failure>, by: Cause) -> Cow<'static, str> {
    match failure {
        Some(Failure::Connect) if by == Cause::EndpointSlow => "connect timeout".into(),
        Some(Failure::Connect) => "connect".into(),
        Some(Failure::Reset) => "reset".into(),
        Some(Failure::Timeout) => "timeout".into(),
        Some(Failure::Status(status)) => format!("status {status}").into(),
        Some(Failure::Grpc(code)) => format!("grpc {}", status_of(code).name()).into(),
        None => by.label().into(),
    }
}

fn status_of(code: u8) -> Status {
    grpc::status(code.to_string().as_bytes())
}
