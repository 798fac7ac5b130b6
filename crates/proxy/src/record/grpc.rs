//! gRPC calls: the client's deadline, errors as gRPC statuses, and the status in the trailers. Otherwise a call is a
//! request like any other.

use crate::body::response::Response;
use evenkeel_wire::grpc::{self, Status};
use evenkeel_wire::head::{Request, Table};
use std::time::Duration;

/// State of a request, seen as a gRPC call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Call {
    /// The request is not a gRPC call.
    #[default]
    Not,
    /// The call has not ended yet.
    Open,
    /// The call has ended with this status.
    Ended(Status),
}

impl Call {
    /// Initial state: `Open` for a `POST` with a gRPC content type.
    pub fn of(request: &Request<'_, '_>) -> Call {
        let is_call = request.method == "POST" && request.field("content-type").is_some_and(grpc::is_grpc);
        if is_call { Call::Open } else { Call::Not }
    }

    /// Status of the call, once it has ended.
    pub fn ended(self) -> Option<Status> {
        if let Call::Ended(status) = self { Some(status) } else { None }
    }
}

/// Deadline that the client of a call states (`grpc-timeout`), relative to now.
pub fn timeout(request: &Request<'_, '_>) -> Option<Duration> {
    grpc::timeout(request.field(grpc::TIMEOUT)?)
}

/// Appends a `grpc-timeout` line with the time that is left for the call.
#[cold]
pub fn write_timeout(left: Duration, lines: &mut Vec<u8>) {
    lines.extend_from_slice(grpc::TIMEOUT.as_bytes());
    lines.extend_from_slice(b": ");
    grpc::write_timeout(left, lines);
    lines.extend_from_slice(b"\r\n");
}

/// The `grpc-status` among these fields, which are trailers or the head of a trailers-only response.
pub fn status<'f>(mut fields: impl Iterator<Item = (&'f [u8], &'f [u8])>) -> Option<Status> {
    let (_, value) = fields.find(|(name, _)| name.eq_ignore_ascii_case(grpc::STATUS.as_bytes()))?;
    Some(grpc::status(value))
}

/// Appends `grpc-status` and `grpc-message`, which end a call.
#[cold]
pub fn push_status(status: Status, text: &str, fields: &mut Table) {
    fields.push(grpc::STATUS.as_bytes(), status.code().to_string().as_bytes());
    fields.push(grpc::MESSAGE.as_bytes(), grpc::message(text).as_bytes());
}

/// A trailers-only head that ends a call instead of a response from an endpoint. It keeps the fields that a client
/// needs for another try: the time, and the authentication schemes.
#[cold]
pub fn answer(status: Status, text: &str, response: &Response) -> Table {
    let mut fields = Table::default();
    fields.push(b"content-type", grpc::MEDIA_TYPE.as_bytes());
    push_status(status, text, &mut fields);
    if let Some(seconds) = response.retry_after() {
        fields.push(grpc::PUSHBACK.as_bytes(), seconds.saturating_mul(1000).to_string().as_bytes());
    }
    let schemes = response.fields.iter().filter(|(name, _)| name.eq_ignore_ascii_case(b"www-authenticate"));
    schemes.for_each(|(name, value)| fields.push_lower(name, value));
    fields
}
