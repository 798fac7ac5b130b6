//! Reasons why a response is not compressed.

use std::fmt;

/// Reason why a response is not compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Status whose responses have no body, or a body that is a part of another response.
    Status(u16),
    /// Answer to a request to switch to another protocol.
    Switch,
    /// Response that is compressed already.
    Coded,
    /// Response with `Cache-Control: no-transform`.
    NoTransform,
    /// Type that is not among the types of the route, or no type.
    Type,
    /// Body that is shorter than the route's minimum, or empty.
    Short,
    /// Body that the coding makes no smaller.
    NoSmaller,
    /// The client names no coding that the route has.
    NotAccepted,
    /// The request states `Cache-Control: no-transform`.
    NoTransformAsked,
    /// All memory for compressors is in use.
    NoMemory,
    /// The client speaks HTTP/1.0, to which only the close of the connection could show the end of the body.
    Http10,
}

impl Refusal {
    /// True if another request could get the response compressed, so that it depends on `Accept-Encoding`.
    pub fn is_of_request(self) -> bool {
        matches!(self, Refusal::NotAccepted | Refusal::NoTransformAsked | Refusal::Http10)
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Refusal::Status(status) => return write!(f, "status {status}"),
            Refusal::Switch => "the request asks for another protocol",
            Refusal::Coded => "it has a Content-Encoding already",
            Refusal::NoTransform => "it states no-transform",
            Refusal::Type => "its type is not in the list",
            Refusal::Short => "its body is too short",
            Refusal::NoSmaller => "it would become no smaller",
            Refusal::NotAccepted => "the client accepts no coding of the route",
            Refusal::NoTransformAsked => "the request states no-transform",
            Refusal::NoMemory => "all memory for compression is in use",
            Refusal::Http10 => "the client speaks HTTP/1.0",
        })
    }
}
