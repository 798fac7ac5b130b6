//! gRPC calls: the deadline that a client sets, errors as statuses of gRPC, and the end in trailers. The rest is a request like any
//! other.

use crate::body::response::Response;
use evenkeel_wire::grpc::{self, Status};
use evenkeel_wire::head::{Request, Table};
use std::time::Duration;

/// State of a request as a gRPC call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Call {
    /// The request is not a call.
    #[default]
    Not,
    /// The call has not ended.
    Open,
    /// The call ended with this status.
    Ended(Status),
}

impl Call {
    /// State of a request that begins.
    pub fn of(request: &Request<'_, '_>) -> Call {
        let is_call = request.method == "POST" && request.field("content-type").is_some_and(grpc::is_grpc);
        if is_call { Call::Open } else { Call::Not }
    }

    /// Status of the call, if it has ended.
    pub fn ended(self) -> Option<Status> {
        if let Call::Ended(status) = self { Some(status) } else { None }
    }
}

/// Time that the client of a call waits for it.
pub fn timeout(request: &Request<'_, '_>) -> Option<Duration> {
    grpc::timeout(request.field(grpc::TIMEOUT)?)
}

/// Appends the field that tells an endpoint how long the client of a call still waits, with the end of its line.
#[cold]
pub fn write_timeout(left: Duration, lines: &mut Vec<u8>) {
    lines.extend_from_slice(grpc::TIMEOUT.as_bytes());
    lines.extend_from_slice(b": ");
    grpc::write_timeout(left, lines);
    lines.extend_from_slice(b"\r\n");
}

/// The status that is among these fields: trailers, or a head that nothing follows.
pub fn status<'f>(mut fields: impl Iterator<Item = (&'f [u8], &'f [u8])>) -> Option<Status> {
    let (_, value) = fields.find(|(name, _)| name.eq_ignore_ascii_case(grpc::STATUS.as_bytes()))?;
    Some(grpc::status(value))
}

/// Appends the fields that end a call: this status, and a reason for people.
#[cold]
pub fn push_status(status: Status, text: &str, fields: &mut Table) {
    fields.push(grpc::STATUS.as_bytes(), status.code().to_string().as_bytes());
    fields.push(grpc::MESSAGE.as_bytes(), grpc::message(text).as_bytes());
}

/// The head that ends a call with this status instead of an endpoint's response.
#[cold]
pub fn answer(status: Status, text: &str, response: &Response) -> Table {
    let mut fields = Table::default();
    fields.push(b"content-type", grpc::MEDIA_TYPE.as_bytes());
    push_status(status, text, &mut fields);
    if let Some(seconds) = response.retry_after() {
        fields.push(grpc::PUSHBACK.as_bytes(), seconds.saturating_mul(1000).to_string().as_bytes());
    }
    fields
}
