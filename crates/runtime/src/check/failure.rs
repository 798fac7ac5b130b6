//! Reasons why an endpoint did not pass a check, for the log and the history of the pool.

use evenkeel_wire::grpc::Status as GrpcStatus;
use evenkeel_wire::http1::Reject;
use std::fmt::{self, Display, Formatter};
use std::io;

/// Reason why an endpoint did not pass a check.
#[derive(Debug)]
pub enum Failure {
    Connect(io::Error),
    /// The TLS handshake failed, or the certificate is not valid for the endpoint.
    Tls(io::Error),
    /// The answer was not complete in time.
    Timeout,
    /// The connection broke, or was closed before enough of the response arrived to decide.
    Closed,
    /// The answer is not an HTTP/1 response.
    Malformed(Reject),
    /// The response has an unexpected status.
    Status(u16),
    /// The body of the response lacks the expected text.
    Body,
    /// The answer lacks the expected bytes, or has a line that is too long.
    Answer,
    /// The server refused with this text.
    Says(String),
    /// The answer does not follow this protocol.
    NotSpoken(&'static str),
    /// The answer does not follow HTTP/2.
    NotHttp2(&'static str),
    /// The server reset the stream of the call, with this code.
    StreamReset(u32),
    /// The gRPC call ended with this status and message.
    Call(GrpcStatus, String),
    /// The gRPC service reports this state instead of `SERVING`.
    NotServing(&'static str),
}

impl Display for Failure {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Connect(error) => write!(f, "cannot connect: {error}"),
            Failure::Tls(error) => write!(f, "TLS: {error}"),
            Failure::Timeout => f.write_str("no answer in time"),
            Failure::Closed => f.write_str("closed the connection before a complete answer"),
            Failure::Malformed(reject) => write!(f, "malformed answer: {reject}"),
            Failure::Status(status) => write!(f, "answered {status}"),
            Failure::Body => f.write_str("the body lacks the expected text"),
            Failure::Answer => f.write_str("the answer lacks the expected bytes"),
            Failure::Says(what) => write!(f, "answered: {what}"),
            Failure::NotSpoken(protocol) => write!(f, "does not answer in the {protocol} protocol"),
            Failure::NotHttp2(why) => write!(f, "does not answer over HTTP/2: {why}"),
            Failure::StreamReset(code) => write!(f, "reset the call (HTTP/2 error code {code})"),
            Failure::Call(status, why) if why.is_empty() => write!(f, "the call ended with {}", status.name()),
            Failure::Call(status, why) => write!(f, "the call ended with {}: {why}", status.name()),
            Failure::NotServing(state) => write!(f, "the service is {state}"),
        }
    }
}
