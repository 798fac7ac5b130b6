//! Which messages are refused, and what does the client read? One row each.

use std::fmt;

/// Why a message was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Reject {
    BareLf,
    Malformed,
    Version,
    Target,
    Connect,
    HeadTooLarge,
    TooManyFields,
    HostMissing,
    HostRepeated,
    HostMalformed,
    LengthAndChunked,
    LengthRepeated,
    LengthMalformed,
    TransferEncoding,
    TransferEncodingIn10,
    Chunk,
    Trailer,
    SwitchNotAsked,
}

impl Reject {
    /// The status for the client when its request was refused.
    pub fn status(self) -> u16 {
        match self {
            Reject::HeadTooLarge | Reject::TooManyFields => 431,
            Reject::Version => 505,
            Reject::Connect => 405,
            Reject::TransferEncoding => 501,
            _ => 400,
        }
    }
}

impl fmt::Display for Reject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Reject::BareLf => "a line ends in a bare LF",
            Reject::Malformed => "the head is malformed",
            Reject::Version => "only HTTP/1.0 and HTTP/1.1 are spoken here",
            Reject::Target => "the request target is malformed",
            Reject::Connect => "CONNECT is not allowed",
            Reject::HeadTooLarge => "the head is larger than allowed",
            Reject::TooManyFields => "the head has more fields than allowed",
            Reject::HostMissing => "Host is missing",
            Reject::HostRepeated => "Host is repeated",
            Reject::HostMalformed => "Host is malformed",
            Reject::LengthAndChunked => "both Content-Length and Transfer-Encoding",
            Reject::LengthRepeated => "Content-Length is repeated",
            Reject::LengthMalformed => "Content-Length is not a number",
            Reject::TransferEncoding => "a transfer coding other than chunked alone",
            Reject::TransferEncodingIn10 => "Transfer-Encoding in HTTP/1.0",
            Reject::Chunk => "a chunk is malformed",
            Reject::Trailer => "a trailer field is malformed or not allowed there",
            Reject::SwitchNotAsked => "101 was not asked for",
        })
    }
}

impl std::error::Error for Reject {}

/// The phrase for a status that this proxy may send of its own.
pub fn reason(status: u16) -> &'static str {
    match status {
        400 => "Bad Request",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        413 => "Content Too Large",
        431 => "Request Header Fields Too Large",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        505 => "HTTP Version Not Supported",
        _ => "Error",
    }
}

/// A whole response with a line of text that says why, `close` or not.
pub fn reply(status: u16, why: &dyn fmt::Display, close: bool, head_only: bool) -> Vec<u8> {
    let phrase = reason(status);
    let body = format!("{status} {phrase}: {why}\n");
    let connection = if close { "Connection: close\r\n" } else { "" };
    let mut reply = format!(
        "HTTP/1.1 {status} {phrase}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\n{connection}\r\n",
        body.len()
    );
    if !head_only {
        reply.push_str(&body);
    }
    reply.into_bytes()
}
