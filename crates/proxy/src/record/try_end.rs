//! How did a try begin, and how did it end if it came to nothing? In a word or two, for the log and for those who watch.

use crate::observe::end::Cause;
use crate::upstream::pool::Endpoint;
use evenkeel_balance::Instant;
use evenkeel_balance::retry::Failure;
use evenkeel_wire::grpc::{self, Status};
use std::borrow::Cow;
use std::rc::Rc;

/// A try.
#[derive(Clone, Copy, Debug)]
pub struct Began {
    /// When it began.
    pub at: Instant,
    /// Of its request, from 1 on.
    pub number: u32,
    /// How its endpoint was found.
    pub how: How,
}

/// How the endpoint of a try was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// By the algorithm.
    Picked,
    /// By the algorithm, after the request had waited for a place.
    Waited,
    /// It had the client's session.
    Session,
    /// By the algorithm, for a second copy.
    Hedge,
}

impl How {
    /// One word.
    pub fn name(self) -> &'static str {
        match self {
            How::Picked => "picked",
            How::Waited => "waited",
            How::Session => "session",
            How::Hedge => "hedge",
        }
    }
}

/// A try that came to nothing.
pub struct TryEnd {
    /// Where it was.
    pub endpoint: Rc<Endpoint>,
    /// How it ended.
    pub cause: Cow<'static, str>,
    /// How it began.
    pub began: Began,
    /// How long it took.
    pub ns: u64,
}

/// How a try failed. `by`: who ended it.
pub fn cause(failure: Option<Failure>, by: Cause) -> Cow<'static, str> {
    match failure {
        Some(Failure::Connect) if by == Cause::EndpointSlow => "connect timeout".into(),
        Some(Failure::Connect) => "connect".into(),
        Some(Failure::Reset) => "reset".into(),
        Some(Failure::Timeout) => "timeout".into(),
        Some(Failure::Status(status)) => format!("status {status}").into(),
        Some(Failure::Grpc(code)) => format!("grpc {}", status_of(code).name()).into(),
        None => Cause::LABELS[by as usize].into(),
    }
}

fn status_of(code: u8) -> Status {
    grpc::status(code.to_string().as_bytes())
}
