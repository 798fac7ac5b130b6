//! How did a try end that came to nothing? In a word or two, for the log.

use crate::observe::end::Cause;
use crate::upstream::pool::Endpoint;
use evenkeel_balance::Instant;
use evenkeel_balance::retry::Failure;
use evenkeel_wire::grpc::{self, Status};
use std::borrow::Cow;
use std::rc::Rc;

/// A try that came to nothing.
pub struct TryEnd {
    /// Where it was.
    pub endpoint: Rc<Endpoint>,
    /// How it ended.
    pub cause: Cow<'static, str>,
    /// When it began.
    pub began: Instant,
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
