//! Which messages are refused, and what does the client read? One row each.

use std::fmt;

macro_rules! rejects {
    ($($name:ident $status:literal $text:literal,)*) => {
        /// Why a message was refused.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[allow(missing_docs)]
        pub enum Reject { $($name,)* }

        impl Reject {
            /// Every reason.
            pub const ALL: &[Reject] = &[$(Reject::$name,)*];

            /// The status for the client when its request was refused.
            pub fn status(self) -> u16 {
                match self { $(Reject::$name => $status,)* }
            }
        }

        impl fmt::Display for Reject {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self { $(Reject::$name => $text,)* })
            }
        }
    };
}

// Name, status, text. The status is for requests: a response that is refused is a 502.
rejects! {
    BareLf 400 "a line ends in a bare LF",
    Malformed 400 "the head is malformed",
    Version 505 "only HTTP/1.0 and HTTP/1.1 are spoken here",
    Target 400 "the request target is malformed",
    Connect 501 "CONNECT is not served here",
    HeadTooLarge 431 "the head is larger than allowed",
    TooManyFields 431 "the head has more fields than allowed",
    HostMissing 400 "Host is missing",
    HostRepeated 400 "Host is repeated",
    HostMalformed 400 "Host is malformed",
    LengthAndChunked 400 "both Content-Length and Transfer-Encoding",
    LengthRepeated 400 "Content-Length is repeated",
    LengthMalformed 400 "Content-Length is not a number",
    TransferEncoding 501 "a transfer coding other than chunked alone",
    TransferEncodingIn10 400 "Transfer-Encoding in HTTP/1.0",
    Expectation 417 "an expectation other than 100-continue",
    Chunk 400 "a chunk is malformed",
    Trailer 400 "a trailer field is malformed or not allowed there",
    SwitchNotAsked 400 "101 was not asked for",
}

impl std::error::Error for Reject {}

/// The phrase for a status that this proxy may send of its own.
pub fn reason(status: u16) -> &'static str {
    match status {
        400 => "Bad Request",
        404 => "Not Found",
        408 => "Request Timeout",
        413 => "Content Too Large",
        417 => "Expectation Failed",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        505 => "HTTP Version Not Supported",
        508 => "Loop Detected",
        _ => "Error",
    }
}

/// A whole response with this body, which is of this media type; `close` or not. `fields`: more of them, each with its line's
/// end.
pub fn reply(status: u16, (media_type, body): (&str, &[u8]), close: bool, head_only: bool, fields: &str) -> Vec<u8> {
    let phrase = reason(status);
    let connection = if close { "Connection: close\r\n" } else { "" };
    let reply = format!(
        "HTTP/1.1 {status} {phrase}\r\nContent-Type: {media_type}\r\nContent-Length: {}\r\n{fields}{connection}\r\n",
        body.len()
    );
    let mut reply = reply.into_bytes();
    if !head_only {
        reply.extend_from_slice(body);
    }
    reply
}
